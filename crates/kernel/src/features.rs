//! What this kernel can do, found by trying: each question is one or two small system calls.

use bpf::facts::Feature;
use bpf::image::{Attach, Moment, Program};
use bpf::insn::*;
use bpf::map::{MapKind, MapSpec, flags};
use bpf::program::{AttachType, ProgramType};

use crate::ebpf::link::UserPlaces;
use crate::ebpf::program::LoadContext;
use crate::ebpf::{Link, LoadedProgram, Map};
use crate::perf_event::{PerfEvent, PerfEventAttr, Scope, event_type};

/// A harmless function that exists in every kernel with BPF and networking, for trying attachments on.
const TEST_FUNCTION: &str = "bpf_fentry_test1";

const SLEEPABLE: u32 = 1 << 4;

/// Helpers that stand for a feature.
mod helper {
    pub const FOR_EACH_MAP_ELEM: u32 = 164;
    pub const GET_FUNC_IP: u32 = 173;
    pub const GET_ATTACH_COOKIE: u32 = 174;
    pub const LOOP: u32 = 181;
}

/// Whether the kernel takes a program of this type with this code.
fn loads(
    kind: ProgramType,
    attach: AttachType,
    btf_id: Option<u32>,
    code: Vec<Instruction>,
) -> Result<LoadedProgram, String> {
    let program = Program {
        name: "lotse_feature".into(),
        kind,
        expected_attach: attach,
        attach_btf_id: btf_id,
        attach_module: None,
        // Programs of this type have to be sleepable.
        load_flags: if kind == ProgramType::Syscall { SLEEPABLE } else { 0 },
        attach: Attach::TestRun(Moment::Begin),
        instructions: code,
        functions: vec![],
        lines: vec![],
        spans: vec![],
        probe: 0,
    };
    let context = LoadContext { license: "GPL", ..LoadContext::default() };
    LoadedProgram::load(&program, context).map_err(|(refused, log)| {
        // Without rights nothing loads: no log, and no answer either.
        if log.is_empty() { format!("refused: {refused}") } else { log }
    })
}

fn nothing() -> Vec<Instruction> {
    vec![Instruction::mov(R0, 0), Instruction::Exit]
}

/// Whether programs of this type may call the helper. The verifier refuses a call without arguments too,
/// but in other words.
pub fn has_helper(kind: ProgramType, helper: u32, tracepoint_btf_id: Option<u32>) -> bool {
    let code = vec![Instruction::Call { helper }, Instruction::mov(R0, 0), Instruction::Exit];
    let (attach, id) = match kind {
        ProgramType::Tracing => (AttachType::TraceRawTp, tracepoint_btf_id),
        _ => (AttachType::None, None),
    };
    match loads(kind, attach, id, code) {
        Ok(_) => true,
        Err(log) => {
            let unknown = ["unknown func", "invalid func", "cannot use helper", "refused: "];
            !unknown.iter().any(|words| log.contains(words))
        }
    }
}

/// Whether maps of this kind can be created.
pub fn has_map(kind: MapKind) -> bool {
    let mut spec = MapSpec { kind, max_entries: 1, ..MapSpec::array("lotse_feature", 8, 1) };
    match kind {
        MapKind::RingBuf => (spec.key_size, spec.value_size, spec.max_entries) = (0, 0, 4096),
        MapKind::Arena => {
            (spec.key_size, spec.value_size, spec.flags) = (0, 0, flags::MMAPABLE);
        }
        MapKind::PerfEventArray | MapKind::CgroupArray => spec.value_size = 4,
        // These need types or an inner map; nothing here uses them without knowing they exist.
        MapKind::TaskStorage | MapKind::ArrayOfMaps => return true,
        _ => {}
    }
    Map::create(&spec, 1).is_ok()
}

/// Whether a feature works, given what types know.
pub fn has(feature: Feature, btf: Option<&bpf::btf::Btf>) -> bool {
    let function = |name: &str| btf.and_then(|btf| btf.function(name)).map(|signature| signature.id);
    let tracepoint = || btf.and_then(|btf| btf.tracepoint("sys_enter")).map(|signature| signature.id);
    match feature {
        Feature::Kprobes => exists("/sys/bus/event_source/devices/kprobe/type"),
        Feature::Uprobes => exists("/sys/bus/event_source/devices/uprobe/type"),
        Feature::Fentry => {
            let Some(id) = function(TEST_FUNCTION) else { return false };
            loads(ProgramType::Tracing, AttachType::TraceFentry, Some(id), nothing())
                .is_ok_and(|program| Link::raw_tracepoint(&program, None, 0).is_ok())
        }
        Feature::KprobeMulti => loads(ProgramType::Kprobe, AttachType::TraceKprobeMulti, None, nothing())
            .is_ok_and(|program| Link::kprobe_multi(&program, &[TEST_FUNCTION], &[], &[0], false).is_ok()),
        Feature::UprobeMulti => uprobe_multi(),
        Feature::RawTracepoint => {
            loads(ProgramType::RawTracepoint, AttachType::None, None, nothing()).is_ok()
        }
        Feature::TpBtf => tracepoint().is_some_and(|id| {
            loads(ProgramType::Tracing, AttachType::TraceRawTp, Some(id), nothing()).is_ok()
        }),
        Feature::RawTracepointCookie => {
            has_helper(ProgramType::RawTracepoint, helper::GET_ATTACH_COOKIE, None)
        }
        Feature::PerfCookie => has_helper(ProgramType::PerfEvent, helper::GET_ATTACH_COOKIE, None),
        Feature::RingBuf => has_map(MapKind::RingBuf),
        Feature::BpfLoop => has_helper(ProgramType::Kprobe, helper::LOOP, None),
        Feature::ForEachMapElem => has_helper(ProgramType::Kprobe, helper::FOR_EACH_MAP_ELEM, None),
        Feature::GetFuncIp => has_helper(ProgramType::Kprobe, helper::GET_FUNC_IP, None),
        Feature::Kfuncs => function("bpf_task_acquire").is_some(),
        Feature::IterNum => function("bpf_iter_num_new").is_some(),
        Feature::StringKfuncs => function("bpf_strlen").is_some(),
        Feature::Arena => has_map(MapKind::Arena),
        Feature::Iterators => function("bpf_iter_task").is_some(),
        Feature::InstructionsV4 => {
            let code = vec![
                Instruction::mov(R1, 0),
                Instruction::MovSigned { width: Width::W64, dst: R0, src: R1, bits: 8 },
                Instruction::Exit,
            ];
            loads(ProgramType::RawTracepoint, AttachType::None, None, code).is_ok()
        }
        Feature::MapValueAddress => {
            let spec = MapSpec { flags: flags::MMAPABLE, ..MapSpec::array("lotse_feature", 8, 1) };
            Map::create(&spec, 1).is_ok()
        }
        Feature::HardwareEvents => {
            opens(PerfEventAttr { event_type: event_type::HARDWARE, ..Default::default() })
        }
        Feature::Breakpoints => {
            let watched = 0u64;
            opens(PerfEventAttr {
                event_type: event_type::BREAKPOINT,
                breakpoint_type: 2,
                config1: std::ptr::from_ref(&watched) as u64,
                config2: 8,
                sample_period: 1,
                ..Default::default()
            })
        }
        Feature::Tracefs => crate::tracefs::Tracefs::open().is_ok(),
    }
}

/// A link on a directory: kernels that know these links say that it is no regular file (EBADF), others
/// that the attach type is not theirs (EINVAL).
fn uprobe_multi() -> bool {
    let Ok(program) = loads(ProgramType::Kprobe, AttachType::TraceUprobeMulti, None, nothing()) else {
        return false;
    };
    let places =
        UserPlaces { path: "/", offsets: &[1], semaphores: &[], cookies: &[0], at_return: false, pid: None };
    Link::uprobe_multi(&program, places).is_err_and(|refused| refused.errno() == libc::EBADF)
}

fn opens(attribute: PerfEventAttr) -> bool {
    PerfEvent::open(&attribute, Scope { pid: 0, cpu: -1 }, "feature").is_ok()
}

fn exists(path: &str) -> bool {
    std::path::Path::new(path).exists()
}
