//! Against binutils, and against damaged files.

use std::path::PathBuf;
use std::process::Command;

use super::*;

struct Built(PathBuf);

impl Built {
    fn new(name: &str, text: &str, command: &str) -> Option<Built> {
        let place = std::env::temp_dir().join(format!("lotse-dwarf-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&place).unwrap();
        let built = Built(place);
        std::fs::write(built.0.join("a.c"), text).unwrap();
        built.run(command).map(|_| built)
    }

    fn run(&self, command: &str) -> Option<String> {
        let output = Command::new("sh").args(["-ec", command]).current_dir(&self.0).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn path(&self) -> PathBuf {
        self.0.join("a")
    }

    fn address(&self, function: &str) -> u64 {
        let elf = ElfFile::open(self.path()).unwrap();
        elf.symbols(|name| name == function)[0].address
    }
}

impl Drop for Built {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const PROGRAM: &str = "
struct opaque;
struct bits { unsigned a : 3; int b : 7; unsigned long long c : 40; unsigned short d; } __attribute__((packed));
typedef struct { struct bits bits; struct opaque *opaque; int grid[2][3]; double ratio; _Bool yes; void (*call)(int); } all_t;
enum wide { LOW = -1, HIGH = 1 << 20 };
int f(all_t *all, const volatile char *text, enum wide wide, _Bool yes) {
    return all->bits.a + text[0]
         + wide
         + yes;
}
int main(void) { all_t all = { { 1 } }; return f(&all, \"x\", LOW, 1) == 7; }
";

#[test]
fn types_are_as_the_compiler_laid_them_out() {
    for flags in ["-g", "-gdwarf-4", "-gdwarf-3", "-gdwarf-2 -gstrict-dwarf"] {
        let Some(built) = Built::new("types", PROGRAM, &format!("cc {flags} -O0 -o a a.c")) else {
            testkit::skipped!("no C compiler")
        };
        let info = DebugInfo::open(&built.path()).unwrap();
        let function = info.function_at(built.address("f")).unwrap();
        let names: Vec<String> = function
            .parameters
            .iter()
            .map(|parameter| function.types.declaration(parameter.type_id, &parameter.name))
            .collect();
        assert_eq!(names, ["all_t *all", "char *text", "enum wide wide", "_Bool yes"], "{flags}");
        let places: Vec<&Place> = function.parameters.iter().map(|parameter| &parameter.place).collect();
        let registers = ["di", "si", "dx", "cx"].map(|name| Place::Register(name.into()));
        if cfg!(target_arch = "x86_64") {
            assert_eq!(places, registers.iter().collect::<Vec<_>>());
        }
        let types = info.type_named("all_t").unwrap();
        let id = types.find("all_t", bpf::btf::KindSet::TYPEDEF).unwrap();
        let field = |id, name: &str| {
            let found = types.field(id, name).unwrap();
            (found.bit_offset, found.bit_size)
        };
        let record = types.resolve(id).unwrap().id;
        assert_eq!(field(record, "opaque"), (128, 0), "{flags}");
        assert_eq!(types.size_of(record), Some(72), "{flags}");
        let bits = types.find_struct("bits").unwrap();
        assert_eq!(types.size_of(bits), Some(9), "{flags}");
        assert_eq!(field(bits, "a"), (0, 3));
        assert_eq!(field(bits, "b"), (3, 7));
        assert_eq!(field(bits, "c"), (10, 40), "{flags}");
        assert_eq!(field(bits, "d").0, 56);
        let grid = types.field(record, "grid").unwrap();
        assert_eq!(
            (types.size_of(grid.type_id), types.type_name(grid.type_id)),
            (Some(24), "int[2][3]".to_owned())
        );
        assert_eq!(types.enumerator("LOW"), None, "only what the type needs");
        assert_eq!(info.type_named("wide").unwrap().enumerator("LOW").map(|(_, value)| value), Some(-1));
    }
}

#[test]
fn lines_have_the_addresses_that_binutils_tell() {
    let Some(built) = Built::new("lines", PROGRAM, "cc -g -O0 -o a a.c") else {
        testkit::skipped!("no C compiler")
    };
    let info = DebugInfo::open(&built.path()).unwrap();
    for line in 7..=11 {
        let addresses = info.line("a.c", line).unwrap();
        assert!(!addresses.is_empty());
        for address in addresses {
            let told = built.run(&format!("addr2line -e a {address:#x}")).unwrap_or_default();
            if told.is_empty() {
                testkit::skipped!("no addr2line");
            }
            let told = told.trim().split(' ').next().unwrap().to_owned();
            assert!(told.ends_with(&format!("a.c:{line}")), "{address:#x}: {told}");
        }
    }
    assert_eq!(info.line("a.c", 3), Err(NoLine::NoCode { file: "a.c".into(), line: 3, next: Some(6) }));
    assert!(
        matches!(info.line("b.c", 3), Err(NoLine::NoFile { near, .. }) if near.contains(&"a.c".to_owned()))
    );
    assert!(info.line("no/a.c", 7).is_err(), "directories have to agree");
}

#[test]
fn separate_and_compressed_debug_files_are_read() {
    let commands = [
        "cc -g -gz=zlib -O1 -o a a.c",
        "cc -g -O1 -o a a.c && objcopy --only-keep-debug a a.debug && strip a && objcopy --add-gnu-debuglink=a.debug a",
    ];
    for command in commands {
        let Some(built) = Built::new("separate", PROGRAM, command) else {
            testkit::skipped!("no C compiler, no objcopy")
        };
        assert!(DebugInfo::open(&built.path()).unwrap().type_named("all_t").is_some(), "{command}");
    }
    let Some(built) = Built::new("bare", PROGRAM, "cc -g0 -s -o a a.c") else { return };
    let message = DebugInfo::open(&built.path()).err().map(|error| error.to_string());
    assert!(message.is_some_and(|message| message.contains("has no debug information")));
}

/// Bytes of the debug sections damaged in turn: errors or other answers, never a panic.
#[test]
fn damaged_debug_information_is_survived() {
    let Some(built) = Built::new("damaged", PROGRAM, "cc -g -O0 -o a a.c") else {
        testkit::skipped!("no C compiler")
    };
    let whole = std::fs::read(built.path()).unwrap();
    let address = built.address("f");
    let listing = built.run("readelf -SW a").unwrap_or_default();
    let sections = listing.lines().filter(|line| line.contains(" .debug_")).filter_map(|line| {
        let words: Vec<&str> = line.split(']').nth(1)?.split_whitespace().collect();
        let number = |at: usize| usize::from_str_radix(words.get(at)?, 16).ok();
        Some(number(3)?..number(3)? + number(4)?)
    });
    let mut damaged = 0;
    for section in sections {
        let step = (section.len() / 24).max(1);
        for at in section.step_by(step) {
            for damage in [0u8, 0x7f, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = damage;
                std::fs::write(built.path(), &bytes).unwrap();
                if let Ok(info) = DebugInfo::open(&built.path()) {
                    info.function_at(address);
                    info.type_named("all_t");
                    info.inlined("f");
                    let _ = info.line("a.c", 7);
                }
                damaged += 1;
            }
        }
    }
    assert!(damaged > 100 || listing.is_empty(), "{damaged}");
}
