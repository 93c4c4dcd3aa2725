//! Cross-checks as the document has them.

use analysis::crosscheck::{self, CheckRow, CrossCheck, Quantity};

use crate::{
    document::{Check, Verdict},
    number::{count, time},
    table::Value,
};

/// One check for each counter.
pub fn checks(check: &CrossCheck) -> Vec<Check> {
    check.rows.iter().map(row).collect()
}

fn row(row: &CheckRow) -> Check {
    let value =
        |number: u64| if row.quantity.is_time() { Value::Nanos(number) } else { Value::Count(number) };
    let verdict = match row.verdict {
        crosscheck::Verdict::Agrees => Verdict::Agrees,
        crosscheck::Verdict::NotComparable => Verdict::Unavailable,
        crosscheck::Verdict::Unexplained => Verdict::Differs,
        crosscheck::Verdict::DiffersByFilter
        | crosscheck::Verdict::DiffersByLoss
        | crosscheck::Verdict::DiffersByClock => Verdict::Explained,
    };
    let allowed = if row.quantity.is_time() { time(row.allowed) } else { count(row.allowed) };
    let reason = match verdict {
        Verdict::Agrees => format!("within {allowed}"),
        Verdict::Differs | Verdict::Explained => format!("more than {allowed} apart: {}", row.reason),
        Verdict::Unavailable => row.reason.clone(),
    };
    let difference = match row.ours {
        Some(ours) if row.theirs > 0 => Value::Share((ours as f64 - row.theirs as f64) / row.theirs as f64),
        Some(_) => Value::missing("the counter did not move"),
        None => Value::missing("nothing to compare"),
    };
    Check {
        key: key(row.quantity).into(),
        what: format!("{} of {}", row.quantity.name(), row.subject_name).into(),
        ours: Value::or_missing(row.ours.map(value), row.reason.clone()),
        theirs: value(row.theirs),
        source: row.source.clone().into(),
        difference,
        verdict,
        reason: Some(reason),
    }
}

fn key(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Switches => "switches",
        Quantity::VoluntarySwitches => "voluntary_switches",
        Quantity::InvoluntarySwitches => "involuntary_switches",
        Quantity::RunTime => "run_time",
        Quantity::WaitTime => "wait_time",
    }
}
