//! What lowering has to know of a body before it begins: which variables are shared with callbacks and have to
//! live in memory, and which are read before they are assigned.

use crate::hir::*;

/// Part of the code that becomes one function: 0 is the program itself, then each loop with a callback.
pub type Region = u32;

/// Facts about the variables of one body.
#[derive(Debug, Default)]
pub struct Variables {
    /// The only region that mentions a variable; none if several do.
    pub region: Vec<Option<Region>>,
    /// Whether a read may come before the first assignment.
    pub zeroed: Vec<bool>,
    /// How often `$x = …` occurs; other ways of changing a variable count too.
    pub assignments: Vec<u32>,
}

/// Calls `mention` for each variable mentioned, and `assign` where it is changed.
struct Walk<'f> {
    mention: &'f mut dyn FnMut(LocalId, Region, bool),
    region: Region,
    next: Region,
}

impl Walk<'_> {
    fn block(&mut self, block: &Block) {
        for statement in block {
            self.statement(statement);
        }
    }

    /// A loop body that becomes a callback.
    fn callback(&mut self, inner: impl FnOnce(&mut Self)) {
        let outer = self.region;
        self.next += 1;
        self.region = self.next;
        inner(self);
        self.region = outer;
    }

    fn local(&mut self, local: LocalId) {
        (self.mention)(local, self.region, false);
    }

    fn changed(&mut self, local: LocalId) {
        (self.mention)(local, self.region, true);
    }

    fn option(&mut self, expr: &Option<Expr>) {
        if let Some(expr) = expr {
            self.expr(expr);
        }
    }

    fn boxed(&mut self, expr: &Option<Box<Expr>>) {
        if let Some(expr) = expr {
            self.expr(expr);
        }
    }

    fn all(&mut self, list: &[Expr]) {
        list.iter().for_each(|expr| self.expr(expr));
    }

    fn place(&mut self, place: &Place) {
        match &place.base {
            Base::Context => {}
            Base::Pointer(expr) | Base::Value(expr) => self.expr(expr),
        }
        place.indexes.iter().for_each(|index| self.expr(&index.value));
    }

    fn statement(&mut self, statement: &Statement) {
        match &statement.kind {
            StatementKind::Expr(expr) => self.expr(expr),
            StatementKind::SetLocal { local, value } => {
                self.expr(value);
                self.changed(*local);
            }
            // The order is that of lowering: loops inside expressions are numbered by it.
            StatementKind::SetMap { key, value, .. } => {
                self.expr(value);
                self.option(key);
            }
            StatementKind::Aggregate { key, update, .. } => {
                match update {
                    Update::Count => {}
                    Update::Sum(expr)
                    | Update::Min(expr)
                    | Update::Max(expr)
                    | Update::Avg(expr)
                    | Update::Stats(expr)
                    | Update::Hist(expr)
                    | Update::Lhist(expr)
                    | Update::LogLinear(expr)
                    | Update::TimeSeries(expr) => self.expr(expr),
                }
                self.option(key);
            }
            StatementKind::Store { place, value } => {
                self.place(place);
                self.expr(value);
            }
            StatementKind::Emit { values, .. } => self.all(values),
            StatementKind::Exit { code, .. } => self.expr(code),
            StatementKind::Join { array, .. } => self.expr(array),
            StatementKind::If { condition, then, otherwise } => {
                self.expr(condition);
                self.block(then);
                self.block(otherwise);
            }
            StatementKind::While { condition, body } => {
                // What the condition reads lasts from turn to turn, so it belongs to the code around too.
                let next = self.next;
                self.expr(condition);
                self.next = next;
                self.callback(|walk| {
                    walk.expr(condition);
                    walk.block(body);
                });
            }
            StatementKind::Unroll { body, .. } => self.block(body),
            StatementKind::ForMap { local, body, .. } => self.callback(|walk| {
                walk.changed(*local);
                walk.block(body);
            }),
            StatementKind::ForRange { local, start, end, body } => {
                self.expr(start);
                self.expr(end);
                self.callback(|walk| {
                    walk.changed(*local);
                    walk.block(body);
                });
            }
            StatementKind::Break | StatementKind::Continue => {}
            StatementKind::Return(value) => self.option(value),
            StatementKind::Block(block) => self.block(block),
        }
    }

    fn expr(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Int(_)
            | ExprKind::Str(_)
            | ExprKind::Bytes(_)
            | ExprKind::Zero
            | ExprKind::MapLength(_)
            | ExprKind::UsdtArgument(_) => {}
            ExprKind::Local(local) | ExprKind::AddressOfLocal(local) => self.local(*local),
            ExprKind::MapGet { key, .. }
            | ExprKind::MapAggregate { key, .. }
            | ExprKind::AddressOfMap { key, .. }
            | ExprKind::MapDelete { key, .. } => self.boxed(key),
            ExprKind::MapHas { key, .. } => self.expr(key),
            ExprKind::MapFind { key, into, .. } => {
                self.expr(key);
                self.changed(*into);
            }
            ExprKind::StackLength(inner) | ExprKind::Unary(_, inner) | ExprKind::Cast(_, inner) => {
                self.expr(inner)
            }
            ExprKind::Binary(_, left, right) | ExprKind::Logical { left, right, .. } => {
                self.expr(left);
                self.expr(right);
            }
            ExprKind::Select { condition, then, otherwise } => {
                self.expr(condition);
                self.expr(then);
                self.expr(otherwise);
            }
            ExprKind::Block { statements, value } => {
                self.block(statements);
                self.boxed(value);
            }
            ExprKind::Read { place, .. }
            | ExprKind::ReadDataLoc { place, .. }
            | ExprKind::AddressOf(place) => {
                self.place(place);
            }
            ExprKind::Tuple(list) | ExprKind::Intrinsic(_, list) | ExprKind::Call(_, list) => self.all(list),
            ExprKind::Step { target, .. } => match target {
                StepTarget::Local(local) => self.changed(*local),
                StepTarget::Map { key, .. } => self.boxed(key),
            },
        }
    }
}

/// Whether evaluating an expression may change a variable.
pub fn has_effects(expr: &Expr) -> bool {
    let mut found = false;
    visit(expr, &mut |expr| {
        found |= matches!(
            expr.kind,
            ExprKind::Step { .. } | ExprKind::Block { .. } | ExprKind::Call(..) | ExprKind::MapFind { .. }
        );
    });
    found
}

/// Calls `f` for an expression and all within it that are evaluated without entering statements.
pub fn visit(expr: &Expr, f: &mut dyn FnMut(&Expr)) {
    f(expr);
    let mut each = |expr: &Expr| visit(expr, f);
    match &expr.kind {
        ExprKind::MapGet { key, .. }
        | ExprKind::MapAggregate { key, .. }
        | ExprKind::AddressOfMap { key, .. }
        | ExprKind::MapDelete { key, .. }
        | ExprKind::Step { target: StepTarget::Map { key, .. }, .. } => key.iter().for_each(|key| each(key)),
        ExprKind::MapHas { key, .. } | ExprKind::MapFind { key, .. } => each(key),
        ExprKind::StackLength(inner) | ExprKind::Unary(_, inner) | ExprKind::Cast(_, inner) => each(inner),
        ExprKind::Binary(_, left, right) | ExprKind::Logical { left, right, .. } => {
            each(left);
            each(right);
        }
        ExprKind::Select { condition, then, otherwise } => {
            each(condition);
            each(then);
            each(otherwise);
        }
        ExprKind::Block { value, .. } => value.iter().for_each(|value| each(value)),
        ExprKind::Read { place, .. } | ExprKind::ReadDataLoc { place, .. } | ExprKind::AddressOf(place) => {
            if let Base::Pointer(expr) | Base::Value(expr) = &place.base {
                each(expr);
            }
            place.indexes.iter().for_each(|index| each(&index.value));
        }
        ExprKind::Tuple(list) | ExprKind::Intrinsic(_, list) | ExprKind::Call(_, list) => {
            list.iter().for_each(each)
        }
        _ => {}
    }
}

/// Analyses a body; `parameters` first locals are assigned at entry, `before` is evaluated before the body.
pub fn variables(body: &Body, parameters: u32, before: Option<&Expr>) -> Variables {
    let count = body.locals.len();
    let mut total = vec![0_u32; count];
    let mut seen: Vec<Option<Region>> = vec![None; count];
    let mut several = vec![false; count];
    let mut assignments = vec![0; count];
    let mut mention = |local: LocalId, region: Region, changed: bool| {
        let at = local.0 as usize;
        assignments[at] += u32::from(changed);
        total[at] += 1;
        several[at] |= seen[at].is_some_and(|before| before != region);
        seen[at] = Some(region);
    };
    let mut walk = Walk { mention: &mut mention, region: 0, next: 0 };
    before.iter().for_each(|expr| walk.expr(expr));
    walk.block(&body.block);
    let region =
        seen.into_iter().zip(several).map(|(seen, several)| if several { None } else { seen.or(Some(0)) });
    let mut out = Variables { region: region.collect(), zeroed: vec![true; count], assignments };
    for zeroed in out.zeroed.iter_mut().take(parameters as usize) {
        *zeroed = false;
    }
    assigned_first(&body.block, &total, &mut out.zeroed);
    out
}

fn count_in(block: &[Statement], local: LocalId) -> u32 {
    let mut count = 0;
    let mut mention = |found: LocalId, _, _| count += u32::from(found == local);
    let mut walk = Walk { mention: &mut mention, region: 0, next: 0 };
    block.iter().for_each(|statement| walk.statement(statement));
    count
}

/// A variable whose first mention is a whole assignment at the top of a block that holds all its mentions is
/// never read before it.
fn assigned_first(block: &Block, total: &[u32], zeroed: &mut [bool]) {
    for (at, statement) in block.iter().enumerate() {
        match &statement.kind {
            StatementKind::SetLocal { local, value } => {
                let index = local.0 as usize;
                if zeroed[index] {
                    let own = count_in(&block[at..=at], *local);
                    let mut in_value = 0;
                    let mut mention = |found: LocalId, _, _| in_value += u32::from(found == *local);
                    Walk { mention: &mut mention, region: 0, next: 0 }.expr(value);
                    let later = total[index] == own || count_in(&block[at..], *local) == total[index];
                    if in_value == 0 && later {
                        zeroed[index] = false;
                    }
                }
            }
            StatementKind::If { then, otherwise, .. } => {
                assigned_first(then, total, zeroed);
                assigned_first(otherwise, total, zeroed);
            }
            StatementKind::While { body, .. } | StatementKind::Unroll { body, .. } => {
                assigned_first(body, total, zeroed);
            }
            StatementKind::ForMap { local, body, .. } | StatementKind::ForRange { local, body, .. } => {
                zeroed[local.0 as usize] = false;
                assigned_first(body, total, zeroed);
            }
            StatementKind::Block(inner) => assigned_first(inner, total, zeroed),
            _ => {}
        }
    }
}

/// The region numbers that [`variables`] gives loops, in the order lowering meets them.
#[derive(Clone, Copy, Debug, Default)]
pub struct RegionCounter {
    next: Region,
}

impl RegionCounter {
    /// The region of the next loop with a callback.
    pub fn enter(&mut self) -> Region {
        self.next += 1;
        self.next
    }
}

/// Whether an expression mentions any variable.
pub fn mentions_local(expr: &Expr) -> bool {
    let mut found = false;
    let mut mention = |_, _, _| found = true;
    Walk { mention: &mut mention, region: 0, next: 0 }.expr(expr);
    found
}
