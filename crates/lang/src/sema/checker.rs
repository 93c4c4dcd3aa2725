//! The state of a check: scopes, maps and what is known of their types.
//!
//! Types of variables and maps are found by going over the program until nothing changes:
//! each pass joins the types of all assignments, findings of all but the last pass are
//! dropped, and the last pass makes the typed program with every cast explicit.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use bpf::KernelFacts;

use super::probes::Variant;
use super::types::{Resolver, settle};
use super::uses::Macros;
use crate::config::Config;
use crate::diagnostic::{Code, Diagnostic, Findings};
use crate::hir::{self, Expr, ExprKind, LocalId};
use crate::options::Options;
use crate::schema::{EmitId, EmitKind, EmittedRecord, MapId, MapValue, NamedOption, Storage};
use crate::source::Span;
use crate::syntax::ast;
use crate::types::Type;

/// What is known of a map so far.
#[derive(Clone, Debug)]
pub struct MapInfo {
    /// With its `@`.
    pub name: String,
    /// First use or declaration.
    pub span: Span,
    /// Key, once a use says it.
    pub key: Option<Key>,
    /// Value, once an assignment says it.
    pub value: Option<MapValue>,
    /// Where the value's type comes from.
    pub value_span: Span,
    /// Storage and capacity from a declaration.
    pub declared: Option<(Storage, u32)>,
    /// Whether the text uses it besides declaring it.
    pub used: bool,
}

/// A map's key.
#[derive(Clone, Debug, PartialEq)]
pub enum Key {
    /// The map has none.
    Scalar,
    /// One type, a tuple for several keys.
    Of(Type),
}

/// What is known of a variable, over all passes.
#[derive(Clone, Debug, Default)]
pub struct Known {
    ty: Option<Type>,
    /// Declared with a type, which does not change.
    fixed: bool,
    address_taken: bool,
}

/// A variable by the place it is declared at; macros are told apart by their calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct LocalKey {
    body: usize,
    path: u64,
    start: u32,
    name: String,
}

/// What a name in a macro's body stands for.
#[derive(Clone, Copy, Debug)]
pub struct Binding<'a> {
    /// The argument.
    pub expr: &'a ast::Expr,
    /// The frame it is evaluated in.
    pub frame: usize,
}

/// Names of one body or one macro call.
#[derive(Debug, Default)]
pub struct Frame<'a> {
    /// Scopes of variables, the innermost last.
    pub(super) scopes: Vec<Vec<(String, LocalId)>>,
    /// Parameters of a macro.
    pub bindings: HashMap<&'a str, Binding<'a>>,
    /// A `#define`'s body sees the caller's names.
    pub parent: Option<usize>,
    /// Whether maps may be named directly.
    pub open: bool,
    /// Which chain of macro calls this is.
    pub(super) path: u64,
    /// The macro, for messages.
    pub name: Option<&'a str>,
}

/// What belongs to the body being checked.
#[derive(Default)]
pub struct BodyState<'a> {
    id: usize,
    /// Variables of the body.
    pub locals: Vec<hir::Local>,
    keys: Vec<LocalKey>,
    /// Frames, the body's own first.
    pub frames: Vec<Frame<'a>>,
    /// The frame names are looked up in.
    pub frame: usize,
    /// The program being made; none in a `fn`.
    pub variant: Option<&'a Variant>,
    /// Loops around the place at hand.
    pub loops: u32,
    /// Result of the `fn` being checked.
    pub result: Option<Type>,
    /// The place at hand cannot be reached.
    pub dead: bool,
    /// Place given to all that is made (expressions of tables have none of their own).
    pub place: Option<Span>,
}

/// See the module.
pub struct Checker<'a> {
    /// Types and constants.
    pub resolver: &'a Resolver<'a>,
    /// The kernel.
    pub facts: &'a dyn KernelFacts,
    /// What the user asked.
    pub options: &'a Options<'a>,
    /// Settings.
    pub config: &'a Config,
    /// Findings go here.
    pub findings: &'a Findings,
    /// Macros by name.
    pub macros: &'a Macros<'a>,
    /// Subprograms in the order of the text.
    pub functions: &'a [&'a ast::Function],
    /// Result and parameter types of subprograms.
    pub function_types: Vec<(Vec<Type>, Type)>,
    /// Maps in the order of the text.
    pub maps: Vec<MapInfo>,
    map_index: HashMap<String, usize>,
    known: HashMap<LocalKey, Known>,
    /// Variables used outside of the block that assigns them, as bpftrace before 0.22 allowed:
    /// body, chain of macro calls, name.
    hoisted: HashSet<(usize, u64, String)>,
    /// Some probe is missing, so maps may lack their assignments.
    pub incomplete: bool,
    /// Whether this pass learnt something.
    pub changed: bool,
    /// Whether types are final and findings are kept.
    pub last: bool,
    /// Streamed records so far.
    pub records: Vec<EmittedRecord>,
    /// `strftime` formats so far.
    pub time_formats: Vec<String>,
    /// Strings of run-time values so far.
    pub strings: Vec<String>,
    /// `getopt` calls so far.
    pub named_options: Vec<NamedOption>,
    /// Calls of `ratelimit` so far.
    pub rate_sites: u32,
    /// Whether `selected` was called so far.
    pub selects: bool,
    /// The body at hand.
    pub body: BodyState<'a>,
}

impl<'a> Checker<'a> {
    /// A checker that knows nothing of the program's variables and maps yet.
    #[allow(clippy::too_many_arguments)] // all are needed, and only here
    pub fn new(
        resolver: &'a Resolver<'a>,
        facts: &'a dyn KernelFacts,
        options: &'a Options<'a>,
        config: &'a Config,
        findings: &'a Findings,
        macros: &'a Macros<'a>,
        functions: &'a [&'a ast::Function],
    ) -> Checker<'a> {
        Checker {
            resolver,
            facts,
            options,
            config,
            findings,
            macros,
            functions,
            function_types: Vec::new(),
            maps: Vec::new(),
            map_index: HashMap::new(),
            known: HashMap::new(),
            hoisted: HashSet::new(),
            incomplete: false,
            changed: false,
            last: false,
            records: Vec::new(),
            time_formats: Vec::new(),
            strings: Vec::new(),
            named_options: Vec::new(),
            rate_sites: 0,
            selects: false,
            body: BodyState::default(),
        }
    }

    /// Begins a pass.
    pub fn start_pass(&mut self, last: bool) {
        self.changed = false;
        self.last = last;
        self.records.clear();
        self.time_formats.clear();
        self.strings.clear();
        self.named_options.clear();
        self.rate_sites = 0;
        self.selects = false;
    }

    /// Begins a body: a variant's, or a subprogram's.
    pub fn start_body(&mut self, id: usize, variant: Option<&'a Variant>, result: Option<Type>) {
        self.body = BodyState { id, variant, result, ..BodyState::default() };
        self.body.frames.push(Frame { scopes: vec![Vec::new()], open: true, ..Frame::default() });
    }

    /// Ends the body: its variables with their types.
    pub fn finish_locals(&mut self) -> Vec<hir::Local> {
        let mut locals = std::mem::take(&mut self.body.locals);
        for (local, key) in locals.iter_mut().zip(&self.body.keys) {
            local.ty = settle(local.ty.clone());
            local.address_taken = self.known.get(key).is_some_and(|known| known.address_taken);
        }
        locals
    }

    // Findings.

    /// The place to report for a place of the text.
    pub fn at(&self, span: Span) -> Span {
        self.body.place.unwrap_or(span)
    }

    /// Reports an error; answers the expression that stands for it.
    pub fn error(&self, code: Code, span: Span, message: impl Into<String>) -> Expr {
        self.report(Diagnostic::error(code, self.at(span), message))
    }

    /// Reports a finding; answers the expression that stands for an error.
    pub fn report(&self, diagnostic: Diagnostic) -> Expr {
        let span = diagnostic.span;
        self.findings.add(diagnostic);
        self.unknown(span)
    }

    /// Reports a warning, unless the place cannot be reached.
    pub fn warn(&self, code: Code, span: Span, message: impl Into<String>) {
        if !self.body.dead {
            self.findings.add(Diagnostic::warning(code, self.at(span), message));
        }
    }

    /// The expression whose type is not known (yet), or that is reported as wrong.
    pub fn unknown(&self, span: Span) -> Expr {
        Expr { kind: ExprKind::Zero, ty: Type::Void, span: self.at(span) }
    }

    /// The type as programs write it.
    pub fn show(&self, ty: &Type) -> String {
        self.resolver.name(ty)
    }

    // Making expressions.

    /// An expression of that kind and type.
    pub fn make(&self, kind: ExprKind, ty: Type, span: Span) -> Expr {
        Expr { kind, ty, span: self.at(span) }
    }

    /// A constant integer of that type.
    pub fn int(&self, value: u64, ty: Type, span: Span) -> Expr {
        self.make(ExprKind::Int(value), ty, span)
    }

    /// A constant string.
    pub fn string(&self, bytes: &[u8], span: Span) -> Expr {
        let ty = Type::String(bytes.len() as u32 + 1);
        self.make(ExprKind::Str(bytes.to_vec()), ty, span)
    }

    /// An expression without a value that does this.
    pub fn effect(&self, kind: hir::StatementKind, span: Span) -> Expr {
        let span = self.at(span);
        let statements = vec![hir::Statement { kind, span }];
        self.make(ExprKind::Block { statements, value: None }, Type::Void, span)
    }

    // Variables.

    /// Opens a scope in the frame at hand.
    pub fn open_scope(&mut self) {
        let frame = self.body.frame;
        self.body.frames[frame].scopes.push(Vec::new());
    }

    /// Closes it.
    pub fn close_scope(&mut self) {
        let frame = self.body.frame;
        self.body.frames[frame].scopes.pop();
    }

    /// Adds a frame for a macro call at `span`; answers its number.
    pub fn push_frame(&mut self, mut frame: Frame<'a>, span: Span) -> usize {
        let path = self.body.frames[self.body.frame].path;
        frame.path = path.wrapping_mul(0x0100_0000_01b3) ^ u64::from(span.start).wrapping_add(0x9e37_79b9);
        frame.scopes.push(Vec::new());
        self.body.frames.push(frame);
        self.body.frames.len() - 1
    }

    /// Runs a step with names looked up in another frame.
    pub fn in_frame<T>(&mut self, frame: usize, step: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.body.frame, frame);
        let result = step(self);
        self.body.frame = outer;
        result
    }

    /// What a macro's parameter stands for, in the frame at hand.
    pub fn binding(&self, name: &str) -> Option<Binding<'a>> {
        let mut frame = &self.body.frames[self.body.frame];
        loop {
            if let Some(binding) = frame.bindings.get(name) {
                return Some(*binding);
            }
            frame = &self.body.frames[frame.parent?];
        }
    }

    /// A variable in reach.
    pub fn find_local(&self, name: &str) -> Option<LocalId> {
        let mut frame = &self.body.frames[self.body.frame];
        loop {
            let mut all = frame.scopes.iter().rev().flat_map(|scope| scope.iter().rev());
            if let Some((_, id)) = all.find(|(have, _)| have == name) {
                return Some(*id);
            }
            frame = &self.body.frames[frame.parent?];
        }
    }

    /// Notes that a variable is used outside of the block that assigns it: from the next pass on
    /// it belongs to the whole body. False when no block of this body assigns it.
    pub fn hoist(&mut self, name: &str) -> bool {
        let path = self.body.frames[self.body.frame].path;
        let body = self.body.id;
        let assigned = self.known.keys().any(|key| key.body == body && key.path == path && key.name == name);
        let fresh = assigned && self.hoisted.insert((body, path, name.to_string()));
        self.changed |= fresh;
        fresh
    }

    /// Declares a variable that an assignment makes: in the innermost scope, unless it is used outside of it.
    pub fn declare_assigned(&mut self, name: &str, span: Span) -> LocalId {
        let frame = self.body.frame;
        let key = (self.body.id, self.body.frames[frame].path, name.to_string());
        if !self.hoisted.contains(&key) {
            return self.declare_local(name, span);
        }
        let finding = Diagnostic::warning(
            Code::Deprecated,
            self.at(span),
            format!("{name} is used outside of the block that assigns it first"),
        );
        self.findings.add(finding.help(format!("declare it before the block: let {name};")));
        let inner = self.body.frames[frame].scopes.split_off(1);
        let local = self.declare_local(name, span);
        self.body.frames[frame].scopes.extend(inner);
        local
    }

    /// Names of variables in reach, for "did you mean".
    pub fn local_names(&self) -> Vec<String> {
        let frame = &self.body.frames[self.body.frame];
        frame.scopes.iter().flatten().map(|(name, _)| name.clone()).collect()
    }

    /// Declares a variable in the innermost scope of the frame at hand.
    pub fn declare_local(&mut self, name: &str, span: Span) -> LocalId {
        let id = LocalId(self.body.locals.len() as u32);
        let frame = self.body.frame;
        let path = self.body.frames[frame].path;
        let key = LocalKey { body: self.body.id, path, start: span.start, name: name.into() };
        let known = self.known.entry(key.clone()).or_default();
        let ty = known.ty.clone().unwrap_or(Type::Void);
        self.body.locals.push(hir::Local { name: name.into(), ty, address_taken: false, span });
        self.body.keys.push(key);
        if let Some(scope) = self.body.frames[frame].scopes.last_mut() {
            scope.push((name.into(), id));
        }
        id
    }

    /// A variable's type so far; `Void` while it is not known.
    pub fn local_type(&self, id: LocalId) -> &Type {
        &self.body.locals[id.0 as usize].ty
    }

    /// Gives a variable a type that does not change.
    pub fn fix_local(&mut self, id: LocalId, ty: Type) {
        self.set_known(id, ty);
        let key = self.body.keys[id.0 as usize].clone();
        self.known.entry(key).or_default().fixed = true;
    }

    /// Whether its type was declared.
    pub fn is_fixed(&self, id: LocalId) -> bool {
        self.known.get(&self.body.keys[id.0 as usize]).is_some_and(|known| known.fixed)
    }

    /// Notes that its address is taken.
    pub fn take_address(&mut self, id: LocalId) {
        let key = self.body.keys[id.0 as usize].clone();
        self.known.entry(key).or_default().address_taken = true;
    }

    /// Joins a value's type into a variable's. False when they do not go together.
    pub fn join_local(&mut self, id: LocalId, value: &Expr) -> bool {
        if value.ty == Type::Void || self.is_fixed(id) {
            return true;
        }
        let have = self.local_type(id).clone();
        match super::convert::join(&have, &value.ty) {
            Some(joined) => {
                if joined != have {
                    self.set_known(id, joined);
                }
                true
            }
            None => false,
        }
    }

    fn set_known(&mut self, id: LocalId, ty: Type) {
        let key = self.body.keys[id.0 as usize].clone();
        let known = self.known.entry(key).or_default();
        if known.ty.as_ref() != Some(&ty) {
            known.ty = Some(ty.clone());
            self.changed = true;
        }
        self.body.locals[id.0 as usize].ty = ty;
    }

    // Maps.

    /// The map of that name, noted when it is new.
    pub fn map(&mut self, name: &str, span: Span) -> MapId {
        if let Some(index) = self.map_index.get(name) {
            return MapId(*index as u32);
        }
        let index = self.maps.len();
        self.map_index.insert(name.into(), index);
        self.maps.push(MapInfo {
            name: name.into(),
            span,
            key: None,
            value: None,
            value_span: Span::NONE,
            declared: None,
            used: false,
        });
        MapId(index as u32)
    }

    /// What is known of a map.
    pub fn map_info(&mut self, id: MapId) -> &mut MapInfo {
        &mut self.maps[id.0 as usize]
    }

    /// Joins a key's type. False when it does not go together with the others.
    pub fn join_key(&mut self, id: MapId, key: &Key) -> bool {
        let info = &mut self.maps[id.0 as usize];
        let joined = match (&info.key, key) {
            (None, key) => key.clone(),
            (Some(Key::Scalar), Key::Scalar) => Key::Scalar,
            (Some(Key::Of(have)), Key::Of(new)) => match super::convert::join(have, new) {
                Some(joined) => Key::Of(joined),
                None => return false,
            },
            _ => return false,
        };
        if info.key.as_ref() != Some(&joined) {
            info.key = Some(joined);
            self.changed = true;
        }
        true
    }

    /// Joins a value. False when it does not go together with the others.
    pub fn join_value(&mut self, id: MapId, value: &MapValue, span: Span) -> bool {
        let info = &mut self.maps[id.0 as usize];
        let joined = match (&info.value, value) {
            (None, value) => value.clone(),
            (Some(MapValue::Plain(have)), MapValue::Plain(new)) => match super::convert::join(have, new) {
                Some(joined) => MapValue::Plain(joined),
                None => return false,
            },
            (Some(have), new) => match super::convert::join_aggregates(have, new) {
                Some(joined) => joined,
                None => return false,
            },
        };
        if info.value.as_ref() != Some(&joined) {
            if info.value.is_none() {
                info.value_span = span;
            }
            info.value = Some(joined);
            self.changed = true;
        }
        true
    }

    // Streamed records.

    /// The record of this kind and types; calls that agree share one.
    pub fn record(&mut self, kind: EmitKind, types: Vec<Type>, span: Span) -> EmitId {
        let types: Vec<Type> = types.into_iter().map(settle).collect();
        let record = EmittedRecord::new(kind, types, self.at(span));
        if let Some(at) = self.records.iter().position(|have| *have == record) {
            return EmitId(at as u32);
        }
        self.records.push(record);
        EmitId(self.records.len() as u32 - 1)
    }

    /// An expression that streams a record with these values.
    pub fn emit(&mut self, kind: EmitKind, values: Vec<Expr>, span: Span) -> Expr {
        let types: Vec<Type> = values.iter().map(|value| value.ty.clone()).collect();
        for ty in &types {
            self.resolver.load(ty);
        }
        let record = self.record(kind, types, span);
        self.effect(hir::StatementKind::Emit { record, values }, span)
    }

    /// Index of a string in a list, added when it is new.
    pub fn intern(list: &mut Vec<String>, text: &str) -> u32 {
        if let Some(at) = list.iter().position(|have| have == text) {
            return at as u32;
        }
        list.push(text.into());
        list.len() as u32 - 1
    }

    /// A field's name for a tuple.
    pub fn field_name(name: &str) -> Rc<str> {
        Rc::from(name)
    }
}
