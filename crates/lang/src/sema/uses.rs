//! What a probe's text uses, found before types are: it decides which attach points can
//! share a program and which fields have to be the same.

use std::collections::{BTreeMap, BTreeSet};

use crate::syntax::ast::*;

/// Names that a block uses, macros followed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// Bare words and called functions.
    pub names: BTreeSet<String>,
    /// Fields of `args` used by name.
    pub fields: BTreeSet<String>,
    /// Structs, unions and enums named in casts and the like.
    pub types: BTreeSet<String>,
    /// `args` used as a whole.
    pub whole_args: bool,
}

impl Uses {
    /// Whether a word is used.
    pub fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Whether `args` is used in any way.
    pub fn args(&self) -> bool {
        self.whole_args || !self.fields.is_empty()
    }

    /// The highest `argN` used plus one.
    pub fn arg_count(&self) -> usize {
        let numbers = self.names.iter().filter_map(|name| name.strip_prefix("arg")?.parse::<usize>().ok());
        numbers.max().map_or(0, |highest| highest + 1)
    }
}

/// Macros of the program by name.
pub type Macros<'a> = BTreeMap<&'a str, Vec<&'a Macro>>;

/// What a probe uses.
pub fn of_probe(probe: &Probe, macros: &Macros<'_>) -> Uses {
    let mut finder = Finder { uses: Uses::default(), macros, seen: BTreeSet::new() };
    if let Some(predicate) = &probe.predicate {
        finder.expr(predicate);
    }
    finder.block(&probe.body);
    finder.uses
}

struct Finder<'a> {
    uses: Uses,
    macros: &'a Macros<'a>,
    seen: BTreeSet<String>,
}

impl Finder<'_> {
    fn name(&mut self, name: &str) {
        self.uses.names.insert(name.into());
        if let Some(found) = self.macros.get(name)
            && self.seen.insert(name.into())
        {
            for one in found {
                self.block(&one.body);
            }
        }
    }

    fn block(&mut self, block: &Block) {
        for statement in &block.statements {
            self.statement(statement);
        }
        if let Some(value) = &block.value {
            self.expr(value);
        }
    }

    fn type_expr(&mut self, ty: &TypeExpr) {
        match &ty.kind {
            TypeKind::Struct(name) | TypeKind::Union(name) | TypeKind::Enum(name) | TypeKind::Name(name) => {
                self.uses.types.insert(name.clone());
            }
            TypeKind::Pointer(to) | TypeKind::Array(to, _) | TypeKind::Same(to) => self.type_expr(to),
            TypeKind::Tuple(fields) => fields.iter().for_each(|field| self.type_expr(field)),
            TypeKind::Typeof(expr) => self.expr(expr),
        }
    }

    fn if_parts(&mut self, found: &If) {
        self.expr(&found.condition);
        self.block(&found.then);
        if let Some(block) = &found.otherwise {
            self.block(block);
        }
    }

    fn statement(&mut self, statement: &Statement) {
        match &statement.kind {
            StatementKind::Expr(expr) | StatementKind::Discard(expr) | StatementKind::Return(Some(expr)) => {
                self.expr(expr)
            }
            StatementKind::Assign { target, value, .. } => {
                self.expr(target);
                self.expr(value);
            }
            StatementKind::Let { value, ty, .. } => {
                if let Some(ty) = ty {
                    self.type_expr(ty);
                }
                if let Some(value) = value {
                    self.expr(value);
                }
            }
            StatementKind::If(found) => self.if_parts(found),
            StatementKind::While { condition, body } => {
                self.expr(condition);
                self.block(body);
            }
            StatementKind::Unroll { count, body } => {
                self.expr(count);
                self.block(body);
            }
            StatementKind::For { start, end, body, .. } => {
                self.expr(start);
                if let Some(end) = end {
                    self.expr(end);
                }
                self.block(body);
            }
            StatementKind::Block(block) => self.block(block),
            StatementKind::Break | StatementKind::Continue | StatementKind::Return(None) => {}
        }
    }

    fn expr(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Name(name) => {
                if name == "args" {
                    self.uses.whole_args = true;
                }
                self.name(name);
            }
            ExprKind::Field { base, name } => match &base.kind {
                ExprKind::Name(word) if word == "args" => {
                    self.uses.names.insert("args".into());
                    self.uses.fields.insert(name.text.clone());
                }
                _ => self.expr(base),
            },
            ExprKind::Call { name, arguments } => {
                self.name(&name.text);
                for argument in arguments {
                    match argument {
                        Argument::Expr(expr) => self.expr(expr),
                        Argument::Type(ty) => self.type_expr(ty),
                    }
                }
            }
            ExprKind::Map { key: Some(inner), .. }
            | ExprKind::Unary(_, inner)
            | ExprKind::Deref(inner)
            | ExprKind::AddressOf(inner)
            | ExprKind::Step { target: inner, .. }
            | ExprKind::Comptime(inner) => self.expr(inner),
            ExprKind::Cast(ty, inner) => {
                self.type_expr(ty);
                self.expr(inner);
            }
            ExprKind::Binary(_, left, right) | ExprKind::Logical(_, left, right) => {
                self.expr(left);
                self.expr(right);
            }
            ExprKind::Index { base, index } => {
                self.expr(base);
                self.expr(index);
            }
            ExprKind::Ternary { condition, then, otherwise } => {
                self.expr(condition);
                if let Some(then) = then {
                    self.expr(then);
                }
                self.expr(otherwise);
            }
            ExprKind::Tuple(fields) => fields.iter().for_each(|(_, value)| self.expr(value)),
            ExprKind::Block(block) => self.block(block),
            ExprKind::If(found) => self.if_parts(found),
            ExprKind::Int(_)
            | ExprKind::Bool(_)
            | ExprKind::Str(_)
            | ExprKind::Variable(_)
            | ExprKind::Map { key: None, .. }
            | ExprKind::Positional(_)
            | ExprKind::PositionalCount
            | ExprKind::Error => {}
        }
    }
}
