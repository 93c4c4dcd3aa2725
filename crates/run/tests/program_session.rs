//! A hand-assembled program through a whole session: begin streams two records, one of them `exit`.

use bpf::image::{Attach, Image, Moment, Program, SystemMaps};
use bpf::insn::*;
use bpf::map::{MapKind, MapSpec, flags};
use bpf::program::{AttachType, ProgramType};
use lang::format::Format;
use lang::layout::Layout;
use lang::schema::{EmitKind, EmittedRecord, Map, MapValue, Schema, Storage};
use lang::source::{Source, Span};
use lang::types::Type;
use run::program::session;
use run::program::{Compiled, RunOptions};

const RINGBUF_OUTPUT: u32 = 130;

/// Stores a record of an id and one number on the stack and streams it.
fn emit(id: i32, value: i32) -> Vec<Instruction> {
    vec![
        Instruction::store(Size::W, R10, -16, id),
        Instruction::store(Size::W, R10, -12, 16),
        Instruction::store(Size::D, R10, -8, value),
        Instruction::map(R1, 1),
        Instruction::mov(R2, R10),
        Instruction::alu(AluOp::Add, R2, -16),
        Instruction::mov(R3, 16),
        Instruction::mov(R4, 1),
        Instruction::Call { helper: RINGBUF_OUTPUT },
    ]
}

fn begin_that_prints_and_exits() -> Compiled {
    let mut schema = Schema::default();
    let format = Format::parse(b"hi %d\n").unwrap();
    schema.records.push(EmittedRecord::new(EmitKind::Printf(format), vec![Type::I64], Span::NONE));
    schema.records.push(EmittedRecord::new(EmitKind::Exit, vec![Type::signed(4)], Span::NONE));
    schema.maps.push(Map {
        name: "@x".into(),
        key: None,
        value: MapValue::Count,
        storage: Storage::PerCpuScalar,
        capacity: 1,
        span: Span::NONE,
    });
    let cpus = kernel::cpu::possible().unwrap().last().unwrap() + 1;
    let layout = Layout::of(&schema, cpus, 2);
    let size = layout.cpu_start + layout.cpu_stride * layout.cpu_blocks;
    let data = MapSpec { flags: flags::MMAPABLE, ..MapSpec::array("data", size, 1) };
    let ring =
        MapSpec { kind: MapKind::RingBuf, key_size: 0, value_size: 0, max_entries: 4096, ..data.clone() };
    let mut instructions = emit(0, 42);
    instructions.extend(emit(1, 3));
    // @x = count() on CPU 0's block, whichever CPU this is: only begin writes there.
    instructions.extend([
        Instruction::LoadImm64 {
            dst: R1,
            value: Imm64::MapValue { map: 0, offset: layout.on_cpu(0, layout.counters) as u32 },
        },
        Instruction::store(Size::D, R1, 0, 1),
        Instruction::mov(R0, 0),
        Instruction::Exit,
    ]);
    let program = Program {
        name: "begin".into(),
        kind: ProgramType::RawTracepoint,
        expected_attach: AttachType::None,
        attach_btf_id: None,
        attach_module: None,
        load_flags: 0,
        attach: Attach::TestRun(Moment::Begin),
        instructions,
        functions: vec![],
        lines: vec![],
        spans: vec![],
        probe: 0,
    };
    let image = Image {
        license: "GPL".into(),
        maps: vec![data, MapSpec { flags: 0, ..ring }],
        system: SystemMaps { data: Some(0), ring: Some(1), ..SystemMaps::default() },
        programs: vec![program],
        ..Image::default()
    };
    Compiled { image, schema, layout, source: Source::new("test", "") }
}

#[test]
fn begin_prints_and_ends_with_its_exit_code() {
    let compiled = begin_that_prints_and_exits();
    let facts = kernel::facts::LiveFacts::new();
    let stop = kernel::stop::StopToken::new().unwrap();
    let (mut out, mut talk) = (Vec::new(), Vec::new());
    let finished =
        session::run(&compiled, &facts, &RunOptions::default(), None, &stop, &mut out, &mut talk).unwrap();
    assert_eq!(String::from_utf8_lossy(&out), "Attached 1 probe\nhi 42\n\n\n@x: 1\n");
    assert_eq!((finished.exit_code, talk.len()), (3, 0), "{}", String::from_utf8_lossy(&talk));
}

#[test]
fn json_has_one_object_a_line() {
    let compiled = begin_that_prints_and_exits();
    let facts = kernel::facts::LiveFacts::new();
    let stop = kernel::stop::StopToken::new().unwrap();
    let (mut out, mut talk) = (Vec::new(), Vec::new());
    let options = RunOptions { form: run::program::output::Form::Json, ..RunOptions::default() };
    session::run(&compiled, &facts, &options, None, &stop, &mut out, &mut talk).unwrap();
    let expected = r#"{"type": "attached_probes", "count": 1, "data": {"probes": 1}}
{"type": "printf", "data": "hi 42\n"}
{"type": "map", "data": {"@x": 1}}
"#;
    assert_eq!(String::from_utf8_lossy(&out), expected);
}
