//! Tracepoints of system calls served by the raw tracepoint that all calls share: which of them an event is of.

use crate::hir::{BinaryOp, Expr, ExprKind, Intrinsic};
use crate::source::Span;
use crate::types::Type;

use super::checker::Checker;
use super::convert::is_unknown;
use super::probes::{SystemCalls, Variant};

/// Up to so many calls are compared one after the other; for more there is a table.
const FEW: usize = 4;

impl<'a> Checker<'a> {
    /// Whether the event is of one of the calls.
    pub fn is_of(&mut self, calls: &'a SystemCalls, view: &'a Variant, span: Span) -> Expr {
        let number = self.call_number(calls, view, span);
        if is_unknown(&number) {
            return number;
        }
        let compare = |this: &Self, op, left: Expr, right: u64| {
            let right = this.int(right, left.ty.clone(), span);
            this.make(ExprKind::Binary(op, Box::new(left), Box::new(right)), Type::Bool, span)
        };
        let most = calls.wanted.iter().copied().max().unwrap_or(0);
        let wanted = if calls.wanted.len() <= FEW {
            let each = calls
                .wanted
                .iter()
                .map(|wanted| compare(self, BinaryOp::Eq, number.clone(), (*wanted).into()));
            let each: Vec<Expr> = each.collect();
            each.into_iter().reduce(|left, right| self.logical(false, left, right, span))
        } else {
            let place = self.call_place(calls, view, span);
            let known = compare(self, BinaryOp::Le, number, most.into());
            let among = compare(self, BinaryOp::Ne, place, calls.wanted.len() as u64);
            Some(self.logical(true, known, among, span))
        };
        let wanted = wanted.unwrap_or_else(|| self.int(0, Type::Bool, span));
        match &calls.seen {
            None => wanted,
            Some(seen) => {
                let seen = self.over_raw(view, span, |this| this.condition(seen));
                self.logical(true, wanted, seen, span)
            }
        }
    }

    /// Which of the calls the event is of, by their order, once it is known to be of one.
    pub fn call_place(&mut self, calls: &'a SystemCalls, view: &'a Variant, span: Span) -> Expr {
        let number = self.call_number(calls, view, span);
        let among = Intrinsic::PlaceAmong { numbers: calls.wanted.clone() };
        self.make(ExprKind::Intrinsic(among, vec![number]), Type::U32, span)
    }

    fn call_number(&mut self, calls: &'a SystemCalls, view: &'a Variant, span: Span) -> Expr {
        let number = self.over_raw(view, span, |this| this.rvalue(&calls.number));
        self.cast_to(number, &Type::U64, span)
    }
}
