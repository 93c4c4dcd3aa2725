//! The front end as a whole: hostile texts do not panic it, random well-typed programs pass
//! it, large programs are quick, and what is understood prints as a text that reads the same.

use std::time::{Duration, Instant};

use bpf::facts::{Feature, SavedFacts};
use lang::front::front;
use lang::generate::{Random, Shape, program};
use lang::options::Options;

fn facts() -> SavedFacts {
    let mut facts = SavedFacts::default();
    (facts.release, facts.machine, facts.possible_cpus) = ("6.12.0".into(), "x86_64".into(), 2);
    facts.tracepoints = vec!["sched:sched_switch".into(), "syscalls:sys_enter_openat".into()];
    facts.functions = vec!["vfs_read".into()];
    facts.features = [
        Feature::Kprobes,
        Feature::TpBtf,
        Feature::BpfLoop,
        Feature::ForEachMapElem,
        Feature::InstructionsV4,
    ]
    .into();
    facts.helpers = bpf::ProgramType::ALL.map(|kind| (kind, (1..=211).collect())).into();
    facts
}

/// Texts that touch every part of the grammar; mutations of them reach deep.
const SEEDS: &[&str] = &[
    "begin { printf(\"%d %s\\n\", pid, comm); @x[tid, comm] = count(); exit(); }",
    "kprobe:vfs_read /pid == 1 && arg2 > 4096/ { @[func] = hist(arg2); } kretprobe:vfs_read { @r = lhist(retval, 0, 10, 1); }",
    "tracepoint:sched:sched_switch { $p = args.prev_pid; if ($p > 1) { @[$p]++; } else if ($p == 0) { delete(@, 0); } }",
    "struct s { int a : 3; char b[16]; union { long c; void *d; }; struct s *n; } __attribute__((packed));\nbegin { $s = (struct s *)1; print($s->n->b); }",
    "#define A(x) ((x) + 1)\n#ifdef A\nconfig = { max_strlen = 64; stack_mode = perf }\n#endif\nlet @m = lruhash(10);\nbegin { @m[A(1)] = 1; }",
    "macro f($a, b, @c) { $a += b; @c[b] = $a; $a } begin { $x = 1; print(f($x, 2, @m)); for ($kv : @m) { print($kv.0); } }",
    "fn add($a : int64, $b : int64) : int64 { return $a + $b; } begin { for ($i : 0..10) { @ = sum(add($i, 1)); } }",
    "begin { $t = (a=1, b=\"x\", c=(1, 2)); print($t.c.1); $y = $t.a ? { let $q = 2; $q } : if true { 3 } else { 4 }; }",
    "interval:1s { print(@x, 5, 10); clear(@x); @x[kstack(perf, 3), ustack] = tseries(1, 100ms, 5, \"max\"); time(\"%H\"); }",
    "profile:hz:99 { @[str($1)] = stats(nsecs - 1e6); unroll(3) { @c++; } while (@c < 5) { if (1) { break; } continue; } }",
    "usdt:/bin/x:a:b { join(arg0); } uprobe:libc:malloc+8 { @ = (uint8[4])1234; } watchpoint:0x1000:8:rw { } iter:task { }",
    "$2 { } BEG$1 { } import \"x.bt\"; begin { print($#); print(getopt(\"a\", 1)); print(typeinfo($1)); if comptime (is_str(\"a\")) { fail(\"x\"); } }",
];

/// `LOTSE_LONG=N` makes the random tests N times as long.
fn longer(usual: u64) -> u64 {
    let times = std::env::var("LOTSE_LONG").ok().and_then(|times| times.parse::<u64>().ok());
    usual * times.unwrap_or(1)
}

/// Reads and checks any bytes; it may find what it likes, and must come back.
fn fuzz_one(bytes: &[u8], facts: &SavedFacts) {
    let text = String::from_utf8_lossy(bytes);
    let options = Options { positional: vec!["7".into(), "i:s:1".into()], ..Options::default() };
    let front = front(&text, &options, facts);
    let _ = front.report();
    assert_eq!(front.hir.is_some(), !front.has_errors(), "{text}");
}

fn mutate(random: &mut Random, seeds: &[&str]) -> Vec<u8> {
    let mut bytes = random.pick(seeds).as_bytes().to_vec();
    for _ in 0..=random.below(6) {
        let at = random.below(bytes.len() as u64 + 1) as usize;
        match random.below(6) {
            0 if at < bytes.len() => bytes[at] = (random.number() & 0xff) as u8,
            1 if at < bytes.len() => {
                bytes.remove(at);
            }
            2 => {
                let sign = random.pick(&[
                    "{", "}", "(", ")", "[", "\"", "/", "*", "@", "$", "#", ":", ";", "\n", "0x", "1e", "->",
                    "..", "é",
                ]);
                bytes.splice(at..at, sign.bytes());
            }
            3 => {
                let other = random.pick(seeds).as_bytes();
                let from = random.below(other.len() as u64) as usize;
                let to = (from + random.below(40) as usize).min(other.len());
                bytes.splice(at..at, other[from..to].iter().copied());
            }
            4 => bytes.truncate(at),
            _ => {
                let to = (at + random.below(20) as usize).min(bytes.len());
                bytes.drain(at.min(to)..to);
            }
        }
    }
    bytes
}

#[test]
fn mutated_programs_and_random_bytes_never_panic() {
    let facts = facts();
    for seed in SEEDS {
        fuzz_one(seed.as_bytes(), &facts);
    }
    let mut random = Random::new(1);
    let start = Instant::now();
    let mut count = 0;
    while start.elapsed() < Duration::from_millis(longer(1500)) {
        let bytes = if count % 8 == 0 {
            (0..random.below(200)).map(|_| (random.number() & 0x7f) as u8).collect()
        } else {
            mutate(&mut random, SEEDS)
        };
        fuzz_one(&bytes, &facts);
        count += 1;
    }
    assert!(count > 100, "only {count} texts in 1.5 s");
}

#[test]
fn deep_and_long_texts_come_back() {
    let facts = facts();
    for part in ["(", "{", "!", "-", "*", "a(", "$x.", "if (1) { ", "((uint8)", "@x[", "1+", "(1,"] {
        let text = format!("begin {{ $x = {} }}", part.repeat(20_000));
        fuzz_one(text.as_bytes(), &facts);
    }
    let nested = format!("struct a {{ {} }};", "struct { ".repeat(5_000));
    fuzz_one(nested.as_bytes(), &facts);
}

#[test]
fn random_well_typed_programs_pass_the_checker() {
    let facts = facts();
    for seed in 0..longer(400) {
        let text = program(seed, &Shape::default());
        assert_eq!(text, program(seed, &Shape::default()));
        let front = front(&text, &Options::default(), &facts);
        let Some(hir) = &front.hir else { panic!("seed {seed}\n{text}\n{}", front.report()) };
        if let Err(why) = lang::lower::compile(hir, &facts, Some(&front.source)) {
            panic!("seed {seed}\n{text}\n{why:?}");
        }
    }
}

#[test]
fn what_is_understood_prints_as_a_text_that_reads_the_same() {
    let facts = facts();
    for seed in 0..100 {
        let text = program(seed, &Shape::default());
        let first = front(&text, &Options::default(), &facts);
        let second = front(&first.ast_text(), &Options::default(), &facts);
        assert_eq!(first.ast_text(), second.ast_text(), "seed {seed}");
        assert_eq!(first.hir_text(), second.hir_text(), "seed {seed}");
    }
}

#[test]
fn a_program_of_2000_lines_is_checked_within_a_second() {
    let facts = facts();
    let mut text = String::from("begin {\n");
    for line in 0..2000 {
        text.push_str(&format!("  @m[{line}, comm] = $a{} + {line} * pid;\n", line));
        text = text.replace(&format!("$a{line} "), &format!("{} ", line % 7));
    }
    text.push_str("}\n");
    let start = Instant::now();
    let front = front(&text, &Options::default(), &facts);
    let time = start.elapsed();
    assert!(front.hir.is_some(), "{}", front.report());
    // A loose bound for busy machines and unoptimised code; it takes milliseconds.
    assert!(time < Duration::from_secs(1), "{time:?}");
}
