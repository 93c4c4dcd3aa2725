//! Stacks of programs whose calls are known: folded, drawn, compared.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A program that makes a system call from a known place: 7 times by `first`, 3 times by `second`.
const CALLS: &str = r#"
#include <sys/syscall.h>
#define KEPT __attribute__((noinline, noclone))
static long result;
// A function that calls nothing has no frame of its own.
KEPT void touch(void) { result++; }
KEPT void leaf(void) {
    touch();
    long number = SYS_getppid;
    __asm__ volatile("syscall" : "+a"(number) : : "rcx", "r11", "memory");
    result += number;
}
KEPT void first(void) { leaf(); result++; }
KEPT void second(void) { leaf(); result++; }
int main(void) {
    for (int i = 0; i < 7; i++) first();
    for (int i = 0; i < 3; i++) second();
    return result == 0;
}
"#;

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let path = std::env::temp_dir().join(format!("lotse-stacks-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Place(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn compile(&self, name: &str, text: &str) -> Option<PathBuf> {
        let source = self.path(&format!("{name}.c"));
        std::fs::write(&source, text).unwrap();
        let binary = self.path(name);
        let built = Command::new("cc")
            .args(["-O1", "-g", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-o"])
            .args([&binary, &source])
            .status();
        built.is_ok_and(|status| status.success()).then_some(binary)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn lotse(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lotse")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn text_of(output: &Output) -> String {
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

fn cannot_trace() -> bool {
    if kernel::facts::LiveFacts::new().tracefs().is_some() {
        return false;
    }
    testkit::skip::note("trace_stacks", "tracing is not allowed here");
    true
}

fn program(key: &str) -> String {
    format!("tracepoint:syscalls:sys_enter_getppid /pid == cpid/ {{ @[{key}] = count(); }}")
}

fn shown(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn known_calls_are_folded_and_drawn_with_their_numbers() {
    if cannot_trace() {
        return;
    }
    let place = Place::new("known");
    let Some(binary) = place.compile("known-calls", CALLS) else { testkit::skipped!("no C compiler") };
    let program_text = program("kstack, ustack, comm");
    let folded = lotse(&["trace", "-e", &program_text, "-c", shown(&binary), "--folded"]);
    let (lines, errors) = (text(&folded.stdout), text(&folded.stderr));
    let of = |caller: &str| {
        let wanted: Vec<&str> =
            lines.lines().filter(|line| line.contains(&format!(";main;{caller};leaf;"))).collect();
        assert_eq!(wanted.len(), 1, "{caller}: {lines}{errors}");
        wanted[0].to_owned()
    };
    for (caller, count) in [("first", 7), ("second", 3)] {
        let line = of(caller);
        assert!(line.starts_with("known-calls;"), "the command is the root: {line}");
        assert!(line.ends_with(&format!("_[k] {count}")), "the kernel's frames are the leaves: {line}");
    }
    assert_eq!(lines.lines().count(), 2, "{lines}");

    let picture = place.path("calls.svg");
    let arguments = ["trace", "-e", &program("ustack"), "-c", shown(&binary), "--flame", shown(&picture)];
    let drawn = lotse(&arguments);
    assert!(drawn.status.success(), "{}", text(&drawn.stderr));
    assert!(text(&drawn.stderr).contains("10 events of @ in 2 stacks"), "{}", text(&drawn.stderr));
    assert!(!text(&drawn.stdout).contains("leaf"), "what is drawn is not printed: {}", text(&drawn.stdout));
    let svg = std::fs::read_to_string(&picture).unwrap();
    for title in ["first: 7 events (70.0 %)", "second: 3 events (30.0 %)", "main: 10 events (100 %)"] {
        assert!(svg.contains(&format!("<title>{title}")), "{title}: {svg}");
    }
}

/// A file system that only a mount namespace has, gone with its last process before anything is printed.
#[test]
fn a_container_that_has_ended_has_its_names() {
    if cannot_trace() {
        return;
    }
    let place = Place::new("container");
    let Some(binary) = place.compile("outside", CALLS) else { testkit::skipped!("no C compiler") };
    std::fs::create_dir(place.path("inside")).unwrap();
    let comm = format!("kc{}", std::process::id());
    let inside = place.path("inside").join(&comm);
    let script = place.path("container.sh");
    let text = format!(
        "mount -t tmpfs none {directory} && cp {outside} {inside} || exit 77\nsleep 2\n{inside}\nsleep 2\n",
        directory = shown(&place.path("inside")),
        outside = shown(&binary),
        inside = shown(&inside),
    );
    std::fs::write(&script, text).unwrap();
    let allowed = Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|status| status.success());
    if !allowed {
        testkit::skipped!("no mount namespaces here");
    }
    let program =
        format!("tracepoint:syscalls:sys_enter_getppid /comm == \"{comm}\"/ {{ @[ustack] = count(); }}");
    let command = format!("unshare -m sh {}", shown(&script));
    let folded = lotse(&["trace", "-e", &program, "-c", &command, "--folded"]);
    let lines = text_of(&folded);
    assert!(lines.contains(";main;first;leaf 7\n") && lines.contains(";main;second;leaf 3\n"), "{lines}");
}

#[test]
fn two_runs_are_compared_as_they_are_told_to() {
    let place = Place::new("compared");
    let (a, b, picture) = (place.path("a.folded"), place.path("b.folded"), place.path("diff.svg"));
    std::fs::write(&a, "main;slow 90\nmain;fast 10\n").unwrap();
    std::fs::write(&b, "main;slow 1\nmain;fast 1\nnonsense\n").unwrap();
    let compared = lotse(&["flame", shown(&a), shown(&b), "-o", shown(&picture)]);
    assert!(compared.status.success(), "{}", text(&compared.stderr));
    assert!(text(&compared.stderr).contains("1 lines are no folded stacks"), "{}", text(&compared.stderr));
    let svg = std::fs::read_to_string(&picture).unwrap();
    assert!(
        svg.contains("slow: 1 sample (50.0 %), −40.00 points; in the first run 90 samples (90.0 %)"),
        "{svg}"
    );

    let tree = lotse(&["flame", shown(&a)]);
    assert!(text(&tree.stdout).contains("90.0   90.0    slow"), "{}", text(&tree.stdout));
    let page = place.path("page.html");
    assert!(lotse(&["flame", shown(&a), "-o", shown(&page)]).status.success());
    assert!(std::fs::read_to_string(&page).unwrap().starts_with("<!DOCTYPE html>"));
}

#[test]
fn mistakes_are_told_before_anything_is_traced() {
    if cannot_trace() {
        return;
    }
    let place = Place::new("mistakes");
    let picture = place.path("x.svg");
    let refused = |arguments: &[&str], reason: &str| {
        let output = lotse(arguments);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains(reason), "{reason}: {}", text(&output.stderr));
    };
    let none = "tracepoint:syscalls:sys_enter_getppid { @ = count(); }";
    refused(&["trace", "-e", none, "--folded"], "--folded needs a map of stacks");
    let two = "tracepoint:syscalls:sys_enter_getppid { @a[ustack] = count(); @b[kstack] = count(); }";
    refused(&["trace", "-e", two, "--flame", shown(&picture)], "2 maps of stacks (@a, @b)");
    refused(&["trace", "-e", two, "--flame", "x.png"], "FILE.svg");
    refused(&["flame", "/no/such.folded"], "cannot read /no/such.folded");
    let words = place.path("words");
    std::fs::write(&words, "just words here\n").unwrap();
    refused(&["flame", shown(&words)], "holds no folded stacks");
    assert!(!picture.exists());
}
