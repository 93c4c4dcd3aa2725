//! The program as written: names not resolved, types not known.

use crate::operator::BinaryOp;
use crate::source::Span;

/// A whole program in the order of the text.
#[derive(Clone, Debug, Default)]
pub struct Ast {
    /// What stands outside of probes, and the probes.
    pub items: Vec<Item>,
}

/// Something at the top level.
#[derive(Clone, Debug)]
pub enum Item {
    /// `probe, probe /predicate/ { … }`
    Probe(Probe),
    /// `fn name($a : type) : type { … }`
    Function(Function),
    /// `macro name($a, b, @c) { … }`, or a `#define` with parameters.
    Macro(Macro),
    /// `let @m = hash(100);`
    Map(MapDeclaration),
    /// One setting of `config = { … }`.
    Setting(Setting),
    /// `struct`, `union`, `enum`, `typedef`.
    C(CDeclaration),
    /// `import "file";`
    Import(Text),
}

/// A word of the program with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// The word.
    pub text: String,
    /// Its place.
    pub span: Span,
}

/// A probe with its attach points.
#[derive(Clone, Debug)]
pub struct Probe {
    /// Where to attach.
    pub attach_points: Vec<AttachPoint>,
    /// `/predicate/`
    pub predicate: Option<Expr>,
    /// What to do.
    pub body: Block,
    /// All of it.
    pub span: Span,
}

/// `name=provider:part:part`, parameters put in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachPoint {
    /// The name before `=`.
    pub name: Option<String>,
    /// The parts between colons, the provider first; quotes removed.
    pub parts: Vec<Text>,
    /// All of it.
    pub span: Span,
}

/// A subprogram.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its name.
    pub name: Text,
    /// Parameters with their types.
    pub parameters: Vec<(Text, TypeExpr)>,
    /// Type of the result.
    pub result: TypeExpr,
    /// Its body.
    pub body: Block,
    /// All of it.
    pub span: Span,
}

/// A macro: its body takes the place of a call.
#[derive(Clone, Debug)]
pub struct Macro {
    /// Its name.
    pub name: Text,
    /// `$a`, `@b` or a bare name for any expression.
    pub parameters: Vec<Text>,
    /// Its body.
    pub body: Block,
    /// From `#define`: the body sees all names, as C's does.
    pub unhygienic: bool,
}

/// `let @m = kind(entries);`
#[derive(Clone, Debug)]
pub struct MapDeclaration {
    /// With its `@`.
    pub name: Text,
    /// `hash`, …
    pub kind: Text,
    /// Entries.
    pub entries: Option<Expr>,
    /// All of it.
    pub span: Span,
}

/// `name = value` in a config block.
#[derive(Clone, Debug)]
pub struct Setting {
    /// As written.
    pub name: Text,
    /// Number, boolean, string or word.
    pub value: crate::config::Value,
    /// Its place.
    pub span: Span,
}

/// A C declaration of the preamble.
#[derive(Clone, Debug)]
pub enum CDeclaration {
    /// `struct` or `union`.
    Record(CRecord),
    /// `enum`.
    Enum(CEnum),
    /// `typedef`.
    Typedef {
        /// What stands for what.
        member: CMember,
    },
}

/// `struct` or `union` with members.
#[derive(Clone, Debug)]
pub struct CRecord {
    /// Name; none when anonymous.
    pub name: Option<Text>,
    /// `union`.
    pub union: bool,
    /// Members.
    pub members: Vec<CMember>,
    /// `__attribute__((packed))`.
    pub packed: bool,
    /// All of it.
    pub span: Span,
}

/// `enum` with its names.
#[derive(Clone, Debug)]
pub struct CEnum {
    /// Name; none when anonymous.
    pub name: Option<Text>,
    /// Names with the expressions of those that have one.
    pub values: Vec<(Text, Option<Expr>)>,
    /// All of it.
    pub span: Span,
}

/// A member of a C struct, or what a typedef names.
#[derive(Clone, Debug)]
pub struct CMember {
    /// Name; none for an anonymous struct or union.
    pub name: Option<Text>,
    /// Its type without arrays.
    pub ty: CType,
    /// Array lengths from the outside in; none: `[]`.
    pub arrays: Vec<Option<Expr>>,
    /// Width of a bit field.
    pub bits: Option<Expr>,
}

/// A C type.
#[derive(Clone, Debug)]
pub enum CType {
    /// By name.
    Named(TypeExpr),
    /// Defined in place.
    Record(Box<CRecord>),
    /// Defined in place.
    Enum(Box<CEnum>),
    /// A pointer to a type defined in place.
    PointerTo(Box<CType>),
}

/// A type as written.
#[derive(Clone, Debug)]
pub struct TypeExpr {
    /// What is written.
    pub kind: TypeKind,
    /// Its place.
    pub span: Span,
}

/// See [`TypeExpr`].
#[derive(Clone, Debug)]
pub enum TypeKind {
    /// `uint8`, `string`, `unsigned long`, `pid_t`, …
    Name(String),
    /// `struct x`
    Struct(String),
    /// `union x`
    Union(String),
    /// `enum x`
    Enum(String),
    /// `T *`
    Pointer(Box<TypeExpr>),
    /// `T[n]`, `T[]`
    Array(Box<TypeExpr>, Option<Box<Expr>>),
    /// `(T, U)`
    Tuple(Vec<TypeExpr>),
    /// `typeof(expr)`
    Typeof(Box<Expr>),
    /// `typeof(type)`
    Same(Box<TypeExpr>),
}

/// Statements in braces; the last may be a value (an expression without `;`).
#[derive(Clone, Debug)]
pub struct Block {
    /// In order.
    pub statements: Vec<Statement>,
    /// The last expression, without `;` after it.
    pub value: Option<Box<Expr>>,
    /// With the braces.
    pub span: Span,
}

/// A statement.
#[derive(Clone, Debug)]
pub struct Statement {
    /// What is done.
    pub kind: StatementKind,
    /// Its place.
    pub span: Span,
}

/// See [`Statement`].
#[derive(Clone, Debug)]
pub enum StatementKind {
    /// An expression for its effect.
    Expr(Expr),
    /// `target = value`, `target op= value`
    Assign {
        /// What is assigned.
        target: Expr,
        /// The operator of a compound assignment.
        op: Option<BinaryOp>,
        /// What to.
        value: Expr,
    },
    /// `_ = value`
    Discard(Expr),
    /// `let $x : type = value`
    Let {
        /// With its `$`.
        name: Text,
        /// Declared type.
        ty: Option<TypeExpr>,
        /// First value.
        value: Option<Expr>,
    },
    /// `if`
    If(If),
    /// `while (condition) { … }`
    While {
        /// Condition.
        condition: Expr,
        /// Body.
        body: Block,
    },
    /// `unroll (n) { … }`
    Unroll {
        /// How often.
        count: Expr,
        /// Body.
        body: Block,
    },
    /// `for ($x : @m) { … }`, `for ($x : a..b) { … }`
    For {
        /// With its `$`.
        variable: Text,
        /// A map or the start of a range.
        start: Expr,
        /// The end of a range.
        end: Option<Expr>,
        /// Body.
        body: Block,
    },
    /// `break`
    Break,
    /// `continue`
    Continue,
    /// `return`, `return value`
    Return(Option<Expr>),
    /// A block as a statement.
    Block(Block),
}

/// `if (condition) { … } else { … }`
#[derive(Clone, Debug)]
pub struct If {
    /// Condition.
    pub condition: Box<Expr>,
    /// `if comptime`: decided while compiling.
    pub comptime: bool,
    /// When true.
    pub then: Block,
    /// When false; `else if` is a block with one statement or value.
    pub otherwise: Option<Block>,
}

/// An expression.
#[derive(Clone, Debug)]
pub struct Expr {
    /// What is computed.
    pub kind: ExprKind,
    /// Its place.
    pub span: Span,
}

/// See [`Expr`].
#[derive(Clone, Debug)]
pub enum ExprKind {
    /// A number.
    Int(u64),
    /// `true`, `false`
    Bool(bool),
    /// A string, escapes resolved.
    Str(Vec<u8>),
    /// A bare word.
    Name(String),
    /// `$x`
    Variable(String),
    /// `@x`, `@x[a, b]`
    Map {
        /// With its `@`.
        name: String,
        /// The key, a tuple when there are several.
        key: Option<Box<Expr>>,
    },
    /// `$1`
    Positional(u32),
    /// `$#`
    PositionalCount,
    /// `name(arguments)`
    Call {
        /// The function.
        name: Text,
        /// Arguments.
        arguments: Vec<Argument>,
    },
    /// `-x`, `!x`, `~x`
    Unary(crate::operator::UnaryOp, Box<Expr>),
    /// `*x`
    Deref(Box<Expr>),
    /// `&x`
    AddressOf(Box<Expr>),
    /// `x++`, `--x`
    Step {
        /// What is changed.
        target: Box<Expr>,
        /// `++`.
        up: bool,
        /// After the operand.
        post: bool,
    },
    /// Arithmetic and comparison.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `&&` (true) or `||`
    Logical(bool, Box<Expr>, Box<Expr>),
    /// `c ? a : b`; without `a`: `c ?: b`
    Ternary {
        /// Condition.
        condition: Box<Expr>,
        /// When true; none: the condition's own value.
        then: Option<Box<Expr>>,
        /// When false.
        otherwise: Box<Expr>,
    },
    /// `x.name`, `x->name`, `x.0`
    Field {
        /// Of what.
        base: Box<Expr>,
        /// Name or number.
        name: Text,
    },
    /// `x[i]`
    Index {
        /// Of what.
        base: Box<Expr>,
        /// Which.
        index: Box<Expr>,
    },
    /// `(type)x`
    Cast(TypeExpr, Box<Expr>),
    /// `(a, b)`, `(a,)`, `()`, `(x=a, y=b)`
    Tuple(Vec<(Option<Text>, Expr)>),
    /// `{ … value }`
    Block(Block),
    /// `if` as a value.
    If(If),
    /// `comptime x`
    Comptime(Box<Expr>),
    /// Something that could not be read; its error is reported.
    Error,
}

/// An argument of a call: most are expressions, some functions take types.
#[derive(Clone, Debug)]
pub enum Argument {
    /// An expression.
    Expr(Expr),
    /// A type (`sizeof(struct x)`).
    Type(TypeExpr),
}

impl Argument {
    /// Its place.
    pub fn span(&self) -> Span {
        match self {
            Argument::Expr(expr) => expr.span,
            Argument::Type(ty) => ty.span,
        }
    }
}
