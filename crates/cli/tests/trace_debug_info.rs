//! Programs whose arguments are known, by name: from the debug information of gcc and clang, unoptimised
//! and optimised.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const PROGRAM: &str = r#"#include <stdlib.h>
struct inner { short low; unsigned char bits : 3; unsigned char more : 5; };
typedef struct list { int value; struct list *next; struct inner inner; char name[8]; union { long whole; int half; }; } list_t;
enum colour { RED, GREEN = 5, BLUE };
struct small { int a, b; };
struct large { long numbers[4]; };
#define KEPT __attribute__((noinline, noclone, noipa))
#ifdef __clang__
#undef KEPT
#define KEPT __attribute__((noinline, optnone))
#endif
#ifdef OPTIMISED
#undef KEPT
#define KEPT __attribute__((noinline))
#endif
volatile long sink;
KEPT int seven(char a, unsigned short b, int c, long d, const char *text, unsigned e, int seventh, signed char eighth) {
    sink += a + b + c + d + text[0] + e + seventh + eighth;
    return -(int)sizeof(int);
}
KEPT list_t *walk(list_t *head, enum colour colour) { sink += head->value + colour; return head->next; }
KEPT long mixed(double ratio, int after, struct small pair, struct large big, float more, long last) {
    sink += ratio + after + pair.a + big.numbers[0] + more + last; return last;
}
KEPT struct large hidden(int number) { struct large big = { { number } }; sink += number; return big; }
static inline __attribute__((always_inline)) int gone(int n) { return n * 3; }
int main(int argc, char **argv) {
    list_t second = { 2, 0, { -2, 5, 17 }, "second", { 0x1122334455667788 } };
    list_t first = { -1, &second, { 7, 1, 2 }, "first", { 42 } };
    struct small pair = { 8, 9 };
    struct large big = { { 1, 2, 3, 4 } };
    sink += gone(argc) + gone(argc + 1);
    char words[] = "words"; /* in memory that is there already */
    sink += seven(-3, 65535, -70000, 1L << 40, words, 4000000000u, 77, -8);
    sink += walk(&first, GREEN) == &second;
    sink += mixed(0.5, 11, pair, big, 1.5f, 123456789012L);
    sink += hidden(99).numbers[0];
    int sum = 0;
    for (int i = 0; i < 5; i++) {
        sum += i; sink += sum; /* the line that is counted */
    }
    return 0;
}
"#;

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let path = std::env::temp_dir().join(format!("lotse-debug-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("known.c"), PROGRAM).unwrap();
        Place(path)
    }

    /// The program, built; none without that compiler.
    fn build(&self, compiler: &str, flags: &[&str]) -> Option<String> {
        let binary = self.0.join("known");
        let built = Command::new(compiler)
            .args(flags)
            .args(["-w", "-o"])
            .args([&binary, &self.0.join("known.c")])
            .output();
        built.is_ok_and(|built| built.status.success()).then(|| binary.to_str().unwrap().to_owned())
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

fn trace(program: &str, binary: &str) -> String {
    let output = lotse(&["-q", "trace", "-e", program, "-c", binary]);
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
        .trim()
        .to_owned()
}

fn refused(program: &str) -> String {
    let output = lotse(&["-q", "trace", "--dry-run", "-e", program]);
    assert_eq!(output.status.code(), Some(2), "{program}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn cannot_trace() -> bool {
    if kernel::facts::LiveFacts::new().tracefs().is_some() {
        return false;
    }
    testkit::skip::note("trace_debug_info", "tracing is not allowed here");
    true
}

/// Compilers and flags that are tried, each with what it is called in messages.
const BUILDS: &[(&str, &[&str])] = &[
    ("gcc", &["-g", "-O0"]),
    ("gcc", &["-g", "-O2"]),
    ("gcc", &["-gdwarf-4", "-O2", "-no-pie"]),
    ("gcc", &["-gdwarf-3", "-O0"]),
    ("clang-19", &["-g", "-O0"]),
    ("clang-19", &["-g", "-O2"]),
    ("clang-19", &["-gdwarf-4", "-O0"]),
    ("gcc", &["-g", "-gz=zlib", "-O1"]),
];

#[test]
fn arguments_have_their_names_types_and_values() {
    if cannot_trace() {
        return;
    }
    let place = Place::new("values");
    let mut tried = 0;
    for (compiler, flags) in BUILDS {
        let Some(binary) = place.build(compiler, flags) else { continue };
        tried += 1;
        let program = format!(
            r#"uprobe:{binary}:seven {{
                 printf("%d %d %d %d %s %u %d %d\n", args.a, args.b, args.c, args.d, str(args.text), args.e, args.seventh, args.eighth);
               }}
               uprobe:{binary}:walk {{
                 $l = args.head;
                 printf("%d %d %d %s %d %d\n", $l->value, $l->inner.low, $l->inner.bits, $l->name, $l->half, args.colour);
                 printf("%d %d %d %s %llx\n", $l->next->value, $l->next->inner.low, $l->next->inner.more, $l->next->name, $l->next->whole);
               }}
               uprobe:{binary}:mixed {{ printf("%d %ld\n", args.after, args.last); }}
               uprobe:{binary}:hidden {{ printf("%d\n", args.number); }}
               uretprobe:{binary}:seven {{ printf("returned %d\n", retval); }}
               uretprobe:{binary}:walk {{ printf("returned %d %s\n", retval->value, retval->name); }}"#
        );
        let expected = "-3 65535 -70000 1099511627776 words 4000000000 77 -8\nreturned -4\n\
                        -1 7 1 first 42 5\n2 -2 17 second 1122334455667788\nreturned 2 second\n\
                        11 123456789012\n99";
        assert_eq!(trace(&program, &binary), expected, "{compiler} {flags:?}");
    }
    if tried == 0 {
        testkit::skipped!("no C compiler");
    }
}

#[test]
fn what_cannot_be_read_is_refused_with_the_reason() {
    if cannot_trace() {
        return;
    }
    let place = Place::new("reasons");
    let Some(binary) = place.build("gcc", &["-g", "-O2"]) else { testkit::skipped!("no gcc") };
    let says = |program: &str, words: &[&str]| {
        let said = refused(&program.replace("BIN", &binary));
        words.iter().for_each(|word| assert!(said.contains(word), "{program}: {word}: {said}"));
    };
    says(
        "uprobe:BIN:mixed { print(args.ratio); }",
        &["the argument ratio cannot be read", "vector register"],
    );
    says("uprobe:BIN:mixed { print(args.pair); }", &["the argument pair", "struct passed by value"]);
    says("uprobe:BIN:mixed { print(args.big); }", &["struct passed by value"]);
    says("uprobe:BIN:seven { print(args.sevnth); }", &["has no argument 'sevnth'", "seventh"]);
    says("uprobe:BIN:seven+4 { print(args.a); }", &["at a function's entry only"]);
    says("uprobe:BIN:gone { }", &["there is no function gone", "it was inlined"]);
    says("uprobe:BIN@known.c:1 { }", &["known.c:1 has no code", "next line with code is"]);
    says("uprobe:BIN@other.c:1 { }", &["other.c is none of its source files", "known.c"]);
    let Some(bare) = place.build("gcc", &["-g0"]) else { return };
    let said = refused(&format!("uprobe:{bare}:seven {{ print(args.a); }}"));
    assert!(said.contains("has no debug information") && said.contains("arg0"), "{said}");
    // Registers need none.
    assert_eq!(trace(&format!("uprobe:{bare}:hidden {{ printf(\"%d\\n\", (int32)arg1); }}"), &bare), "99");
}

#[test]
fn the_program_that_was_optimised_tells_where_arguments_went() {
    if cannot_trace() {
        return;
    }
    let place = Place::new("optimised");
    for compiler in ["gcc", "clang-19"] {
        let Some(binary) = place.build(compiler, &["-g", "-O2", "-DOPTIMISED", "-fno-inline"]) else {
            continue;
        };
        // Each argument is either told rightly or refused; clones of functions have other parameters.
        let Ok(nm) = Command::new("nm").arg(&binary).output() else { testkit::skipped!("no nm") };
        let nm = String::from_utf8_lossy(&nm.stdout).into_owned();
        let symbol = nm.lines().filter_map(|line| line.split_whitespace().last()).find(|name| {
            name.starts_with("seven")
                && name.chars().skip(5).all(|c| !c.is_alphanumeric() || name.contains('.'))
        });
        let Some(symbol) = symbol else { continue };
        for (name, value) in [("a", "-3"), ("b", "65535"), ("c", "-70000"), ("seventh", "77")] {
            let program = format!("uprobe:{binary}:{symbol} {{ printf(\"%d\\n\", args.{name}); }}");
            let told = trace(&program, &binary);
            assert!(told == value || told.contains("cannot be read"), "{compiler} {symbol} {name}: {told}");
        }
    }
}

#[test]
fn a_source_line_is_probed_where_its_code_is() {
    if cannot_trace() {
        return;
    }
    let place = Place::new("lines");
    let line = 1 + PROGRAM.lines().position(|line| line.contains("the line that is counted")).unwrap();
    let body = 1 + PROGRAM.lines().position(|line| line.contains("sink += number; return big;")).unwrap();
    for (compiler, flags) in [("gcc", &["-g", "-O0"]), ("clang-19", &["-g", "-O0"])] {
        let Some(binary) = place.build(compiler, flags) else { continue };
        let program = format!("uprobe:{binary}@known.c:{line} {{ @ = count(); }}");
        assert_eq!(trace(&program, &binary), "@: 5", "{compiler}");
        // The address is the one that the binutils tell.
        let program =
            format!("uprobe:{binary}@known.c:{body} {{ @[uaddr(\"hidden\") <= reg(\"ip\")] = count(); }}");
        let told = trace(&program, &binary);
        assert!(told.starts_with("@[1]: ") || told.starts_with("@[true]: "), "{told}");
    }
}

#[test]
fn structs_of_the_program_are_known_in_casts() {
    if cannot_trace() {
        return;
    }
    let place = Place::new("casts");
    let Some(binary) = place.build("gcc", &["-g", "-O1"]) else { testkit::skipped!("no gcc") };
    let program = format!(
        "uprobe:{binary}:walk {{ $l = (struct list *)arg0; printf(\"%d %d %d\\n\", $l->next->value, sizeof(struct list), $l->inner.more); }}"
    );
    assert_eq!(trace(&program, &binary), "2 40 2");
}

#[test]
fn list_tells_functions_with_their_arguments() {
    let place = Place::new("list");
    let Some(binary) = place.build("gcc", &["-g", "-O2"]) else { testkit::skipped!("no gcc") };
    let output = lotse(&["list", &format!("uprobe:{binary}:[swm]*"), "-v"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for line in [
        &format!("uprobe:{binary}:walk"),
        "    list_t *head",
        "    enum colour colour",
        "    returns list_t *",
        "    const char *text",
        "    double ratio  (cannot be read: a floating-point number in a vector register",
    ] {
        let line = line.replace("const char", "char");
        assert!(text.contains(&line), "{line}: {text}");
    }
    assert!(!text.contains(":hidden"), "{text}");
    let missing = lotse(&["list", &format!("uprobe:{binary}:nothing_of_that_name")]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(Path::new(&binary).exists());
}
