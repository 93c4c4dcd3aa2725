//! Hand-assembled programs through the loader, every kind of attachment that this kernel has. Each test
//! counts an event of its own making: getppid(2) calls of its own thread, by pid and tid.

use bpf::image::{
    Attach, Image, Moment, PerfEventSpec, Program, Rate, SystemMaps, TracepointTarget, UserTarget,
};
use bpf::insn::*;
use bpf::map::{MapKind, MapSpec, flags};
use bpf::program::{AttachType, ProgramType};
use kernel::attach::{Attacher, Attachments};
use kernel::load::{LoadOptions, Loaded};

const GET_CURRENT_PID_TGID: u32 = 14;
const RINGBUF_OUTPUT: u32 = 130;
const NO_WAKEUP: i32 = 1;
const CALLS: u64 = 1000;

fn getppid_often() {
    for _ in 0..CALLS {
        std::hint::black_box(std::os::unix::process::parent_id());
    }
}

fn own_tid() -> u32 {
    let link = std::fs::read_link("/proc/thread-self").unwrap();
    link.file_name().unwrap().to_str().unwrap().parse().unwrap()
}

/// `if (u32)pid_tgid != own tid return 0; data[0] += 1; return 0`
fn count_own_thread() -> Vec<Instruction> {
    vec![
        Instruction::Call { helper: GET_CURRENT_PID_TGID },
        Instruction::JumpIf {
            width: Width::W32,
            op: JumpOp::Ne,
            left: R0,
            right: Operand::Imm(own_tid() as i32),
            offset: 4,
        },
        Instruction::LoadImm64 { dst: R1, value: Imm64::MapValue { map: 0, offset: 0 } },
        Instruction::mov(R2, 1),
        Instruction::Atomic { size: Size::D, op: AtomicOp::Add, fetch: false, base: R1, offset: 0, src: R2 },
        Instruction::mov(R0, 0),
        Instruction::Exit,
    ]
}

fn data_map() -> MapSpec {
    MapSpec { flags: flags::MMAPABLE, ..MapSpec::array("data", 64, 1) }
}

fn image(
    kind: ProgramType,
    expected_attach: AttachType,
    attach_btf_id: Option<u32>,
    attach: Attach,
) -> Image {
    let program = Program {
        name: "count_own".into(),
        kind,
        expected_attach,
        attach_btf_id,
        attach_module: None,
        load_flags: 0,
        attach,
        instructions: count_own_thread(),
        functions: vec![],
        lines: vec![],
        spans: vec![],
        probe: 0,
    };
    Image {
        license: "GPL".into(),
        maps: vec![data_map()],
        system: SystemMaps { data: Some(0), ..SystemMaps::default() },
        programs: vec![program],
        ..Image::default()
    }
}

fn load(image: &Image) -> Loaded {
    let possible_cpus = kernel::cpu::possible().unwrap().last().unwrap() + 1;
    Loaded::load(image, LoadOptions { statistics: false, possible_cpus }, |_, _| Ok(())).unwrap()
}

/// Counts what `act` does while attached, and that nothing counts once detached.
fn count(image: &Image, act: impl Fn()) -> u64 {
    let loaded = load(image);
    let data = loaded.data.unwrap();
    let mut attachments = Attachments::default();
    let mut attacher = Attacher::new().unwrap();
    attacher.attach(0, &loaded.programs[0], &image.programs[0].attach, &mut attachments).unwrap();
    let before = data.load(0);
    act();
    let counted = data.load(0) - before;
    attachments.detach();
    let detached = data.load(0);
    act();
    assert_eq!(data.load(0), detached);
    counted
}

fn vmlinux() -> bpf::btf::Btf {
    bpf::btf::Btf::new(std::fs::read("/sys/kernel/btf/vmlinux").unwrap()).unwrap()
}

fn tracepoint(category: &str, name: &str, cookie: u64) -> TracepointTarget {
    TracepointTarget { category: category.into(), name: name.into(), cookie }
}

#[test]
fn a_raw_tracepoint_counts_exactly() {
    let attach = Attach::RawTracepoint { targets: vec![tracepoint("", "sys_enter", 0)] };
    assert_eq!(
        count(&image(ProgramType::RawTracepoint, AttachType::None, None, attach), getppid_often),
        CALLS
    );
}

#[test]
fn a_typed_raw_tracepoint_counts_exactly() {
    let id = vmlinux().tracepoint("sys_enter").map(|signature| signature.id);
    assert!(id.is_some());
    let attach = Attach::TpBtf { name: "sys_enter".into(), places: 1, cookie: 0 };
    let image = image(ProgramType::Tracing, AttachType::TraceRawTp, id, attach);
    assert_eq!(count(&image, getppid_often), CALLS);
}

#[test]
fn a_perf_tracepoint_counts_exactly() {
    let attach = Attach::Tracepoint { targets: vec![tracepoint("raw_syscalls", "sys_enter", 7)] };
    assert_eq!(count(&image(ProgramType::Tracepoint, AttachType::None, None, attach), getppid_often), CALLS);
}

#[inline(never)]
#[unsafe(no_mangle)]
extern "C" fn lotse_test_function_that_is_probed(n: u64) -> u64 {
    std::hint::black_box(n) + 1
}

/// Offset in the file of the function above, from where it is mapped.
fn own_function_offset() -> u64 {
    let address = lotse_test_function_that_is_probed as *const () as u64;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines()
        .find_map(|line| {
            let mut words = line.split_whitespace();
            let (from, to) = words.next()?.split_once('-')?;
            let offset = u64::from_str_radix(words.nth(1)?, 16).ok()?;
            let from = u64::from_str_radix(from, 16).ok()?;
            let to = u64::from_str_radix(to, 16).ok()?;
            (from..to).contains(&address).then(|| address - from + offset)
        })
        .unwrap()
}

#[test]
fn uprobes_count_exactly_one_by_one_and_many_with_one_link() {
    let several = !skipped_without(bpf::facts::Feature::UprobeMulti);
    for (on_return, multi) in [(false, false), (true, false), (false, true), (true, true)] {
        if multi && !several {
            continue;
        }
        let attach = Attach::Uprobe {
            on_return,
            multi,
            path: std::env::current_exe().unwrap().to_str().unwrap().into(),
            pid: Some(std::process::id()),
            targets: vec![UserTarget {
                symbol: "lotse_test_function_that_is_probed".into(),
                file_offset: own_function_offset(),
                semaphore: 0,
                cookie: 0,
            }],
        };
        let expected = if multi { AttachType::TraceUprobeMulti } else { AttachType::None };
        let counted = count(&image(ProgramType::Kprobe, expected, None, attach), || {
            for n in 0..50 {
                assert_eq!(lotse_test_function_that_is_probed(n), n + 1);
            }
        });
        assert_eq!(counted, 50, "on_return {on_return}, multi {multi}");
    }
}

#[test]
fn a_timer_fires_on_every_cpu_it_is_asked_for() {
    let spec = PerfEventSpec { event_type: 1, config: 0, rate: Rate::Frequency(999), every_cpu: true };
    let image = image(ProgramType::PerfEvent, AttachType::None, None, Attach::PerfEvent(spec));
    let counted = count(&image, || {
        let end = std::time::Instant::now() + std::time::Duration::from_millis(150);
        while std::time::Instant::now() < end {
            std::hint::spin_loop();
        }
    });
    // Busy for 150 ms (less when others share the CPU): some ticks, and no more than there can be.
    assert!((1..=400).contains(&counted), "{counted}");
}

#[test]
fn begin_runs_on_demand_and_streams_records_in_order() {
    let mut image = image(ProgramType::RawTracepoint, AttachType::None, None, Attach::TestRun(Moment::Begin));
    image.maps.push(MapSpec {
        kind: MapKind::RingBuf,
        key_size: 0,
        value_size: 0,
        max_entries: 4096,
        ..MapSpec::array("ring", 0, 0)
    });
    image.system.ring = Some(1);
    image.programs[0].instructions = vec![
        Instruction::load(Size::D, R1, R1, 0),
        Instruction::store(Size::D, R10, -8, R1),
        Instruction::map(R1, 1),
        Instruction::mov(R2, R10),
        Instruction::alu(AluOp::Add, R2, -8),
        Instruction::mov(R3, 8),
        Instruction::mov(R4, NO_WAKEUP),
        Instruction::Call { helper: RINGBUF_OUTPUT },
        Instruction::mov(R0, 42),
        Instruction::Exit,
    ];
    let mut loaded = load(&image);
    let mut received = Vec::new();
    let mut ring = loaded.ring.take().unwrap();
    // More than the ring holds in all, so that it wraps.
    for round in 0..100u64 {
        for n in 0..10 {
            assert_eq!(loaded.programs[0].run(&mut [round * 10 + n], None).unwrap(), 42);
        }
        ring.drain(|record| {
            received.push(u64::from_ne_bytes(record.try_into().unwrap()));
            true
        })
        .unwrap();
    }
    assert_eq!(received, (0..1000).collect::<Vec<u64>>());
    assert_eq!(ring.waiting(), 0);
}

#[test]
fn a_refusal_carries_the_verifiers_log() {
    let attach = Attach::RawTracepoint { targets: vec![tracepoint("", "sys_enter", 0)] };
    let mut image = image(ProgramType::RawTracepoint, AttachType::None, None, attach);
    image.programs[0].instructions = vec![Instruction::load(Size::D, R0, R5, 0), Instruction::Exit];
    let refused = Loaded::load(&image, LoadOptions { statistics: false, possible_cpus: 2 }, |_, _| Ok(()));
    let kernel::load::ImageRefused::Program(refused) = refused.unwrap_err() else {
        panic!("not the program")
    };
    assert!(refused.log.contains("R5 !read_ok"), "{}", refused.log);
    assert!(refused.to_string().contains("the verifier says: R5 !read_ok"), "{refused}");
}

#[test]
fn hash_maps_are_read_whole_also_beyond_one_batch() {
    for kind in [MapKind::Hash, MapKind::PerCpuHash] {
        let spec = MapSpec { kind, key_size: 12, max_entries: 20_000, flags: 1, ..MapSpec::array("m", 8, 1) };
        let map =
            kernel::ebpf::Map::create(&spec, kernel::cpu::possible().unwrap().last().unwrap() + 1).unwrap();
        let value = vec![1u8; map.value_bytes()];
        for n in 0..10_000u64 {
            let mut key = [0u8; 12];
            key[..8].copy_from_slice(&n.to_ne_bytes());
            map.update(&key, &value, 0).unwrap();
        }
        let entries = map.entries().unwrap();
        let mut keys: Vec<u64> =
            entries.iter().map(|(key, _)| u64::from_ne_bytes(key[..8].try_into().unwrap())).collect();
        keys.sort_unstable();
        assert_eq!(keys, (0..10_000).collect::<Vec<u64>>());
        map.clear().unwrap();
        assert!(map.entries().unwrap().is_empty());
    }
}

/// The kernel's function behind getppid(2).
const GETPPID: &str = "__x64_sys_getppid";

fn skipped_without(feature: bpf::facts::Feature) -> bool {
    use bpf::KernelFacts;
    let facts = kernel::facts::LiveFacts::new();
    if !facts.has(feature) {
        testkit::skip::note("kernel", &format!("{} has no {feature:?}", facts.release()));
        return true;
    }
    false
}

fn target() -> bpf::image::KernelTarget {
    bpf::image::KernelTarget { symbol: GETPPID.into(), module: None, offset: 0, address: None, cookie: 0 }
}

#[test]
fn kprobes_and_kretprobes_count_exactly() {
    if skipped_without(bpf::facts::Feature::Kprobes) {
        return;
    }
    for on_return in [false, true] {
        let attach = Attach::Kprobe { on_return, multi: false, targets: vec![target()] };
        let image = image(ProgramType::Kprobe, AttachType::None, None, attach);
        assert_eq!(count(&image, getppid_often), CALLS, "on_return {on_return}");
    }
}

#[test]
fn one_link_on_many_kernel_functions_counts_exactly() {
    if skipped_without(bpf::facts::Feature::KprobeMulti) {
        return;
    }
    for on_return in [false, true] {
        let attach = Attach::Kprobe { on_return, multi: true, targets: vec![target()] };
        let image = image(ProgramType::Kprobe, AttachType::TraceKprobeMulti, None, attach);
        assert_eq!(count(&image, getppid_often), CALLS, "on_return {on_return}");
    }
}

/// A function that every kernel's BTF has.
const READ: &str = "vfs_read";

fn read_often() {
    use std::io::Read;
    let mut zero = std::fs::File::open("/dev/zero").unwrap();
    for _ in 0..CALLS {
        zero.read_exact(&mut [0]).unwrap();
    }
}

#[test]
fn trampolines_count_exactly() {
    if skipped_without(bpf::facts::Feature::Fentry) {
        return;
    }
    let id = vmlinux().function(READ).map(|signature| signature.id);
    assert!(id.is_some());
    for (on_return, kind) in [(false, AttachType::TraceFentry), (true, AttachType::TraceFexit)] {
        let attach = Attach::Trampoline { function: READ.into(), on_return, cookie: 0 };
        let image = image(ProgramType::Tracing, kind, id, attach);
        assert_eq!(count(&image, read_often), CALLS, "on_return {on_return}");
    }
}
