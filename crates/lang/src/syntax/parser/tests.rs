use super::super::preprocess::{nothing_known, preprocess};
use super::super::print::print;
use super::*;
use crate::diagnostic::render;
use crate::source::Source;

/// What the text is understood as, and what was found wrong with it.
fn read(text: &str) -> (String, String) {
    let findings = Findings::default();
    let preprocessed = preprocess(text, 0, &[("BPFTRACE_HAVE_BTF", 1)], &nothing_known, &findings);
    let ast = parse(
        text,
        0,
        &preprocessed,
        &["first".into(), "99".into(), "i:ms:1".into(), "IN".into()],
        &findings,
    );
    let source = Source::new("stdin", text);
    let found: Vec<String> = findings.into_sorted().iter().map(|one| render(one, &source)).collect();
    (print(&ast), found.concat())
}

/// The text reads without findings, prints as expected, and what is printed reads the same.
fn check(text: &str, expected: &str) {
    let (printed, found) = read(text);
    assert_eq!(found, "", "{text}");
    let flat: Vec<&str> = printed.split_whitespace().collect();
    assert_eq!(flat.join(" "), expected, "{text}");
    assert_eq!(read(&printed), (printed.clone(), String::new()), "{text}");
}

/// An expression, in a probe.
fn check_expr(text: &str, expected: &str) {
    check(&format!("begin {{ {text}; }}"), &format!("begin {{ {expected}; }}"));
}

fn check_wrong(text: &str, expected: &[&str]) {
    let (_, found) = read(text);
    let lines: Vec<&str> = found.lines().filter(|line| line.contains("]: ")).collect();
    assert_eq!(lines, expected, "{text}");
}

#[test]
fn operators_bind_as_in_c() {
    check_expr("$a + $b * $c", "($a + ($b * $c))");
    check_expr("$a - $b - $c", "(($a - $b) - $c)");
    check_expr("$a | $b ^ $c & $d == $e", "($a | ($b ^ ($c & ($d == $e))))");
    check_expr("$a && $b || !$c && $d", "(($a && $b) || ((!$c) && $d))");
    check_expr("$a ? $b : $c ? $d : $e", "($a ? $b : ($c ? $d : $e))");
    check_expr("$a ?: 3", "($a ? : 3)");
    check_expr("-$x.y[1]->z++", "(-($x.y[1].z++))");
    check_expr("*$p + &$q", "((*$p) + (&$q))");
    check_expr("$a << 2 > 3", "(($a << 2) > 3)");
}

#[test]
fn casts_are_told_from_parentheses() {
    check_expr("(uint8)$x", "((uint8)$x)");
    check_expr("(struct task_struct *)arg0", "((struct task_struct *)arg0)");
    check_expr("((struct file *)arg0)->f_flags & 1", "(((struct file *)arg0).f_flags & 1)");
    check_expr("(pid) - 1", "(pid - 1)");
    check_expr("(u64)-1", "((u64)(-1))");
    check_expr("(sector_t)$x", "((sector_t)$x)");
    check_expr("(unsigned long long int)1", "((unsigned long)1)");
    check_expr("(int8[4])5", "((int8[4])5)");
    check_expr("(my_type)$x", "((my_type)$x)");
    check_expr("(my_type *)$x", "((my_type *)$x)");
    check_expr("sizeof(struct x)", "sizeof(struct x)");
    check_expr("sizeof($x)", "sizeof($x)");
    check_expr("offsetof(struct x, a.b)", "offsetof(struct x, a.b)");
    check_expr("(1, \"a\", (2,))", "(1, \"a\", (2,))");
    check_expr("(a=1, b=2)", "(a=1, b=2)");
    check_expr("@x[1, comm] = ()", "@x[(1, comm)] = ()");
}

#[test]
fn statements_in_old_and_new_spellings() {
    check("BEGIN { @a[1]++; @b -= 2; $x <<= 1 }", "BEGIN { (@a[1]++); @b -= 2; $x <<= 1; }");
    check(
        "begin { if ($a) { $b = 1 } else if ($c) { $d = 2; } else { } }",
        "begin { if ($a) { $b = 1; } else { if ($c) { $d = 2; } else { } } }",
    );
    check(
        "begin { for ($kv : @m) { print($kv.0.1) } for $i : 0..$n { continue } }",
        "begin { for ($kv : @m) { print($kv.0.1) } for ($i : 0 .. $n) { continue; } }",
    );
    check(
        "begin { unroll(3) { @++; } while ($i < 5) { break; } return 1 }",
        "begin { unroll (3) { (@++); } while (($i < 5)) { break; } return 1; }",
    );
    check("begin { let $a : uint8 = 1; let $b; _ = f(); }", "begin { let $a : uint8 = 1; let $b; _ = f(); }");
    check(
        "begin { $a = { let $b = 1; $b }; $c = if $a > 1 { 1 } else { 2 }; }",
        "begin { $a = { let $b = 1; $b }; $c = if (($a > 1)) { 1 } else { 2 }; }",
    );
}

#[test]
fn probes_with_paths_predicates_and_parameters() {
    check(
        "kprobe:vfs_read,kprobe:vfs_write /pid / 2 == 3/ { }",
        "kprobe:vfs_read, kprobe:vfs_write /((pid / 2) == 3)/ { }",
    );
    check("uprobe:/bin/bash:readline / @x[1 / 2] / { }", "uprobe:/bin/bash:readline /@x[(1 / 2)]/ { }");
    check("uprobe:./a.out:\"a b\"+0x10 { }", "uprobe:./a.out:\"a b+0x10\" { }");
    check("u:/b:cpp:\"ns::f(int)\" { }", "u:/b:cpp:\"ns::f(int)\" { }");
    check("u:/b:cpp:f { }", "u:/b:cpp:f { }");
    check("tracepoint:*:sys_*/1/ { }", "tracepoint:*:sys_* /1/ { }");
    check("iter:task:/sys/fs/bpf/x { } it:task { }", "iter:task:/sys/fs/bpf/x { } it:task { }");
    check("n=profile:hz:$2 { } usdt:*:loop { }", "n=profile:hz:99 { } usdt:*:loop { }");
    check("watchpoint:0x1000:8:rw { } BEGIN{ }", "watchpoint:0x1000:8:rw { } BEGIN { }");
    check("$3 { } BEG$4 { }", "i:ms:1 { } BEGIN { }");
    check("interval:1s { exit() }", "interval:1s { exit() }");
}

#[test]
fn preambles() {
    check(
        "#define N 4\n#define ADD(a, b) ((a) + (b))\nbegin { $x = N * ADD(1, N); }",
        "begin { $x = (4 * ADD(1, 4)); } macro ADD(a, b) { (a + b) }",
    );
    check(
        "struct s { int a, *b; char c[16]; unsigned x : 3; union { long u; }; struct t *n; void (*f)(int); }\nbegin { }",
        "struct s { int a; int * b; char c[16]; unsigned int x : 3; union { long u; }; struct t * n; void * f; }; begin { }",
    );
    check(
        "enum e { A, B = 4, };\ntypedef struct { int x; } __attribute__((packed)) s_t;\nbegin { $x = (s_t *)1 }",
        "enum e { A, B = 4 }; typedef struct { int x; } __attribute__((packed)) s_t; begin { $x = ((s_t *)1); }",
    );
    check(
        "config = { a=1; b=\"c d\"; c=word }\nlet @m = lruhash(10);\nbegin { }",
        "config = { a = 1 } config = { b = \"c d\" } config = { c = \"word\" } let @m = lruhash(10); begin { }",
    );
    check(
        "macro add($a, b, @c) { $a + b }\nfn f($a : int64, $b : struct x *) : uint8 { return 1; }\nimport \"x.bt\";",
        "macro add($a, b, @c) { ($a + b) } fn f($a : int64, $b : struct x *) : uint8 { return 1; } import \"x.bt\";",
    );
}

#[test]
fn several_errors_are_found_in_one_run() {
    check_wrong(
        "begin { $x = ; $y = 3 4; @ok = 1; }\nkprobe:f { printf(\"a\" }\nend { $z = 1 }",
        &[
            "stdin:1:14: error[L0001]: expected an expression, found ';'",
            "stdin:1:23: error[L0001]: expected ';' or '}', found '4'",
            "stdin:2:23: error[L0001]: expected ',' or ')', found '}'",
        ],
    );
}

#[test]
fn errors_name_what_is_missing() {
    check_wrong("begin { $x = 1\n$y = 2; }", &["stdin:2:1-3: error[L0001]: expected ';' or '}', found '$y'"]);
    check_wrong("begin { $x = 1;", &["stdin:1:7: error[L0001]: this '{' has no matching '}'"]);
    check_wrong(
        "kprobe:f",
        &["stdin:1:9: error[L0001]: expected '{', '/' or ',', found the end of the program"],
    );
    check_wrong("printf(\"x\");", &["stdin:1:1-7: error[L0009]: 'printf' has to be inside a probe's braces"]);
    check_wrong("@x = 1", &["stdin:1:1-3: error[L0009]: '@x' has to be inside a probe's braces"]);
    check_wrong(
        "interval:s:$5 { }",
        &["stdin:1:12-14: error[L0102]: the probe needs parameter $5, which is not given"],
    );
    check_wrong(
        "begin { $x = 'a'; }",
        &["stdin:1:14-17: error[L0001]: characters are written as numbers (65 for A), strings with '\"'"],
    );
}

#[test]
fn nesting_has_a_bound() {
    let deep = format!("begin {{ $x = {}1{}; }}", "(".repeat(5000), ")".repeat(5000));
    assert!(read(&deep).1.contains("nested too deeply"));
    let long = format!("begin {{ $x = 1{}; }}", " + 1".repeat(5000));
    assert!(read(&long).1.contains("too long"));
}
