//! Statements, and subprograms, whose code is put where they are called.

use bpf::insn::JumpOp;

use super::analysis::variables;
use super::builder::{Builder, Home, LoopKind, ReturnTo};
use super::memory::Mem;
use super::object::Pad;
use crate::hir::{Block, Expr, FunctionId, Statement, StatementKind};
use crate::lir::{Terminator, Val};
use crate::types::Type;

/// Deepest nesting of calls; recursion is refused here.
const MAX_CALLS: usize = 16;

/// What the control word of scratch memory says after a callback.
pub(super) const CONTROL_RETURN: i64 = 1;
pub(super) const CONTROL_EXIT: i64 = 2;

impl Builder<'_, '_> {
    pub fn block(&mut self, block: &Block) {
        for statement in block {
            self.statement(statement);
        }
    }

    /// Statements inside an expression keep the temporaries around them.
    pub fn block_in_expression(&mut self, block: &Block) {
        self.block(block);
    }

    fn statement(&mut self, statement: &Statement) {
        let outer = std::mem::replace(&mut self.span, statement.span);
        let mark = self.mark();
        match &statement.kind {
            StatementKind::Expr(expr) => self.effect(expr),
            StatementKind::SetLocal { local, value } => match self.home(*local) {
                Home::Register(v) => {
                    let trusted = self.trusted(value) && self.only_assignment(*local);
                    let scalar = self.scalar(value);
                    self.assign(v, scalar);
                    self.scope().variables[local.0 as usize].trusted = trusted;
                }
                Home::Memory(mem) => self.set_memory(mem, value),
            },
            StatementKind::SetMap { map, key, value } => self.map_set(*map, key.as_ref(), value),
            StatementKind::Aggregate { map, key, update } => self.aggregate(*map, key.as_ref(), update),
            StatementKind::Store { place, value } => self.store_place(place, value),
            StatementKind::Emit { record, values } => self.emit_record(*record, values),
            StatementKind::Exit { record, code } => self.exit(*record, code),
            StatementKind::Join { record, array, most } => self.join(*record, array, *most),
            StatementKind::If { condition, then, otherwise } => self.if_statement(condition, then, otherwise),
            StatementKind::While { condition, body } => self.while_loop(condition, body),
            StatementKind::Unroll { count, body } => self.unroll(*count, body),
            StatementKind::ForMap { map, local, body } => self.for_map(*map, *local, body),
            StatementKind::ForRange { local, start, end, body } => self.for_range(*local, start, end, body),
            StatementKind::Break => self.leave_loop(true),
            StatementKind::Continue => self.leave_loop(false),
            StatementKind::Return(value) => self.return_statement(value.as_ref()),
            StatementKind::Block(block) => self.block(block),
        }
        self.release(mark);
        self.span = outer;
    }

    /// A variable whose register holds a typed pointer only if every assignment does: known when its first
    /// assignment is the only one, which its lack of a zero at the start tells.
    fn only_assignment(&mut self, local: crate::hir::LocalId) -> bool {
        let scope = self.scope();
        !scope.facts.zeroed[local.0 as usize] && scope.facts.assignments[local.0 as usize] == 1
    }

    fn set_memory(&mut self, mem: Mem, value: &Expr) {
        // `$x = f($x)` may read what it writes.
        let reads_itself = super::analysis::mentions_local(value);
        if value.ty.is_scalar() || !reads_itself {
            self.store_value(value, mem, Pad::Any);
            return;
        }
        let copy = self.temporary(value.ty.size());
        self.store_value(value, copy, Pad::Any);
        self.copy_object(mem, copy, &value.ty, Pad::Any, false);
    }

    fn if_statement(&mut self, condition: &Expr, then: &Block, otherwise: &Block) {
        let (yes, end) = (self.new_block(), self.new_block());
        let no = if otherwise.is_empty() { end } else { self.new_block() };
        self.condition(condition, yes, no);
        self.switch(yes);
        self.block(then);
        self.goto(end);
        if !otherwise.is_empty() {
            self.switch(no);
            self.block(otherwise);
            self.goto(end);
        }
        self.switch(end);
    }

    fn leave_loop(&mut self, leave: bool) {
        match self.frame().loops.last().copied() {
            Some(LoopKind::Blocks { leave: out, next }) => self.goto(if leave { out } else { next }),
            Some(LoopKind::Callback) => self.end(Terminator::Return(Val::Imm(i64::from(leave)))),
            None => return,
        }
        self.unreachable();
    }

    fn return_statement(&mut self, value: Option<&Expr>) {
        let returns = self.scope().returns;
        if let (Some(value), Some(ReturnTo { value: Some(home), .. })) = (value, returns) {
            match home {
                Home::Register(v) => {
                    let scalar = self.scalar(value);
                    self.assign(v, scalar);
                }
                Home::Memory(mem) => self.store_value(value, mem, Pad::Any),
            }
        } else if let Some(value) = value {
            if self.frames.len() == self.scope().depth && returns.is_none() && value.ty.is_scalar() {
                let scalar = self.scalar(value);
                self.end(Terminator::Return(scalar));
                self.unreachable();
                return;
            }
            self.effect(value);
        }
        self.leave_body();
    }

    /// Leaves the body: the program, or the subprogram put in place here.
    fn leave_body(&mut self) {
        let depth = self.scope().depth;
        let returns = self.scope().returns;
        if self.frames.len() > depth {
            self.stop_callback(CONTROL_RETURN);
        } else if let Some(returns) = returns {
            self.goto(returns.end);
        } else {
            self.end(Terminator::Return(Val::Imm(0)));
        }
        self.unreachable();
    }

    /// Ends the program at once.
    pub fn leave_program(&mut self) {
        if self.frames.len() > 1 {
            self.stop_callback(CONTROL_EXIT);
        } else {
            self.end(Terminator::Return(Val::Imm(0)));
        }
        self.unreachable();
    }

    fn stop_callback(&mut self, why: i64) {
        let control = self.control_word();
        self.store(bpf::insn::Size::D, control, Val::Imm(why));
        self.end(Terminator::Return(Val::Imm(1)));
    }

    /// The word that tells enclosing functions to go on leaving.
    pub fn control_word(&mut self) -> Mem {
        if let Some(offset) = self.control {
            return Mem::scratch(offset);
        }
        // Reserved for the whole unit: it lies before everything else.
        self.control = Some(0);
        Mem::scratch(0)
    }

    /// After a loop with a callback: goes on leaving if its body returned or exited.
    pub fn after_callback(&mut self) {
        let control = self.control_word();
        let word = self.load(bpf::insn::Size::D, control);
        let (leaving, exiting, returning, end) =
            (self.cold_block(), self.cold_block(), self.cold_block(), self.new_block());
        self.branch(JumpOp::Ne, word.into(), Val::Imm(0), leaving, end);
        self.switch(leaving);
        self.branch(JumpOp::Eq, word.into(), Val::Imm(CONTROL_EXIT), exiting, returning);
        self.switch(exiting);
        if self.frames.len() > 1 {
            self.end(Terminator::Return(Val::Imm(1)));
        } else {
            self.end(Terminator::Return(Val::Imm(0)));
        }
        self.switch(returning);
        if self.frames.len() > self.scope().depth {
            self.end(Terminator::Return(Val::Imm(1)));
        } else {
            self.store(bpf::insn::Size::D, control, Val::Imm(0));
            match self.scope().returns {
                Some(returns) => self.goto(returns.end),
                None => self.end(Terminator::Return(Val::Imm(0))),
            }
        }
        self.switch(end);
    }

    /// A call of a subprogram: its code in place. The value goes to `to`, or is returned if scalar.
    pub fn call_function(&mut self, id: FunctionId, arguments: &[Expr], to: Option<Mem>) -> Val {
        let function = &self.shared.program.functions[id.0 as usize];
        if self.calls.len() >= MAX_CALLS || self.calls.contains(&id.0) {
            self.unsupported(format!("`{}` calls itself, or calls are nested too deep", function.name));
            return Val::Imm(0);
        }
        // Arguments are evaluated outside, then become the first variables.
        enum Argument {
            Scalar(Val),
            Object(Mem),
        }
        let mut values = Vec::with_capacity(arguments.len());
        for argument in arguments {
            values.push(if argument.ty.is_scalar() {
                let value = self.scalar(argument);
                Argument::Scalar(self.set(value).into())
            } else {
                Argument::Object(self.object(argument))
            });
        }
        let end = self.new_block();
        let value = match (&function.result, to) {
            (Type::Void, _) => None,
            (_, Some(mem)) => {
                if !function.result.is_scalar() {
                    self.zero(mem, function.result.size());
                }
                Some(Home::Memory(mem))
            }
            (ty, None) if ty.is_scalar() => {
                let v = self.register();
                self.assign(v, Val::Imm(0));
                Some(Home::Register(v))
            }
            (ty, None) => Some(Home::Memory(self.scratch(ty.size()))),
        };
        let facts = variables(&function.body, function.parameters, None);
        self.calls.push(id.0);
        self.open_scope(&function.body, facts, Some(ReturnTo { end, value }));
        for (at, value) in values.into_iter().enumerate() {
            let local = crate::hir::LocalId(at as u32);
            let ty = self.scope().variables[at].ty.clone();
            match (value, self.home(local)) {
                (Argument::Scalar(value), Home::Register(v)) => self.assign(v, value),
                (Argument::Scalar(value), Home::Memory(mem)) => self.store_scalar(&ty, mem, value),
                (Argument::Object(from), Home::Memory(mem)) => {
                    self.copy_object(mem, from, &ty, Pad::Any, false);
                }
                (Argument::Object(_), Home::Register(_)) => {}
            }
        }
        let loops = std::mem::take(&mut self.frame().loops);
        self.block(&function.body.block);
        self.frame().loops = loops;
        self.goto_and_switch(end);
        self.scopes.pop();
        self.calls.pop();
        match value {
            Some(Home::Register(v)) => v.into(),
            _ => Val::Imm(0),
        }
    }
}
