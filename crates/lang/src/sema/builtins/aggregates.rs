//! Aggregates: functions whose result is kept in a map and combined over all CPUs.

use super::super::checker::Checker;
use super::super::types::is_literal;
use super::{Builtin, Call, Check, Mode, row};
use crate::aggregate::{LHIST_MAX_BUCKETS, lhist_buckets};
use crate::diagnostic::Code;
use crate::hir::{Expr, Update};
use crate::schema::{Combine, MapValue};
use crate::types::Type;

pub(super) const ROWS: &[Builtin] = &[
    row(&["count"], "count_t count()", "Counts its calls.", Mode::Aggregate, (0, 0), Check::Update(count)),
    row(&["sum"], "sum_t sum(int n)", "Adds up its arguments.", Mode::Aggregate, (1, 1), Check::Update(sum)),
    row(
        &["min"],
        "min_t min(int n)",
        "Keeps the least of its arguments.",
        Mode::Aggregate,
        (1, 1),
        Check::Update(min),
    ),
    row(
        &["max"],
        "max_t max(int n)",
        "Keeps the greatest of its arguments.",
        Mode::Aggregate,
        (1, 1),
        Check::Update(max),
    ),
    row(
        &["avg"],
        "avg_t avg(int n)",
        "The average of its arguments.",
        Mode::Aggregate,
        (1, 1),
        Check::Update(avg),
    ),
    row(
        &["stats"],
        "stats_t stats(int n)",
        "Count, average and sum of its arguments.",
        Mode::Aggregate,
        (1, 1),
        Check::Update(stats),
    ),
    row(
        &["hist"],
        "hist_t hist(int n [, const int bits])",
        "A histogram with 2^bits buckets for each power of two (bits from 0 to 5).",
        Mode::Aggregate,
        (1, 2),
        Check::Update(hist),
    ),
    row(
        &["lhist"],
        "lhist_t lhist(int n, const int min, const int max, const int step)",
        "A histogram with buckets of equal width.",
        Mode::Aggregate,
        (4, 4),
        Check::Update(lhist),
    ),
    row(
        &["llhist"],
        "llhist_t llhist(int n [, const int bits])",
        "A histogram that prints percentiles; each value is known to one part in 2^bits (5, from 1 to 6).",
        Mode::Aggregate,
        (1, 2),
        Check::Update(llhist),
    ),
    row(
        &["tseries"],
        "tseries_t tseries(int n, const int interval, const int count [, const string combine])",
        "The last (or avg, min, max, sum) value of each of the last intervals.",
        Mode::Aggregate,
        (3, 4),
        Check::Update(tseries),
    ),
];

/// The value as 64 bits, and whether it can be negative.
fn value<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<(Expr, bool)> {
    let value = checker.argument_value(call, 0)?;
    if !value.ty.is_integral() && !matches!(value.ty, Type::Pointer { .. }) {
        let message = format!("{}() takes an integer, not a {}", call.name, checker.show(&value.ty));
        return checker.misused(call, value.span, message);
    }
    // A literal has no sign of its own; what literals were assigned to, has.
    let signed = match super::super::convert::constant(&value) {
        Some(number) if is_literal(&value.ty) => number < 0,
        _ => value.ty.is_signed(),
    };
    let wide = checker.widen(value);
    let ty = if signed { Type::I64 } else { Type::U64 };
    Some((checker.coerced(wide, &ty), signed))
}

fn count<'a>(_: &mut Checker<'a>, _: &Call<'a>) -> Option<(MapValue, Update)> {
    Some((MapValue::Count, Update::Count))
}

fn sum<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<(MapValue, Update)> {
    let (value, signed) = value(checker, call)?;
    Some((MapValue::Sum { signed }, Update::Sum(value)))
}

fn min<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<(MapValue, Update)> {
    let (value, signed) = value(checker, call)?;
    Some((MapValue::Min { signed }, Update::Min(value)))
}

fn max<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<(MapValue, Update)> {
    let (value, signed) = value(checker, call)?;
    Some((MapValue::Max { signed }, Update::Max(value)))
}

fn avg<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<(MapValue, Update)> {
    let (value, signed) = value(checker, call)?;
    Some((MapValue::Avg { signed }, Update::Avg(value)))
}

fn stats<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<(MapValue, Update)> {
    let (value, signed) = value(checker, call)?;
    Some((MapValue::Stats { signed }, Update::Stats(value)))
}

fn bits<'a>(
    checker: &mut Checker<'a>,
    call: &Call<'a>,
    usual: u8,
    range: std::ops::RangeInclusive<i128>,
) -> Option<u8> {
    if call.arguments.len() < 2 {
        return Some(usual);
    }
    let bits = checker.argument_constant(call, 1)?;
    if range.contains(&bits) {
        return Some(bits as u8);
    }
    let message = format!("{}() takes {} to {} bits", call.name, range.start(), range.end());
    checker.misused(call, call.arguments[1].span(), message)
}

fn hist<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<(MapValue, Update)> {
    let (value, _) = value(checker, call)?;
    let bits = bits(checker, call, 0, 0..=5)?;
    Some((MapValue::Hist { bits }, Update::Hist(value)))
}

fn llhist<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<(MapValue, Update)> {
    let (value, _) = value(checker, call)?;
    // A per-CPU value may have 32 KiB: 2^6 buckets for each power of two.
    let bits = bits(checker, call, 5, 1..=6)?;
    Some((MapValue::LogLinear { bits }, Update::LogLinear(value)))
}

fn lhist<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<(MapValue, Update)> {
    let (value, _) = value(checker, call)?;
    let mut bounds = [0i64; 3];
    for (position, bound) in bounds.iter_mut().enumerate() {
        let number = checker.argument_constant(call, position + 1)?;
        match i64::try_from(number) {
            Ok(number) => *bound = number,
            Err(_) => {
                return checker.misused(call, call.arguments[position + 1].span(), "this bound is too large");
            }
        }
    }
    let [min, max, step] = bounds;
    if step <= 0 {
        return checker.misused(call, call.arguments[3].span(), "the step has to be positive");
    }
    if min > max {
        return checker.misused(call, call.arguments[1].span(), "the lower bound is above the upper one");
    }
    if (i128::from(max) - i128::from(min)) < i128::from(step) {
        return checker.misused(call, call.arguments[3].span(), "the step is larger than the range");
    }
    let buckets = lhist_buckets(min, max, step);
    if buckets == 0 || buckets > LHIST_MAX_BUCKETS + 2 {
        let message = format!("lhist() has at most {LHIST_MAX_BUCKETS} buckets");
        checker.error(Code::TooLarge, call.span, message);
        return None;
    }
    let value = checker.coerced(value, &Type::I64);
    Some((MapValue::Lhist { min, max, step }, Update::Lhist(value)))
}

fn tseries<'a>(checker: &mut Checker<'a>, call: &Call<'a>) -> Option<(MapValue, Update)> {
    let (value, signed) = value(checker, call)?;
    let interval = checker.argument_constant(call, 1)?;
    let count = checker.argument_constant(call, 2)?;
    let Some(interval) = u64::try_from(interval).ok().filter(|interval| *interval > 0) else {
        return checker.misused(
            call,
            call.arguments[1].span(),
            "the interval has to be positive (1s, 100ms)",
        );
    };
    if !(1..=1000).contains(&count) {
        return checker.misused(call, call.arguments[2].span(), "tseries() keeps 1 to 1000 intervals");
    }
    let combine = if call.arguments.len() > 3 {
        match checker.argument_string(call, 3)?.as_str() {
            "avg" => Combine::Avg,
            "min" => Combine::Min,
            "max" => Combine::Max,
            "sum" => Combine::Sum,
            _ => {
                return checker.misused(
                    call,
                    call.arguments[3].span(),
                    "values combine by avg, min, max or sum",
                );
            }
        }
    } else {
        Combine::Last
    };
    let kind = MapValue::TimeSeries { interval, intervals: count as u32, combine, signed };
    Some((kind, Update::TimeSeries(value)))
}
