//! Compiled programs in the kernel: each sample is accepted by the verifier, and random programs leave the same
//! maps and records behind as in the interpreter. `LOTSE_SEEDS=FIRST..END` chooses other seeds.

// The generators are the compiler's own; they name its modules as `crate::…`.
use lang::{hir, schema, source, types};

#[path = "../../lang/src/lower/random.rs"]
#[allow(unused_qualifications, reason = "shared with the compiler's tests")]
mod random;
#[path = "../../lang/src/lower/samples.rs"]
#[allow(dead_code, unused_qualifications, reason = "shared with the compiler's tests")]
mod samples;

use std::collections::BTreeMap;

use bpf::KernelFacts;
use bpf::facts::Feature;
use bpf::interp::Machine;
use kernel::facts::LiveFacts;
use kernel::load::{ImageRefused, LoadOptions, Loaded};
use lang::lower::{Compiled, compile};
use samples::Sample;
use schema::{Attach, ProgramKind};

fn load(compiled: &Compiled, facts: &LiveFacts) -> Result<Loaded, String> {
    let options = LoadOptions { statistics: false, possible_cpus: facts.possible_cpus() };
    Loaded::load(&compiled.image, options, |_, _| Ok(())).map_err(|refused| match refused {
        ImageRefused::Program(program) => {
            let tail: Vec<&str> = program.log.lines().rev().take(30).collect();
            let tail: Vec<&str> = tail.into_iter().rev().collect();
            format!("{program}\n{}", tail.join("\n"))
        }
        other => other.to_string(),
    })
}

/// None, with the reason, where programs cannot be loaded at all.
fn live() -> Result<LiveFacts, String> {
    let facts = LiveFacts::new();
    if !facts.has(Feature::RawTracepoint) || !facts.has(Feature::MapValueAddress) {
        return Err("no eBPF programs with this kernel and these rights".into());
    }
    Ok(facts)
}

#[test]
fn samples_are_accepted() {
    let facts = match live() {
        Ok(facts) => facts,
        Err(reason) => testkit::skipped!("{reason}"),
    };
    let switch = facts.btf().and_then(|btf| btf.tracepoint("sched_switch")).map(|signature| signature.id);
    for (name, mut sample) in samples::all() {
        let needs_loops = matches!(name, "range" | "nested" | "for_map");
        if needs_loops && !facts.has(Feature::BpfLoop) {
            continue;
        }
        for description in &mut sample.program.schema.programs {
            for target in &mut description.targets {
                if let Attach::RawTracepoint { btf_id, .. } = &mut target.attach {
                    match switch {
                        Some(id) => *btf_id = id,
                        None => description.kind = ProgramKind::RawTracepoint,
                    }
                }
            }
        }
        let compiled =
            compile(&sample.program, &facts, None).unwrap_or_else(|error| panic!("{name}: {error}"));
        if let Err(refused) = load(&compiled, &facts) {
            panic!("{name}: {refused}\n{}", bpf::text::listing(&compiled.image.programs[0].instructions));
        }
    }
}

type Maps = Vec<BTreeMap<Vec<u8>, Vec<u8>>>;

/// Bytes after the NUL of long strings are not defined.
fn cut_strings(maps: &mut Maps) {
    for value in maps.iter_mut().flat_map(BTreeMap::values_mut).filter(|value| value.len() == 300) {
        let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
        value[end..].fill(0);
    }
}

/// Bytes of a record after a short text's NUL likewise: texts in slots are compared up to their length.
fn compare(
    sample: &Sample,
    compiled: &Compiled,
    facts: &LiveFacts,
    contexts: &[[u64; 8]],
    texts: &[&[u8]],
) -> Result<(), String> {
    let mut loaded = load(compiled, facts)?;
    let mut machine = Machine::new(&compiled.image, facts.possible_cpus());
    for text in texts {
        machine.world.place(text.as_ptr() as u64, text.to_vec());
    }
    for words in contexts {
        let mut context: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        machine
            .run(&compiled.image.programs[0].instructions, &mut context)
            .map_err(|fault| fault.to_string())?;
        let mut context = *words;
        loaded.programs[0].run(&mut context, None).map_err(|refused| refused.to_string())?;
    }
    let mut maps: [Maps; 2] = [vec![], vec![]];
    for (at, spec) in compiled.image.maps.iter().enumerate().filter(|(_, spec)| spec.kind.hashed()) {
        let size = spec.value_size as usize;
        let entries = loaded.maps[at].entries().map_err(|refused| refused.to_string())?;
        maps[0].push(entries.iter().map(|(key, value)| (key.to_vec(), value[..size].to_vec())).collect());
        let number = at as u32;
        let value = |key: &Vec<u8>| machine.value(number, key, 0).unwrap_or_default().to_vec();
        maps[1].push(machine.keys(number).into_iter().map(|key| (key.clone(), value(&key))).collect());
    }
    maps.iter_mut().for_each(cut_strings);
    if maps[0] != maps[1] {
        return Err(format!("maps differ\nkernel      {:?}\ninterpreter {:?}", maps[0], maps[1]));
    }
    let data = loaded.data.as_ref().map(|data| data.copy(0, data.len())).unwrap_or_default();
    let own = machine.value(0, &[0; 4], 0).unwrap_or_default();
    if data[..own.len()] != *own {
        return Err("globals and aggregates differ".into());
    }
    let mut records = Vec::new();
    if let Some(ring) = &mut loaded.ring {
        ring.drain(|record| {
            records.push(record.to_vec());
            true
        })
        .unwrap();
    }
    let expected = machine.drain();
    let shown =
        |records: &[Vec<u8>]| records.iter().map(|record| texts_of(sample, record)).collect::<Vec<_>>();
    if shown(&records) != shown(&expected) {
        return Err(format!("records differ\n{:?}\n{:?}", shown(&records), shown(&expected)));
    }
    Ok(())
}

/// A record's bytes with texts cut at their NUL.
fn texts_of(sample: &Sample, record: &[u8]) -> Vec<Vec<u8>> {
    let word = |at: usize| u32::from_le_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]]);
    let kind = &sample.program.schema.records[word(0) as usize];
    kind.arguments
        .iter()
        .map(|argument| {
            let at = argument.offset as usize;
            match argument.ty {
                types::Type::String(_) => {
                    let (start, length) = (word(at) as usize, (word(at + 4) & !schema::TEXT_CUT) as usize);
                    let bytes = &record[start..start + length];
                    bytes.split(|byte| *byte == 0).next().unwrap_or_default().to_vec()
                }
                ref ty => record[at..at + ty.size() as usize].to_vec(),
            }
        })
        .collect()
}

fn seeds() -> std::ops::Range<u64> {
    let wanted = std::env::var("LOTSE_SEEDS").ok();
    let parsed = wanted.as_deref().and_then(|text| {
        let (first, end) = text.split_once("..")?;
        Some(first.parse().ok()?..end.parse().ok()?)
    });
    parsed.unwrap_or(1000..1060)
}

#[test]
fn random_programs_do_in_the_kernel_what_they_do_in_the_interpreter() {
    let facts = match live() {
        Ok(facts) => facts,
        Err(reason) => testkit::skipped!("{reason}"),
    };
    if !facts.has(Feature::BpfLoop) {
        testkit::skipped!("no bpf_loop here, and most random programs have loops");
    }
    // On another CPU the program would run in another process, whose memory has no such texts.
    if let Err(refused) = kernel::cpu::run_on(0) {
        testkit::skipped!("{refused}");
    }
    let texts: [&[u8]; 2] = [b"hello, world\0", &[b'y'; 4096]];
    let [a, b] = texts.map(|text| text.as_ptr() as u64);
    let contexts = [
        [0, 1, 2, 3, a, b, 0, 0],
        [u64::MAX, 1 << 40, 77, 0x8000_0000, b, 1, 0, 0],
        [5, 5, 5, 5, a, a, 0, 0],
    ];
    let mut wrong = Vec::new();
    for seed in seeds() {
        let sample = random::program(seed, ProgramKind::Special);
        let compiled = match compile(&sample.program, &facts, None) {
            Ok(compiled) => compiled,
            Err(error) => {
                wrong.push(format!("seed {seed}: {error}"));
                continue;
            }
        };
        if let Err(what) = compare(&sample, &compiled, &facts, &contexts, &texts) {
            wrong.push(format!("seed {seed}: {what}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of the programs are wrong:\n{}",
        wrong.len(),
        wrong.iter().map(|what| what.chars().take(2000).collect::<String>()).collect::<Vec<_>>().join("\n")
    );
}
