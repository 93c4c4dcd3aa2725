//! Typed programs made by hand, for tests of the back end alone.

use crate::hir::{self, *};
use crate::schema::{Program as ProgramToLoad, *};
use crate::source::Span;
use crate::types::{Clock, Space, Type};

/// An expression without a place.
pub fn expr(ty: Type, kind: ExprKind) -> Expr {
    Expr { kind, ty, span: Span::NONE }
}

/// A 64-bit constant.
pub fn int(value: u64) -> Expr {
    expr(Type::U64, ExprKind::Int(value))
}

/// A function of the machine without arguments.
pub fn call(ty: Type, intrinsic: Intrinsic) -> Expr {
    expr(ty, ExprKind::Intrinsic(intrinsic, vec![]))
}

/// `pid`.
pub fn pid() -> Expr {
    call(Type::U32, Intrinsic::Pid { initial: true })
}

/// `tid`.
pub fn tid() -> Expr {
    call(Type::U32, Intrinsic::Tid { initial: true })
}

/// `comm`.
pub fn comm() -> Expr {
    call(Type::String(16), Intrinsic::Comm)
}

/// `nsecs`.
pub fn nsecs() -> Expr {
    call(Type::U64, Intrinsic::Nsecs(Clock::Boot))
}

/// A word of the probe's context.
pub fn argument(index: i64) -> Expr {
    let place = Place { base: Base::Context, offset: index * 8, indexes: vec![] };
    expr(Type::U64, ExprKind::Read { place, bits: None })
}

/// `str(pointer)` of a kernel pointer.
pub fn text(pointer: Expr, size: u32) -> Expr {
    let pointer = Expr { ty: Type::pointer(Type::signed(1), Space::Kernel), ..pointer };
    expr(Type::String(size), ExprKind::Intrinsic(Intrinsic::Str, vec![pointer]))
}

/// A string constant.
pub fn string(text: &str, size: u32) -> Expr {
    expr(Type::String(size), ExprKind::Str(text.as_bytes().to_vec()))
}

/// A binary operation.
pub fn binary(op: BinaryOp, left: Expr, right: Expr) -> Expr {
    let ty = if op.is_comparison() { Type::Bool } else { left.ty.clone() };
    expr(ty, ExprKind::Binary(op, Box::new(left), Box::new(right)))
}

/// A variable.
pub fn local(id: u32, ty: Type) -> Expr {
    expr(ty, ExprKind::Local(LocalId(id)))
}

/// A statement without a place.
pub fn statement(kind: StatementKind) -> Statement {
    Statement { kind, span: Span::NONE }
}

/// `@m[key] = count()` and the like.
pub fn aggregate(map: u32, key: Option<Expr>, update: Update) -> Statement {
    statement(StatementKind::Aggregate { map: MapId(map), key, update })
}

/// `@m[key] = value`.
pub fn set_map(map: u32, key: Option<Expr>, value: Expr) -> Statement {
    statement(StatementKind::SetMap { map: MapId(map), key, value })
}

/// `@m[key]`.
pub fn get_map(map: u32, key: Option<Expr>, ty: Type) -> Expr {
    expr(ty, ExprKind::MapGet { map: MapId(map), key: key.map(Box::new) })
}

/// `$x = value`.
pub fn set(id: u32, value: Expr) -> Statement {
    statement(StatementKind::SetLocal { local: LocalId(id), value })
}

/// Streams a record.
pub fn emit(record: u32, values: Vec<Expr>) -> Statement {
    statement(StatementKind::Emit { record: EmitId(record), values })
}

/// A program text of one probe.
pub struct Sample {
    /// The typed program.
    pub program: hir::Program,
}

impl Sample {
    /// One probe of this kind with this body.
    pub fn new(kind: ProgramKind, block: Vec<Statement>) -> Sample {
        let attach = match kind {
            ProgramKind::TracingRawTracepoint | ProgramKind::RawTracepoint => {
                Attach::RawTracepoint { module: None, name: "sched_switch".into(), btf_id: 0 }
            }
            ProgramKind::Tracepoint => {
                Attach::Tracepoint { category: "sched".into(), name: "sched_switch".into() }
            }
            _ => Attach::Begin,
        };
        let target = Target { name: "probe".into(), attach, span: Span::NONE };
        let description = ProgramToLoad {
            name: "probe_1".into(),
            kind,
            targets: vec![target],
            cookies: false,
            span: Span::NONE,
            sleepable: false,
        };
        let schema = Schema { programs: vec![description], ..Schema::default() };
        let body = Body { locals: vec![], block };
        let probes = vec![Probe { program: ProgramId(0), own: None, predicate: None, body }];
        Sample { program: hir::Program { probes, functions: vec![], schema } }
    }

    /// Adds a map, with counters for refusals.
    pub fn map(mut self, key: Option<Type>, value: MapValue, storage: Storage, capacity: u32) -> Sample {
        let name = format!("@m{}", self.program.schema.maps.len());
        let id = MapId(self.program.schema.maps.len() as u32);
        self.program.schema.maps.push(Map { name, key, value, storage, capacity, span: Span::NONE });
        self.program.schema.counters.extend([Counter::MapFull(id), Counter::MapFailed(id)]);
        self
    }

    /// Adds a kind of record, with a counter for a full ring.
    pub fn record(mut self, kind: EmitKind, types: Vec<Type>) -> Sample {
        let id = EmitId(self.program.schema.records.len() as u32);
        self.program.schema.records.push(EmittedRecord::new(kind, types, Span::NONE));
        self.program.schema.counters.push(Counter::RingFull(id));
        self
    }

    /// Adds a variable.
    pub fn local(mut self, ty: Type) -> Sample {
        let name = format!("$v{}", self.program.probes[0].body.locals.len());
        self.program.probes[0].body.locals.push(Local { name, ty, address_taken: false, span: Span::NONE });
        self
    }

    /// Sets the predicate.
    pub fn when(mut self, predicate: Expr) -> Sample {
        self.program.probes[0].predicate = Some(predicate);
        self
    }
}

/// Programs of the tutorial's kinds, by name.
pub fn all() -> Vec<(&'static str, Sample)> {
    use ProgramKind::TracingRawTracepoint as Tp;
    let pair = vec![
        set(0, get_map(0, Some(tid()), Type::U64)),
        statement(StatementKind::If {
            condition: binary(BinaryOp::Ne, local(0, Type::U64), int(0)),
            then: vec![
                aggregate(1, None, Update::Hist(binary(BinaryOp::Sub, nsecs(), local(0, Type::U64)))),
                statement(StatementKind::Expr(expr(
                    Type::Bool,
                    ExprKind::MapDelete { map: MapId(0), key: Some(Box::new(tid())), missing: None },
                ))),
            ],
            otherwise: vec![],
        }),
    ];
    let tuple_key = || {
        let ty = Type::tuple([Type::U32, Type::String(16), Type::U64]);
        expr(ty, ExprKind::Tuple(vec![pid(), comm(), argument(0)]))
    };
    let range = vec![
        set(0, int(0)),
        statement(StatementKind::ForRange {
            local: LocalId(1),
            start: int(2),
            end: int(7),
            body: vec![
                set(0, binary(BinaryOp::Add, local(0, Type::U64), local(1, Type::U64))),
                statement(StatementKind::If {
                    condition: binary(BinaryOp::Ge, local(1, Type::U64), int(5)),
                    then: vec![statement(StatementKind::Break)],
                    otherwise: vec![],
                }),
            ],
        }),
        set_map(0, None, local(0, Type::U64)),
    ];
    let nested = vec![
        set(0, int(0)),
        statement(StatementKind::While {
            condition: binary(BinaryOp::Lt, local(0, Type::U64), int(10)),
            body: vec![
                set(0, binary(BinaryOp::Add, local(0, Type::U64), int(1))),
                statement(StatementKind::ForRange {
                    local: LocalId(1),
                    start: int(0),
                    end: local(0, Type::U64),
                    body: vec![
                        aggregate(0, None, Update::Count),
                        statement(StatementKind::If {
                            condition: binary(BinaryOp::Eq, local(0, Type::U64), int(4)),
                            then: vec![statement(StatementKind::Return(None))],
                            otherwise: vec![],
                        }),
                    ],
                }),
            ],
        }),
        aggregate(1, None, Update::Count),
    ];
    let kv = Type::tuple([Type::U32, Type::U64]);
    let field = |offset| {
        let place = Place { base: Base::Value(Box::new(local(0, kv.clone()))), offset, indexes: vec![] };
        let ty = if offset == 0 { Type::U32 } else { Type::U64 };
        expr(ty, ExprKind::Read { place, bits: None })
    };
    let for_map = vec![
        aggregate(0, Some(pid()), Update::Count),
        statement(StatementKind::ForMap {
            map: MapId(0),
            local: LocalId(0),
            body: vec![emit(0, vec![field(0), field(8)])],
        }),
    ];
    let count = MapValue::Count;
    let per_cpu = Storage::PerCpuScalar;
    let hash = Storage::PerCpuHash;
    vec![
        (
            "count",
            Sample::new(Tp, vec![aggregate(0, None, Update::Count)]).map(None, count.clone(), per_cpu, 1),
        ),
        (
            "count_by_pid",
            Sample::new(Tp, vec![aggregate(0, Some(pid()), Update::Count)]).map(
                Some(Type::U32),
                count.clone(),
                hash,
                3,
            ),
        ),
        (
            "count_by_comm",
            Sample::new(Tp, vec![aggregate(0, Some(comm()), Update::Count)]).map(
                Some(Type::String(16)),
                count.clone(),
                hash,
                100,
            ),
        ),
        (
            "hist",
            Sample::new(Tp, vec![aggregate(0, None, Update::Hist(argument(0)))]).map(
                None,
                MapValue::Hist { bits: 0 },
                per_cpu,
                1,
            ),
        ),
        (
            "hist_by_pid_bits",
            Sample::new(Tp, vec![aggregate(0, Some(pid()), Update::Hist(argument(0)))]).map(
                Some(Type::U32),
                MapValue::Hist { bits: 3 },
                hash,
                100,
            ),
        ),
        (
            "lhist",
            Sample::new(Tp, vec![aggregate(0, None, Update::Lhist(Expr { ty: Type::I64, ..argument(0) }))])
                .map(None, MapValue::Lhist { min: -10, max: 100, step: 10 }, per_cpu, 1),
        ),
        (
            "extremes",
            Sample::new(
                Tp,
                vec![
                    aggregate(0, None, Update::Min(Expr { ty: Type::I64, ..argument(0) })),
                    aggregate(1, Some(pid()), Update::Max(Expr { ty: Type::I64, ..argument(0) })),
                    aggregate(2, None, Update::Avg(argument(0))),
                    aggregate(3, Some(pid()), Update::Stats(argument(0))),
                    aggregate(4, None, Update::Sum(argument(0))),
                ],
            )
            .map(None, MapValue::Min { signed: true }, per_cpu, 1)
            .map(Some(Type::U32), MapValue::Max { signed: true }, hash, 10)
            .map(None, MapValue::Avg { signed: false }, per_cpu, 1)
            .map(Some(Type::U32), MapValue::Stats { signed: false }, hash, 10)
            .map(None, MapValue::Sum { signed: false }, per_cpu, 1),
        ),
        (
            "start",
            Sample::new(Tp, vec![set_map(0, Some(tid()), nsecs())]).map(
                Some(Type::U32),
                MapValue::Plain(Type::U64),
                Storage::Hash,
                2,
            ),
        ),
        (
            "pair",
            Sample::new(Tp, pair)
                .map(Some(Type::U32), MapValue::Plain(Type::U64), Storage::Hash, 100)
                .map(None, MapValue::Hist { bits: 0 }, per_cpu, 1)
                .local(Type::U64),
        ),
        (
            "tuple_key",
            Sample::new(Tp, vec![aggregate(0, Some(tuple_key()), Update::Count)]).map(
                Some(tuple_key().ty),
                count.clone(),
                hash,
                100,
            ),
        ),
        (
            "string_key",
            Sample::new(Tp, vec![aggregate(0, Some(text(argument(0), 200)), Update::Count)]).map(
                Some(Type::String(200)),
                count.clone(),
                hash,
                100,
            ),
        ),
        (
            "printf",
            Sample::new(
                Tp,
                vec![emit(0, vec![comm(), pid(), text(argument(0), 1024), text(argument(1), 1024), nsecs()])],
            )
            .record(
                EmitKind::Print,
                vec![Type::String(16), Type::U32, Type::String(1024), Type::String(1024), Type::U64],
            ),
        ),
        (
            "filter",
            Sample::new(Tp, vec![aggregate(0, None, Update::Count)])
                .when(binary(BinaryOp::Eq, comm(), string("bash", 16)))
                .map(None, count.clone(), per_cpu, 1),
        ),
        (
            "strings",
            Sample::new(
                Tp,
                vec![
                    set(0, text(argument(0), 256)),
                    statement(StatementKind::If {
                        condition: binary(BinaryOp::Eq, local(0, Type::String(256)), text(argument(1), 256)),
                        then: vec![aggregate(0, None, Update::Count)],
                        otherwise: vec![],
                    }),
                    set_map(
                        1,
                        None,
                        expr(
                            Type::I64,
                            ExprKind::Intrinsic(
                                Intrinsic::StrFind,
                                vec![local(0, Type::String(256)), string("world", 16)],
                            ),
                        ),
                    ),
                    set_map(2, Some(int(1)), local(0, Type::String(256))),
                ],
            )
            .local(Type::String(256))
            .map(None, count.clone(), per_cpu, 1)
            .map(None, MapValue::Plain(Type::I64), Storage::Scalar, 1)
            .map(Some(Type::U64), MapValue::Plain(Type::String(256)), Storage::Hash, 10),
        ),
        (
            "step",
            Sample::new(
                Tp,
                vec![
                    statement(StatementKind::Expr(expr(
                        Type::U64,
                        ExprKind::Step {
                            target: StepTarget::Map { map: MapId(0), key: Some(Box::new(pid())) },
                            by: 1,
                            post: true,
                        },
                    ))),
                    statement(StatementKind::Expr(expr(
                        Type::U64,
                        ExprKind::Step {
                            target: StepTarget::Map { map: MapId(1), key: None },
                            by: 1,
                            post: true,
                        },
                    ))),
                ],
            )
            .map(Some(Type::U32), MapValue::Plain(Type::U64), Storage::Hash, 10)
            .map(None, MapValue::Plain(Type::U64), Storage::Scalar, 1),
        ),
        (
            "range",
            Sample::new(Tp, range).local(Type::U64).local(Type::U64).map(
                None,
                MapValue::Plain(Type::U64),
                Storage::Scalar,
                1,
            ),
        ),
        (
            "nested",
            Sample::new(Tp, nested)
                .local(Type::U64)
                .local(Type::U64)
                .map(None, count.clone(), per_cpu, 1)
                .map(None, count.clone(), per_cpu, 1),
        ),
        (
            "for_map",
            Sample::new(Tp, for_map)
                .local(kv.clone())
                .map(Some(Type::U32), count.clone(), hash, 10)
                .record(EmitKind::Print, vec![Type::U32, Type::U64]),
        ),
        (
            "exit",
            Sample::new(
                ProgramKind::Special,
                vec![statement(StatementKind::Exit {
                    record: EmitId(0),
                    code: Expr { ty: Type::signed(4), ..int(3) },
                })],
            )
            .record(EmitKind::Exit, vec![Type::signed(4)]),
        ),
        ("stack", {
            let stack =
                crate::types::Stack { user: false, mode: crate::types::StackMode::Bpftrace, limit: 127 };
            let mut sample = Sample::new(
                Tp,
                vec![aggregate(0, Some(call(Type::Stack(stack), Intrinsic::Stack)), Update::Count)],
            )
            .map(Some(Type::Stack(stack)), count.clone(), hash, 100);
            sample.program.schema.stack_maps.push(StackMap { user: false, limit: 127 });
            sample.program.schema.counters.push(Counter::StackLost);
            sample
        }),
        (
            "series",
            Sample::new(Tp, vec![aggregate(0, None, Update::TimeSeries(argument(0)))]).map(
                None,
                MapValue::TimeSeries {
                    interval: 1_000_000_000,
                    intervals: 10,
                    combine: Combine::Max,
                    signed: false,
                },
                per_cpu,
                1,
            ),
        ),
        (
            "glob",
            Sample::new(
                Tp,
                vec![set_map(
                    0,
                    None,
                    expr(
                        Type::Bool,
                        ExprKind::Intrinsic(
                            Intrinsic::GlobMatch,
                            vec![text(argument(0), 64), string("/usr/*/b?sh", 64)],
                        ),
                    ),
                )],
            )
            .map(None, MapValue::Plain(Type::Bool), Storage::Scalar, 1),
        ),
    ]
}
