//! Programs and what they are checked to: small texts with their expected texts.

use std::collections::BTreeMap;

use bpf::facts::{Feature, SavedFacts};

use crate::environment::{
    DebugFunction, DebugParameter, Environment, ParameterPlace, Symbol, Unanswered, UsdtNote,
};
use crate::front::{Front, front};
use crate::glob::Pattern;
use crate::options::Options;

const SWITCH: &str = "name: sched_switch
ID: 1
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;
\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;
\tfield:__data_loc char[] name;\toffset:40;\tsize:4;\tsigned:0;

print fmt: \"\"
";

const OPENAT: &str = "name: sys_enter_openat
ID: 2
format:
\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;
\tfield:int dfd;\toffset:16;\tsize:8;\tsigned:0;
\tfield:const char * filename;\toffset:24;\tsize:8;\tsigned:0;
\tfield:umode_t mode;\toffset:40;\tsize:8;\tsigned:0;

print fmt: \"\"
";

const EXIT: &str = "name: sys_exit_openat
ID: 3
format:
\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;
\tfield:long ret;\toffset:16;\tsize:8;\tsigned:1;

print fmt: \"\"
";

fn facts() -> SavedFacts {
    let mut facts = SavedFacts::default();
    (facts.release, facts.machine, facts.possible_cpus) = ("6.1.0".into(), "x86_64".into(), 4);
    let formats = [
        ("sched:sched_switch", SWITCH),
        ("syscalls:sys_enter_openat", OPENAT),
        ("syscalls:sys_exit_openat", EXIT),
    ];
    facts.formats = formats.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect();
    facts.tracepoints = facts.formats.keys().cloned().collect();
    facts.functions = ["ext4:ext4_sync", "vfs_open", "vfs_read", "vfs_write"].map(String::from).into();
    facts.symbols = [("jiffies_64".to_string(), 0xffff_0000u64)].into();
    facts.syscalls = BTreeMap::from([(0, "read".to_string()), (257, "openat".to_string())]);
    facts.features = [Feature::Kprobes, Feature::PerfCookie, Feature::Fentry].into();
    facts
}

struct Files;

impl Environment for Files {
    fn binaries(&self, name: &str) -> Result<Vec<String>, Unanswered> {
        Ok(match name {
            "libc" => vec!["/lib/libc.so.6".into()],
            "/bin/app" => vec![name.into()],
            _ => Vec::new(),
        })
    }

    fn symbols(&self, _: &str, pattern: &Pattern, _: bool) -> Result<Vec<Symbol>, Unanswered> {
        let names = ["malloc", "mallopt", "free"];
        let found = names.iter().enumerate().filter(|(_, name)| pattern.matches(name));
        Ok(found
            .map(|(at, name)| Symbol {
                name: name.to_string(),
                demangled: None,
                address: 0x1000 * (at as u64 + 1),
                file_offset: 0x100 * (at as u64 + 1),
                size: 64,
            })
            .collect())
    }

    fn usdt(&self, _: &str, _: &Pattern, name: &Pattern) -> Result<Vec<UsdtNote>, Unanswered> {
        let note = UsdtNote {
            provider: "app".into(),
            name: "query".into(),
            file_offset: 0x40,
            semaphore_offset: 0x90,
            arguments: "8@%rdi -4@-8(%rbp) 4@$7".into(),
        };
        Ok([note].into_iter().filter(|note| name.matches(&note.name)).collect())
    }

    fn debug_function(&self, path: &str, function: &Symbol) -> Result<Option<DebugFunction>, Unanswered> {
        if path != "/bin/app" {
            return Err(Unanswered(format!("{path} has no debug information")));
        }
        let mut types = bpf::btf::BtfWriter::new();
        let long = types.int("unsigned long", 8, false);
        let int = types.int("int", 4, true);
        let member = |name, type_id, bit_offset| bpf::btf::BtfMember { name, type_id, bit_offset, bits: 0 };
        let point = types.record(
            "point",
            false,
            16,
            &[member("x", int, 0), member("y", int, 32), member("next", 5, 64)],
        );
        let to_point = types.pointer(point);
        let to_point_again = types.pointer(point);
        assert_eq!((to_point, to_point_again), (4, 5));
        let parameter = |name: &str, type_id, place| DebugParameter { name: name.into(), type_id, place };
        let register = |name: &str| ParameterPlace::Register(name.into());
        Ok((function.name == "malloc").then(|| DebugFunction {
            types: bpf::btf::Btf::new(types.finish()).unwrap(),
            parameters: vec![
                parameter("size", long, register("di")),
                parameter("where", to_point, register("r9")),
                parameter("flags", int, ParameterPlace::Constant(7)),
                parameter("seventh", int, ParameterPlace::Stack(8)),
                parameter("ratio", long, ParameterPlace::Unreadable("a number in a vector register".into())),
            ],
            result: to_point,
        }))
    }

    fn import(&self, path: &str) -> Result<String, Unanswered> {
        match path {
            "lib.bt" => Ok("macro twice(x) { x * 2 }\n".into()),
            _ => Err(Unanswered("there is no such file".into())),
        }
    }
}

fn run(text: &str) -> Front {
    let options = Options {
        environment: &Files,
        positional: vec!["42".into(), "word".into()],
        named: options_asked_for(text),
        ..Options::default()
    };
    front(text, &options, &facts())
}

/// An option that no program asks for is an error.
fn options_asked_for(text: &str) -> Vec<(String, Option<String>)> {
    let all = [("deep", None), ("level", Some("3"))];
    let asked = all.into_iter().filter(|(name, _)| text.contains(&format!("\"{name}\"")));
    asked.map(|(name, value)| (name.to_owned(), value.map(str::to_owned))).collect()
}

/// The text checks without findings to the expected text (blanks do not count).
fn check(text: &str, expected: &str) {
    let front = run(text);
    assert_eq!(front.report(), "", "{text}");
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(flat(&front.hir_text()), flat(expected), "{text}");
}

/// Statements of a begin probe check to the expected lines.
fn check_body(text: &str, expected: &str) {
    check(&format!("begin {{ {text} }}"), &format!("Special begin {{ {expected} }}"));
}

/// The first lines of the findings.
fn check_wrong(text: &str, expected: &[&str]) {
    let front = run(text);
    let report = front.report();
    let lines: Vec<&str> = report.lines().filter(|line| line.contains("]: ")).collect();
    assert_eq!(lines, expected, "{text}");
}

/// A single finding with its help.
fn check_help(text: &str, message: &str, help: &str) {
    let front = run(text);
    let report = front.report();
    assert!(report.contains(message) && report.contains(help), "{text}\n{report}");
}

#[test]
fn variables_take_the_type_that_holds_all_their_values() {
    check_body("$x = 1; $x = pid;", "let $x.0: uint64 $x.0 = 1 $x.0 = (uint64)Pid { initial: false }");
    check_body(
        "$x = pid; $y = $x;",
        "let $x.0: uint32 let $y.1: uint32 $x.0 = Pid { initial: false } $y.1 = $x.0",
    );
    check_body("$s = \"ab\"; $s = comm;", "let $s.0: string[16] $s.0 = \"ab\" $s.0 = Comm");
    check_body(
        "let $a : uint8 = 5; $b = $a + 1;",
        "let $a.0: uint8 let $b.1: uint64 $a.0 = 5 $b.1 = ((uint64)$a.0 + 1)",
    );
    check_body("$x = -1; $y = $x < 0;", "let $x.0: int64 let $y.1: bool $x.0 = -1 $y.1 = ($x.0 < 0)");
    check_body("$x = 1 << 4 | 3;", "let $x.0: int64 $x.0 = 19");
}

#[test]
fn keys_and_values_of_maps_are_unified_over_the_program() {
    check(
        "begin { @m[1, \"a\"] = 1; } interval:s:1 { @m[cpu, comm] = nsecs; }",
        "map @m[(uint64,string[16])]: uint64, Hash of 4096
         Special begin { @m[(1, \"a\")] = 1 }
         PerfEvent interval:s:1 { @m[((uint64)Cpu, Comm)] = Nsecs(Boot) }",
    );
    check(
        "begin { @ = count(); @x[1] = hist(5); @y = @x2; @x2 = 3; }",
        "map @: Count, PerCpuScalar of 1
         map @x[int64]: Hist { bits: 0 }, PerCpuHash of 4096
         map @y: int64, Scalar of 1
         map @x2: int64, Scalar of 1
         Special begin { @ <- count() @x[1] <- hist(5) @y = @x2 @x2 = 3 }",
    );
    check(
        "let @m = percpulruhash(7); begin { @m[1] = sum(2); if (@m[1] > 5) { delete(@m, 1); } }",
        "map @m[int64]: Sum { signed: false }, PerCpuLruHash of 7
         Special begin { @m[1] <- sum(2) if (total(@m[1]) > 5) { delete(@m[1]) } }",
    );
}

#[test]
fn arguments_of_tracepoints_are_read_from_their_record() {
    check(
        "t:sched:sched_switch { @[args.prev_comm] = args->prev_pid; print(args.name); print(args.prev_comm[1]); }",
        "map @[string[16]]: int32, Hash of 4096
         Tracepoint tracepoint:sched:sched_switch {
           @[(text string[16])ctx+8:int8[16]] = ctx+24:int32
           emit#0 print(dyn ctx+40:string[1024])
           emit#0 print(ctx+9:int8)
         }"
        .replace("emit#0 print(ctx+9:int8)", "emit#1 print(ctx+9:int8)")
        .as_str(),
    );
    // Arguments of system calls have eight bytes each, whatever their type.
    check(
        "tracepoint:syscalls:sys_enter_openat { @[args.dfd] = str(args.filename); @m = args.mode; }",
        "map @[int32]: string[1024], Hash of 4096
         map @m: uint16, Scalar of 1
         Tracepoint tracepoint:syscalls:sys_enter_openat {
           @[ctx+16:int32] = Str(ctx+24:int8 *@user)
           @m = ctx+40:uint16
         }",
    );
    check(
        "tracepoint:syscalls:sys_e*_openat { @[probe]++ }",
        "map @[string[37]]: int64, Hash of 4096
         Tracepoint tracepoint:syscalls:sys_enter_openat, tracepoint:syscalls:sys_exit_openat {
           post(@[Choose([[116, 114, 97, 99, 101, 112, 111, 105, 110, 116, 58,…(TargetIndex)] += 1)
         }",
    );
}

#[test]
fn functions_of_the_kernel_and_of_processes() {
    check(
        "kprobe:vfs_read /arg2 < 16/ { @[func] = count(); } kretprobe:vfs_* /retval < 0/ { @e[func] = count(); }",
        "map @[string[9]]: Count, PerCpuHash of 4096
         map @e[ksym_t]: Count, PerCpuHash of 4096
         Kprobe kprobe:vfs_read /(Register { offset: 96 } < 16)/ { @[\"vfs_read\"] <- count() }
         Kprobe kretprobe:vfs_open, kretprobe:vfs_read, kretprobe:vfs_write /((int64)Register { offset: 80 } < 0)/ {
           @e[FunctionAddress] <- count()
         }",
    );
    check(
        "uprobe:libc:mall* { @[arg0] = str(arg1); } u:/bin/app:malloc { @s = args.size; }",
        "map @[uint64]: string[1024], Hash of 4096
         map @s: uint64, Scalar of 1
         Kprobe uprobe:/lib/libc.so.6:malloc, uprobe:/lib/libc.so.6:mallopt {
           @[Register { offset: 112 }] = Str((void *@user)Register { offset: 104 })
         }
         Kprobe uprobe:/bin/app:malloc { @s = Register { offset: 112 } }",
    );
    check(
        "usdt:/bin/app:query { print((arg0, arg1, arg2)); }",
        "Kprobe usdt:/bin/app:app:query {
           emit#0 print((usdt[UsdtLocation { bytes: 8, signed: false, kind: Register { offset: 112 } }],
             usdt[UsdtLocation { bytes: 4, signed: true, kind: Memory { base: Some(32), displacement: -8, index: None } }], 7))
         }",
    );
    check(
        "kprobe:vfs_read { @a = arg7; }",
        "map @a: uint64, Scalar of 1
         Kprobe kprobe:vfs_read { @a = StackArgument { offset: 16, sp_offset: 152, user: false } }",
    );
}

#[test]
fn structs_of_the_preamble_are_followed() {
    let preamble =
        "struct in { int a; char name[8]; unsigned x : 3; unsigned y : 5; struct in *next; int list[4]; };\n";
    let checked = |body: &str, expected: &str| {
        check(
            &format!("{preamble}kprobe:vfs_read {{ $p = (struct in *)arg0; {body} }}"),
            &format!("Kprobe kprobe:vfs_read {{ let $p.0: struct in *@kernel {expected} }}"),
        );
    };
    let first = "$p.0 = (struct in *@kernel)Register { offset: 112 }";
    checked(
        "print($p->next.a);",
        &format!("{first} emit#0 print(kernel[kernel[$p.0]+16:struct in *@kernel]+0:int32)"),
    );
    checked("print($p.y);", &format!("{first} emit#0 print(kernel[$p.0]+12:3+5:uint32)"));
    checked("print($p.name);", &format!("{first} emit#0 print((text string[9])kernel[$p.0]+4:int8[8])"));
    checked(
        "print($p.list[arg1]);",
        &format!("{first} emit#0 print(kernel[$p.0]+24+Register {{ offset: 104 }}*4:int32)"),
    );
    checked("print(($p + 1)->a);", &format!("{first} emit#0 print(kernel[($p.0 + 40)]+0:int32)"));
    checked(
        "$s = *$p; print($s.a);",
        &format!(
            "let $s.1: struct in {first} $s.1 = kernel[$p.0]+0:struct in emit#0 print(in[$s.1]+0:int32)"
        ),
    );
    checked(
        "print(offsetof(struct in, list)); print(sizeof(struct in));",
        &format!("{first} emit#0 print(24) emit#1 print(40)"),
    );
    checked(
        "print(*uptr($p.next.next));",
        &format!(
            "{first} emit#0 print(user[kernel[kernel[$p.0]+16:struct in *@kernel]+16:struct in *@user]+0:struct in)"
        ),
    );
}

#[test]
fn loops_conditions_and_functions() {
    check(
        "fn add($a : int64, $b : int64) : int64 { $a + $b } begin { for ($i : 0..3) { @s = add($i, 1); } }",
        "map @s: int64, Scalar of 1
         Special begin { let $i.0: int64 for $i.0 in 0..3 { @s = fn0($i.0, 1) } }
         fn0 add(2): int64 { let $a.0: int64 let $b.1: int64 return ($a.0 + $b.1) }",
    );
    check(
        "begin { @m[1] = \"x\"; for ($kv : @m) { print($kv.1); break; } unroll(2) { @n++; } }",
        "map @m[int64]: string[2], Hash of 4096
         map @n: int64, Scalar of 1
         Special begin {
           let $kv.0: (int64,string[2])
           @m[1] = \"x\"
           for $kv.0 in @m { emit#0 print(in[$kv.0]+8:string[2]) break }
           unroll 2 { post(@n += 1) }
         }",
    );
    check_body(
        "$a = if pid > 1 { 1 } else { 2 }; $a > 1 ? print(\"y\") : print(3);",
        "let $a.0: int64 $a.0 = (((uint64)Pid { initial: false } > 1) ? 1 : 2)
         if ($a.0 > 1) { emit#0 print(\"y\") } else { emit#1 print(3) }",
    );
}

#[test]
fn macros_are_hygienic_and_may_be_overloaded() {
    check_body_with(
        "macro inc($x, n) { $x += n; } macro two(e) { let $t = e; $t + $t }",
        "$v = 1; inc($v, 2); $w = two($v + 1);",
        "let $v.0: int64 let $w.2: int64 let $t.1: int64",
    );
    check_body_with(
        "macro which($x) { \"variable\" } macro which(x) { \"value\" }",
        "$v = 1; print(which($v)); print(which(1));",
        "emit#0 print(\"variable\") emit#1 print(\"value\")",
    );
    check_wrong(
        "macro m() { @x++; } begin { m(); }",
        &["stdin:1:13-15: error[L0212]: the macro m uses @x, which it was not given"],
    );
    check_wrong(
        "macro m($x) { $x++; } begin { m(1); }",
        &["stdin:1:33: error[L0409]: ++ and -- change a $variable or a @map"],
    );
    check_wrong(
        "macro m(@x) { @x++; } begin { m(1); }",
        &["stdin:1:31-35: error[L0212]: the macro 'm' needs a map for @x"],
    );
    check_body_with("macro next($x) { $x + 1 }", "print(next(1 + 1));", "emit#0 print(3)");
    check_wrong(
        "macro m(x) { m(x) } begin { m(1); }",
        &["stdin:1:14-18: error[L0005]: the macro 'm' calls itself, or calls go too deep"],
    );
}

fn check_body_with(preamble: &str, body: &str, expected: &str) {
    let front = run(&format!("{preamble} begin {{ {body} }}"));
    assert_eq!(front.report(), "");
    let text = front.hir_text().split_whitespace().collect::<Vec<_>>().join(" ");
    for part in expected.split(" let ") {
        assert!(text.contains(part.trim()), "{body}\n{text}");
    }
}

#[test]
fn parameters_and_options_are_constants() {
    check_body(
        "print($1 + 1); print($2); print($#); print($3);",
        "emit#0 print(43) emit#1 print(\"word\") emit#2 print(2) emit#3 print(0)",
    );
    check_body(
        "printf(\"%s %d\", str($1), $1); print(str($2 + 1)); print($1 == comm);",
        "emit#0 printf(\"42\", 42) emit#1 print(\"ord\") emit#2 print((\"42\" == Comm))",
    );
    check_body(
        "print(getopt(\"deep\")); print(getopt(\"level\", 1)); print(getopt(\"none\", \"d\"));",
        "emit#0 print(true) emit#1 print(3) emit#2 print(\"d\")",
    );
    check(
        "begin { if comptime (getopt(\"deep\")) { @a = 1; } else { @a = \"x\"; } }",
        "map @a: int64, Scalar of 1 Special begin { block { @a = 1 } }",
    );
}

#[test]
fn records_go_together_by_the_names_of_their_fields() {
    check_body(
        "$r = (a=1, b=\"x\"); $r = (b=\"yz\", a=2); print($r.b);",
        "let $r.0: (a=int64,b=string[3]) $r.0 = (1, \"x\") $r.0 = (2, \"yz\") emit#0 print(in[$r.0]+8:string[3])",
    );
    check_wrong(
        "begin { $r = (a=1); $r = (b=1,); }",
        &["stdin:1:21-32: error[L0401]: $r is a (a=int64) and cannot hold a (b=int64)"],
    );
}

#[test]
fn imports_and_defines() {
    check("import \"lib.bt\"; begin { print(twice(4)); }", "Special begin { emit#0 print(8) }");
    check(
        "#define LIMIT (1 << 3)\n#define MAX(a, b) ((a) > (b) ? (a) : (b))\nbegin { print(MAX(LIMIT, 3)); }",
        "Special begin { emit#0 print(8) }",
    );
    check_wrong(
        "import \"no.bt\"; begin { }",
        &["stdin:1:8-15: error[L0008]: 'no.bt' cannot be imported: there is no such file"],
    );
}

#[test]
fn constants_come_from_headers_enums_and_the_kernel() {
    check(
        "enum e { A, B = 5 }; begin { $x = B; print($x); print(AF_INET6); print(__NR_openat); print(-ENOENT); }",
        "Special begin { let $x.0: enum e $x.0 = 5 emit#0 print($x.0) emit#1 print(10) emit#2 print(257) emit#3 print(-2) }",
    );
    check_body(
        "print(kaddr(\"jiffies_64\")); print(ncpus); print(pton(\"127.0.0.1\"));",
        "emit#0 print(4294901760) emit#1 print(4) emit#2 print(bytes[127, 0, 0, 1])",
    );
}

#[test]
fn scratch_variables_belong_to_blocks_and_older_programs_still_run() {
    let front = run("begin { if (pid) { $x = 1; } else { $x = 2; } print($x); }");
    assert!(front.hir.is_some(), "{}", front.report());
    assert!(front.report().contains("warning[L0309]: $x is used outside of the block"), "{}", front.report());
    check_body(
        "if (pid) { $x = 1; } else { $x = \"s\"; }",
        "let $x.0: int64 let $x.1: string[2] if (truth bool)Pid { initial: false } { $x.0 = 1 } else { $x.1 = \"s\" }",
    );
}

#[test]
fn misspelt_names_get_the_nearest_one() {
    check_help(
        "tracepoint:sched:sched_swich { }",
        "error[L0103]: there is no tracepoint sched:sched_swich",
        "did you mean 'sched:sched_switch'?",
    );
    check_help(
        "kprobe:vfs_raed { }",
        "error[L0103]: there is no kernel function vfs_raed",
        "did you mean 'vfs_read'",
    );
    check_help("kprob:f { }", "error[L0101]: there is no type of probe 'kprob'", "did you mean 'kprobe'");
    check_help("begin { prinft(\"x\"); }", "error[L0301]: there is no function 'prinft'", "'printf'");
    check_help("begin { print(com); }", "error[L0202]: unknown name 'com'", "did you mean 'comm'");
    check_help(
        "begin { $count = 1; print($cuont); }",
        "error[L0201]: $cuont has no value here",
        "did you mean '$count'?",
    );
    check_help(
        "begin { @start[1] = 1; print(@strat[1]); }",
        "error[L0204]: @strat is never assigned",
        "did you mean '@start'?",
    );
    check_help(
        "struct s { int first; };\nkprobe:vfs_read { print(((struct s *)arg0)->frist); }",
        "error[L0205]: struct s has no field 'frist'",
        "did you mean 'first'?",
    );
    check_help(
        "tracepoint:sched:sched_switch { print(args.prev_pit); }",
        "error[L0205]: tracepoint:sched:sched_switch has no argument 'prev_pit'",
        "did you mean 'prev_pid'",
    );
    check_help(
        "config = { max_strln = 1 } begin { }",
        "error[L0207]: there is no setting 'max_strln'",
        "did you mean 'max_strlen'?",
    );
    check_help(
        "software:page-fault:1 { }",
        "error[L0103]: there is no software event 'page-fault'",
        "did you mean 'page-faults'",
    );
    check_help(
        "uprobe:libc:maloc { }",
        "error[L0103]: there is no function maloc in libc",
        "did you mean 'malloc'",
    );
    check_help(
        "uprobe:/no/such:f { }",
        "error[L0103]: there is no file or library '/no/such'",
        "a library's name",
    );
}

#[test]
fn types_that_do_not_go_together_are_said_with_both_places() {
    check_help(
        "begin { $x = 1; $x = \"a\"; }",
        "error[L0401]: $x is a int64 and cannot hold a string[2]",
        "note: stdin:1:9-11: its type comes from here",
    );
    check_help(
        "begin { @x = 1; } end { @x = count(); }",
        "error[L0401]: @x holds a int64 and cannot take a count_t",
        "note: stdin:1:9-11",
    );
    check_help(
        "begin { @x[1] = 1; @x[\"a\"] = 2; }",
        "error[L0410]: @x has keys of type int64 elsewhere",
        "with a key of type string[2]",
    );
    check_help("begin { @x[1] = 1; print(@x[1, 2]); }", "error[L0410]", "with a key of type (int64,int64)");
    check_wrong(
        "begin { $x = comm + 1; }",
        &["stdin:1:14-22: error[L0408]: '+' does not work on a string[16] and a int64"],
    );
    check_wrong(
        "begin { $x = -comm; }",
        &["stdin:1:14-19: error[L0402]: - needs an integer, and this is a string[16]"],
    );
    check_wrong(
        "begin { $x = *comm; }",
        &["stdin:1:14-19: error[L0403]: a string[16] is no pointer, so it cannot be followed"],
    );
    check_wrong(
        "begin { $x = (1, 2); print($x.2); }",
        &["stdin:1:31: error[L0205]: this tuple has 2 fields, counted from 0"],
    );
    check_wrong(
        "begin { $c = (uint64)1; $d = (int64)-1; $x = $c; $x = $d; }",
        &["stdin:1:50-57: error[L0401]: $x is a uint64 and cannot hold a int64"],
    );
    check_wrong(
        "begin { let $a : uint8 = pid; }",
        &["stdin:1:9-29: error[L0401]: $a is a uint8 and cannot hold a uint32"],
    );
    check_wrong(
        "begin { print(pid ? 1 : \"a\"); }",
        &["stdin:1:15-28: error[L0401]: the two sides have different types: int64 and string[2]"],
    );
}

#[test]
fn calls_are_checked_against_their_rows() {
    check_wrong(
        "begin { printf(\"%d %s\\n\", 1); }",
        &["stdin:1:9-29: error[L0305]: the format has 2 conversions and 1 argument is given"],
    );
    check_help(
        "begin { printf(\"%d\\n\", comm); }",
        "error[L0305]: this conversion prints integers",
        "help: a string[16] prints with %s",
    );
    check_help(
        "kprobe:vfs_read { printf(\"%s\\n\", arg0); }",
        "error[L0305]: %s prints strings, and this is a uint64",
        "%d, %u or %x",
    );
    check_help("begin { printf(\"%y\"); }", "error[L0305]: '%y' is not a conversion", "%%");
    check_help(
        "begin { str(); }",
        "error[L0302]: str() takes 1 to 2 arguments, and 0 are given",
        "it is string str(char *data",
    );
    check_help(
        "begin { $x = count(); }",
        "error[L0307]: count() is kept in a map, not in a variable",
        "write @x = count(…)",
    );
    check_help("begin { system(\"ls\"); }", "error[L0304]", "--unsafe");
    check_wrong(
        "begin { @ = lhist(1, 10, 0, 1); }",
        &["stdin:1:22-24: error[L0302]: the lower bound is above the upper one"],
    );
    check_wrong("begin { @ = hist(1, 9); }", &["stdin:1:21: error[L0302]: hist() takes 0 to 5 bits"]);
    check_wrong(
        "begin { print(args.x); }",
        &["stdin:1:15-19: error[L0303]: the arguments of this begin probe are not known by name"],
    );
    check_wrong(
        "begin { print(retval); }",
        &["stdin:1:15-21: error[L0303]: there is no return value in a begin probe"],
    );
    check_wrong(
        "interval:s:1 { print(arg0); }",
        &["stdin:1:22-26: error[L0303]: there is no arg0 in an interval probe"],
    );
    check_wrong("begin { break; }", &["stdin:1:9-14: error[L0417]: break is not within a loop"]);
    check_wrong("begin { $x = 1 / 0; }", &["stdin:1:14-19: error[L0413]: this divides by zero"]);
    check_wrong(
        "begin { for ($i : @x) { } @x = 1; }",
        &["stdin:1:19-21: error[L0412]: @x has no keys to loop over"],
    );
    check_wrong(
        "begin { fail(\"no %d\", 3); if (0) { fail(\"dead\"); } }",
        &["stdin:1:9-25: error[L0310]: no 3"],
    );
}

#[test]
fn warnings_do_not_stop_a_program() {
    let warned = |text: &str, expected: &str| {
        let front = run(text);
        assert!(front.hir.is_some(), "{}", front.report());
        assert!(front.report().contains(expected), "{text}\n{}", front.report());
    };
    warned("begin { 1 + pid; }", "warning[L0415]: the value of (1 + pid) is not used");
    warned("begin { return; print(1); }", "warning[L0213]: this is never reached");
    warned("let @m = hash(10); begin { }", "warning[L0210]: @m is declared and not used");
    warned(
        "kprobe:vfs_read,kprobe:vfs_gone { }",
        "warning[L0103]: there is no kernel function vfs_gone that can be probed; the other",
    );
}

#[test]
fn probes_have_to_be_whole() {
    check_wrong("tracepoint:sched { }", &["stdin:1:1-17: error[L0102]: this tracepoint probe lacks a part"]);
    check_wrong("interval:s:0 { }", &["stdin:1:12: error[L0102]: the period cannot be 0"]);
    check_wrong(
        "profile:lightyears:3 { }",
        &["stdin:1:9-19: error[L0102]: 'lightyears' is not a unit of time"],
    );
    check_wrong(
        "watchpoint:0x1001:8:w { }",
        &["stdin:1:12-18: error[L0102]: the address is not aligned to 8 bytes"],
    );
    check_wrong("watchpoint:0x1000:8:q { }", &["stdin:1:21: error[L0102]: the mode is made of r, w and x"]);
    check_wrong(
        "",
        &["stdin:1:1: error[L0106]: there is no probe in this program, so there is nothing to do"],
    );
    check_wrong(
        "config = { missing_probes = \"error\" } kprobe:vfs_read,kprobe:gone { }",
        &["stdin:1:55-66: error[L0103]: there is no kernel function gone that can be probed"],
    );
    check_wrong("config = { missing_probes = \"ignore\" } kprobe:gone { }", &[]);
}

#[test]
fn several_findings_come_from_one_run() {
    check_wrong(
        "begin { $x = nope; prinft(1); @y[1] = comm + 1; }\nkprobe:vfs_read { print(arg99x); }",
        &[
            "stdin:1:14-18: error[L0202]: unknown name 'nope'",
            "stdin:1:20-26: error[L0301]: there is no function 'prinft'",
            "stdin:1:39-47: error[L0408]: '+' does not work on a string[16] and a int64",
            "stdin:2:25-31: error[L0202]: unknown name 'arg99x'",
        ],
    );
}

#[test]
fn arguments_of_functions_are_known_by_debug_information() {
    check(
        "u:/bin/app:malloc { @a = args.where->x; @b = args.flags; @c = args.seventh; }",
        "map @a: int32, Scalar of 1
         map @b: int32, Scalar of 1
         map @c: int32, Scalar of 1
         Kprobe uprobe:/bin/app:malloc {
           @a = user[(struct point *@user)Register { offset: 64 }]+0:int32
           @b = 7
           @c = (int32)StackArgument { offset: 8, sp_offset: 152, user: true } }",
    );
    check_wrong(
        "u:/bin/app:malloc { @a = args.ratio; }",
        &["stdin:1:31-36: error[L0303]: the argument ratio cannot be read: a number in a vector register"],
    );
}
