//! Calls: macros of the program, its subprograms, then builtins.

use super::builtins;
use super::checker::{Binding, Checker, Frame};
use super::convert::is_unknown;
use super::place::Value;
use crate::diagnostic::{Code, Diagnostic};
use crate::hir::{Expr, ExprKind, FunctionId};
use crate::source::Span;
use crate::syntax::ast::{self, Argument};
use crate::types::Type;

/// Macro calls within macro calls; deeper is a macro that calls itself.
const DEEPEST_MACRO: usize = 48;

impl<'a> Checker<'a> {
    /// A call by name.
    pub fn call(&mut self, name: &'a ast::Text, arguments: &'a [Argument], span: Span) -> Value {
        if self.is_macro(&name.text) {
            return Value::Expr(self.macro_call(&name.text, arguments, span));
        }
        if let Some(index) = self.functions.iter().position(|function| function.name.text == name.text) {
            return Value::Expr(self.function_call(index, arguments, span));
        }
        if let Some(value) = builtins::call(self, &name.text, arguments, span) {
            return value;
        }
        for argument in arguments {
            if let Argument::Expr(expr) = argument {
                self.expr(expr);
            }
        }
        let message = format!("there is no function '{}'", name.text);
        let mut names: Vec<&str> = builtins::names().collect();
        names.extend(self.macros.keys().copied());
        names.extend(self.functions.iter().map(|function| function.name.text.as_str()));
        let finding =
            Diagnostic::error(Code::UnknownFunction, self.at(name.span), message).suggest(&name.text, names);
        Value::Expr(self.report(finding))
    }

    /// A macro's body in the place of its call.
    pub fn macro_call(&mut self, name: &'a str, arguments: &'a [Argument], span: Span) -> Expr {
        let macros: &'a super::uses::Macros<'a> = self.macros;
        let Some(candidates) = macros.get(name) else { return self.unknown(span) };
        if self.body.frames.len() > 4096 || self.depth() > DEEPEST_MACRO {
            let message = format!("the macro '{name}' calls itself, or calls go too deep");
            return self.error(Code::TooDeep, span, message);
        }
        let Some(found) = self.choose(candidates, arguments) else {
            return self.macro_misused(name, candidates, arguments, span);
        };
        let mut frame = Frame {
            open: found.unhygienic,
            parent: found.unhygienic.then_some(self.body.frame),
            name: Some(&found.name.text),
            ..Frame::default()
        };
        for (parameter, argument) in found.parameters.iter().zip(arguments) {
            if let Argument::Expr(expr) = argument {
                frame.bindings.insert(&parameter.text, Binding { expr, frame: self.body.frame });
            }
        }
        let frame = self.push_frame(frame, span);
        self.in_frame(frame, |this| this.block_expr(&found.body, span))
    }

    /// How many macro calls the frame at hand is within.
    fn depth(&self) -> usize {
        // Each call adds a frame, and frames of finished calls stay: only bindings tell the depth.
        let mut depth = 0;
        let mut frame = self.body.frame;
        while frame != 0 && depth <= DEEPEST_MACRO {
            depth += 1;
            let current = &self.body.frames[frame];
            frame = current.parent.unwrap_or_else(|| {
                current.bindings.values().next().map_or(frame.saturating_sub(1), |binding| binding.frame)
            });
        }
        depth
    }

    /// The macro whose parameters fit: those that take variables and maps as such before those
    /// that take any expression.
    fn choose(&self, candidates: &[&'a ast::Macro], arguments: &'a [Argument]) -> Option<&'a ast::Macro> {
        let fits = |found: &&&'a ast::Macro, lenient: bool| {
            found.parameters.len() == arguments.len()
                && found.parameters.iter().zip(arguments).all(|(parameter, argument)| {
                    let Argument::Expr(expr) = argument else { return false };
                    let kind = self.kind_of(expr);
                    match parameter.text.as_bytes()[0] {
                        b'$' => kind == '$' || lenient && kind == ' ',
                        b'@' => kind == '@',
                        _ => true,
                    }
                })
        };
        let exact = |found: &&&'a ast::Macro| {
            found.parameters.iter().filter(|p| p.text.starts_with(['$', '@'])).count()
        };
        let strict = candidates.iter().filter(|found| fits(found, false)).max_by_key(exact);
        // Before 0.24 a `$x` took any expression, which the macro then only read.
        strict.or_else(|| candidates.iter().find(|found| fits(found, true))).copied()
    }

    /// `$` for a variable, `@` for a whole map, else a blank.
    fn kind_of(&self, expr: &'a ast::Expr) -> char {
        match &expr.kind {
            ast::ExprKind::Variable(name) => match self.binding(name) {
                Some(bound) if self.find_local(name).is_none() => match &bound.expr.kind {
                    ast::ExprKind::Variable(_) => '$',
                    _ => ' ',
                },
                _ => '$',
            },
            ast::ExprKind::Map { key: None, .. } => '@',
            ast::ExprKind::Name(name) => match self.binding(name) {
                Some(bound) if !std::ptr::eq(bound.expr, expr) => match &bound.expr.kind {
                    ast::ExprKind::Variable(_) => '$',
                    ast::ExprKind::Map { key: None, .. } => '@',
                    _ => ' ',
                },
                _ => ' ',
            },
            _ => ' ',
        }
    }

    fn macro_misused(
        &mut self,
        name: &str,
        candidates: &[&'a ast::Macro],
        arguments: &'a [Argument],
        span: Span,
    ) -> Expr {
        let forms: Vec<String> = candidates
            .iter()
            .map(|found| {
                let names: Vec<&str> =
                    found.parameters.iter().map(|parameter| parameter.text.as_str()).collect();
                format!("{name}({})", names.join(", "))
            })
            .collect();
        let same_count = candidates.iter().find(|found| found.parameters.len() == arguments.len());
        let message = match same_count {
            None => format!("the macro '{name}' does not take {} arguments", arguments.len()),
            Some(found) => {
                let wrong = found.parameters.iter().zip(arguments).find(|(parameter, argument)| {
                    let kind = match argument {
                        Argument::Expr(expr) => self.kind_of(expr),
                        Argument::Type(_) => ' ',
                    };
                    parameter.text.starts_with(['$', '@']) && !parameter.text.starts_with(kind)
                });
                let parameter = wrong.map_or("", |(parameter, _)| parameter.text.as_str());
                let what = if parameter.starts_with('@') { "a map" } else { "a variable" };
                format!("the macro '{name}' needs {what} for {parameter}")
            }
        };
        let finding = Diagnostic::error(Code::BadMacro, self.at(span), message);
        self.report(finding.help(format!("it is {}", forms.join(" or "))))
    }

    fn function_call(&mut self, index: usize, arguments: &'a [Argument], span: Span) -> Expr {
        let function = self.functions[index];
        let (parameters, result) = self.function_types[index].clone();
        if parameters.len() != arguments.len() {
            let message = format!(
                "'{}' takes {} arguments, and {} are given",
                function.name.text,
                parameters.len(),
                arguments.len()
            );
            let finding = Diagnostic::error(Code::BadArguments, self.at(span), message);
            return self.report(finding.note(function.name.span, "it is defined here"));
        }
        let mut values = Vec::new();
        for (argument, ty) in arguments.iter().zip(&parameters) {
            let Argument::Expr(expr) = argument else {
                return self.error(Code::BadArguments, argument.span(), "a value is needed, not a type");
            };
            let value = self.rvalue(expr);
            if is_unknown(&value) {
                return value;
            }
            match self.coerce(value.clone(), ty) {
                Some(value) => values.push(value),
                None => {
                    let message =
                        format!("a {} is needed here, not a {}", self.show(ty), self.show(&value.ty));
                    return self.error(Code::TypeMismatch, value.span, message);
                }
            }
        }
        let ty = if result == Type::Void { Type::Void } else { result };
        self.make(ExprKind::Call(FunctionId(index as u32), values), ty, span)
    }
}
