use std::collections::BTreeMap;

use bpf::facts::{Feature, SavedFacts};
use bpf::interp::{Machine, Ran};
use bpf::program::ProgramType;

use super::samples::{self, Sample};
use super::{Compiled, compile};
use crate::layout::Place;
use crate::schema::MapId;

/// A kernel that has everything but what `without` names.
fn facts(without: &[Feature]) -> SavedFacts {
    let features = [Feature::BpfLoop, Feature::ForEachMapElem, Feature::InstructionsV4, Feature::TpBtf];
    let mut facts = SavedFacts::default();
    (facts.release, facts.possible_cpus) = ("6.12.0".into(), 2);
    facts.features = features.into_iter().filter(|feature| !without.contains(feature)).collect();
    facts.helpers = ProgramType::ALL.map(|kind| (kind, (1..=211).collect())).into();
    facts
}

struct Run {
    compiled: Compiled,
    machine: Machine,
}

impl Run {
    fn new(sample: Sample, facts: &SavedFacts) -> Run {
        let compiled = compile(&sample.program, facts, None).unwrap();
        let machine = Machine::new(&compiled.image, facts.possible_cpus);
        Run { compiled, machine }
    }

    fn sample(name: &str) -> Run {
        let (_, sample) = samples::all().into_iter().find(|(have, _)| *have == name).unwrap();
        Run::new(sample, &facts(&[]))
    }

    fn run(&mut self, arguments: &[u64]) -> Ran {
        let mut context: Vec<u8> = arguments.iter().flat_map(|word| word.to_le_bytes()).collect();
        context.resize(64, 0);
        let program = &self.compiled.image.programs[0];
        match self.machine.run(&program.instructions, &mut context) {
            Ok(ran) => ran,
            Err(fault) => {
                panic!("{fault}\n{}\n{}", self.compiled.lir(), bpf::text::listing(&program.instructions))
            }
        }
    }

    /// Words of a map without key, on a CPU.
    fn words(&self, map: u32, cpu: u32, count: usize) -> Vec<u64> {
        let layout = &self.compiled.layout;
        let offset = match layout.place(MapId(map)) {
            Place::Global { offset } => offset as usize,
            Place::PerCpu { offset } => layout.on_cpu(cpu, offset),
            Place::Map(_) => panic!("a map with a key"),
        };
        let data = self.machine.value(0, &[0; 4], 0).unwrap();
        data[offset..].as_chunks::<8>().0[..count].iter().map(|word| u64::from_le_bytes(*word)).collect()
    }

    fn entries(&self, map: u32, cpu: u32) -> BTreeMap<Vec<u8>, Vec<u64>> {
        let Place::Map(index) = self.compiled.layout.place(MapId(map)) else { panic!("a map without key") };
        let value = |key: &Vec<u8>| {
            let bytes = self.machine.value(index, key, cpu).unwrap();
            bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
        };
        self.machine.keys(index).into_iter().map(|key| (key.clone(), value(&key))).collect()
    }

    fn counter(&self, index: usize, cpu: u32) -> u64 {
        let offset = self.compiled.layout.counter(cpu, index);
        let data = self.machine.value(0, &[0; 4], 0).unwrap();
        u64::from_le_bytes(data[offset..offset + 8].try_into().unwrap())
    }
}

#[test]
fn a_count_is_kept_for_each_cpu() {
    let mut run = Run::sample("count");
    run.run(&[]);
    run.machine.world.cpu = 1;
    run.run(&[]);
    let ran = run.run(&[]);
    assert_eq!((run.words(0, 0, 1), run.words(0, 1, 1)), (vec![1], vec![2]));
    assert!(
        ran.steps <= 11,
        "{}\n{}",
        ran.steps,
        bpf::text::listing(&run.compiled.image.programs[0].instructions)
    );
}

#[test]
fn a_full_map_is_counted() {
    let mut run = Run::sample("count_by_pid");
    for pid in [7, 8, 9, 10, 7, 10] {
        run.machine.world.tgid = pid;
        run.run(&[]);
    }
    let counts: Vec<u64> = run.entries(0, 0).into_values().flatten().collect();
    assert_eq!(counts, [2, 1, 1]);
    assert_eq!((run.counter(0, 0), run.counter(1, 0)), (2, 0));
    run.machine.world.tgid = 7;
    let ran = run.run(&[]);
    assert!(
        ran.steps <= 14,
        "{}\n{}",
        ran.steps,
        bpf::text::listing(&run.compiled.image.programs[0].instructions)
    );
}

#[test]
fn names_are_keys() {
    let mut run = Run::sample("count_by_comm");
    run.run(&[]);
    let mut key = b"test".to_vec();
    key.resize(16, 0);
    assert_eq!(run.entries(0, 0), BTreeMap::from([(key, vec![1])]));
}

#[test]
fn every_value_falls_into_its_bucket() {
    for (name, bits) in [("hist", 0), ("hist_by_pid_bits", 3)] {
        let edges = (0..64).flat_map(|e| [(1_u64 << e) - 1, 1 << e, (1 << e) + 1]).chain([u64::MAX]);
        let mut run = Run::sample(name);
        let mut expected = vec![0; crate::aggregate::hist_buckets(bits) as usize];
        for value in edges {
            run.run(&[value]);
            expected[crate::aggregate::hist_bucket(value, false, bits) as usize] += 1;
        }
        let found = match bits {
            0 => run.words(0, 0, expected.len()),
            _ => run.entries(0, 0).into_values().next().unwrap(),
        };
        assert_eq!(found, expected, "{name}");
    }
    let mut run = Run::sample("lhist");
    let mut expected = vec![0; 13];
    for value in [-11, -10, -1, 0, 9, 10, 99, 100, i64::MIN, i64::MAX] {
        run.run(&[value as u64]);
        expected[crate::aggregate::lhist_bucket(value, -10, 100, 10) as usize] += 1;
    }
    assert_eq!(run.words(0, 0, 13), expected);
}

#[test]
fn extremes_and_averages_of_negative_values() {
    let mut run = Run::sample("extremes");
    for value in [-5_i64, -9, -7] {
        run.run(&[value as u64]);
    }
    let sum = (-21_i64) as u64;
    assert_eq!(run.words(0, 0, 2), [(-9_i64) as u64, 1]);
    assert_eq!(run.words(0, 1, 2), [0, 0]);
    assert_eq!(run.entries(1, 0).into_values().next().unwrap(), [(-5_i64) as u64, 1]);
    assert_eq!(run.words(2, 0, 2), [sum, 3]);
    assert_eq!(run.entries(3, 0).into_values().next().unwrap(), [sum, 3]);
    assert_eq!(run.words(4, 0, 1), [sum]);
}

#[test]
fn start_and_end() {
    let mut run = Run::sample("start");
    run.machine.world.nanoseconds = 5_000;
    for tid in [1, 2, 3] {
        run.machine.world.pid = tid;
        run.run(&[]);
    }
    assert_eq!(run.entries(0, 0).into_values().flatten().collect::<Vec<_>>(), [5_000, 5_000]);
    assert_eq!(run.counter(0, 0), 1);

    let mut run = Run::sample("pair");
    let ran = run.run(&[]);
    assert!(ran.steps < 20);
    assert_eq!(run.words(1, 0, 20).iter().sum::<u64>(), 0);
}

#[test]
fn keys_have_no_stray_bytes() {
    let mut run = Run::sample("tuple_key");
    run.run(&[0x1122_3344_5566_7788]);
    let key = run.entries(0, 0).into_keys().next().unwrap();
    let mut expected = 100_u32.to_le_bytes().to_vec();
    expected.extend(b"test\0\0\0\0\0\0\0\0\0\0\0\0");
    expected.resize(24, 0);
    expected.extend(0x1122_3344_5566_7788_u64.to_le_bytes());
    assert_eq!(key, expected);

    let mut run = Run::sample("string_key");
    for text in ["a long one with many letters", "short"] {
        run.machine.world.place(0xffff_0000_0000_0000, format!("{text}\0rest").into_bytes());
        run.run(&[0xffff_0000_0000_0000]);
    }
    run.run(&[0xffff_0000_0000_0000]);
    let short: Vec<_> = run.entries(0, 0).into_iter().filter(|(key, _)| key.starts_with(b"short")).collect();
    assert_eq!(short.len(), 1);
    assert!(short[0].0[5..].iter().all(|byte| *byte == 0));
    assert_eq!(short[0].1, [2]);
}

#[test]
fn records_are_as_long_as_their_texts() {
    let mut run = Run::sample("printf");
    run.machine.world.place(0xffff_0000_0000_0000, b"hello, world\0".to_vec());
    run.machine.world.place(0xffff_0000_1000_0000, vec![b'x'; 3000]);
    run.run(&[0xffff_0000_0000_0000, 0xffff_0000_1000_0000]);
    run.run(&[0, 0xffff_0000_0000_0000]);
    let records = run.machine.drain();
    let word = |record: &[u8], at: usize| u32::from_le_bytes(record[at..at + 4].try_into().unwrap());
    let text = |record: &[u8], at: usize| {
        let (offset, length) = (word(record, at) as usize, word(record, at + 4));
        let end = offset + (length & !crate::schema::TEXT_CUT) as usize;
        (record[offset..end].to_vec(), length & crate::schema::TEXT_CUT != 0)
    };
    let first = &records[0];
    assert_eq!((word(first, 0), word(first, 4) as usize), (0, first.len()));
    assert!(text(first, 8).0.starts_with(b"test\0"));
    assert_eq!(word(first, 16), 100);
    assert_eq!(text(first, 20), (b"hello, world".to_vec(), false));
    assert_eq!(text(first, 28), (vec![b'x'; 1023], true));
    let second = &records[1];
    assert_eq!(text(second, 20), (vec![], false));
    assert_eq!(text(second, 28), (b"hello, world".to_vec(), false));
    assert!(second.len() < 100);
}

#[test]
fn filters_and_strings() {
    let mut run = Run::sample("filter");
    run.run(&[]);
    run.machine.world.comm[..5].copy_from_slice(b"bash\0");
    run.run(&[]);
    run.machine.world.comm[..6].copy_from_slice(b"bashx\0");
    run.run(&[]);
    assert_eq!(run.words(0, 0, 1), [1]);

    let mut run = Run::sample("strings");
    run.machine.world.place(0xffff_0000_0000_0000, b"hello, world\0".to_vec());
    run.machine.world.place(0xffff_0000_1000_0000, b"hello, world\0junk".to_vec());
    run.machine.world.place(0xffff_0000_2000_0000, b"hello, worl\0".to_vec());
    run.run(&[0xffff_0000_0000_0000, 0xffff_0000_1000_0000]);
    assert_eq!(run.words(1, 0, 1), [7]);
    run.run(&[0xffff_0000_2000_0000, 0xffff_0000_1000_0000]);
    assert_eq!(run.words(0, 0, 1), [1]);
    assert_eq!(run.words(1, 0, 1), [u64::MAX]);

    for (text, expected) in
        [("/usr/bin/bash", 1), ("/usr/local/bin/bush", 1), ("/usr/bash", 0), ("/usr/bin/bashx", 0)]
    {
        let mut run = Run::sample("glob");
        run.machine.world.place(0xffff_0000_0000_0000, format!("{text}\0").into_bytes());
        run.run(&[0xffff_0000_0000_0000]);
        assert_eq!(run.words(0, 0, 1)[0] & 0xff, expected, "{text}");
    }
}

#[test]
fn loops_break_and_return() {
    let mut run = Run::sample("range");
    run.run(&[]);
    assert_eq!(run.words(0, 0, 1), [2 + 3 + 4 + 5]);
    let mut run = Run::sample("nested");
    run.run(&[]);
    // 1 + 2 + 3, then one more before the return, which also skips what follows the loop.
    assert_eq!((run.words(0, 0, 1), run.words(1, 0, 1)), (vec![7], vec![0]));
    let mut run = Run::sample("for_map");
    run.run(&[]);
    run.machine.world.tgid = 200;
    run.machine.world.cpu = 1;
    run.run(&[]);
    let records = run.machine.drain();
    assert_eq!(records.len(), 3);
    assert_eq!(records[2][8..12], 200_u32.to_le_bytes());
    assert_eq!(records[1][16..24], 1_u64.to_le_bytes(), "summed over CPUs");
}

#[test]
fn steps_exits_stacks_and_series() {
    let mut run = Run::sample("step");
    run.run(&[]);
    run.run(&[]);
    assert_eq!(run.entries(0, 0).into_values().next().unwrap(), [2]);
    assert_eq!(run.words(1, 0, 1), [2]);

    let mut run = Run::sample("exit");
    run.run(&[]);
    assert_eq!(run.machine.drain()[0][8..12], 3_u32.to_le_bytes());

    let mut run = Run::sample("stack");
    run.machine.world.kernel_stack = vec![0xffff_ffff_8100_0010, 0xffff_ffff_8100_0020];
    run.run(&[]);
    run.run(&[]);
    run.machine.world.kernel_stack.push(7);
    run.run(&[]);
    run.machine.world.kernel_stack.clear();
    run.run(&[]);
    let entries = run.entries(0, 0);
    assert_eq!(entries.len(), 3, "the stack that failed is an empty one");
    assert_eq!(run.machine.keys(run.compiled.layout.stacks[0]).len(), 2);
    assert_eq!(run.counter(2, 0), 1);

    let mut run = Run::sample("series");
    run.machine.world.nanoseconds = 3_500_000_000;
    for value in [5, 9, 4] {
        run.run(&[value]);
    }
    assert_eq!(run.words(0, 0, 16)[12..16], [4, 9, 0, 3]);
}

#[test]
fn older_kernels_get_code_they_know() {
    for (name, sample) in samples::all() {
        let old = facts(&[Feature::InstructionsV4]);
        let compiled = compile(&sample.program, &old, None).unwrap_or_else(|error| panic!("{name}: {error}"));
        for instruction in compiled.image.programs.iter().flat_map(|program| &program.instructions) {
            let v4 = matches!(
                instruction,
                bpf::Instruction::MovSigned { .. }
                    | bpf::Instruction::JumpLong { .. }
                    | bpf::Instruction::Load { signed: true, .. }
            );
            assert!(!v4, "{name}: {instruction}");
        }
    }
    let none = facts(&[Feature::BpfLoop]);
    let (_, sample) = samples::all().into_iter().find(|(name, _)| *name == "range").unwrap();
    assert!(compile(&sample.program, &none, None).unwrap_err().to_string().contains("bpf_loop"));
}

/// What a program left behind: maps without keys, maps with keys, records.
type Outcome = (Vec<u8>, Vec<BTreeMap<Vec<u8>, Vec<u8>>>, Vec<Vec<u8>>);

fn outcome(compiled: &Compiled, contexts: &[[u64; 8]], texts: &[(u64, Vec<u8>)]) -> Outcome {
    let mut machine = Machine::new(&compiled.image, 2);
    for (address, bytes) in texts {
        machine.world.place(*address, bytes.clone());
    }
    for words in contexts {
        let mut context: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let program = &compiled.image.programs[0];
        if let Err(fault) = machine.run(&program.instructions, &mut context) {
            panic!("{fault}\n{}\n{}", compiled.lir(), bpf::text::listing(&program.instructions));
        }
    }
    let maps =
        compiled.image.maps.iter().enumerate().filter(|(_, spec)| spec.kind.hashed()).map(|(at, _)| {
            let at = at as u32;
            machine
                .keys(at)
                .into_iter()
                .map(|key| (key.clone(), machine.value(at, &key, 0).unwrap().to_vec()))
                .collect()
        });
    let maps = maps.collect();
    (machine.value(0, &[0; 4], 0).unwrap().to_vec(), maps, machine.drain())
}

/// Strings in map values are defined up to their NUL only.
fn cut_strings(outcome: &mut Outcome) {
    for map in &mut outcome.1 {
        for value in map.values_mut().filter(|value| value.len() == 300) {
            let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
            value[end..].fill(0);
        }
    }
}

#[test]
fn random_programs_do_the_same_however_they_are_compiled() {
    let texts = [(0x7000_0000_0000, b"hello, world\0".to_vec()), (0x7000_1000_0000, vec![b'y'; 4096])];
    let contexts = [
        [0, 1, 2, 3, 0x7000_0000_0000, 0x7000_1000_0000, 0, 0],
        [u64::MAX, 1 << 40, 77, 0x8000_0000, 0x7000_1000_0000, 1, 0, 0],
        [5, 5, 5, 5, 0x7000_0000_0000, 0x7000_0000_0000, 0, 0],
    ];
    for seed in 0..120 {
        let sample = super::random::program(seed, crate::schema::ProgramKind::Special);
        let mut outcomes = Vec::new();
        for (v4, optimised) in [(true, true), (false, true), (true, false)] {
            let without: &[Feature] = if v4 { &[] } else { &[Feature::InstructionsV4] };
            let compiled = match super::image::compile_with(&sample.program, &facts(without), None, optimised)
            {
                Ok(compiled) => compiled,
                // Unoptimised code of a large program may not fit the stack.
                Err(error) if !optimised => {
                    assert!(error.to_string().contains("stack"), "seed {seed}: {error}");
                    continue;
                }
                Err(error) => panic!("seed {seed}: {error}"),
            };
            let mut found = outcome(&compiled, &contexts, &texts);
            cut_strings(&mut found);
            outcomes.push(found);
        }
        for other in &outcomes[1..] {
            assert!(outcomes[0] == *other, "seed {seed}\n{:?}\n{:?}", outcomes[0], other);
        }
    }
}

#[test]
fn conditions_jump_over_code_of_any_length() {
    use super::samples::*;
    use crate::hir::{BinaryOp, StatementKind, Update};
    use crate::schema::{MapValue, ProgramKind, Storage};

    let long = |n: u64| {
        let add = |_| aggregate(0, None, Update::Sum(binary(BinaryOp::Add, nsecs(), int(n))));
        (0..8000).map(add).collect::<Vec<_>>()
    };
    let choice = StatementKind::If {
        condition: binary(BinaryOp::Eq, argument(0), int(1)),
        then: long(0),
        otherwise: long(1),
    };
    let sample = || {
        Sample::new(ProgramKind::Special, vec![statement(choice.clone()), aggregate(1, None, Update::Count)])
            .map(None, MapValue::Sum { signed: false }, Storage::PerCpuScalar, 1)
            .map(None, MapValue::Count, Storage::PerCpuScalar, 1)
    };
    let mut run = Run::new(sample(), &facts(&[]));
    run.machine.world.nanoseconds = 7;
    run.run(&[1]);
    assert_eq!((run.words(0, 0, 1), run.words(1, 0, 1)), (vec![8000 * 7], vec![1]));
    run.run(&[0]);
    assert_eq!((run.words(0, 0, 1), run.words(1, 0, 1)), (vec![8000 * 15], vec![2]));
    // Without long jumps it is refused, with the length.
    match compile(&sample().program, &facts(&[Feature::InstructionsV4]), None) {
        Err(refused) => {
            assert!(refused.to_string().contains("too long for this kernel's jumps"), "{refused}")
        }
        Ok(_) => panic!("it ought to be too long"),
    }
}

#[test]
fn a_number_is_found_among_others() {
    use super::samples::*;
    use crate::hir::{ExprKind, Intrinsic, Update};
    use crate::schema::{MapValue, ProgramKind, Storage};
    use crate::types::Type;

    let among = Intrinsic::PlaceAmong { numbers: vec![40, 3, 257] };
    let place = expr(Type::U32, ExprKind::Intrinsic(among, vec![argument(0)]));
    let sample = Sample::new(ProgramKind::Special, vec![aggregate(0, Some(place), Update::Count)]).map(
        Some(Type::U32),
        MapValue::Count,
        Storage::PerCpuHash,
        8,
    );
    let mut run = Run::new(sample, &facts(&[]));
    for number in [257, 40, 257, 3, 0, 39] {
        run.run(&[number]);
    }
    let found: Vec<(u32, u64)> = run
        .entries(0, 0)
        .into_iter()
        .map(|(key, counts)| (u32::from_le_bytes(key.try_into().unwrap()), counts[0]))
        .collect();
    assert_eq!(found, [(0, 1), (1, 1), (2, 2), (3, 2)]);
}

#[test]
fn an_entry_used_twice_is_looked_up_once() {
    use super::samples::*;
    use crate::hir::{BinaryOp, ExprKind, StatementKind, Update};
    use crate::schema::{MapValue, ProgramKind, Storage};
    use crate::types::Type;

    let entry = || get_map(0, Some(tid()), Type::U64);
    let delete = || {
        let key = Some(Box::new(tid()));
        statement(StatementKind::Expr(expr(
            Type::Bool,
            ExprKind::MapDelete { map: MapId(0), key, missing: None },
        )))
    };
    let sample = |body| {
        Sample::new(ProgramKind::Special, body)
            .map(Some(Type::U32), MapValue::Plain(Type::U64), Storage::Hash, 8)
            .map(None, MapValue::Sum { signed: false }, Storage::PerCpuScalar, 1)
            .local(Type::U32)
    };
    let lookups = |sample: &Sample| {
        let compiled = compile(&sample.program, &facts(&[]), None).unwrap();
        let lookup = bpf::insn::Instruction::Call { helper: bpf::helpers::id::MAP_LOOKUP_ELEM };
        compiled.image.programs[0].instructions.iter().filter(|have| **have == lookup).count()
    };
    let add = |value| aggregate(1, None, Update::Sum(value));
    // /@[tid]/ { @sum = sum(@[tid]); delete(@[tid]); }
    let pair = sample(vec![add(entry()), delete()]).when(binary(BinaryOp::Gt, entry(), int(0)));
    assert_eq!(lookups(&pair), 1);
    // What was looked up before a change does not stand after it, on whichever way the change was made.
    assert_eq!(lookups(&sample(vec![add(entry()), delete(), add(entry())])), 2);
    let changed_on_one_way = StatementKind::If {
        condition: binary(BinaryOp::Eq, nsecs(), int(3)),
        then: vec![set_map(0, Some(tid()), int(1))],
        otherwise: vec![],
    };
    assert_eq!(lookups(&sample(vec![add(entry()), statement(changed_on_one_way), add(entry())])), 2);
    // The variable of the key is another then.
    let by_variable = || get_map(0, Some(local(0, Type::U32)), Type::U64);
    let body = vec![set(0, tid()), add(by_variable()), add(by_variable()), set(0, pid()), add(by_variable())];
    assert_eq!(lookups(&sample(body)), 2);

    let body = vec![set_map(0, Some(tid()), int(40)), add(entry()), add(entry()), delete(), add(entry())];
    let mut run = Run::new(sample(body), &facts(&[]));
    run.run(&[]);
    assert_eq!((run.words(1, 0, 1), run.entries(0, 0).len()), (vec![80], 0));
}
