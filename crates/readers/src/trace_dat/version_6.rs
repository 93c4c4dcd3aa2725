//! Version 6: one part after another (`trace-cmd.dat.v6(5)`).

use trace::{ClockKind, Cpu, SourceError};

use super::{
    facts::option,
    head::{Buffer, HeadReader, MOST_CPUS, Section},
};
use crate::scan::Scan;

impl HeadReader<'_> {
    pub(super) fn version_6(&mut self, scan: &mut Scan<'_>) -> Result<(), SourceError> {
        self.header_info(scan)?;
        self.ftrace_events(scan)?;
        self.events(scan)?;
        let size = u64::from(scan.u32("the size of kallsyms")?);
        self.head.symbols = (size > 0).then_some(Section { offset: scan.at, size, packed: false });
        scan.skip(size, "kallsyms")?;
        self.printk(scan)?;
        self.command_lines(scan)?;
        let mut cpus = scan.u32("the number of CPUs")?;
        self.head.info.cpu_count = cpus;
        loop {
            let kind = scan.bytes(10, "the kind of data")?;
            match kind.as_slice() {
                b"options  \0" => {
                    loop {
                        let id = scan.u16("an option's number")?;
                        if id == option::DONE {
                            break;
                        }
                        let size = scan.u32("an option's size")?;
                        let at = scan.at;
                        let data = scan.bytes(u64::from(size), "an option")?;
                        if id == option::BUFFER {
                            self.buffer_option_6(data, at);
                        } else {
                            self.option(id, data, at);
                        }
                    }
                    // An option may correct the number of CPUs.
                    cpus = cpus.max(self.head.info.cpu_count.min(MOST_CPUS));
                }
                b"flyrecord\0" => break,
                b"latency  \0" => {
                    return Err(scan
                        .error("the file holds latency text instead of ring pages; read that with a pager"));
                }
                other => {
                    let text = String::from_utf8_lossy(other).into_owned();
                    return Err(scan.error(format!("data of the unknown kind {text:?}")));
                }
            }
        }
        let clock = self.clock.clone().unwrap_or(ClockKind::Local);
        self.head.info.clock = clock.clone();
        self.cpu_table_6(scan, cpus, String::new(), clock.clone())?;
        for (offset, name) in std::mem::take(&mut self.later) {
            let mut scan = Scan::new(self.input, scan.endian, offset, u64::MAX);
            let read = scan
                .expect(b"flyrecord\0", "a buffer's data")
                .and_then(|()| self.cpu_table_6(&mut scan, cpus, name, clock.clone()));
            if let Err(error) = read {
                self.problem(&error);
            }
        }
        Ok(())
    }

    fn buffer_option_6(&mut self, data: Vec<u8>, at: u64) {
        let mut scan = Scan::unpacked(self.input, self.head.layout.endian, data, at);
        match scan
            .u64("a buffer's position")
            .and_then(|offset| Ok((offset, scan.text(4096, "a buffer's name")?)))
        {
            Ok((offset, name)) if self.later.len() < 4096 => self.later.push((offset, name)),
            Ok(_) => {}
            Err(error) => self.problem(&error),
        }
    }

    fn cpu_table_6(
        &mut self,
        scan: &mut Scan<'_>,
        cpus: u32,
        name: String,
        clock: ClockKind,
    ) -> Result<(), SourceError> {
        if cpus > MOST_CPUS {
            return Err(scan.error(format!("{cpus} CPUs")));
        }
        let buffer = self.head.buffers.len() as u32;
        self.head.buffers.push(Buffer { name, clock });
        for cpu in 0..cpus {
            let offset = scan.u64("a CPU's position")?;
            let size = scan.u64("a CPU's size")?;
            self.extent(Cpu(cpu), offset, size, false, buffer);
        }
        Ok(())
    }
}
