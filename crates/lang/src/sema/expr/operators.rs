//! Arithmetic and comparison: which types go together, and what the result is.

use super::*;

impl<'a> Checker<'a> {
    pub(super) fn binary(
        &mut self,
        op: BinaryOp,
        left_ast: &'a ast::Expr,
        right_ast: &'a ast::Expr,
        span: Span,
    ) -> Expr {
        let mut left = self.rvalue(left_ast);
        let mut right = self.rvalue(right_ast);
        // A parameter that looks like a number is a string where it meets one.
        if matches!(left.ty, Type::String(_))
            && let Some(text) = self.positional_text(right_ast)
        {
            right = self.string(&text, right_ast.span);
        } else if matches!(right.ty, Type::String(_))
            && let Some(text) = self.positional_text(left_ast)
        {
            left = self.string(&text, left_ast.span);
        }
        self.binary_of(op, left, right, span)
    }

    /// An operator on two values.
    pub fn binary_of(&mut self, op: BinaryOp, left: Expr, right: Expr, span: Span) -> Expr {
        if is_unknown(&left) || is_unknown(&right) {
            return self.unknown(span);
        }
        if op.is_comparison() {
            return self.compare(op, left, right, span);
        }
        if matches!(left.ty, Type::Pointer { .. }) || matches!(right.ty, Type::Pointer { .. }) {
            return self.pointer_arithmetic(op, left, right, span);
        }
        let integral = |ty: &Type| ty.is_integral() || *ty == Type::KernelSymbol;
        if !integral(&left.ty) || !integral(&right.ty) {
            return self.bad_operands(op, &left, &right, span);
        }
        let foldable =
            |ty: &Type| is_literal(ty) || ty.integer().is_some_and(|integer| integer.names.is_some());
        if let (Some(a), Some(b)) = (constant(&left), constant(&right))
            && foldable(&left.ty)
            && foldable(&right.ty)
        {
            return self.fold(op, a, b, span);
        }
        if matches!(op, BinaryOp::Div | BinaryOp::Mod) && constant(&right) == Some(0) {
            return self.error(Code::DivisionByZero, right.span, "this divides by zero");
        }
        let side_signed = |expr: &Expr| match constant(expr) {
            Some(value) if is_literal(&expr.ty) => value < 0,
            _ => expr.ty.is_signed() && !is_literal(&expr.ty),
        };
        let (left_signed, right_signed) = (side_signed(&left), side_signed(&right));
        // Variables that only ever had literals go along with the other side.
        let all_literal = is_literal(&left.ty) && is_literal(&right.ty);
        let shift = matches!(op, BinaryOp::Shl | BinaryOp::Shr);
        let signed = if shift {
            left_signed || is_literal(&left.ty)
        } else {
            left_signed || right_signed || all_literal
        };
        if matches!(op, BinaryOp::Div | BinaryOp::Mod) && left_signed != right_signed && !all_literal {
            let unsigned = if left_signed { &right } else { &left };
            if unsigned.ty == Type::U64 && constant(unsigned).is_none() && !is_literal(&unsigned.ty) {
                let message =
                    format!("'{}' on a signed and an unsigned 64-bit value is done as signed", operator(op));
                self.warn(Code::SignMix, span, message);
            }
        }
        let ty = Type::Integer(Integer { bytes: 8, signed, names: None });
        let left = self.coerced(left, &ty);
        let right = if shift { self.widen(right) } else { self.coerced(right, &ty) };
        let ty = if all_literal && signed { LITERAL } else { ty };
        self.make(ExprKind::Binary(op, Box::new(left), Box::new(right)), ty, span)
    }

    pub(super) fn fold(&mut self, op: BinaryOp, a: i128, b: i128, span: Span) -> Expr {
        let shift = |by: i128| u32::try_from(by).ok().filter(|by| *by < 64);
        let value = match op {
            BinaryOp::Add => Some(a + b),
            BinaryOp::Sub => Some(a - b),
            BinaryOp::Mul => a.checked_mul(b),
            BinaryOp::Div | BinaryOp::Mod if b == 0 => {
                return self.error(Code::DivisionByZero, span, "this divides by zero");
            }
            BinaryOp::Div => Some(a / b),
            BinaryOp::Mod => Some(a % b),
            BinaryOp::And => Some(a & b),
            BinaryOp::Or => Some(a | b),
            BinaryOp::Xor => Some(a ^ b),
            BinaryOp::Shl => shift(b).map(|by| i128::from((a as i64) << by)),
            BinaryOp::Shr => shift(b).map(|by| a >> by),
            _ => None,
        };
        match value {
            Some(value) if i64::try_from(value).is_ok() => self.int(value as u64, LITERAL, span),
            Some(value) if u64::try_from(value).is_ok() => self.int(value as u64, Type::U64, span),
            _ => self.error(Code::ConstantOverflow, span, "this constant has more than 64 bits"),
        }
    }

    pub(super) fn bad_operands(&mut self, op: BinaryOp, left: &Expr, right: &Expr, span: Span) -> Expr {
        let sign = operator(op);
        let (a, b) = (self.show(&left.ty), self.show(&right.ty));
        let finding = Diagnostic::error(
            Code::BadOperands,
            self.at(span),
            format!("'{sign}' does not work on a {a} and a {b}"),
        );
        let string = matches!(left.ty, Type::String(_)) || matches!(right.ty, Type::String(_));
        let finding = match (string, op) {
            (true, BinaryOp::Add) => finding.help("strings are put together by printf(\"%s%s\", …)"),
            (true, _) if op.is_comparison() => finding.help("strings compare with == and != to strings only"),
            _ => finding,
        };
        self.report(finding)
    }

    pub(super) fn pointer_arithmetic(&mut self, op: BinaryOp, left: Expr, right: Expr, span: Span) -> Expr {
        // Masks and shifts of addresses are sums on integers.
        if !matches!(op, BinaryOp::Add | BinaryOp::Sub) {
            if matches!(
                op,
                BinaryOp::And
                    | BinaryOp::Or
                    | BinaryOp::Xor
                    | BinaryOp::Shl
                    | BinaryOp::Shr
                    | BinaryOp::Mod
                    | BinaryOp::Div
                    | BinaryOp::Mul
            ) {
                let (left, right) = (self.widen(left), self.widen(right));
                return self.binary_of(op, left, right, span);
            }
            return self.bad_operands(op, &left, &right, span);
        }
        match (&left.ty, &right.ty) {
            (Type::Pointer { .. }, Type::Pointer { .. }) if op == BinaryOp::Sub => {
                let (left, right) = (self.widen(left), self.widen(right));
                let ty = Type::I64;
                let (left, right) = (self.coerced(left, &ty), self.coerced(right, &ty));
                self.make(ExprKind::Binary(op, Box::new(left), Box::new(right)), ty, span)
            }
            (Type::Pointer { to, space }, other) if other.is_integral() => {
                let stride = u64::from(to.size().max(1));
                // The verifier's knowledge ends where an offset is not constant.
                let space = if *space == Space::Btf { Space::Kernel } else { *space };
                let ty = Type::Pointer { to: to.clone(), space };
                let bytes = self.widen(right);
                let bytes = self.scaled(bytes, stride, span);
                self.make(ExprKind::Binary(op, Box::new(left), Box::new(bytes)), ty, span)
            }
            (other, Type::Pointer { .. }) if other.is_integral() && op == BinaryOp::Add => {
                self.pointer_arithmetic(op, right, left, span)
            }
            _ => self.bad_operands(op, &left, &right, span),
        }
    }

    pub(super) fn scaled(&mut self, value: Expr, stride: u64, span: Span) -> Expr {
        if stride == 1 {
            let ty = settle(value.ty.clone());
            return self.coerced(value, &ty);
        }
        if let Some(constant) = constant(&value) {
            return self.int((constant as u64).wrapping_mul(stride), Type::I64, span);
        }
        let ty = settle(value.ty.clone());
        let factor = self.int(stride, ty.clone(), span);
        let value = self.coerced(value, &ty);
        self.make(ExprKind::Binary(BinaryOp::Mul, Box::new(value), Box::new(factor)), ty, span)
    }

    pub(super) fn compare(&mut self, op: BinaryOp, left: Expr, right: Expr, span: Span) -> Expr {
        let equality = matches!(op, BinaryOp::Eq | BinaryOp::Ne);
        let scalar = |ty: &Type| ty.is_integral() || matches!(ty, Type::Pointer { .. } | Type::KernelSymbol);
        let of = |this: &Self, ty: &Type, left: Expr, right: Expr| {
            let (left, right) = (this.coerced(left, ty), this.coerced(right, ty));
            this.make(ExprKind::Binary(op, Box::new(left), Box::new(right)), Type::Bool, span)
        };
        if scalar(&left.ty) && scalar(&right.ty) {
            return self.compare_scalars(op, left, right, span);
        }
        if !equality {
            return self.bad_operands(op, &left, &right, span);
        }
        if let (ExprKind::Str(a), ExprKind::Str(b)) = (&left.kind, &right.kind) {
            return self.int(u64::from((a == b) == (op == BinaryOp::Eq)), Type::Bool, span);
        }
        if let (ExprKind::Tuple(a), ExprKind::Tuple(b)) = (&left.kind, &right.kind)
            && a.len() == b.len()
        {
            // typeinfo() of two things: constants all the way down.
            let same = |(a, b): (&Expr, &Expr)| match (&a.kind, &b.kind) {
                (ExprKind::Str(a), ExprKind::Str(b)) => Some(a == b),
                _ => Some(constant(a)? == constant(b)?),
            };
            let all: Option<Vec<bool>> = a.iter().zip(b).map(same).collect();
            if let Some(all) = all {
                let equal = all.into_iter().all(|same| same);
                return self.int(u64::from(equal == (op == BinaryOp::Eq)), Type::Bool, span);
            }
        }
        match crate::sema::convert::join(&left.ty, &right.ty) {
            Some(ty @ (Type::String(_) | Type::Buffer(_) | Type::Tuple(_))) => of(self, &ty, left, right),
            Some(ty) if left.ty == right.ty && !matches!(ty, Type::Void | Type::Record(_)) => {
                of(self, &ty, left, right)
            }
            _ => self.bad_operands(op, &left, &right, span),
        }
    }

    pub(super) fn compare_scalars(&mut self, op: BinaryOp, left: Expr, right: Expr, span: Span) -> Expr {
        if let (Some(a), Some(b)) = (constant(&left), constant(&right)) {
            let holds = match op {
                BinaryOp::Eq => a == b,
                BinaryOp::Ne => a != b,
                BinaryOp::Lt => a < b,
                BinaryOp::Le => a <= b,
                BinaryOp::Gt => a > b,
                _ => a >= b,
            };
            return self.int(u64::from(holds), Type::Bool, span);
        }
        let make = |this: &Self, ty: &Type, left: Expr, right: Expr| {
            let (left, right) = (this.coerced(left, ty), this.coerced(right, ty));
            this.make(ExprKind::Binary(op, Box::new(left), Box::new(right)), Type::Bool, span)
        };
        if let (Type::Bool, Type::Bool) = (&left.ty, &right.ty) {
            return make(self, &Type::Bool, left, right);
        }
        if left.ty == right.ty
            && left.ty.integer().is_some_and(|integer| integer.bytes == 8 || integer.bytes == 4)
        {
            let ty = settle(left.ty.clone());
            return make(self, &ty, left, right);
        }
        let (left, right) = (self.widen(left), self.widen(right));
        let unsigned64 = |expr: &Expr| expr.ty == Type::U64;
        // A 64-bit unsigned side against a constant: 0 and negative numbers mean that the
        // program thinks of it as signed (`retval < 0`, `arg0 == -1`).
        let signed_meant = |expr: &Expr| {
            constant(expr)
                .is_some_and(|value| value < 0 || value == 0 && !matches!(op, BinaryOp::Eq | BinaryOp::Ne))
        };
        let ty = match (unsigned64(&left), unsigned64(&right)) {
            (true, true) => Type::U64,
            (true, false) | (false, true) => {
                let other = if unsigned64(&left) { &right } else { &left };
                if signed_meant(other) {
                    Type::I64
                } else if is_literal(&other.ty) || constant(other).is_some() {
                    Type::U64
                } else {
                    self.warn_signs(&left, &right, op, span);
                    Type::I64
                }
            }
            (false, false) => Type::I64,
        };
        make(self, &ty, left, right)
    }

    pub(super) fn warn_signs(&self, left: &Expr, right: &Expr, op: BinaryOp, span: Span) {
        // Values that were extended from fewer bits cannot be negative as 64-bit numbers.
        let extended = |expr: &Expr| matches!(&expr.kind, ExprKind::Cast(Cast::Integer, inner) if inner.ty.size() < 8 && !inner.ty.is_signed());
        // Nor do constants that both kinds have change their meaning, such as an enumeration's.
        let common =
            |expr: &Expr| constant(expr).is_some_and(|value| (0..=i128::from(i64::MAX)).contains(&value));
        if ![left, right].into_iter().any(|side| extended(side) || common(side)) {
            let message =
                format!("'{}' compares a signed with an unsigned 64-bit value, as signed", operator(op));
            self.warn(Code::SignMix, span, message);
        }
    }
}
