//! `trace.dat` of versions 6 and 7.

use std::{
    io::{self, Seek, SeekFrom, Write},
    path::Path,
};

use super::{
    Machine, Schedule, Shape, comm,
    ring::{PAGE, Pages},
};

/// How the file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// Version 6.
    Six,
    /// Version 7, pages as they are.
    Seven,
    /// Version 7, everything packed with zstd.
    SevenZstd,
}

/// Losses to make up on every CPU: each `every`-th event is followed by `count` events
/// that the ring lost (they come on top of the shape's).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Losses {
    /// Events of a CPU between losses.
    pub every: u64,
    /// Lost events.
    pub count: u64,
    /// Whether the pages tell the count.
    pub told: bool,
}

/// What a file can hold besides the top ring.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extras {
    /// Another ring: its instance's name, its events, its clock (version 7 only; in
    /// version 6 all rings have one clock).
    pub instance: Option<(&'static str, Shape, &'static str)>,
    /// Nanoseconds that readers are to add to all times.
    pub time_offset: i64,
    /// A CPU whose full ring refused so many events.
    pub refused: Option<(u32, u64)>,
}

/// Writes the events of `shape`.
pub fn write<W: Write + Seek>(
    out: &mut W,
    shape: Shape,
    machine: Machine,
    version: Version,
    losses: Option<Losses>,
) -> io::Result<()> {
    write_with(out, shape, machine, version, losses, Extras::default())
}

/// Writes the events of `shape` and what else is asked for.
pub fn write_with<W: Write + Seek>(
    out: &mut W,
    shape: Shape,
    machine: Machine,
    version: Version,
    losses: Option<Losses>,
    extras: Extras,
) -> io::Result<()> {
    let mut head = b"\x17\x08\x44tracing".to_vec();
    head.extend_from_slice(if version == Version::Six { b"6\0" } else { b"7\0" });
    head.extend_from_slice(&[u8::from(machine.big_endian), machine.long_size]);
    machine.u32(&mut head, PAGE as u32);
    if version == Version::Six {
        return version_6(out, head, shape, machine, losses, extras);
    }
    version_7(out, head, shape, machine, version == Version::SevenZstd, losses, extras)
}

fn command_lines(shape: Shape, machine: Machine, out: &mut Vec<u8>) {
    let mut text = String::new();
    for tid in 100..100 + shape.threads as i32 {
        let comm = comm(tid);
        let end = comm.iter().position(|&b| b == 0).unwrap_or(16);
        text += &format!("{tid} {}\n", String::from_utf8_lossy(&comm[..end]));
    }
    machine.u64(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

fn version_6<W: Write + Seek>(
    out: &mut W,
    mut head: Vec<u8>,
    shape: Shape,
    machine: Machine,
    losses: Option<Losses>,
    extras: Extras,
) -> io::Result<()> {
    head.extend(machine.header_info());
    machine.u32(&mut head, 0); // formats of ftrace
    head.extend(machine.event_formats());
    machine.u32(&mut head, 0); // kallsyms
    machine.u32(&mut head, 0); // printk
    command_lines(shape, machine, &mut head);
    machine.u32(&mut head, shape.cpus);
    head.extend_from_slice(b"options  \0");
    for (id, data) in options(extras) {
        machine.u16(&mut head, id);
        machine.u32(&mut head, data.len() as u32);
        head.extend_from_slice(&data);
    }
    let mut instance_at = 0;
    if let Some((name, _, _)) = extras.instance {
        machine.u16(&mut head, 3);
        machine.u32(&mut head, 8 + name.len() as u32 + 1);
        instance_at = head.len();
        machine.u64(&mut head, 0);
        head.extend_from_slice(name.as_bytes());
        head.push(0);
    }
    machine.u16(&mut head, 0);
    let mut end = flyrecord(out, &mut head, 0, shape, machine, losses)?;
    if let Some((_, shape, _)) = extras.instance {
        let mut position = Vec::new();
        machine.u64(&mut position, end);
        head[instance_at..instance_at + 8].copy_from_slice(&position);
        let mut table = Vec::new();
        let start = end;
        end = flyrecord(out, &mut table, start, shape, machine, None)?;
        out.seek(SeekFrom::Start(start))?;
        out.write_all(&table)?;
    }
    let _ = end;
    out.seek(SeekFrom::Start(0))?;
    out.write_all(&head)
}

/// Puts the table of a ring's pages behind `head`, which lies at `base`, and its pages
/// into the file; answers where they end.
fn flyrecord<W: Write + Seek>(
    out: &mut W,
    head: &mut Vec<u8>,
    base: u64,
    shape: Shape,
    machine: Machine,
    losses: Option<Losses>,
) -> io::Result<u64> {
    head.extend_from_slice(b"flyrecord\0");
    let mut at = (base + head.len() as u64 + 16 * u64::from(shape.cpus)).next_multiple_of(PAGE as u64);
    for cpu in 0..shape.cpus {
        out.seek(SeekFrom::Start(at))?;
        let size = cpu_pages(shape, machine, cpu, losses, &mut |pages| out.write_all(pages))?;
        machine.u64(head, at);
        machine.u64(head, size);
        at += size;
    }
    Ok(at)
}

fn options(extras: Extras) -> Vec<(u16, Vec<u8>)> {
    let mut options = vec![
        (4, b"local [mono] boot\n\0".to_vec()),
        (5, b"Linux host 6.1.0-test x86_64\0".to_vec()),
        (9, b"synthetic\0".to_vec()),
    ];
    if extras.time_offset != 0 {
        options.push((7, format!("{}\0", extras.time_offset).into_bytes()));
    }
    if let Some((cpu, count)) = extras.refused {
        options.push((
            2,
            format!("CPU: {cpu}\nentries: 9\noverrun: 0\ndropped events: {count}\n\0").into_bytes(),
        ));
    }
    options
}

fn version_7<W: Write + Seek>(
    out: &mut W,
    mut head: Vec<u8>,
    shape: Shape,
    machine: Machine,
    packed: bool,
    losses: Option<Losses>,
    extras: Extras,
) -> io::Result<()> {
    head.extend_from_slice(if packed { b"zstd\x001.5.4\0" } else { b"none\0\0" });
    let options_at = head.len();
    machine.u64(&mut head, 0);
    let mut options = options(extras);
    let mut section = |head: &mut Vec<u8>, id: u16, content: Vec<u8>| -> io::Result<()> {
        let at = head.len() as u64;
        put_section(head, machine, id, packed, &content)?;
        let mut data = Vec::new();
        machine.u64(&mut data, at);
        options.push((id, data));
        Ok(())
    };
    section(&mut head, 16, machine.header_info())?;
    let mut none = Vec::new();
    machine.u32(&mut none, 0);
    section(&mut head, 17, none)?;
    section(&mut head, 18, machine.event_formats())?;
    let mut lines = Vec::new();
    command_lines(shape, machine, &mut lines);
    section(&mut head, 21, lines)?;

    // The pages of each ring: a section of their own, aligned.
    let mut at = head.len() as u64;
    let rings = [Some(("", shape, "mono")), extras.instance];
    for (name, shape, clock) in rings.into_iter().flatten() {
        let section_at = at;
        let mut buffer = Vec::new();
        machine.u64(&mut buffer, section_at);
        buffer.extend_from_slice(format!("{name}\0{clock}\0").as_bytes());
        machine.u32(&mut buffer, PAGE as u32);
        machine.u32(&mut buffer, shape.cpus);
        at = (section_at + 16).next_multiple_of(PAGE as u64);
        for cpu in 0..shape.cpus {
            out.seek(SeekFrom::Start(at))?;
            let size = if packed {
                packed_pages(out, shape, machine, cpu, losses)?
            } else {
                cpu_pages(shape, machine, cpu, losses, &mut |pages| out.write_all(pages))?
            };
            machine.u32(&mut buffer, cpu);
            machine.u64(&mut buffer, at);
            // As trace-cmd: without the four bytes of the number of chunks.
            machine.u64(&mut buffer, if packed { size - 4 } else { size });
            at = (at + size).next_multiple_of(PAGE as u64);
        }
        options.push((3, buffer));
        let mut start = Vec::new();
        machine.u16(&mut start, 3);
        machine.u16(&mut start, u16::from(packed));
        machine.u32(&mut start, 0);
        machine.u64(&mut start, at - section_at - 16);
        out.seek(SeekFrom::Start(section_at))?;
        out.write_all(&start)?;
    }

    let mut content = Vec::new();
    for (id, data) in options {
        machine.u16(&mut content, id);
        machine.u32(&mut content, data.len() as u32);
        content.extend_from_slice(&data);
    }
    machine.u16(&mut content, 0);
    machine.u32(&mut content, 8);
    machine.u64(&mut content, 0);
    let mut last = Vec::new();
    put_section(&mut last, machine, 0, false, &content)?;
    let mut position = Vec::new();
    machine.u64(&mut position, at);
    head[options_at..options_at + 8].copy_from_slice(&position);
    out.seek(SeekFrom::Start(at))?;
    out.write_all(&last)?;
    out.seek(SeekFrom::Start(0))?;
    out.write_all(&head)
}

fn put_section(out: &mut Vec<u8>, machine: Machine, id: u16, packed: bool, content: &[u8]) -> io::Result<()> {
    machine.u16(out, id);
    machine.u16(out, u16::from(packed));
    machine.u32(out, 0);
    if packed {
        let small = zstd::bulk::compress(content, 3)?;
        machine.u64(out, small.len() as u64 + 8);
        machine.u32(out, small.len() as u32);
        machine.u32(out, content.len() as u32);
        out.extend_from_slice(&small);
    } else {
        machine.u64(out, content.len() as u64);
        out.extend_from_slice(content);
    }
    Ok(())
}

/// Gives one CPU's pages to `put`, some at a time; answers their bytes.
fn cpu_pages(
    shape: Shape,
    machine: Machine,
    cpu: u32,
    losses: Option<Losses>,
    put: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<u64> {
    let mut pages = Pages::new(machine);
    let (mut record, mut out) = (Vec::new(), Vec::new());
    let (mut size, mut count) = (0, 0u64);
    for event in Schedule::new(shape).filter(|event| event.cpu == cpu) {
        machine.record(&event, &mut record);
        pages.add(event.time, &record, &mut out);
        count += 1;
        if let Some(losses) = losses
            && count % losses.every == 0
        {
            pages.lose(losses.told.then_some(losses.count), &mut out);
        }
        if out.len() >= CHUNK {
            size += out.len() as u64;
            put(&out)?;
            out.clear();
        }
    }
    pages.finish(&mut out);
    put(&out)?;
    Ok(size + out.len() as u64)
}

/// Writes the folder that lotse's recorder leaves when it is killed: the last page of each
/// CPU is cut in the middle.
pub fn write_parts(folder: &Path, shape: Shape) -> io::Result<()> {
    let machine = Machine { big_endian: cfg!(target_endian = "big"), long_size: 8 };
    std::fs::create_dir_all(folder)?;
    let info = machine.header_info();
    // "header_page", its length, its text: only the text is wanted.
    let text_at = b"header_page\0".len() + 8;
    let text_end = info.windows(13).position(|w| w == b"header_event\0").unwrap_or(info.len());
    let header_page = String::from_utf8_lossy(&info[text_at..text_end]).into_owned();
    let formats: Vec<String> = machine.formats().iter().map(|text| json_text(text)).collect();
    let cpus: Vec<String> = (0..shape.cpus).map(|cpu| cpu.to_string()).collect();
    let manifest = format!(
        "{{\"version\":1,\"owner\":[1,1,1],\"instance\":\"x\",\"cpus\":[{}],\"page_size\":{PAGE},\"started_ns\":5,\
         \"realtime_offset_ns\":7,\"own_threads\":[],\"filters\":false,\"dat_version\":7,\"zstd_level\":null,\"events\":[],\
         \"metadata\":{{\"header_page\":{},\"header_event\":\"\",\"ftrace_formats\":[],\"event_formats\":[[\"sched\",[{}]]],\
         \"printk_formats\":\"\",\"trace_clock\":\"[mono]\",\"clock\":\"mono\",\"uname\":\"Linux 6.1.0-test x86_64\",\
         \"cpu_count\":{},\"trace_id\":1}}}}",
        cpus.join(","),
        json_text(&header_page),
        formats.join(","),
        shape.cpus
    );
    std::fs::write(folder.join("recording.json"), manifest)?;
    std::fs::write(folder.join("threads"), "100 99 worker-100\n101 99 a b] ==> c\n")?;
    for cpu in 0..shape.cpus {
        let mut pages = Vec::new();
        cpu_pages(shape, machine, cpu, None, &mut |more| {
            pages.extend_from_slice(more);
            Ok(())
        })?;
        // Less than one event and its header.
        pages.truncate(pages.len() - PAGE + 50);
        std::fs::write(folder.join(format!("cpu{cpu}.pages")), pages)?;
    }
    Ok(())
}

fn json_text(text: &str) -> String {
    let inner = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\t', "\\t");
    format!("\"{inner}\"")
}

/// Bytes of pages packed together, as trace-cmd does with pages of 4096 bytes.
const CHUNK: usize = 160 * PAGE;

fn packed_pages<W: Write + Seek>(
    out: &mut W,
    shape: Shape,
    machine: Machine,
    cpu: u32,
    losses: Option<Losses>,
) -> io::Result<u64> {
    let start = out.stream_position()?;
    out.write_all(&[0; 4])?;
    let mut chunks = 0;
    let mut size = 4;
    cpu_pages(shape, machine, cpu, losses, &mut |pages| {
        if pages.is_empty() {
            return Ok(());
        }
        let small = zstd::bulk::compress(pages, 3)?;
        let mut head = Vec::new();
        machine.u32(&mut head, small.len() as u32);
        machine.u32(&mut head, pages.len() as u32);
        out.write_all(&head)?;
        out.write_all(&small)?;
        chunks += 1;
        size += small.len() as u64 + 8;
        Ok(())
    })?;
    let mut count = Vec::new();
    machine.u32(&mut count, chunks);
    out.seek(SeekFrom::Start(start))?;
    out.write_all(&count)?;
    Ok(size)
}
