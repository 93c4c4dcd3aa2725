//! The program as it was understood, as text that reads back the same (`--emit ast`):
//! every operator in parentheses, one statement a line.

use std::fmt::Write;

use super::ast::*;
use crate::operator::{BinaryOp, UnaryOp};

/// The whole program as text.
pub fn print(ast: &Ast) -> String {
    let mut printer = Printer { out: String::new(), indent: 0 };
    for item in &ast.items {
        printer.item(item);
    }
    printer.out
}

/// One expression as text.
pub fn print_expr(expr: &Expr) -> String {
    let mut printer = Printer { out: String::new(), indent: 0 };
    printer.expr(expr);
    printer.out
}

/// One type as text.
pub fn print_type(ty: &TypeExpr) -> String {
    let mut printer = Printer { out: String::new(), indent: 0 };
    printer.ty(ty);
    printer.out
}

struct Printer {
    out: String,
    indent: usize,
}

/// The operator as programs write it.
pub fn operator(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => "+",
        BinaryOp::Sub => "-",
        BinaryOp::Mul => "*",
        BinaryOp::Div => "/",
        BinaryOp::Mod => "%",
        BinaryOp::And => "&",
        BinaryOp::Or => "|",
        BinaryOp::Xor => "^",
        BinaryOp::Shl => "<<",
        BinaryOp::Shr => ">>",
        BinaryOp::Eq => "==",
        BinaryOp::Ne => "!=",
        BinaryOp::Lt => "<",
        BinaryOp::Le => "<=",
        BinaryOp::Gt => ">",
        BinaryOp::Ge => ">=",
    }
}

/// A string with its quotes and escapes.
pub fn quote(bytes: &[u8]) -> String {
    let mut out = String::from("\"");
    for byte in bytes {
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\t' => out.push_str("\\t"),
            0x20..=0x7e => out.push(char::from(*byte)),
            other => {
                let _ = write!(out, "\\x{other:02x}");
            }
        }
    }
    out.push('"');
    out
}

impl Printer {
    fn put(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn line(&mut self) {
        self.out.push('\n');
        for _ in 0..self.indent {
            self.out.push_str("  ");
        }
    }

    fn item(&mut self, item: &Item) {
        match item {
            Item::Probe(probe) => {
                for (i, point) in probe.attach_points.iter().enumerate() {
                    self.put(if i > 0 { ",\n" } else { "" });
                    if let Some(name) = &point.name {
                        self.put(&format!("{name}="));
                    }
                    let parts: Vec<String> = point.parts.iter().map(|part| attach_part(&part.text)).collect();
                    self.put(&parts.join(":"));
                }
                if let Some(predicate) = &probe.predicate {
                    self.put(" /");
                    self.expr(predicate);
                    self.put("/");
                }
                self.put(" ");
                self.block(&probe.body);
            }
            Item::Function(function) => {
                self.put(&format!("fn {}(", function.name.text));
                for (i, (name, ty)) in function.parameters.iter().enumerate() {
                    self.put(if i > 0 { ", " } else { "" });
                    self.put(&format!("{} : ", name.text));
                    self.ty(ty);
                }
                self.put(") : ");
                self.ty(&function.result);
                self.put(" ");
                self.block(&function.body);
            }
            Item::Macro(found) => {
                let names: Vec<&str> = found.parameters.iter().map(|name| name.text.as_str()).collect();
                self.put(&format!("macro {}({}) ", found.name.text, names.join(", ")));
                self.block(&found.body);
            }
            Item::Map(map) => {
                self.put(&format!("let {} = {}(", map.name.text, map.kind.text));
                if let Some(entries) = &map.entries {
                    self.expr(entries);
                }
                self.put(");");
            }
            Item::Setting(setting) => {
                let value = match &setting.value {
                    crate::config::Value::Number(n) => n.to_string(),
                    crate::config::Value::Text(text) => quote(text.as_bytes()),
                };
                self.put(&format!("config = {{ {} = {value} }}", setting.name.text));
            }
            Item::C(declaration) => self.declaration(declaration),
            Item::Import(path) => self.put(&format!("import {};", quote(path.text.as_bytes()))),
        }
        self.out.push('\n');
    }

    fn declaration(&mut self, declaration: &CDeclaration) {
        match declaration {
            CDeclaration::Record(record) => self.record(record),
            CDeclaration::Enum(found) => self.enumeration(found),
            CDeclaration::Typedef { member } => {
                self.put("typedef ");
                self.member(member);
                return;
            }
        }
        self.put(";");
    }

    fn record(&mut self, record: &CRecord) {
        self.put(if record.union { "union " } else { "struct " });
        if let Some(name) = &record.name {
            self.put(&format!("{} ", name.text));
        }
        self.put("{");
        self.indent += 1;
        for member in &record.members {
            self.line();
            self.member(member);
        }
        self.indent -= 1;
        self.line();
        self.put(if record.packed { "} __attribute__((packed))" } else { "}" });
    }

    fn enumeration(&mut self, found: &CEnum) {
        self.put("enum ");
        if let Some(name) = &found.name {
            self.put(&format!("{} ", name.text));
        }
        self.put("{");
        for (i, (name, value)) in found.values.iter().enumerate() {
            self.put(if i > 0 { ", " } else { " " });
            self.put(&name.text);
            if let Some(value) = value {
                self.put(" = ");
                self.expr(value);
            }
        }
        self.put(" }");
    }

    fn member(&mut self, member: &CMember) {
        self.c_type(&member.ty);
        if let Some(name) = &member.name {
            self.put(&format!(" {}", name.text));
        }
        for length in &member.arrays {
            self.put("[");
            if let Some(length) = length {
                self.expr(length);
            }
            self.put("]");
        }
        if let Some(bits) = &member.bits {
            self.put(" : ");
            self.expr(bits);
        }
        self.put(";");
    }

    fn c_type(&mut self, ty: &CType) {
        match ty {
            CType::Named(ty) => self.ty(ty),
            CType::Record(record) => self.record(record),
            CType::Enum(found) => self.enumeration(found),
            CType::PointerTo(to) => {
                self.c_type(to);
                self.put(" *");
            }
        }
    }

    fn ty(&mut self, ty: &TypeExpr) {
        match &ty.kind {
            TypeKind::Name(name) => self.put(name),
            TypeKind::Struct(name) => self.put(&format!("struct {name}")),
            TypeKind::Union(name) => self.put(&format!("union {name}")),
            TypeKind::Enum(name) => self.put(&format!("enum {name}")),
            TypeKind::Pointer(to) => {
                self.ty(to);
                self.put(" *");
            }
            TypeKind::Array(element, length) => {
                self.ty(element);
                self.put("[");
                if let Some(length) = length {
                    self.expr(length);
                }
                self.put("]");
            }
            TypeKind::Tuple(types) => {
                self.put("(");
                for (i, ty) in types.iter().enumerate() {
                    self.put(if i > 0 { ", " } else { "" });
                    self.ty(ty);
                }
                self.put(")");
            }
            TypeKind::Typeof(expr) => {
                self.put("typeof(");
                self.expr(expr);
                self.put(")");
            }
            TypeKind::Same(ty) => {
                self.put("typeof(");
                self.ty(ty);
                self.put(")");
            }
        }
    }

    fn block(&mut self, block: &Block) {
        self.put("{");
        self.indent += 1;
        for statement in &block.statements {
            self.line();
            self.statement(statement);
        }
        if let Some(value) = &block.value {
            self.line();
            self.expr(value);
        }
        self.indent -= 1;
        self.line();
        self.put("}");
    }

    fn statement(&mut self, statement: &Statement) {
        match &statement.kind {
            StatementKind::Expr(expr) => {
                self.expr(expr);
                self.put(";");
            }
            StatementKind::Assign { target, op, value } => {
                self.expr(target);
                self.put(&format!(" {}= ", op.map_or("", operator)));
                self.expr(value);
                self.put(";");
            }
            StatementKind::Discard(value) => {
                self.put("_ = ");
                self.expr(value);
                self.put(";");
            }
            StatementKind::Let { name, ty, value } => {
                self.put(&format!("let {}", name.text));
                if let Some(ty) = ty {
                    self.put(" : ");
                    self.ty(ty);
                }
                if let Some(value) = value {
                    self.put(" = ");
                    self.expr(value);
                }
                self.put(";");
            }
            StatementKind::If(found) => self.if_text(found),
            StatementKind::While { condition, body } => {
                self.put("while (");
                self.expr(condition);
                self.put(") ");
                self.block(body);
            }
            StatementKind::Unroll { count, body } => {
                self.put("unroll (");
                self.expr(count);
                self.put(") ");
                self.block(body);
            }
            StatementKind::For { variable, start, end, body } => {
                self.put(&format!("for ({} : ", variable.text));
                self.expr(start);
                if let Some(end) = end {
                    self.put(" .. ");
                    self.expr(end);
                }
                self.put(") ");
                self.block(body);
            }
            StatementKind::Break => self.put("break;"),
            StatementKind::Continue => self.put("continue;"),
            StatementKind::Return(None) => self.put("return;"),
            StatementKind::Return(Some(value)) => {
                self.put("return ");
                self.expr(value);
                self.put(";");
            }
            StatementKind::Block(block) => self.block(block),
        }
    }

    fn if_text(&mut self, found: &If) {
        self.put(if found.comptime { "if comptime (" } else { "if (" });
        self.expr(&found.condition);
        self.put(") ");
        self.block(&found.then);
        if let Some(otherwise) = &found.otherwise {
            self.put(" else ");
            self.block(otherwise);
        }
    }

    fn expr(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Int(value) => self.put(&value.to_string()),
            ExprKind::Bool(value) => self.put(if *value { "true" } else { "false" }),
            ExprKind::Str(bytes) => self.put(&quote(bytes)),
            ExprKind::Name(name) | ExprKind::Variable(name) => self.put(name),
            ExprKind::Map { name, key } => {
                self.put(name);
                if let Some(key) = key {
                    self.put("[");
                    self.expr(key);
                    self.put("]");
                }
            }
            ExprKind::Positional(n) => self.put(&format!("${n}")),
            ExprKind::PositionalCount => self.put("$#"),
            ExprKind::Call { name, arguments } => {
                self.put(&format!("{}(", name.text));
                for (i, argument) in arguments.iter().enumerate() {
                    self.put(if i > 0 { ", " } else { "" });
                    match argument {
                        Argument::Expr(expr) => self.expr(expr),
                        Argument::Type(ty) => self.ty(ty),
                    }
                }
                self.put(")");
            }
            ExprKind::Unary(op, inner) => {
                self.put(match op {
                    UnaryOp::Neg => "(-",
                    UnaryOp::BitNot => "(~",
                    UnaryOp::Not => "(!",
                });
                self.expr(inner);
                self.put(")");
            }
            ExprKind::Deref(inner) => {
                self.put("(*");
                self.expr(inner);
                self.put(")");
            }
            ExprKind::AddressOf(inner) => {
                self.put("(&");
                self.expr(inner);
                self.put(")");
            }
            ExprKind::Step { target, up, post } => {
                let sign = if *up { "++" } else { "--" };
                self.put(if *post { "(" } else { if *up { "(++" } else { "(--" } });
                self.expr(target);
                self.put(if *post { sign } else { "" });
                self.put(")");
            }
            ExprKind::Binary(op, left, right) => self.infix(left, operator(*op), right),
            ExprKind::Logical(and, left, right) => self.infix(left, if *and { "&&" } else { "||" }, right),
            ExprKind::Ternary { condition, then, otherwise } => {
                self.put("(");
                self.expr(condition);
                self.put(" ? ");
                if let Some(then) = then {
                    self.expr(then);
                }
                self.put(" : ");
                self.expr(otherwise);
                self.put(")");
            }
            ExprKind::Field { base, name } => {
                self.expr(base);
                self.put(&format!(".{}", name.text));
            }
            ExprKind::Index { base, index } => {
                self.expr(base);
                self.put("[");
                self.expr(index);
                self.put("]");
            }
            ExprKind::Cast(ty, inner) => {
                self.put("((");
                self.ty(ty);
                self.put(")");
                self.expr(inner);
                self.put(")");
            }
            ExprKind::Tuple(fields) => {
                self.put("(");
                for (i, (name, value)) in fields.iter().enumerate() {
                    self.put(if i > 0 { ", " } else { "" });
                    if let Some(name) = name {
                        self.put(&format!("{}=", name.text));
                    }
                    self.expr(value);
                }
                self.put(if fields.len() == 1 { ",)" } else { ")" });
            }
            ExprKind::Block(block) => self.block(block),
            ExprKind::If(found) => self.if_text(found),
            ExprKind::Comptime(inner) => {
                self.put("comptime ");
                self.expr(inner);
            }
            ExprKind::Error => self.put("<error>"),
        }
    }

    fn infix(&mut self, left: &Expr, sign: &str, right: &Expr) {
        self.put("(");
        self.expr(left);
        self.put(&format!(" {sign} "));
        self.expr(right);
        self.put(")");
    }
}

/// A part of an attach point; quoted where it could not be read back otherwise.
fn attach_part(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.+*?[]@!~#/".contains(c);
    if text.chars().all(plain) { text.into() } else { quote(text.as_bytes()) }
}
