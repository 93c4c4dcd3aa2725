//! The typed program as text (`--emit hir`): one line for each statement, types where they
//! matter: variables, maps, casts, memory.

use std::fmt::Write;

use super::*;
use crate::schema::{EmitKind, MapValue};
use crate::syntax::print::{operator, quote};
use crate::types::Space;

/// The whole program as text.
pub fn print(program: &Program) -> String {
    let mut printer = Printer { program, locals: &[], out: String::new(), indent: 0 };
    printer.maps();
    for probe in &program.probes {
        printer.probe(probe);
    }
    for (number, function) in program.functions.iter().enumerate() {
        printer.function(number, function);
    }
    printer.out
}

struct Printer<'a> {
    program: &'a Program,
    locals: &'a [Local],
    out: String,
    indent: usize,
}

impl<'a> Printer<'a> {
    fn line(&mut self, text: &str) {
        for _ in 0..self.indent {
            self.out.push_str("  ");
        }
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn ty(&self, ty: &Type) -> String {
        let name = self.program.schema.types.name(ty);
        match ty {
            Type::Pointer { space, .. } => format!("{name}@{}", space_name(*space)),
            _ => name,
        }
    }

    fn maps(&mut self) {
        for map in &self.program.schema.maps {
            let key = map.key.as_ref().map_or(String::new(), |key| format!("[{}]", self.ty(key)));
            let value = match &map.value {
                MapValue::Plain(ty) => self.ty(ty),
                other => format!("{other:?}"),
            };
            let text = format!("map {}{key}: {value}, {:?} of {}", map.name, map.storage, map.capacity);
            self.line(&text);
        }
    }

    fn probe(&mut self, probe: &'a Probe) {
        let program = &self.program.schema.programs[probe.program.0 as usize];
        let names: Vec<&str> = program.targets.iter().map(|target| target.name.as_str()).collect();
        let head = format!("{:?} {}", program.kind, names.join(", "));
        self.line(&head);
        self.locals = &probe.body.locals;
        if let Some(own) = &probe.own {
            let text = format!("of {}", self.expr(own));
            self.line(&text);
        }
        if let Some(predicate) = &probe.predicate {
            let text = format!("/{}/", self.expr(predicate));
            self.line(&text);
        }
        self.body(&probe.body);
    }

    fn function(&mut self, number: usize, function: &'a Function) {
        self.locals = &function.body.locals;
        let text =
            format!("fn{number} {}({}): {}", function.name, function.parameters, self.ty(&function.result));
        self.line(&text);
        self.body(&function.body);
    }

    fn body(&mut self, body: &'a Body) {
        self.line("{");
        self.indent += 1;
        for (number, local) in body.locals.iter().enumerate() {
            let memory = if local.address_taken { " in memory" } else { "" };
            let text = format!("let {}.{number}: {}{memory}", local.name, self.ty(&local.ty));
            self.line(&text);
        }
        self.block(&body.block);
        self.indent -= 1;
        self.line("}");
    }

    fn block(&mut self, block: &'a Block) {
        for statement in block {
            self.statement(statement);
        }
    }

    fn nested(&mut self, head: &str, block: &'a Block) {
        let text = format!("{head} {{");
        self.line(&text);
        self.indent += 1;
        self.block(block);
        self.indent -= 1;
        self.line("}");
    }

    fn local(&self, id: LocalId) -> String {
        let name = self.locals.get(id.0 as usize).map_or("$?", |local| local.name.as_str());
        format!("{name}.{}", id.0)
    }

    fn map(&self, id: MapId, key: Option<&Expr>) -> String {
        let name = self.program.schema.maps.get(id.0 as usize).map_or("@?", |map| map.name.as_str());
        match key {
            None => name.to_string(),
            Some(key) => format!("{name}[{}]", self.expr(key)),
        }
    }

    fn list(&self, values: &[Expr]) -> String {
        let values: Vec<String> = values.iter().map(|value| self.expr(value)).collect();
        values.join(", ")
    }

    fn statement(&mut self, statement: &'a Statement) {
        let text = match &statement.kind {
            StatementKind::Expr(expr) => self.expr(expr),
            StatementKind::SetLocal { local, value } => {
                format!("{} = {}", self.local(*local), self.expr(value))
            }
            StatementKind::SetMap { map, key, value } => {
                format!("{} = {}", self.map(*map, key.as_ref()), self.expr(value))
            }
            StatementKind::Aggregate { map, key, update } => {
                let update = match update {
                    Update::Count => "count()".to_string(),
                    Update::Sum(value) => format!("sum({})", self.expr(value)),
                    Update::Min(value) => format!("min({})", self.expr(value)),
                    Update::Max(value) => format!("max({})", self.expr(value)),
                    Update::Avg(value) => format!("avg({})", self.expr(value)),
                    Update::Stats(value) => format!("stats({})", self.expr(value)),
                    Update::Hist(value) => format!("hist({})", self.expr(value)),
                    Update::Lhist(value) => format!("lhist({})", self.expr(value)),
                    Update::LogLinear(value) => format!("llhist({})", self.expr(value)),
                    Update::TimeSeries(value) => format!("tseries({})", self.expr(value)),
                };
                format!("{} <- {update}", self.map(*map, key.as_ref()))
            }
            StatementKind::Store { place, value } => format!("*{} = {}", self.place(place), self.expr(value)),
            StatementKind::Emit { record, values } => {
                let kind = self
                    .program
                    .schema
                    .records
                    .get(record.0 as usize)
                    .map_or("?".into(), |record| emit_name(&record.kind));
                format!("emit#{} {kind}({})", record.0, self.list(values))
            }
            StatementKind::Exit { record, code } => format!("exit#{}({})", record.0, self.expr(code)),
            StatementKind::Join { record, array, most } => {
                format!("join#{}({}, {most})", record.0, self.expr(array))
            }
            StatementKind::If { condition, then, otherwise } => {
                let head = format!("if {}", self.expr(condition));
                self.nested(&head, then);
                if !otherwise.is_empty() {
                    self.nested("else", otherwise);
                }
                return;
            }
            StatementKind::While { condition, body } => {
                let head = format!("while {}", self.expr(condition));
                return self.nested(&head, body);
            }
            StatementKind::Unroll { count, body } => return self.nested(&format!("unroll {count}"), body),
            StatementKind::ForMap { map, local, body } => {
                let head = format!("for {} in {}", self.local(*local), self.map(*map, None));
                return self.nested(&head, body);
            }
            StatementKind::ForRange { local, start, end, body } => {
                let head = format!("for {} in {}..{}", self.local(*local), self.expr(start), self.expr(end));
                return self.nested(&head, body);
            }
            StatementKind::Break => "break".into(),
            StatementKind::Continue => "continue".into(),
            StatementKind::Return(None) => "return".into(),
            StatementKind::Return(Some(value)) => format!("return {}", self.expr(value)),
            StatementKind::Block(block) => return self.nested("block", block),
        };
        self.line(&text);
    }

    fn expr(&self, expr: &Expr) -> String {
        match &expr.kind {
            ExprKind::Int(value) => match &expr.ty {
                Type::Bool => (*value != 0).to_string(),
                ty if ty.is_signed() => (*value as i64).to_string(),
                _ => value.to_string(),
            },
            ExprKind::Str(bytes) => quote(bytes),
            ExprKind::Bytes(bytes) => format!("bytes{bytes:?}"),
            ExprKind::Zero => "zero".into(),
            ExprKind::Local(local) => self.local(*local),
            ExprKind::MapGet { map, key } => self.map(*map, key.as_deref()),
            ExprKind::MapAggregate { map, key } => format!("total({})", self.map(*map, key.as_deref())),
            ExprKind::MapHas { map, key } => format!("has({})", self.map(*map, Some(key))),
            ExprKind::MapFind { map, key, into } => {
                format!("find({}, {})", self.map(*map, Some(key)), self.local(*into))
            }
            ExprKind::MapDelete { map, key, .. } => format!("delete({})", self.map(*map, key.as_deref())),
            ExprKind::MapLength(map) => format!("len({})", self.map(*map, None)),
            ExprKind::StackLength(stack) => format!("len({})", self.expr(stack)),
            ExprKind::Unary(op, inner) => {
                let sign = match op {
                    UnaryOp::Neg => "-",
                    UnaryOp::BitNot => "~",
                    UnaryOp::Not => "!",
                };
                format!("{sign}{}", self.expr(inner))
            }
            ExprKind::Binary(op, left, right) => {
                format!("({} {} {})", self.expr(left), operator(*op), self.expr(right))
            }
            ExprKind::Logical { and, left, right } => {
                format!("({} {} {})", self.expr(left), if *and { "&&" } else { "||" }, self.expr(right))
            }
            ExprKind::Select { condition, then, otherwise } => {
                format!("({} ? {} : {})", self.expr(condition), self.expr(then), self.expr(otherwise))
            }
            ExprKind::Block { statements, value } => {
                let mut inner =
                    Printer { program: self.program, locals: self.locals, out: String::new(), indent: 0 };
                for statement in statements {
                    inner.statement(statement);
                }
                let lines: Vec<&str> = inner.out.lines().collect();
                let value = value.as_ref().map_or(String::new(), |value| self.expr(value));
                format!("{{ {}; {value} }}", lines.join("; "))
            }
            ExprKind::Cast(cast, inner) => {
                let mark = match cast {
                    Cast::Integer => "",
                    Cast::Truth => "truth ",
                    Cast::Resize => "resize ",
                    Cast::Bytes => "bytes ",
                    Cast::Fields => "fields ",
                    Cast::Text => "text ",
                };
                format!("({mark}{}){}", self.ty(&expr.ty), self.expr(inner))
            }
            ExprKind::Read { place, bits } => {
                let bits = bits.map_or(String::new(), |bits| format!(":{}+{}", bits.shift, bits.bits));
                format!("{}{bits}:{}", self.place(place), self.ty(&expr.ty))
            }
            ExprKind::ReadDataLoc { place, .. } => format!("dyn {}:{}", self.place(place), self.ty(&expr.ty)),
            ExprKind::AddressOf(place) => format!("&{}", self.place(place)),
            ExprKind::AddressOfLocal(local) => format!("&{}", self.local(*local)),
            ExprKind::AddressOfMap { map, key } => format!("&{}", self.map(*map, key.as_deref())),
            ExprKind::Tuple(values) => format!("({})", self.list(values)),
            ExprKind::Step { target, by, post } => {
                let target = match target {
                    StepTarget::Local(local) => self.local(*local),
                    StepTarget::Map { map, key } => self.map(*map, key.as_deref()),
                };
                if *post { format!("post({target} += {by})") } else { format!("({target} += {by})") }
            }
            ExprKind::Intrinsic(intrinsic, values) => {
                let name = format!("{intrinsic:?}");
                let name = if name.len() > 60 {
                    format!("{}…", name.chars().take(60).collect::<String>())
                } else {
                    name
                };
                if values.is_empty() { name } else { format!("{name}({})", self.list(values)) }
            }
            ExprKind::Call(function, values) => format!("fn{}({})", function.0, self.list(values)),
            ExprKind::UsdtArgument(locations) => format!("usdt{locations:?}"),
        }
    }

    fn place(&self, place: &Place) -> String {
        let mut out = match &place.base {
            Base::Context => "ctx".to_string(),
            Base::Pointer(pointer) => {
                let space = match &pointer.ty {
                    Type::Pointer { space, .. } => space_name(*space),
                    _ => "?",
                };
                format!("{space}[{}]", self.expr(pointer))
            }
            Base::Value(value) => format!("in[{}]", self.expr(value)),
        };
        let _ = write!(out, "+{}", place.offset);
        for index in &place.indexes {
            let _ = write!(out, "+{}*{}", self.expr(&index.value), index.stride);
        }
        out
    }
}

fn space_name(space: Space) -> &'static str {
    match space {
        Space::Kernel => "kernel",
        Space::User => "user",
        Space::Btf => "btf",
        Space::Context => "context",
        Space::Own => "own",
    }
}

fn emit_name(kind: &EmitKind) -> String {
    let name = format!("{kind:?}");
    name.split(['(', ' ', '{']).next().unwrap_or("").to_lowercase()
}
