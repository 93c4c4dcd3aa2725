//! `perf.data` in file mode.

use std::io::{self, Seek, SeekFrom, Write};

use super::{Machine, Schedule, Shape, What, layout};

/// How the file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Events of all CPUs between two FINISHED_ROUND; 0 writes none at all.
    pub round: u64,
    /// Pack the records with zstd.
    pub packed: bool,
    /// Pipe mode: what describes the data comes as records.
    pub pipe: bool,
}

impl Style {
    /// As `perf record` does with its usual rings.
    pub const USUAL: Style = Style { round: 8000, packed: false, pipe: false };
}

/// IDENTIFIER, IP, TID, TIME, CPU, PERIOD, RAW.
const SAMPLE_TYPE: u64 = 1 << 16 | 1 | 2 | 4 | 1 << 7 | 1 << 8 | 1 << 10;

const ATTRIBUTE: usize = 128;

/// Writes the events of `shape`.
pub fn write<W: Write + Seek>(out: &mut W, shape: Shape, machine: Machine, style: Style) -> io::Result<()> {
    let start = if style.pipe { pipe_head(shape, machine, style) } else { file_head(shape, machine, style) };
    out.write_all(&start)?;
    let data_at = start.len() as u64;
    let mut records = Records { packer: None, machine };
    if style.packed {
        records.packer = Some(zstd::stream::raw::Encoder::new(1)?);
    }
    let mut rings = vec![Vec::new(); shape.cpus as usize];
    let mut record = Vec::new();
    let mut in_round = 0;
    for event in Schedule::new(shape) {
        machine.record(&event, &mut record);
        let ring = &mut rings[event.cpu as usize];
        let attribute = match event.what {
            What::Switch { .. } => 0,
            What::Waking { .. } => 1,
            What::Wakeup { .. } => 2,
        };
        // The raw data have their length before them and end at a multiple of 8.
        let raw = (record.len() + 4).next_multiple_of(8) - 4;
        machine.u32(ring, 9);
        machine.u16(ring, 1);
        machine.u16(ring, (8 + 48 + 4 + raw) as u16);
        machine.u64(ring, id_of(attribute, event.cpu, shape.cpus));
        machine.u64(ring, 0xffff_ffff_8100_0000);
        machine.u32(ring, event.current as u32);
        machine.u32(ring, event.current as u32);
        machine.u64(ring, event.time);
        machine.u32(ring, event.cpu);
        machine.u32(ring, 0);
        machine.u64(ring, 1);
        machine.u32(ring, raw as u32);
        ring.extend_from_slice(&record);
        ring.resize(ring.len() + raw - record.len(), 0);
        in_round += 1;
        if in_round == style.round || style.round == 0 && in_round == 4000 {
            in_round = 0;
            records.flush(&mut rings, out)?;
            if style.round > 0 {
                records.finished_round(out)?;
            }
        }
    }
    records.flush(&mut rings, out)?;
    records.finished_round(out)?;
    if style.pipe {
        return Ok(());
    }
    let data_end = out.stream_position()?;
    features(out, shape, machine, style, data_end)?;
    let mut size = Vec::new();
    machine.u64(&mut size, data_end - data_at);
    out.seek(SeekFrom::Start(48))?;
    out.write_all(&size)?;
    out.seek(SeekFrom::End(0))?;
    Ok(())
}

fn id_of(attribute: u64, cpu: u32, cpus: u32) -> u64 {
    1000 + attribute * u64::from(cpus) + u64::from(cpu)
}

struct Records {
    packer: Option<zstd::stream::raw::Encoder<'static>>,
    machine: Machine,
}

impl Records {
    /// Writes the rings one after another and empties them.
    fn flush<W: Write>(&mut self, rings: &mut [Vec<u8>], out: &mut W) -> io::Result<()> {
        use zstd::stream::raw::{InBuffer, Operation, OutBuffer};
        for ring in rings {
            let Some(packer) = &mut self.packer else {
                out.write_all(ring)?;
                ring.clear();
                continue;
            };
            let mut input = InBuffer::around(ring.as_slice());
            loop {
                // A record's size has 16 bits.
                let mut small = vec![0u8; 60_000];
                let mut output = OutBuffer::around(&mut small[..]);
                packer.run(&mut input, &mut output)?;
                let left = packer.flush(&mut output)?;
                let length = output.pos();
                let mut head = Vec::new();
                self.machine.u32(&mut head, 81);
                self.machine.u16(&mut head, 0);
                self.machine.u16(&mut head, 8 + length as u16);
                if length > 0 {
                    out.write_all(&head)?;
                    out.write_all(&small[..length])?;
                }
                if input.pos() == ring.len() && left == 0 {
                    break;
                }
            }
            ring.clear();
        }
        Ok(())
    }

    fn finished_round<W: Write>(&mut self, out: &mut W) -> io::Result<()> {
        let mut record = Vec::new();
        self.machine.u32(&mut record, 68);
        self.machine.u16(&mut record, 0);
        self.machine.u16(&mut record, 8);
        out.write_all(&record)
    }
}

fn attribute(machine: Machine, id: u16) -> Vec<u8> {
    let mut out = Vec::new();
    machine.u32(&mut out, 2); // tracepoint
    machine.u32(&mut out, ATTRIBUTE as u32);
    machine.u64(&mut out, u64::from(id));
    machine.u64(&mut out, 1); // period
    machine.u64(&mut out, SAMPLE_TYPE);
    machine.u64(&mut out, 4); // read_format: ID
    // disabled, inherit, sample_id_all, use_clockid: a bitfield, so the other way round on
    // big-endian machines.
    let flags: u64 = 1 | 1 << 1 | 1 << 18 | 1 << 25;
    machine.u64(&mut out, if machine.big_endian { flags.reverse_bits() } else { flags });
    out.resize(92, 0);
    machine.u32(&mut out, 1); // CLOCK_MONOTONIC
    out.resize(ATTRIBUTE, 0);
    out
}

const IDS: [u16; 3] = [layout::SWITCH_ID, layout::WAKING_ID, layout::WAKEUP_ID];

fn magic(machine: Machine) -> Vec<u8> {
    let mut out = Vec::new();
    machine.u64(&mut out, u64::from_le_bytes(*b"PERFILE2"));
    out
}

fn file_head(shape: Shape, machine: Machine, style: Style) -> Vec<u8> {
    let mut out = magic(machine);
    let attributes = 104u64;
    let entry = ATTRIBUTE as u64 + 16;
    let ids = attributes + 3 * entry;
    let data = ids + 3 * 8 * u64::from(shape.cpus);
    machine.u64(&mut out, 104);
    machine.u64(&mut out, entry);
    machine.u64(&mut out, attributes);
    machine.u64(&mut out, 3 * entry);
    machine.u64(&mut out, data);
    machine.u64(&mut out, 0); // the data's size, known at the end
    machine.u64(&mut out, 0);
    machine.u64(&mut out, 0);
    // TRACING_DATA, OSRELEASE, ARCH, NRCPUS, COMPRESSED
    let bits: u64 = 1 << 1 | 1 << 4 | 1 << 6 | 1 << 7 | u64::from(style.packed) << 27;
    machine.u64(&mut out, bits);
    out.resize(104, 0);
    for (at, id) in IDS.into_iter().enumerate() {
        out.extend(attribute(machine, id));
        machine.u64(&mut out, ids + at as u64 * 8 * u64::from(shape.cpus));
        machine.u64(&mut out, 8 * u64::from(shape.cpus));
    }
    for at in 0..3 {
        for cpu in 0..shape.cpus {
            machine.u64(&mut out, id_of(at, cpu, shape.cpus));
        }
    }
    out
}

fn tracing_data(machine: Machine) -> Vec<u8> {
    let mut out = b"\x17\x08\x44tracing0.6\0".to_vec();
    out.extend_from_slice(&[u8::from(machine.big_endian), machine.long_size]);
    machine.u32(&mut out, 4096);
    out.extend(machine.header_info());
    machine.u32(&mut out, 0);
    out.extend(machine.event_formats());
    machine.u32(&mut out, 0);
    machine.u32(&mut out, 0);
    machine.u64(&mut out, 0);
    out
}

fn string(machine: Machine, text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let length = (text.len() + 1).next_multiple_of(64);
    machine.u32(&mut out, length as u32);
    out.extend_from_slice(text.as_bytes());
    out.resize(4 + length, 0);
    out
}

fn compression(machine: Machine) -> Vec<u8> {
    let mut out = Vec::new();
    for number in [1, 1, 1, 4, 1 << 20] {
        machine.u32(&mut out, number);
    }
    out
}

fn features<W: Write + Seek>(
    out: &mut W,
    shape: Shape,
    machine: Machine,
    style: Style,
    at: u64,
) -> io::Result<()> {
    let mut cpus = Vec::new();
    machine.u32(&mut cpus, shape.cpus);
    machine.u32(&mut cpus, shape.cpus);
    let mut sections =
        vec![tracing_data(machine), string(machine, "6.1.0-test"), string(machine, "x86_64"), cpus];
    if style.packed {
        sections.push(compression(machine));
    }
    let mut table = Vec::new();
    let mut position = at + 16 * sections.len() as u64;
    for section in &sections {
        machine.u64(&mut table, position);
        machine.u64(&mut table, section.len() as u64);
        position += section.len() as u64;
    }
    out.write_all(&table)?;
    sections.iter().try_for_each(|section| out.write_all(section))
}

fn pipe_head(shape: Shape, machine: Machine, style: Style) -> Vec<u8> {
    let mut out = magic(machine);
    machine.u64(&mut out, 16);
    let mut record = |kind: u32, body: &[u8]| {
        machine.u32(&mut out, kind);
        machine.u16(&mut out, 0);
        machine.u16(&mut out, 8 + body.len() as u16);
        out.extend_from_slice(body);
    };
    for (at, id) in IDS.into_iter().enumerate() {
        let mut body = attribute(machine, id);
        for cpu in 0..shape.cpus {
            machine.u64(&mut body, id_of(at as u64, cpu, shape.cpus));
        }
        record(64, &body);
    }
    if style.packed {
        let mut body = Vec::new();
        machine.u64(&mut body, 27);
        body.extend(compression(machine));
        record(80, &body);
    }
    let data = tracing_data(machine);
    let mut body = Vec::new();
    machine.u32(&mut body, data.len() as u32);
    record(66, &body);
    out.extend_from_slice(&data);
    out.resize(out.len() + data.len().next_multiple_of(8) - data.len(), 0);
    out
}
