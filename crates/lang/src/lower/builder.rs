//! The function under construction: current block, temporaries, variables, loops.

use bpf::insn::{AluOp, JumpOp, Size, Width};

use super::Shared;
use super::analysis::{Region, RegionCounter, Variables};
use super::memory::Mem;
use crate::hir::{Body, LocalId};
use crate::lir::{
    Base, BlockId, Callee, Function, FunctionId, Instruction, Op, Source, StackId, Terminator, Unit, V, Val,
};
use crate::schema::ProgramKind;
use crate::source::Span;
use crate::types::Type;

/// Where a variable lives.
#[derive(Clone, Copy, Debug)]
pub(super) enum Home {
    Register(V),
    Memory(Mem),
}

/// Variables of one body (a probe, or one call of a subprogram).
pub(super) struct Variable {
    pub ty: Type,
    pub home: Option<Home>,
    /// `&$x` is taken.
    pub address_taken: bool,
    /// A register that holds a pointer the verifier knows the type of.
    pub trusted: bool,
}

pub(super) struct Scope {
    pub variables: Vec<Variable>,
    pub facts: Variables,
    pub regions: RegionCounter,
    /// Where `return` goes: none for the program itself.
    pub returns: Option<ReturnTo>,
    /// The function the scope began in; deeper ones are callbacks.
    pub depth: usize,
}

impl Scope {
    /// The scope of a predicate, which has no variables.
    pub fn empty() -> Scope {
        Scope {
            variables: Vec::new(),
            facts: Variables::default(),
            regions: RegionCounter::default(),
            returns: None,
            depth: 1,
        }
    }
}

/// Where the value of an inlined subprogram goes.
#[derive(Clone, Copy)]
pub(super) struct ReturnTo {
    pub end: BlockId,
    pub value: Option<Home>,
}

/// What `break` and `continue` do.
#[derive(Clone, Copy)]
pub(super) enum LoopKind {
    Blocks { leave: BlockId, next: BlockId },
    Callback,
}

/// State of one function of the unit.
pub(super) struct Frame {
    pub function: usize,
    pub block: BlockId,
    /// The probe's context.
    pub context: Option<V>,
    pub region: Region,
    pub loops: Vec<LoopKind>,
    pub free: Vec<(u32, StackId)>,
    pub taken: Vec<(u32, StackId)>,
    pub stack_bytes: u32,
    /// Keys of lookups, by their number in the function.
    pub keys: Vec<String>,
}

/// Builds the LIR of one program.
pub(super) struct Builder<'s, 'p> {
    pub shared: &'s mut Shared<'p>,
    pub unit: Unit,
    pub frames: Vec<Frame>,
    pub scopes: Vec<Scope>,
    pub kind: ProgramKind,
    /// Name of the raw tracepoint, for arguments that may be null.
    pub tracepoint: String,
    pub span: Span,
    pub cold: bool,
    /// Scratch bytes in use from the unit's base, and the most there were.
    pub scratch_top: u32,
    pub scratch_most: u32,
    pub scratch_base: u32,
    /// Scratch word that tells enclosing functions to return.
    pub control: Option<u32>,
    pub calls: Vec<u32>,
}

/// Objects up to this size may live on the stack.
pub(super) const STACK_OBJECT: u32 = 32;
/// Stack bytes of objects in one function; the rest is for spills and callbacks.
const STACK_BUDGET: u32 = 160;

impl<'p> Builder<'_, 'p> {
    pub fn frame(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("a builder always has a frame")
    }

    pub fn function(&mut self) -> &mut Function {
        let at = self.frame().function;
        &mut self.unit.functions[at]
    }

    pub fn register(&mut self) -> V {
        self.function().register()
    }

    pub fn op(&mut self, op: Op) {
        let span = self.span;
        let block = self.frame().block;
        self.function().at(block).instructions.push(Instruction { op, span });
    }

    pub fn new_block(&mut self) -> BlockId {
        let cold = self.cold;
        let block = self.function().block();
        self.function().at(block).cold = cold;
        block
    }

    /// A block that is rarely run.
    pub fn cold_block(&mut self) -> BlockId {
        let block = self.function().block();
        self.function().at(block).cold = true;
        block
    }

    /// Ends the current block.
    pub fn end(&mut self, terminator: Terminator) {
        let span = self.span;
        let id = self.frame().block;
        let block = self.function().at(id);
        (block.terminator, block.span) = (terminator, span);
    }

    pub fn goto(&mut self, to: BlockId) {
        self.end(Terminator::Goto(to));
    }

    /// Goes on in a block; what is emitted in a cold block makes cold blocks.
    pub fn switch(&mut self, to: BlockId) {
        self.frame().block = to;
        self.cold = self.function().at(to).cold;
    }

    /// Ends the current block and goes on in the next.
    pub fn goto_and_switch(&mut self, to: BlockId) {
        self.goto(to);
        self.switch(to);
    }

    /// After a jump away: code that follows is unreachable, but has to go somewhere.
    pub fn unreachable(&mut self) {
        let block = self.new_block();
        self.switch(block);
    }

    pub fn branch(&mut self, op: JumpOp, left: Val, right: Val, then: BlockId, otherwise: BlockId) {
        let left = self.in_register(left);
        self.end(Terminator::If { width: Width::W64, op, left, right, then, otherwise });
    }

    pub fn in_register(&mut self, val: Val) -> V {
        match val {
            Val::V(v) => v,
            imm => self.set(imm),
        }
    }

    pub fn set(&mut self, value: impl Into<Source>) -> V {
        let dst = self.register();
        self.op(Op::Set { dst, value: value.into() });
        dst
    }

    pub fn assign(&mut self, dst: V, value: impl Into<Source>) {
        self.op(Op::Set { dst, value: value.into() });
    }

    pub fn binary(&mut self, op: AluOp, left: Val, right: Val) -> Val {
        self.binary_wide(op, Width::W64, left, right)
    }

    pub fn binary_wide(&mut self, op: AluOp, width: Width, left: Val, right: Val) -> Val {
        if let (Val::Imm(a), Val::Imm(b)) = (left, right) {
            return Val::Imm(crate::lir::passes::compute(op, width, a, b));
        }
        let left = self.in_register(left);
        let dst = self.register();
        self.op(Op::Binary { op, width, dst, left, right });
        Val::V(dst)
    }

    pub fn add(&mut self, left: Val, imm: i64) -> Val {
        if imm == 0 { left } else { self.binary(AluOp::Add, left, Val::Imm(imm)) }
    }

    pub fn extend(&mut self, val: Val, bits: u32, signed: bool) -> Val {
        if bits >= 64 {
            return val;
        }
        if let Val::Imm(imm) = val {
            let shift = 64 - bits;
            return Val::Imm(if signed {
                imm << shift >> shift
            } else {
                ((imm as u64) << shift >> shift) as i64
            });
        }
        let src = self.in_register(val);
        let dst = self.register();
        self.op(Op::Extend { dst, src, bits: bits as u8, signed });
        Val::V(dst)
    }

    pub fn call(&mut self, helper: u32, arguments: Vec<Source>) -> V {
        self.any_call(helper, arguments, false)
    }

    /// A call whose result does not change while the program runs.
    pub fn pure_call(&mut self, helper: u32, arguments: Vec<Source>) -> V {
        self.any_call(helper, arguments, true)
    }

    fn any_call(&mut self, helper: u32, arguments: Vec<Source>, pure: bool) -> V {
        let dst = self.register();
        self.op(Op::Call { dst: Some(dst), callee: Callee::Helper(helper), arguments, pure, key: None });
        dst
    }

    pub fn load_from(&mut self, size: Size, base: Base, offset: i32, stable: bool) -> V {
        let dst = self.register();
        self.op(Op::Load { dst, size, base, offset, stable });
        dst
    }

    /// The probe's context.
    pub fn context(&mut self) -> V {
        if let Some(context) = self.frame().context {
            return context;
        }
        self.set(Val::Imm(0))
    }

    pub fn cpu(&mut self) -> V {
        self.pure_call(bpf::helpers::id::GET_SMP_PROCESSOR_ID, Vec::new())
    }

    /// This CPU's number, cut to the blocks there are.
    pub fn cpu_block(&mut self) -> Val {
        let blocks = i64::from(self.shared.layout.cpu_blocks);
        if blocks == 1 {
            return Val::Imm(0);
        }
        let cpu = self.cpu();
        self.binary(AluOp::And, cpu.into(), Val::Imm(blocks - 1))
    }

    /// A fresh object on the stack, given back at the end of the statement.
    pub fn stack_object(&mut self, size: u32) -> StackId {
        let size = size.next_multiple_of(8).max(8);
        let found = self.frame().free.iter().position(|(have, _)| *have == size);
        let id = match found {
            Some(at) => self.frame().free.swap_remove(at).1,
            None => {
                self.frame().stack_bytes += size;
                self.function().object(size)
            }
        };
        self.frame().taken.push((size, id));
        id
    }

    /// Whether an object of this size still fits on the stack.
    pub fn stack_has(&mut self, size: u32) -> bool {
        let size = size.next_multiple_of(8).max(8);
        let frame = self.frame();
        frame.free.iter().any(|(have, _)| *have == size) || frame.stack_bytes + size <= STACK_BUDGET
    }

    /// Temporaries taken so far, for [`Builder::release`].
    pub fn mark(&mut self) -> (usize, u32) {
        let top = self.scratch_top;
        (self.frame().taken.len(), top)
    }

    /// Gives back all temporaries taken since the mark.
    pub fn release(&mut self, (taken, top): (usize, u32)) {
        let frame = self.frame();
        let back = frame.taken.split_off(taken);
        frame.free.extend(back);
        self.scratch_top = top;
    }

    /// Memory that stays until it is released: small on the stack, larger in scratch memory.
    pub fn temporary(&mut self, size: u32) -> Mem {
        if size <= STACK_OBJECT && self.stack_has(size) {
            return Mem::stack(self.stack_object(size));
        }
        self.scratch(size)
    }

    /// Scratch memory.
    pub fn scratch(&mut self, size: u32) -> Mem {
        let offset = self.scratch_top;
        self.scratch_top += size.next_multiple_of(8).max(8);
        self.scratch_most = self.scratch_most.max(self.scratch_top);
        Mem::scratch(offset)
    }

    pub fn scope(&mut self) -> &mut Scope {
        self.scopes.last_mut().expect("a builder always has a scope")
    }

    /// Opens the scope of a body.
    pub fn open_scope(&mut self, body: &Body, facts: Variables, returns: Option<ReturnTo>) {
        let variable = |local: &crate::hir::Local| Variable {
            ty: local.ty.clone(),
            home: None,
            address_taken: local.address_taken,
            trusted: false,
        };
        let variables = body.locals.iter().map(variable).collect();
        let depth = self.frames.len();
        self.scopes.push(Scope { variables, facts, regions: RegionCounter::default(), returns, depth });
        for (at, local) in body.locals.iter().enumerate() {
            // Callbacks reach scratch memory, not this function's registers and stack.
            if self.scope().facts.region[at].is_none() {
                let memory = self.scratch(local.ty.size().max(1));
                self.scope().variables[at].home = Some(Home::Memory(memory));
                if self.scope().facts.zeroed[at] {
                    self.zero(memory, local.ty.size());
                }
            }
        }
        self.open_region(0);
    }

    /// Gives the variables that only this region mentions their places.
    pub fn open_region(&mut self, region: Region) {
        for at in 0..self.scope().variables.len() {
            let scope = self.scope();
            if scope.facts.region[at] != Some(region) {
                continue;
            }
            let (ty, zeroed) = (scope.variables[at].ty.clone(), scope.facts.zeroed[at]);
            let size = ty.size().max(1);
            let home = if ty.is_scalar() && !scope.variables[at].address_taken {
                let v = self.register();
                if zeroed {
                    self.assign(v, Val::Imm(0));
                }
                Home::Register(v)
            } else {
                let memory = if size <= STACK_OBJECT && self.stack_has(size) {
                    let object = self.stack_object(size);
                    // It stays for the whole function.
                    self.frame().taken.pop();
                    Mem::stack(object)
                } else {
                    self.scratch(size)
                };
                if zeroed {
                    self.zero(memory, size);
                }
                Home::Memory(memory)
            };
            self.scope().variables[at].home = Some(home);
        }
    }

    /// The home of a variable.
    pub fn home(&mut self, local: LocalId) -> Home {
        match self.scope().variables[local.0 as usize].home {
            Some(home) => home,
            None => {
                // A variable that no analysis saw mentioned here cannot be; an empty register is harmless.
                let v = self.set(Val::Imm(0));
                self.scope().variables[local.0 as usize].home = Some(Home::Register(v));
                Home::Register(v)
            }
        }
    }

    /// Begins another function of the unit and makes it current.
    pub fn begin_function(
        &mut self,
        name: String,
        parameters: &[&'static str],
        region: Region,
    ) -> FunctionId {
        let mut function = Function::new(name);
        function.parameters = parameters.iter().map(|_| function.register()).collect();
        function.parameter_names = parameters.to_vec();
        self.unit.functions.push(function);
        let at = self.unit.functions.len() - 1;
        self.frames.push(Frame {
            function: at,
            block: BlockId(0),
            context: None,
            region,
            loops: Vec::new(),
            free: Vec::new(),
            taken: Vec::new(),
            stack_bytes: 0,
            keys: Vec::new(),
        });
        self.cold = false;
        FunctionId(at as u32)
    }

    /// Goes back to the function before.
    pub fn end_function(&mut self) {
        self.frames.pop();
        let block = self.frame().block;
        self.cold = self.function().at(block).cold;
    }

    pub fn unsupported(&mut self, message: impl Into<String>) {
        let span = self.span;
        self.shared.error(span, message);
    }
}
