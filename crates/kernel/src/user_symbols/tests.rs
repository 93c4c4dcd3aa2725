//! Against what `nm` and `objdump` say of the same files.

use std::collections::HashMap;
use std::process::Command;

use super::*;
use crate::elf::ElfFile;
use crate::mapping_events::MappingEvents;

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn lotse_symbol_for_the_user_symbol_test(n: u64) -> u64 {
    std::hint::black_box(n) * 3
}

#[test]
fn an_address_of_this_process_has_its_function() {
    let mut maps = ProcessMaps::default();
    let pid = std::process::id();
    maps.remember(pid);
    let mut symbols = UserSymbols::default();
    let address = lotse_symbol_for_the_user_symbol_test as *const () as u64;
    let place = symbols.find(&maps, pid, address + 1).unwrap();
    assert_eq!(place.function, Some(("lotse_symbol_for_the_user_symbol_test".into(), 1)));
    assert_eq!(symbols.find(&maps, pid, 1), None);
    assert_eq!(lotse_symbol_for_the_user_symbol_test(2), 6);
}

#[test]
fn the_kernels_own_library_has_names() {
    let mut maps = ProcessMaps::default();
    let pid = std::process::id();
    maps.remember(pid);
    let text = std::fs::read_to_string("/proc/self/maps").unwrap();
    let Some(line) = text.lines().find(|line| line.ends_with("[vdso]")) else {
        testkit::skipped!("no vdso in this process")
    };
    let range = line.split(' ').next().unwrap().split_once('-').unwrap();
    let number = |text| u64::from_str_radix(text, 16).unwrap();
    let mut symbols = UserSymbols::default();
    let names: Vec<String> = (number(range.0)..number(range.1))
        .step_by(16)
        .filter_map(|address| symbols.find(&maps, pid, address)?.function)
        .map(|(name, _)| name.to_string())
        .collect();
    assert!(names.iter().any(|name| name.contains("clock_gettime")), "{names:?}");
}

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let path = std::env::temp_dir().join(format!("lotse-symbols-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Place(path)
    }

    fn run(&self, command: &str) -> Option<String> {
        let output = Command::new("sh").args(["-ec", command]).current_dir(&self.0).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn symbols(&self, name: &str) -> FileSymbols {
        FileSymbols::read(&ElfFile::open(self.0.join(name)).unwrap())
    }

    /// Functions as nm tells them: name, address, size.
    fn nm(&self, arguments: &str) -> Vec<(String, u64, u64)> {
        let text = self.run(&format!("nm -S --defined-only {arguments}")).unwrap();
        let rows = text.lines().filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [address, size, kind, name] = words[..] else { return None };
            let number = |text| u64::from_str_radix(text, 16).ok();
            "tTwWi".contains(kind).then_some((name.to_owned(), number(address)?, number(size)?))
        });
        rows.collect()
    }

    /// Every function that nm knows is found at its first and last byte, by one of the names it has there.
    fn check(&self, file: &str, truth: &[(String, u64, u64)]) {
        let elf = ElfFile::open(self.0.join(file)).unwrap();
        let symbols = FileSymbols::read(&elf);
        let mut names: HashMap<u64, Vec<&str>> = HashMap::new();
        truth.iter().for_each(|(name, address, _)| names.entry(*address).or_default().push(name));
        assert!(truth.len() > 3, "{truth:?}");
        for (name, address, size) in truth.iter().filter(|(_, _, size)| *size > 0) {
            let offset = elf.code_offset_of(*address).unwrap();
            for at in [0, size - 1] {
                let found = symbols.function_at(offset + at, false).map(|(name, at)| (name.to_string(), at));
                let (found, distance) = found.unwrap_or_else(|| panic!("{file}: {name}+{at} has no name"));
                let right = names[address].contains(&found.split('@').next().unwrap()) && distance == at;
                assert!(right, "{file}: {name}+{at} is told as {found}+{distance}");
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
static int twice(int n) { return 2 * n; }
__attribute__((noinline)) static int hidden(int n) { return twice(n) + rand(); }
__attribute__((noinline)) int shown(int n) { return hidden(n) + 1; }
static int plain(int n) { return n; }
static int (*choose(void))(int) { return plain; }
int chosen(int) __attribute__((ifunc("choose")));
int main(int argc, char **argv) { puts("x"); return shown(argc) + chosen(argc) == 0; }
"#;

fn built(name: &str, flags: &str) -> Option<Place> {
    let place = Place::new(name);
    std::fs::write(place.0.join("a.c"), PROGRAM).unwrap();
    place.run(&format!("cc -O1 -g {flags} -o whole a.c")).map(|_| place)
}

#[test]
fn functions_are_where_nm_has_them() {
    for (name, flags) in [
        ("pie", "-pie"),
        ("fixed", "-no-pie"),
        ("static", "-static"),
        ("high", "-no-pie -Wl,-Ttext-segment=0x7000000"),
    ] {
        let Some(place) = built(name, flags) else { testkit::skipped!("no C compiler that builds {flags}") };
        place.check("whole", &place.nm("whole"));
    }
}

#[test]
fn stubs_are_named_by_what_they_call() {
    for (name, flags) in [
        ("stubs", "-fcf-protection=full -Wl,-z,lazy"),
        ("now", "-Wl,-z,now"),
        ("no-cf", "-fcf-protection=none -no-pie -Wl,-z,lazy"),
    ] {
        let Some(place) = built(name, flags) else { testkit::skipped!("no C compiler") };
        let Some(listing) = place.run("objdump -d whole") else { testkit::skipped!("no objdump") };
        let truth: Vec<(u64, &str)> = listing
            .lines()
            .filter_map(|line| line.strip_suffix("@plt>:")?.split_once(" <"))
            .map(|(address, name)| (u64::from_str_radix(address, 16).unwrap(), name))
            .collect();
        assert!(truth.iter().any(|(_, name)| *name == "puts"), "{listing}");
        let (elf, symbols) = (ElfFile::open(place.0.join("whole")).unwrap(), place.symbols("whole"));
        for (address, name) in truth.iter().filter(|(_, name)| !name.starts_with('*')) {
            let found = symbols.function_at(elf.code_offset_of(*address).unwrap() + 4, false);
            assert_eq!(found, Some((format!("{name}@plt").into(), 4)), "{flags}");
        }
    }
}

#[test]
fn stripped_files_have_the_names_of_what_was_put_aside() {
    let Some(place) = built("aside", "-Wl,--build-id") else { testkit::skipped!("no C compiler") };
    let truth = place.nm("whole");
    place.run("strip -o bare whole").unwrap();
    assert_eq!(find(&place.symbols("bare"), &truth, "hidden"), None, "stripped indeed");

    // A file that the stripped one names, beside it and checked by its sum.
    place.run("objcopy --only-keep-debug whole linked.debug && mkdir -p .debug && cp bare linked && objcopy --add-gnu-debuglink=linked.debug linked").unwrap();
    let absent = place.0.join("linked.debug");
    place.check("linked", &truth);
    std::fs::rename(&absent, place.0.join(".debug/linked.debug")).unwrap();
    place.check("linked", &truth);
    place.run("echo more >> .debug/linked.debug").unwrap();
    assert_eq!(find(&place.symbols("linked"), &truth, "hidden"), None, "the sum is wrong");

    // The same by build id, below the root directory of the process.
    let id: String = ElfFile::open(place.0.join("bare"))
        .unwrap()
        .build_id()
        .unwrap()
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    let directory = place.0.join("root/usr/lib/debug/.build-id").join(&id[..2]);
    std::fs::create_dir_all(&directory).unwrap();
    place.run("objcopy --only-keep-debug whole kept.debug").unwrap();
    std::fs::copy(place.0.join("kept.debug"), directory.join(format!("{}.debug", &id[2..]))).unwrap();
    let file = File::open(place.0.join("bare")).unwrap();
    let elf = ElfFile::from_file(file, &place.0.join("bare"), &place.0.join("root")).unwrap();
    assert!(find(&FileSymbols::read(&elf), &truth, "hidden").is_some());

    // A small compressed table inside.
    let packed = "nm -S whole | awk '{print $NF}' > keep; objcopy -S --remove-section .gdb_index --remove-section .comment \
         --keep-symbols=keep --only-keep-debug whole mini && xz -f mini && cp bare small && objcopy --add-section .gnu_debugdata=mini.xz small";
    if place.run(packed).is_none() {
        testkit::skipped!("no xz, or objcopy cannot add a section");
    }
    place.check("small", &truth);
}

fn find(symbols: &FileSymbols, truth: &[(String, u64, u64)], name: &str) -> Option<Rc<str>> {
    // In a position-independent program built here, code lies at the same offset as its address.
    let (_, address, _) = truth.iter().find(|(have, _, _)| have == name).unwrap();
    symbols.function_at(*address, false).map(|(name, _)| name).filter(|found| &**found == name)
}

#[test]
fn stripped_go_programs_have_their_functions() {
    let place = Place::new("go");
    let program = "package main\n\n//go:noinline\nfunc leaf(n int) int { return n + 1 }\n\ntype T struct{}\n\n//go:noinline\nfunc (t *T) Method() int { return leaf(1) }\n\nfunc main() { println((&T{}).Method()) }\n";
    std::fs::write(place.0.join("main.go"), program).unwrap();
    let cache = "export GOCACHE=$PWD/cache GOFLAGS=-mod=mod GO111MODULE=off;";
    if place
        .run(&format!("{cache} go build -o whole main.go && go build -ldflags='-s -w' -o bare main.go"))
        .is_none()
    {
        testkit::skipped!("no Go compiler");
    }
    // The linker gives assembly sizes that the table of functions rounds up.
    let mut truth = place.nm("whole");
    truth.retain(|(name, _, _)| {
        (name.starts_with("main.") || name.starts_with("runtime.m")) && !name.ends_with(".abi0")
    });
    assert!(truth.iter().any(|(name, _, _)| name == "main.(*T).Method"), "{truth:?}");
    place.check("bare", &truth);
    if place.run(&format!("{cache} go build -buildmode=pie -ldflags='-s -w' -o pie main.go && go build -buildmode=pie -o pie-whole main.go")).is_some() {
        let mut truth = place.nm("pie-whole");
        truth.retain(|(name, _, _)| name.starts_with("main."));
        let elf = ElfFile::open(place.0.join("pie")).unwrap();
        let symbols = FileSymbols::read(&elf);
        let whole = ElfFile::open(place.0.join("pie-whole")).unwrap();
        let text = |elf: &ElfFile| elf.code_ranges()[0].start;
        for (name, address, _) in &truth {
            // Stripping moves the text by whole pages.
            let offset = whole.code_offset_of(*address).unwrap() - text(&whole) + text(&elf);
            let found = symbols.function_at(offset, false);
            assert_eq!(found.map(|(name, _)| name.to_string()).as_ref(), Some(name));
        }
    }
}

#[test]
fn a_replaced_file_is_not_taken_for_the_mapped_one() {
    let Some(place) = built("replaced", "") else { testkit::skipped!("no C compiler") };
    std::fs::write(place.0.join("wait.c"), "#include <unistd.h>\nint original(void) { return sleep(60); }\nint main(void) { return original(); }\n").unwrap();
    place.run("cc -O1 -fno-optimize-sibling-calls -o running wait.c").unwrap();
    let truth = place.nm("running");
    let mut child = Command::new(place.0.join("running")).spawn().unwrap();
    let pid = child.id();
    let mut maps = ProcessMaps::default();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let running = place.0.join("running");
    let of_program = |maps: &mut ProcessMaps| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        let line = text.lines().find(|line| line.contains("r-xp") && line.contains("/running"))?.to_owned();
        let (start, offset) = (line.split('-').next()?, line.split(' ').nth(2)?);
        // Only now: before exec it had other mappings.
        maps.remember(pid);
        Some(u64::from_str_radix(start, 16).ok()? - u64::from_str_radix(offset, 16).ok()?)
    };
    let base = loop {
        if let Some(base) = of_program(&mut maps) {
            break base;
        }
        assert!(std::time::Instant::now() < deadline);
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    let address = base + truth.iter().find(|(name, _, _)| name == "original").unwrap().1;
    let mapping = maps.find(pid, address).unwrap().clone();
    std::fs::remove_file(&running).unwrap();
    std::fs::copy(place.0.join("whole"), &running).unwrap();

    let found =
        |symbols: &mut UserSymbols| symbols.find(&maps, pid, address).unwrap().function.map(|(name, _)| name);
    let mut holding = UserSymbols::default();
    holding.hold(&maps, pid, &mapping);
    let allowed = File::open(format!("/proc/{pid}/map_files/{:x}-{:x}", mapping.start, mapping.end)).is_ok();
    let while_living = found(&mut UserSymbols::default());
    child.kill().unwrap();
    child.wait().unwrap();
    if allowed {
        assert_eq!(while_living.as_deref(), Some("original"));
        assert_eq!(found(&mut holding).as_deref(), Some("original"), "held open");
    }
    assert_eq!(found(&mut UserSymbols::default()), None, "the name now means another file");
}

#[test]
fn processes_that_exited_long_ago_are_known_by_the_thousand() {
    let mut events = match MappingEvents::open() {
        Ok(events) => events,
        Err(refused) => testkit::skipped!("{refused}"),
    };
    let mut maps = ProcessMaps::of_all();
    let mut pids = Vec::new();
    for _ in 0..300 {
        let mut child = Command::new("/bin/true").spawn().unwrap();
        pids.push(child.id());
        child.wait().unwrap();
        events.drain(&mut maps);
    }
    events.drain(&mut maps);
    let truth = std::fs::canonicalize("/bin/true").unwrap();
    for pid in pids {
        let paths = maps.paths(pid);
        assert!(paths.contains(&truth), "{pid}: {paths:?}");
        let own = std::env::current_exe().unwrap();
        assert!(!paths.contains(&own), "{pid} has left its parent's program: {paths:?}");
    }
}
