//! Each documented function of the language, in the order of bpftrace's documentation of its standard
//! library, with the output that the documentation gives it; then the options of the command line.
//! Functions of probe contexts that only other kernels have are in `trace_on_kernels.rs`.

use std::process::{Command, Output};

fn trace(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lotse")).arg("trace").args(arguments).output().unwrap()
}

fn cannot_trace(test: &str) -> bool {
    if kernel::facts::LiveFacts::new().tracefs().is_some() {
        return false;
    }
    testkit::skip::note(test, "tracing is not allowed here");
    true
}

/// Output and messages, without blank lines.
fn said(arguments: &[&str]) -> String {
    let output = trace(arguments);
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn check(arguments: &[&str], expected: &str) {
    assert_eq!(said(&[&["-q"], arguments].concat()), expected, "{arguments:?}");
}

/// (program, what it says). Programs end by themselves.
const PROGRAMS: &[(&str, &str)] = &[
    ("begin { assert(1 == 1, \"no\"); print(1); exit(); }", "1"),
    (
        "begin { assert(1 == 2, \"no\"); }",
        "stdin:1:9-29: ERROR: assert failed: no\nbegin { assert(1 == 2, \"no\"); }\n        ~~~~~~~~~~~~~~~~~~~~",
    ),
    ("begin { assert_str(\"x\"); assert_str(comm); print(1); }", "1"),
    (
        "begin { print((bswap((uint8)0x12), bswap((uint16)0x1234), bswap((uint32)0x12345678))); \
         printf(\"%llx %x %x\\n\", bswap(0x1122334455667788), bswap((int16)0x1234), bswap(bswap(0x1234))); }",
        "(18, 13330, 2018915346)\n8877665544332211 3412 1234",
    ),
    (
        "begin { printf(\"%r|%rx|%rh\\n\", buf(\"Hi\\x01\", 3), buf(\"Hi\", 2), buf(\"Hi\\0\", 3)); }",
        "Hi\\x01|\\x48\\x69|48 69 00",
    ),
    (
        "begin { @[buf(\"ok_key\", 8), 1] = 1; @v = buf(\"ok_value\", 8); }",
        "@[ok_key\\x00\\x00, 1]: 1\n@v: ok_value",
    ),
    ("begin { cat(\"/%s/sys/kernel/%s\", \"proc\", \"ostype\"); }", "Linux"),
    ("config = { max_cat_bytes = 3 } begin { cat(\"/proc/sys/kernel/ostype\"); }", "Lin"),
    (
        "begin { cat(\"/does/not/exist/%d\", 3); }",
        "stdin:1:9-37: WARNING: cannot read /does/not/exist/3: No such file or directory (os error 2)\n\
         begin { cat(\"/does/not/exist/%d\", 3); }\n        ~~~~~~~~~~~~~~~~~~~~~~~~~~~~",
    ),
    ("begin { print(cgroup == cgroup()); print(cgroupid(\"/sys/fs/cgroup\") > 0); }", "true\ntrue"),
    ("begin { @a[1] = 1; @b = 2; @c = hist(1); clear(@a); clear(@b); clear(@c); }", ""),
    (
        "begin { print(comm); print(comm()); print(comm(pid)); printf(\"[%s]\\n\", comm(4194303)); }",
        "lotse\nlotse\nlotse\n[]",
    ),
    ("begin { print(has_cpid); print(cpu() < ncpus()); print(cpu < ncpus); }", "false\ntrue\ntrue"),
    ("begin { print(curtask.comm); print(curtask()->pid == pid(init)); }", "lotse\ntrue"),
    ("begin { print(default_str_length()); }", "1024"),
    (
        "begin { @a[1] = 1; @b[3, \"x\"] = 2; print(delete(@a, 1)); print(delete(@a, 2)); delete(@b, (3, \"x\")); \
         @s = 1; delete(@s); @c[5] = 1; delete(@c[5]); print(len(@b)); }",
        "true\nfalse\n0",
    ),
    ("begin { print(elapsed < 100s); print(elapsed() > 0); }", "true\ntrue"),
    (
        "begin { errorf(\"Something bad with args: %d, %s\", 10, \"arg2\"); }",
        "stdin:1:9-62: ERROR: Something bad with args: 10, arg2\n\
         begin { errorf(\"Something bad with args: %d, %s\", 10, \"arg2\"); }\n        \
         ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~",
    ),
    (
        "begin { warnf(\"Something kinda bad with args: %d, %s\", 10, \"arg2\"); }",
        "stdin:1:9-67: WARNING: Something kinda bad with args: 10, arg2\n\
         begin { warnf(\"Something kinda bad with args: %d, %s\", 10, \"arg2\"); }\n        \
         ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~",
    ),
    (
        "begin { @map[2] = (1, \"hello\"); let $val; if (find(@map, 2, $val)) { print($val); } clear(@map); }",
        "(1, hello)",
    ),
    (
        "begin { print(globmatch(\"hello.c\", \"*.c\")); print(globmatch(\"a/b\", \"?/[a-c]\")); \
         print(globmatch(\"a/b\", \"?/[!a-c]\")); print(globmatch(\"x9y\", \"*[0-9]?\")); print(globmatch(\"ab\", \"a\")); \
         print(globmatch(comm, \"l[n-p]ts[!f]\")); print(globmatch(\"[x\", \"[x\")); }",
        "true\ntrue\nfalse\ntrue\nfalse\ntrue\ntrue",
    ),
    (
        "begin { @m[1,2] = 1; print(has_key(@m, (1,3))); print(has_key(@m, (1,2))); clear(@m); }",
        "false\ntrue",
    ),
    (
        "begin { print((is_array((uint8[4])1), is_integer(3), is_integer(\"x\"), is_literal(1), is_ptr(curtask), \
         is_str(\"s\"), is_unsigned_integer((uint8)1), is_unsigned_integer(-1))); }",
        "(true, true, false, true, true, true, true, false)",
    ),
    ("begin { $j = jiffies; print(jiffies() - $j < 1000); }", "true"),
    (
        "begin { print((kfunc_exist(\"bpf_task_acquire\"), kfunc_exist(\"no_such_kfunc\"))); }",
        "(true, false)",
    ),
    (
        "begin { print(ksym(kaddr(\"vfs_read\"))); printf(\"%s\\n\", ksym(kaddr(\"vfs_read\") + 1)); }",
        "vfs_read\nvfs_read",
    ),
    ("begin { @m[1] = 1; @m[3] = 2; print(len(@m)); clear(@m); print(len(ustack(2)) <= 2); }", "2\ntrue"),
    (
        "begin { $x = (uint64)0xbb2e084dc018; print(macaddr((int8 *)&$x)); @[macaddr(&$x)] = 1; }",
        "18:C0:4D:08:2E:BB\n@[18:C0:4D:08:2E:BB]: 1",
    ),
    ("begin { print(memcmp(\"abc\", \"abd\", 2)); print(memcmp(\"abc\", \"abd\", 3) < 0); }", "0\ntrue"),
    (
        "begin { print(nsecs(monotonic) <= nsecs(boot)); print(nsecs(tai) > nsecs()); print(nsecs(sw_tai) > nsecs); }",
        "true\ntrue\ntrue",
    ),
    (
        "begin { print((ntop(0x0100007f), ntop((uint8[4])0x0100007f), ntop(2, 1), ntop(10, pton(\"::1\")), ntop(pton(\"ff02::1\")))); }",
        "(127.0.0.1, 127.0.0.1, 1.0.0.0, ::1, ff02::1)",
    ),
    ("begin { print((uint32)pton(\"127.0.0.1\") == 0x0100007f); }", "true"),
    ("begin { print(numaid == numaid()); }", "true"),
    (
        "struct Foo { int z; struct { struct { struct { int d; } c; } b; } a; } begin { print(offsetof(struct Foo, a.b.c.d)); \
         print(offsetof(curtask, pid) == offsetof(struct task_struct, pid)); }",
        "4\ntrue",
    ),
    (
        "begin { print(pcomm); print(pcomm(curtask)); print(pid == tid); print(ppid == ppid(curtask)); }",
        "lotse\nlotse\ntrue\ntrue",
    ),
    ("begin { print(pid == pid(curr_ns)); print(tid(init) > 0); }", "true\ntrue"),
    (
        "begin { $i = 11; for $elem : 1..$i { @[$elem] = $elem-1; } print(@, 2); clear(@); }",
        "@[9]: 8\n@[10]: 9",
    ),
    (
        "begin { @[1] = 13; @[2] = 37; @[3] = 11; @[4] = 9; @[5] = 5; print(@, 3, 2); clear(@); print(123); print(\"abc\"); }",
        "@[3]: 5\n@[1]: 6\n@[2]: 18\n123\nabc",
    ),
    (
        "enum custom { CUSTOM_ENUM = 3, }; begin { $r = (enum custom)3; printf(\"%d, %s, %s\\n\", $r, $r, CUSTOM_ENUM); }",
        "3, CUSTOM_ENUM, CUSTOM_ENUM",
    ),
    ("begin { printf(\"%gr|%gr|%gr\\n\", 0xcc0, 0x820, 0); }", "GFP_KERNEL|GFP_ATOMIC|none"),
    (
        "begin { print(\"\\033[31mRed\\t\\033[0m\"); printf(\"\\x41\\101\\n\"); }",
        "\u{1b}[31mRed\t\u{1b}[0m\nAA",
    ),
    (
        "begin { print((probe, probetype)); } end { print((probe(), probetype())); }",
        "(begin, special)\n(end, special)",
    ),
    ("begin { print(rand != rand() || rand != rand); }", "true"),
    (
        "begin { print((sizeof(1 == 1), sizeof(uint32), sizeof(\"abc\"), sizeof((1, (uint8)2)), sizeof(struct list_head))); }",
        "(1, 4, 4, 16, 16)",
    ),
    (
        "begin { print((signal_name(9), signal_name(11))); printf(\"%s %d\\n\", signal_name(2), signal_name(2)); }",
        "(SIGKILL, SIGSEGV)\nSIGINT 2",
    ),
    ("begin { static_assert(sizeof(uint8) == 1, \"x\"); print(1); }", "1"),
    (
        "begin { print((strcap(\"abc\"), strlen(\"abc\"), strcontains(\"abc\", \"b\"), strstr(\"hello\", \"llo\"), \
         strstr(\"hello\", \"x\"))); print((strncmp(\"abc\", \"abd\", 2), strncmp(\"one\", \"one \", 4) != 0)); }",
        "(4, 3, true, 2, -1)\n(0, true)",
    ),
    (
        "#include <errno.h>\nbegin { print(strerror(EPERM)); printf(\"%s\\n\", strerror(2)); }",
        "Operation not permitted\nNo such file or directory",
    ),
    (
        "begin { printf(\"%d\\n\", strlen(\"x\")); $t = strftime(\"%Y\", nsecs); @[$t] = 1; print(len(@)); clear(@); }",
        "1\n1",
    ),
    (
        "#include <syscall.h>\nbegin { print(syscall_name(__NR_read)); $n = (int32)257; print(syscall_name($n)); }",
        "read\nopenat",
    ),
    ("begin { print(uid == uid()); print(gid == 0); print(username == username ? 1 : 1); }", "true\ntrue\n1"),
    ("begin { print(usermode); } end { print(usermode()); }", "1\n1"),
    ("begin { print(uptr((int8 *)8) == (int8 *)8); print(kptr((int8 *)8) == (int8 *)8); }", "true\ntrue"),
    ("begin { @ = avg(3); @ = avg(7); if (@ == 5) { print(\"five\"); } }", "five\n@: 5"),
    ("begin { @ = count(); @ = count(); printf(\"%d\\n\", (int64)@); }", "2\n@: 2"),
    ("begin { @ = sum(5); @ = sum(6); printf(\"%d\\n\", (int64)@); clear(@); }", "11"),
    (
        "begin { @x = max(3); @x = max(33); @n = min(5); @n = min(-2); @s = stats(2); @s = stats(10); }",
        "@n: -2\n@s: count 2, average 6, total 12\n@x: 33",
    ),
    (
        "begin { @ = lhist(1, 0, 3, 1); @ = lhist(-1, 0, 3, 1); @ = lhist(5, 0, 3, 1); }",
        "@:\n(..., 0)               1 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|\n\
         [0, 1)                 0 |                                                    |\n\
         [1, 2)                 1 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|\n\
         [2, 3)                 0 |                                                    |\n\
         [3, ...)               1 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|",
    ),
    ("begin { @=0; unroll(3) { print(@); @++; } }", "@: 3\n@: 3\n@: 3\n@: 3"),
];

#[test]
fn documented_functions_say_what_is_documented() {
    if cannot_trace("trace_functions") {
        return;
    }
    for (program, expected) in PROGRAMS {
        check(&["-e", program], expected);
    }
}

/// What `zero()` and `clear()` leave of a map, for each kind of value; a count without a key always prints.
#[test]
fn zero_and_clear_leave_what_bpftrace_leaves() {
    if cannot_trace("zero_and_clear") {
        return;
    }
    let values = [
        ("count()", "0", "0"),
        ("sum(3)", "0", ""),
        ("min(3)", "0", ""),
        ("max(3)", "0", ""),
        ("avg(3)", "0", ""),
        ("stats(3)", "count 0, average 0, total 0", ""),
        ("hist(3)", "", ""),
        ("lhist(3, 0, 10, 1)", "", ""),
        ("3", "0", ""),
        ("\"abc\"", "", ""),
        ("(1, \"abc\")", "(0, )", ""),
    ];
    for (value, zeroed, cleared) in values {
        let line = |name: &str, rest: &str| format!("{name}: {rest}").trim_end().to_owned();
        check(&["-e", &format!("begin {{ @m = {value}; zero(@m); exit(); }}")], &line("@m", zeroed));
        check(&["-e", &format!("begin {{ @m[1] = {value}; zero(@m); exit(); }}")], &line("@m[1]", zeroed));
        let left = if cleared.is_empty() { String::new() } else { line("@m", cleared) };
        check(&["-e", &format!("begin {{ @m = {value}; clear(@m); exit(); }}")], &left);
        check(&["-e", &format!("begin {{ @m[1] = {value}; clear(@m); exit(); }}")], "");
        // Zero is where counting goes on from.
        check(&["-e", &format!("begin {{ @m = {value}; zero(@m); clear(@m); exit(); }}")], &left);
    }
    let program = "begin { if (pid == 0) { @c = count(); @s = sum(1); @h = hist(1); @x = 1; @k[1] = count(); } exit(); }";
    check(&["-e", program], "@c: 0");
    let program = "begin { @h = hist(2); zero(@h); @c = count(); clear(@c); exit(); }";
    check(
        &["-f", "json", "-e", program],
        "{\"type\": \"map\", \"data\": {\"@c\": 0}}\n{\"type\": \"hist\", \"data\": {\"@h\": []}}",
    );
}

/// In C, and in the kernel's instructions, quotients round towards zero and remainders have the sign of the
/// dividend. Dividing by zero gives 1, as in bpftrace, and is counted.
#[test]
fn divisions_are_those_of_c_and_by_zero_they_are_counted() {
    if cannot_trace("divisions") {
        return;
    }
    let numbers = [i64::MIN, i64::MIN + 1, -1000, -7, -2, -1, 1, 2, 7, 1000, i64::MAX];
    for a in numbers {
        for b in numbers {
            let program = format!(
                "begin {{ @a = {}; @b = {}; print(@a / @b); print(@a % @b); clear(@a); clear(@b); }}",
                literal(a),
                literal(b)
            );
            check(&["-e", &program], &format!("{}\n{}", a.wrapping_div(b), a.wrapping_rem(b)));
        }
    }
    let program = "begin { @z = 0; print((7 / @z, -7 % @z, (uint32)7 / (uint32)@z)); @y = 9; @y /= @z; @y %= @z; clear(@z); exit(); }";
    check(&["-e", program], "(1, 1, 1)\n@y: 1\nlost: 5 divisions by zero gave 1 instead; `-k` shows where");
    let output = said(&["-q", "-k", "-e", "begin { @z = 0; print(7 / @z); clear(@z); exit(); }"]);
    assert!(
        output.contains(
            "stdin:1:23-29: WARNING: Divide or modulo by 0 detected. 1 is being used as the result."
        ),
        "{output}"
    );
}

fn literal(number: i64) -> String {
    // The least number has no literal of its own.
    if number == i64::MIN { "-9223372036854775807 - 1".into() } else { number.to_string() }
}

#[test]
fn failing_helpers_are_told_with_their_place() {
    if cannot_trace("failing_helpers") {
        return;
    }
    check(
        &["-k", "-e", "begin { @a[1] = 1; delete(@a, 2); printf(\"%d\\n\", @a[2]); clear(@a); exit(); }"],
        "0\n\
         stdin:1:20-33: WARNING: Can't delete map element because it does not exist.\n\
         Additional Info - helper: map_delete_elem, retcode: -2\n\
         begin { @a[1] = 1; delete(@a, 2); printf(\"%d\\n\", @a[2]); clear(@a); exit(); }\n                   \
         ~~~~~~~~~~~~~\n\
         stdin:1:50-55: WARNING: Can't lookup map element because it does not exist.\n\
         Additional Info - helper: map_lookup_elem, retcode: 0\n\
         begin { @a[1] = 1; delete(@a, 2); printf(\"%d\\n\", @a[2]); clear(@a); exit(); }\n                                                 \
         ~~~~~",
    );
    let program = "struct foo {int a;}; begin { $tmp = (*uptr((struct foo*)16)).a; print($tmp); exit(); }";
    let text = said(&["-q", "-k", "-e", program]);
    assert!(text.contains("WARNING: Failed to probe_read_user: Bad address (-14)"), "{text}");
    let json = said(&["-q", "-k", "-f", "json", "-e", program]);
    assert!(
        json.contains(r#"{"type": "helper_error", "msg": "Bad address", "helper": "probe_read_user", "retcode": -14, "filename": "stdin", "line": 1, "col": 3"#),
        "{json}"
    );
    // Without -k they are counted.
    let quiet = said(&["-q", "-e", program]);
    assert_eq!(
        quiet,
        "0\nlost: 1 reads of memory failed and gave zero: the page was not present or the address was bad; `-k` shows where"
    );
}

#[test]
fn tests_and_benchmarks_of_a_program_run_when_asked_for() {
    if cannot_trace("tests_and_benchmarks") {
        return;
    }
    let program = "test:okay { print(\"unseen\"); } test:bad { print(\"seen\"); return 1; } \
                   test:told { errorf(\"x\"); } test:left { exit(3); } begin { exit(); }";
    check(&["-e", program], "");
    let output = trace(&["--test", "-e", program]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("test:okay passed\nseen\ntest:bad FAILED: it returned 1\n"), "{text}");
    assert!(text.contains("test:told FAILED: it told of an error\n"), "{text}");
    assert!(text.ends_with("test:left FAILED: it called exit(3)\n1 passed, 3 failed\n"), "{text}");
    assert_eq!(trace(&["--test", "-e", "test:okay { return 0; }"]).status.code(), Some(0));
    let table =
        said(&["--bench", "-e", "bench:a { @a = count(); } bench:b { @b = lhist(rand % 10, 1, 10, 1); }"]);
    let rows: Vec<&str> = table.lines().collect();
    assert_eq!(
        rows[..3],
        ["+-----------+-------------+", "| BENCHMARK | NANOSECONDS |", "+-----------+-------------+"]
    );
    for (row, name) in rows[3..5].iter().zip(["a", "b"]) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        assert_eq!(cells[1], name, "{table}");
        assert!(cells[2].parse::<u64>().is_ok_and(|ns| ns < 1_000_000), "{table}");
    }
    let json = said(&["--bench", "-f", "json", "-e", "bench:a { @a = count(); }"]);
    assert!(
        json.starts_with("{\"type\": \"benchmark_results\", \"data\": {\"a\": ") && json.ends_with("}}"),
        "{json}"
    );
}

#[test]
fn probes_are_listed_and_parameters_are_read_as_bpftrace_does() {
    if cannot_trace("listing") {
        return;
    }
    let calls = said(&["-l", "tracepoint:syscalls:sys_enter_*"]);
    assert!(
        calls.lines().count() > 200
            && calls.lines().all(|line| line.starts_with("tracepoint:syscalls:sys_enter_"))
    );
    check(
        &["-l", "tracepoint:raw_syscalls:*"],
        "tracepoint:raw_syscalls:sys_enter\ntracepoint:raw_syscalls:sys_exit",
    );
    assert!(said(&["-lv", "tracepoint:raw_syscalls:sys_exit"]).contains("long ret;"));
    check(
        &["-l", "-e", "tracepoint:raw_syscalls:sys_e* { } interval:ms:100 { }"],
        "tracepoint:raw_syscalls:sys_enter\ntracepoint:raw_syscalls:sys_exit\ninterval:ms:100",
    );
    let program = "begin { print(($1, getopt(\"aa\", 10, \"how many\"), $2, getopt(\"bb\", \"hello\"), getopt(\"cc\"), getopt(\"dd\", true))); exit(); }";
    check(
        &["-e", program, "pos1", "--aa=20", "--bb=bye", "--", "pos2", "--cc", "--dd=False"],
        "(pos1, 20, pos2, bye, true, false)",
    );
    check(
        &["-e", program, "--", "--help"],
        "--aa=10                  how many\n--bb=hello\n--cc=false\n--dd=true",
    );
    check(
        &["-e", program, "--", "--ab=1"],
        "error[L0302]: the program has no option --ab\n  help: did you mean 'aa' or 'bb'?",
    );
    let program = "begin { printf(\"I got %d, %s (%d args) %s\\n\", $1, str($2), $#, str($2 + 1)); exit(); }";
    check(&["-e", program, "42", "hello"], "I got 42, hello (2 args) ello");
    check(
        &["-e", "BEG$1 { printf(\"%d %o 0x%x\\n\", $2, $3, $4); exit(); }", "IN", "123", "0775", "0x123"],
        "123 775 0x123",
    );
    check(&["--no-warnings", "-e", "begin { warnf(\"x\"); print(cpid); exit(); }"], "0");
    let unknown = said(&["--no-such"]);
    assert!(unknown.contains("unexpected argument '--no-such'"), "{unknown}");
    let info = said(&["--info"]);
    assert!(info.contains("What this host lets lotse do"), "{info}");
}

#[test]
fn output_goes_to_a_file_in_any_buffering() {
    if cannot_trace("output") {
        return;
    }
    let path = std::env::temp_dir().join(format!("lotse-trace-output-{}", std::process::id()));
    let file = path.to_string_lossy().into_owned();
    for buffering in ["line", "full", "none"] {
        check(&["-B", buffering, "-o", &file, "-e", "begin { printf(\"a\\n\"); @x = 1; exit(); }"], "");
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(
            text.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>(),
            ["a", "@x: 1"],
            "{buffering}"
        );
    }
    std::fs::remove_file(&path).unwrap();
}

/// One object a line for each kind of record.
#[test]
fn json_has_an_object_for_each_kind_of_record() {
    if cannot_trace("json") {
        return;
    }
    let cases = [
        (
            "begin { printf(\"test \\r \\n \\t \\\\ \\\" bar\"); exit(); }",
            r#"{"type": "printf", "data": "test \r \n \t \\ \" bar"}"#,
        ),
        ("begin { cat(\"/proc/sys/kernel/ostype\"); exit(); }", r#"{"type": "cat", "data": "Linux\n"}"#),
        (
            "begin { print((strerror(7), (1, \"x\"), (true, (a=1)))); exit(); }",
            r#"{"type": "value", "data": ["Argument list too long",[1,"x"],[true,{"a": 1}]]}"#,
        ),
        ("begin { @c[comm, 2] = 5; exit(); }", r#"{"type": "map", "data": {"@c": {"lotse,2": 5}}}"#),
        (
            "begin { @st = stats(2); @st = stats(10); exit(); }",
            r#"{"type": "stats", "data": {"@st": {"count": 2, "average": 6, "total": 12}}}"#,
        ),
        (
            "begin { @[\"a\"] = avg(10); @[\"b\"] = avg(20); print(@, 1, 10); clear(@); exit(); }",
            r#"{"type": "stats", "data": {"@": {"b": 2}}}"#,
        ),
        (
            "begin { @h = hist(2); @h = hist(5); @h = hist(-1); exit(); }",
            r#"{"type": "hist", "data": {"@h": [{"max": -1, "count": 1}, {"min": 0, "max": 0, "count": 0}, {"min": 1, "max": 1, "count": 0}, {"min": 2, "max": 3, "count": 1}, {"min": 4, "max": 7, "count": 1}]}}"#,
        ),
        (
            "begin { @h[1] = lhist(55, 0, 50, 25); exit(); }",
            r#"{"type": "hist", "data": {"@h": {"1": [{"min": 50, "count": 1}]}}}"#,
        ),
        (
            "enum e { FOO = 333 }; begin { $f = FOO; print($f); printf(\"%s\", $f); exit(); }",
            "{\"type\": \"value\", \"data\": 333}\n{\"type\": \"printf\", \"data\": \"FOO\"}",
        ),
    ];
    for (program, expected) in cases {
        check(&["-f", "json", "-e", program], expected);
    }
    check(
        &["--unsafe", "-f", "json", "-e", "begin { system(\"echo %s b\", \"a\"); exit(); }"],
        r#"{"type": "syscall", "data": "a b\n"}"#,
    );
    let time = said(&["-q", "-f", "json", "-e", "begin { time(\"%H:%M:%S\\n\"); exit(); }"]);
    assert!(time.starts_with("{\"type\": \"time\", \"data\": \"") && time.ends_with("\\n\"}"), "{time}");
    let attached = said(&["-f", "json", "-e", "begin { exit(); } interval:s:1 { }"]);
    assert_eq!(attached, r#"{"type": "attached_probes", "count": 2, "data": {"probes": 2}}"#);
    let series = said(&[
        "-q",
        "-f",
        "json",
        "-e",
        "begin { @t = tseries(3, 1h, 5); @t = tseries(4, 1h, 5, \"last\"); exit(); }",
    ]);
    assert!(series.contains("\"tseries\"") || series.contains("error"), "{series}");
    let join = said(&[
        "-q",
        "-f",
        "json",
        "-e",
        "t:syscalls:sys_enter_execve /pid == cpid/ { join(args.argv, \",\"); }",
        "-c",
        "/bin/echo A",
    ]);
    assert!(join.contains(r#"{"type": "join", "data": "/bin/echo,A"}"#), "{join}");
    let lost = said(&[
        "-q",
        "-f",
        "json",
        "-e",
        "config = { perf_rb_pages = 1 } begin { for ($i : 0..3000) { printf(\"%d\\n\", $i); } exit(); }",
        "--duration",
        "200ms",
    ]);
    let count = lost.lines().find_map(|line| {
        line.strip_prefix("{\"type\": \"lost_events\", \"count\": ")?.split(',').next()?.parse::<u64>().ok()
    });
    assert!(count.is_some_and(|count| count > 0), "{lost}");
}

#[test]
fn time_series_are_drawn() {
    if cannot_trace("time_series") {
        return;
    }
    let program = "begin { @dir = 1; @c = -5; } i:ms:20 { @ = tseries(@c, 20ms, 20); @c += @dir; if (@c > 5) { @dir = -1; @c = 4 } else if (@c < -5) { @dir = 1; @c = -4; } } i:ms:700 { clear(@dir); clear(@c); exit(); }";
    let text = said(&["-q", "-e", program]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "@:", "{text}");
    assert!(lines[2].starts_with("hh:mm:ss.ms  |_") && lines[2].ends_with("_|"), "{text}");
    assert!(
        lines.last().is_some_and(|line| line.trim_start().starts_with("-5") && line.ends_with('5')),
        "{text}"
    );
    assert!(lines.iter().any(|line| line.ends_with("* 5")), "{text}");
}

/// Members of kernel structs, against what /proc, uname and stat say of the same things.
#[test]
fn members_of_structs_hold_what_other_tools_say_they_hold() {
    if cannot_trace("structs") {
        return;
    }
    let read = |path: &str| std::fs::read_to_string(path).unwrap().trim().to_owned();
    check(
        &["-e", "begin { print(curtask.nsproxy.uts_ns.name.release); }"],
        &read("/proc/sys/kernel/osrelease"),
    );
    check(
        &["-e", "begin { print(str(curtask.nsproxy.uts_ns.name.nodename)); }"],
        &read("/proc/sys/kernel/hostname"),
    );
    let limits = read("/proc/self/limits");
    let files =
        limits.lines().find_map(|line| line.strip_prefix("Max open files")?.split_whitespace().next());
    check(&["-e", "begin { print(curtask.signal.rlim[7].rlim_cur); }"], files.unwrap());
    // An enumerator as an index, a flexible array by a variable, an embedded list head both ways.
    check(
        &[
            "-e",
            "begin { print(curtask.signal.pids[PIDTYPE_TGID].numbers[0].nr == pid(init)); $n = curtask.thread_pid.level; print(curtask.thread_pid.numbers[$n].nr == pid); }",
        ],
        "true\ntrue",
    );
    check(
        &[
            "-e",
            "begin { $se = &curtask.se; print(container_of($se, struct task_struct, se).pid == pid(init)); print(container_of(curtask.tasks.next, struct task_struct, tasks).tasks.prev == &curtask.tasks); }",
        ],
        "true\ntrue",
    );
    use std::os::unix::fs::MetadataExt;
    let binary = std::fs::metadata(env!("CARGO_BIN_EXE_lotse")).unwrap();
    check(
        &[
            "-e",
            "begin { $f = curtask.mm.exe_file; print((str($f.f_path.dentry.d_name.name), $f.f_inode.i_mode & 0777, $f.f_inode.i_size, $f.f_inode.i_ino)); }",
        ],
        &format!("(lotse, {}, {}, {})", binary.mode() & 0o777, binary.len(), binary.ino()),
    );
    // Bit fields, an anonymous struct in an anonymous union, offsets of arrays and of what has no end.
    let declared = "struct a { int x : 3; unsigned y : 5; unsigned z : 24; union { struct { short lo; short hi; }; int both; }; long arr[2][2]; char name[]; };";
    check(
        &[
            "-e",
            &format!(
                "{declared} begin {{ $v = (uint64)0xfffe0005123456fd; $p = (struct a *)&$v; print(($p.x, $p.y, $p.z, $p.lo, $p.hi, $p.both)); print((sizeof(struct a), offsetof(struct a, hi), offsetof(struct a, arr), offsetof(struct a, name))); }}"
            ),
        ],
        "(-3, 31, 1193046, 5, -2, -131067)\n(40, 6, 8, 40)",
    );
}
