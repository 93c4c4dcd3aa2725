//! Damaged and malicious files: an error or a partial result that says so; never a panic,
//! a hang, or memory beyond what the file's size justifies.
//!
//! [`read_whatever`] is the fuzz body; a fuzzer may call it with any bytes. Here it runs
//! for some seconds on made-up files that are truncated, flipped and overwritten.

use std::{
    io::Cursor,
    ops::ControlFlow,
    sync::Arc,
    time::{Duration, Instant},
};

use readers::{MemoryInput, open, survey};
use testkit::{
    skip::foreign_traces,
    skipped,
    synthetic::{
        Machine, Random, Shape,
        perf_data::{self, Style},
        trace_dat::{self, Losses, Version},
    },
};
use trace::{Item, decode::Decoder};

/// Reads `bytes` as far as they can be read. Answers the number of items, or the error.
fn read_whatever(bytes: &[u8]) -> Result<u64, String> {
    let started = Instant::now();
    let mut source = open(Arc::new(MemoryInput::new("hostile", bytes))).map_err(|error| {
        assert_eq!(error.file, "hostile");
        assert!(!error.reason.is_empty());
        error.to_string()
    })?;
    let mut decoder = Decoder::new(source.info());
    let info = source.info().clone();
    let mut items = 0u64;
    let mut text = Vec::new();
    let result = source.stream(&mut |item: Item<'_>| {
        items += 1;
        if let Item::Event { format, record, .. } = item {
            decoder.decode(format, record);
            if items.is_multiple_of(64) {
                text.clear();
                info.formats[format.0 as usize].printer(info.endian, info.long_size).print(
                    record,
                    &trace::format::NoLookup,
                    &mut text,
                );
            }
        }
        ControlFlow::Continue(())
    });
    let found = survey(&mut *source);
    // Each item needs bytes; packed ones at least a four thousandth of a byte.
    assert!(items <= 4096 * bytes.len() as u64 + (1 << 20), "{items} items from {} bytes", bytes.len());
    assert!(source.info().problems.len() < 300, "problems are bounded");
    assert!(
        started.elapsed() < Duration::from_secs(20),
        "took {:?} for {} bytes",
        started.elapsed(),
        bytes.len()
    );
    assert_eq!(found.error.is_some(), result.is_err(), "the same each time");
    result.map(|()| items).map_err(|error| error.to_string())
}

fn trace_dats() -> Vec<Vec<u8>> {
    let shape = Shape { threads: 6, ..Shape::new(400, 2) };
    let mut all = Vec::new();
    for machine in Machine::ALL {
        for version in [Version::Six, Version::Seven, Version::SevenZstd] {
            let mut out = Cursor::new(Vec::new());
            let losses = Losses { every: 50, count: 3, told: true };
            trace_dat::write(&mut out, shape, machine, version, Some(losses)).unwrap();
            all.push(out.into_inner());
        }
    }
    all
}

fn perf_datas() -> Vec<Vec<u8>> {
    let shape = Shape { threads: 6, ..Shape::new(300, 2) };
    let mut all = Vec::new();
    for machine in Machine::ALL {
        for (packed, pipe) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut out = Cursor::new(Vec::new());
            perf_data::write(&mut out, shape, machine, Style { round: 40, packed, pipe }).unwrap();
            all.push(out.into_inner());
        }
    }
    all
}

/// Numbers that lengths, counts and positions are overwritten with.
const EXTREMES: &[u64] = &[
    0,
    1,
    7,
    8,
    0x7f,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    i64::MAX as u64,
    u64::MAX,
    u64::MAX - 7,
];

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        if bytes.is_empty() {
            return;
        }
        // Half of the damage hits the first part, where the structure is.
        let part = if random.below(2) == 0 { bytes.len().min(8192) } else { bytes.len() };
        let at = random.below(part as u64) as usize;
        match random.below(7) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.below(256) as u8,
            2 => bytes.truncate(at),
            3 => {
                let length = (random.below(64) as usize).min(bytes.len() - at);
                bytes.drain(at..at + length);
            }
            4 => {
                let length = (random.below(64) as usize).min(bytes.len() - at);
                let copy = bytes[at..at + length].to_vec();
                let to = random.below(bytes.len() as u64) as usize;
                bytes.splice(to..to, copy);
            }
            // A number becomes extreme, or a position within the file.
            kind => {
                let size = [1, 2, 4, 8][random.below(4) as usize];
                let value = if kind == 5 {
                    EXTREMES[random.below(EXTREMES.len() as u64) as usize]
                } else {
                    random.below(bytes.len() as u64)
                };
                let value = if random.below(2) == 0 { value.to_le_bytes() } else { value.to_be_bytes() };
                let value = if value[0] == 0 { &value[8 - size..] } else { &value[..size] };
                let end = (at + size).min(bytes.len());
                bytes[at..end].copy_from_slice(&value[..end - at]);
            }
        }
    }
}

fn fuzz(seeds: &[Vec<u8>], seconds: u64, seed: u64) {
    // More, or other damage, on request.
    let wanted = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let seconds = wanted("LOTSE_FUZZ_SECONDS").unwrap_or(seconds);
    let mut random = Random(seed + 1000 * wanted("LOTSE_FUZZ_SEED").unwrap_or(0));
    let until = Instant::now() + Duration::from_secs(seconds);
    let (mut rounds, mut read) = (0u64, 0u64);
    while Instant::now() < until {
        let mut bytes = seeds[random.below(seeds.len() as u64) as usize].clone();
        mutate(&mut bytes, &mut random);
        rounds += 1;
        read += u64::from(read_whatever(&bytes).is_ok());
    }
    // Some damage hurts and some does not: else the mutations would be no test. (Text has
    // no structure to break but its first lines.)
    assert!(rounds > 50 && read > 0 && (read < rounds || seed == 14), "{read} of {rounds} read");
    let peak = memory_peak();
    assert!(peak < 1500 << 10, "{peak} kB of address space");
}

/// Most address space this process has had, kB.
fn memory_peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn damaged_trace_dat() {
    fuzz(&trace_dats(), 4, 11);
}

#[test]
fn damaged_perf_data() {
    fuzz(&perf_datas(), 4, 12);
}

#[test]
fn damaged_text() {
    let line = |name: &str, text: &str| {
        format!("  a b] ==> c-12    [001] d..2.  42.000{:03}: {name}: {text}\n", text.len())
    };
    let seed: String = [
        line(
            "sched_switch",
            "prev_comm=a prev_pid=1 prev_prio=120 prev_state=R+ ==> next_comm=b next_pid=0 next_prio=120",
        ),
        line("sched_switch", "a:1 [120] S ==> b:2 [120]"),
        line("sched_waking", "comm=a pid=12 prio=120 target_cpu=001"),
        line("sys_enter", "NR 1 (b, 1, 556d33a059bc, 0, 7, b)"),
        line("sched_process_exec", "filename=/bin/x pid=1 old_pid=1"),
        "CPU:1 [LOST 12 EVENTS]\n".to_owned(),
        "perf 1/2 [000] 4165.771756:  1 raw_syscalls:sys_enter: NR 16 (1b)\n".to_owned(),
    ]
    .concat();
    fuzz(&[format!("# tracer: nop\n{}", seed.repeat(4)).into_bytes()], 2, 14);
}

#[test]
fn damaged_foreign_files() {
    let Some(traces) = foreign_traces() else { skipped!("no foreign trace files here") };
    let seeds: Vec<Vec<u8>> = [
        "perfdata/ms-tracepoints.perf.data",
        "perfdata/perf.data.piped.header_features-4.16",
        "perfdata/sleep.compressed.data",
        "perfdata/perf.data.ctx_switch_namespaces-4.14",
    ]
    .iter()
    .map(|name| std::fs::read(traces.join(name)).unwrap())
    .collect();
    fuzz(&seeds, 3, 13);
}

/// Truncated anywhere in its structure, a file is refused or says that it is cut.
#[test]
fn truncation_is_always_noticed() {
    let mut seeds = trace_dats();
    seeds.extend(perf_datas());
    for (number, bytes) in seeds.iter().enumerate() {
        let whole = read_whatever(bytes).unwrap();
        let step = (bytes.len() / 150).max(1);
        let dense = (0..bytes.len().min(160))
            .chain((160..bytes.len()).step_by(step))
            .chain(bytes.len() - 40..bytes.len());
        for length in dense {
            let short = &bytes[..length];
            let Ok(mut source) = open(Arc::new(MemoryInput::new("short", short))) else { continue };
            let found = survey(&mut *source);
            let info = source.info();
            let noticed = found.error.is_some() || info.cut.is_some() || !info.problems.is_empty();
            // A pipe has no end but where it ends: cut between two records, nothing shows.
            let pipe = info.file_format.contains("pipe");
            assert!(
                noticed || pipe,
                "seed {number} cut to {length} of {}: {} of {whole} items",
                bytes.len(),
                found.total
            );
        }
    }
}

#[test]
fn sections_in_a_circle() {
    let mut out = Cursor::new(Vec::new());
    trace_dat::write(&mut out, Shape::new(100, 1), Machine::USUAL, Version::Seven, None).unwrap();
    let mut bytes = out.into_inner();
    // The last eight bytes are where the next options would be: here, again.
    let options_at = {
        let at = bytes.windows(6).position(|w| w == b"none\0\0").unwrap() + 6;
        u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
    };
    let end = bytes.len() - 8;
    bytes[end..].copy_from_slice(&options_at.to_le_bytes());
    let mut source = open(Arc::new(MemoryInput::new("circle", bytes))).unwrap();
    let found = survey(&mut *source);
    assert_eq!((found.total, found.error), (100, None));
    let problems = source.info().problems.join("\n");
    assert!(problems.contains("in a circle"), "{problems}");
}

#[test]
fn what_is_no_trace_is_refused_with_what_to_do() {
    for (bytes, expected) in [
        (&b""[..], "the file is empty"),
        (b"hello", "not a trace of a known format"),
        (b"\x28\xb5\x2f\xfd....", "unzstd"),
        (b"\x17\x08\x44tracing9\0\0\x08\0\x10\0\0", "versions 6 and 7 are understood"),
        (b"\x17\x08\x44tracing6\0\x05\x08", "byte order 5"),
        (b"PERFILE2", "needs 8 bytes and 0 are left"),
        (b"PERFILE2\x21\0\0\0\0\0\0\0", "a header of 33 bytes"),
    ] {
        let error = read_whatever(bytes).unwrap_err();
        assert!(error.contains(expected), "{error}");
        // The place is told where one part of the file is meant, not where it is the whole.
        assert!(error.starts_with("hostile: "), "{error}");
    }
}
