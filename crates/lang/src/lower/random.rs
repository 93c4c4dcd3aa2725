//! Random well-typed programs, the same for the same seed: whatever comes out has to compile, to be accepted by
//! the verifier, and to do the same with and without optimisation, in the interpreter and in the kernel.

use super::samples::*;
use crate::hir::*;
use crate::schema::*;
use crate::source::Span;
use crate::types::{Integer, Space, Type};

/// Words of the context: 0–3 are numbers, 4 and 5 are addresses of texts in user memory.
pub const TEXTS: [i64; 2] = [4, 5];

/// Sizes of string variables.
const STRING: u32 = 40;
const LONG_STRING: u32 = 300;

/// A generator of one program.
pub struct Random {
    state: u64,
    locals: Vec<Local>,
    loops: u32,
    statements: u32,
}

/// Maps every program has, by number: global i64, per-CPU count, hash u32 → i64, hash of tuples, per-CPU hash
/// statistics, hash of strings, per-CPU histogram, maximum.
fn with_maps(sample: Sample) -> Sample {
    let tuple = Type::tuple([Type::unsigned(1), Type::String(STRING), Type::I64]);
    sample
        .map(None, MapValue::Plain(Type::I64), Storage::Scalar, 1)
        .map(None, MapValue::Count, Storage::PerCpuScalar, 1)
        .map(Some(Type::U32), MapValue::Plain(Type::I64), Storage::Hash, 50)
        .map(Some(tuple), MapValue::Count, Storage::PerCpuHash, 50)
        .map(Some(Type::unsigned(2)), MapValue::Stats { signed: true }, Storage::PerCpuHash, 50)
        .map(Some(Type::U64), MapValue::Plain(Type::String(LONG_STRING)), Storage::Hash, 50)
        .map(None, MapValue::Hist { bits: 2 }, Storage::PerCpuScalar, 1)
        .map(Some(Type::U32), MapValue::Max { signed: true }, Storage::PerCpuHash, 50)
        .record(EmitKind::Print, vec![Type::I64, Type::unsigned(1), Type::String(STRING)])
        .record(EmitKind::Print, vec![Type::String(LONG_STRING), Type::U32, Type::String(LONG_STRING)])
}

/// The program of a seed.
pub fn program(seed: u64, kind: ProgramKind) -> Sample {
    let mut random = Random {
        state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        locals: vec![],
        loops: 0,
        statements: 0,
    };
    for _ in 0..20 {
        random.next();
    }
    let count = 2 + random.below(6);
    let block = random.block(count, 3);
    let mut sample = with_maps(Sample::new(kind, block));
    if random.below(4) == 0 {
        let predicate = random.boolean(2);
        sample = sample.when(predicate);
    }
    sample.program.probes[0].body.locals = random.locals;
    sample
}

impl Random {
    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    fn below(&mut self, bound: u32) -> u32 {
        (self.next() >> 33) as u32 % bound
    }

    fn integer(&mut self) -> Type {
        let bytes = [1, 2, 4, 8, 8, 8][self.below(6) as usize];
        Type::Integer(Integer { bytes, signed: self.below(2) == 0, names: None })
    }

    fn constant(&mut self) -> u64 {
        match self.below(6) {
            0 => u64::from(self.below(4)),
            1 => u64::from(self.below(300)),
            2 => (-i64::from(self.below(5))) as u64,
            3 => 1 << self.below(64),
            4 => (1_u64 << self.below(64)).wrapping_sub(1),
            _ => self.next(),
        }
    }

    fn variable(&mut self, ty: &Type) -> LocalId {
        // The counters of loops are not to be changed.
        let known: Vec<usize> = self
            .locals
            .iter()
            .enumerate()
            .filter(|(_, local)| local.ty == *ty && local.name.starts_with("$v"))
            .map(|(at, _)| at)
            .collect();
        if known.is_empty() || known.len() < 4 && self.below(4) == 0 {
            let name = format!("$v{}", self.locals.len());
            self.locals.push(Local { name, ty: ty.clone(), address_taken: false, span: Span::NONE });
            return LocalId(self.locals.len() as u32 - 1);
        }
        LocalId(known[self.below(known.len() as u32) as usize] as u32)
    }

    fn cast(&mut self, inner: Expr, ty: &Type) -> Expr {
        if inner.ty == *ty { inner } else { expr(ty.clone(), ExprKind::Cast(Cast::Integer, Box::new(inner))) }
    }

    /// A scalar of an integer type.
    fn scalar(&mut self, ty: &Type, depth: u32) -> Expr {
        if depth == 0 {
            return match self.below(4) {
                0 => expr(ty.clone(), ExprKind::Int(self.constant())),
                1 => {
                    let id = self.variable(ty);
                    local(id.0, ty.clone())
                }
                2 => {
                    let word = argument(i64::from(self.below(4)));
                    self.cast(word, ty)
                }
                _ => expr(ty.clone(), ExprKind::Int(u64::from(self.below(10)))),
            };
        }
        let depth = depth - 1;
        match self.below(16) {
            0..=5 => {
                let op = [
                    BinaryOp::Add,
                    BinaryOp::Sub,
                    BinaryOp::Mul,
                    BinaryOp::Div,
                    BinaryOp::Mod,
                    BinaryOp::And,
                    BinaryOp::Or,
                    BinaryOp::Xor,
                ][self.below(8) as usize];
                let (left, right) = (self.scalar(ty, depth), self.scalar(ty, depth));
                binary(op, left, right)
            }
            6 => {
                let by = self.below(ty.size() * 8);
                let op = if self.below(2) == 0 { BinaryOp::Shl } else { BinaryOp::Shr };
                let (left, right) = (self.scalar(ty, depth), expr(ty.clone(), ExprKind::Int(by.into())));
                binary(op, left, right)
            }
            7 => {
                let op = if self.below(2) == 0 { UnaryOp::Neg } else { UnaryOp::BitNot };
                let inner = self.scalar(ty, depth);
                expr(ty.clone(), ExprKind::Unary(op, Box::new(inner)))
            }
            8 => {
                let from = self.integer();
                let inner = self.scalar(&from, depth);
                self.cast(inner, ty)
            }
            9 => {
                let condition = Box::new(self.boolean(depth));
                let then = Box::new(self.scalar(ty, depth));
                let otherwise = Box::new(self.scalar(ty, depth));
                expr(ty.clone(), ExprKind::Select { condition, then, otherwise })
            }
            10 => {
                let id = self.variable(ty);
                let (by, post) = (i64::from(self.below(2)) * 2 - 1, self.below(2) == 0);
                expr(ty.clone(), ExprKind::Step { target: StepTarget::Local(id), by, post })
            }
            11 => {
                let key = (self.below(2) == 0).then(|| Box::new(self.scalar(&Type::U32, 0)));
                let map = MapId(if key.is_some() { 2 } else { 0 });
                let kind = match self.below(3) {
                    0 => ExprKind::Step {
                        target: StepTarget::Map { map, key },
                        by: 1,
                        post: self.below(2) == 0,
                    },
                    _ => ExprKind::MapGet { map, key },
                };
                let inner = expr(Type::I64, kind);
                self.cast(inner, ty)
            }
            12 => {
                let value = self.scalar(ty, depth);
                let id = self.variable(ty);
                let result = Box::new(self.scalar(ty, depth));
                let statements = vec![set(id.0, value)];
                expr(ty.clone(), ExprKind::Block { statements, value: Some(result) })
            }
            13 => {
                let text = self.string(LONG_STRING);
                let inner = match self.below(3) {
                    0 => expr(Type::U64, ExprKind::Intrinsic(Intrinsic::StrLength, vec![text])),
                    1 => {
                        let needle = string(["o", "wor", "hello", ""][self.below(4) as usize], 8);
                        expr(Type::I64, ExprKind::Intrinsic(Intrinsic::StrFind, vec![text, needle]))
                    }
                    _ => {
                        let n = 1 + self.below(9);
                        let other = self.string(LONG_STRING);
                        expr(
                            Type::I64,
                            ExprKind::Intrinsic(Intrinsic::CompareStrings { n }, vec![text, other]),
                        )
                    }
                };
                // Lengths and order are small; whether equal is what counts for the order.
                let inner = match &inner.kind {
                    ExprKind::Intrinsic(Intrinsic::CompareStrings { .. }, _) => {
                        let truth = binary(BinaryOp::Eq, inner, expr(Type::I64, ExprKind::Int(0)));
                        expr(Type::unsigned(1), ExprKind::Cast(Cast::Integer, Box::new(truth)))
                    }
                    _ => inner,
                };
                self.cast(inner, ty)
            }
            14 => {
                // A field of a tuple made on the spot.
                let tuple = Type::tuple([Type::unsigned(1), ty.clone(), Type::U32]);
                let Type::Tuple(fields) = &tuple else { unreachable!("a tuple is one") };
                let offset = fields[1].offset.into();
                let values = vec![
                    self.scalar(&Type::unsigned(1), 0),
                    self.scalar(ty, depth),
                    self.scalar(&Type::U32, 0),
                ];
                let base = Base::Value(Box::new(expr(tuple.clone(), ExprKind::Tuple(values))));
                let place = Place { base, offset, indexes: vec![] };
                expr(ty.clone(), ExprKind::Read { place, bits: None })
            }
            _ => {
                let inner = self.boolean(depth);
                expr(ty.clone(), ExprKind::Cast(Cast::Integer, Box::new(inner)))
            }
        }
    }

    fn boolean(&mut self, depth: u32) -> Expr {
        let depth = depth.saturating_sub(1);
        match self.below(7) {
            0 if depth > 0 => {
                let (left, right) = (Box::new(self.boolean(depth)), Box::new(self.boolean(depth)));
                expr(Type::Bool, ExprKind::Logical { and: self.below(2) == 0, left, right })
            }
            1 if depth > 0 => {
                let inner = Box::new(self.boolean(depth));
                expr(Type::Bool, ExprKind::Unary(UnaryOp::Not, inner))
            }
            2 => {
                let key = Box::new(self.scalar(&Type::U32, 0));
                expr(Type::Bool, ExprKind::MapHas { map: MapId(2), key })
            }
            3 => {
                let size = if self.below(2) == 0 { STRING } else { LONG_STRING };
                let op = if self.below(2) == 0 { BinaryOp::Eq } else { BinaryOp::Ne };
                let (left, right) = (self.string(size), self.string(size));
                binary(op, left, right)
            }
            _ => {
                let ty = self.integer();
                let op = [BinaryOp::Eq, BinaryOp::Ne, BinaryOp::Lt, BinaryOp::Le, BinaryOp::Gt, BinaryOp::Ge]
                    [self.below(6) as usize];
                let (left, right) = (self.scalar(&ty, depth), self.scalar(&ty, depth));
                binary(op, left, right)
            }
        }
    }

    fn string(&mut self, size: u32) -> Expr {
        match self.below(6) {
            0 => string(["hello", "", "hello, world", "x"][self.below(4) as usize], size),
            1 | 2 => {
                let id = self.variable(&Type::String(size));
                local(id.0, Type::String(size))
            }
            3 if size == LONG_STRING => {
                let key = Box::new(self.scalar(&Type::U64, 0));
                expr(Type::String(size), ExprKind::MapGet { map: MapId(5), key: Some(key) })
            }
            4 => {
                let other = if size == STRING { LONG_STRING } else { STRING };
                let inner = self.string(other);
                expr(Type::String(size), ExprKind::Cast(Cast::Resize, Box::new(inner)))
            }
            _ => {
                let word = argument(TEXTS[self.below(2) as usize]);
                let pointer = Expr { ty: Type::pointer(Type::signed(1), Space::User), ..word };
                let mut arguments = vec![pointer];
                if self.below(3) == 0 {
                    arguments.push(int(u64::from(self.below(12))));
                }
                expr(Type::String(size), ExprKind::Intrinsic(Intrinsic::Str, arguments))
            }
        }
    }

    fn block(&mut self, count: u32, depth: u32) -> Block {
        (0..count).map(|_| self.statement(depth)).collect()
    }

    fn inner(&mut self, depth: u32) -> Block {
        let count = 1 + self.below(3);
        self.block(count, depth)
    }

    fn statement(&mut self, depth: u32) -> Statement {
        self.statements += 1;
        // Programs stay of a size that the verifier's budget allows in any order.
        let simple = depth == 0 || self.statements > 30;
        match self.below(if simple { 12 } else { 17 }) {
            0..=2 => {
                let ty = self.integer();
                let value = self.scalar(&ty, 2);
                let id = self.variable(&ty);
                set(id.0, value)
            }
            3 => {
                let size = if self.below(2) == 0 { STRING } else { LONG_STRING };
                let value = self.string(size);
                let id = self.variable(&Type::String(size));
                set(id.0, value)
            }
            4 => {
                let value = self.scalar(&Type::I64, 2);
                set_map(0, None, value)
            }
            5 => {
                let (key, value) = (self.scalar(&Type::U32, 1), self.scalar(&Type::I64, 2));
                set_map(2, Some(key), value)
            }
            6 => {
                let (key, value) = (self.scalar(&Type::U64, 1), self.string(LONG_STRING));
                set_map(5, Some(key), value)
            }
            7 => {
                let values =
                    vec![self.scalar(&Type::unsigned(1), 1), self.string(STRING), self.scalar(&Type::I64, 1)];
                let ty = Type::tuple([Type::unsigned(1), Type::String(STRING), Type::I64]);
                aggregate(3, Some(expr(ty, ExprKind::Tuple(values))), Update::Count)
            }
            8 => match self.below(4) {
                0 => {
                    let (key, value) = (self.scalar(&Type::unsigned(2), 1), self.scalar(&Type::I64, 2));
                    aggregate(4, Some(key), Update::Stats(value))
                }
                1 => {
                    let ty = if self.below(2) == 0 { Type::I64 } else { Type::U64 };
                    let value = self.scalar(&ty, 2);
                    aggregate(6, None, Update::Hist(value))
                }
                2 => {
                    let (key, value) = (self.scalar(&Type::U32, 1), self.scalar(&Type::I64, 2));
                    aggregate(7, Some(key), Update::Max(value))
                }
                _ => aggregate(1, None, Update::Count),
            },
            9 => {
                let values =
                    vec![self.scalar(&Type::I64, 2), self.scalar(&Type::unsigned(1), 1), self.string(STRING)];
                emit(0, values)
            }
            10 => {
                let values =
                    vec![self.string(LONG_STRING), self.scalar(&Type::U32, 1), self.string(LONG_STRING)];
                emit(1, values)
            }
            11 => {
                let key = Some(Box::new(self.scalar(&Type::U32, 1)));
                let kind = ExprKind::MapDelete { map: MapId(2), key, missing: None };
                statement(StatementKind::Expr(expr(Type::Bool, kind)))
            }
            12 | 13 => {
                let condition = self.boolean(2);
                let then = self.inner(depth - 1);
                let otherwise = if self.below(2) == 0 { self.inner(depth - 1) } else { vec![] };
                statement(StatementKind::If { condition, then, otherwise })
            }
            14 => {
                self.loops += 1;
                let mut body = self.inner(depth - 1);
                self.leave_sometimes(&mut body);
                self.loops -= 1;
                statement(StatementKind::Unroll { count: 1 + self.below(3), body })
            }
            15 => {
                let name = format!("$i{}", self.locals.len());
                self.locals.push(Local { name, ty: Type::I64, address_taken: false, span: Span::NONE });
                let id = LocalId(self.locals.len() as u32 - 1);
                let (start, end) = (self.below(3), self.below(6));
                self.loops += 1;
                let mut body = self.inner(depth - 1);
                self.leave_sometimes(&mut body);
                self.loops -= 1;
                let bound = |value: u32| expr(Type::I64, ExprKind::Int(value.into()));
                statement(StatementKind::ForRange { local: id, start: bound(start), end: bound(end), body })
            }
            _ => {
                // A counter of its own bounds the loop.
                let name = format!("$w{}", self.locals.len());
                self.locals.push(Local { name, ty: Type::U64, address_taken: false, span: Span::NONE });
                let id = self.locals.len() as u32 - 1;
                let most = self.below(5).into();
                self.loops += 1;
                let mut body = vec![set(id, binary(BinaryOp::Add, local(id, Type::U64), int(1)))];
                body.extend(self.inner(depth - 1));
                self.leave_sometimes(&mut body);
                self.loops -= 1;
                let condition = binary(BinaryOp::Lt, local(id, Type::U64), int(most));
                statement(StatementKind::While { condition, body })
            }
        }
    }

    fn leave_sometimes(&mut self, body: &mut Block) {
        let kind = match self.below(8) {
            0 => StatementKind::Break,
            1 => StatementKind::Continue,
            2 => StatementKind::Return(None),
            _ => return,
        };
        let then = vec![statement(kind)];
        let condition = self.boolean(1);
        let at = self.below(body.len() as u32 + 1) as usize;
        // Not before a counter's step.
        let at = at.max(1).min(body.len());
        body.insert(at, statement(StatementKind::If { condition, then, otherwise: vec![] }));
    }
}
