//! The account of events, checks and limits in words, the same in every format.

use std::fmt::Write;

use crate::{
    document::{Check, Ledger, Limit, Verdict},
    table::Value,
};

/// The account in words.
pub fn ledger(ledger: &Ledger) -> String {
    let mut text = format!("{} recorded", ledger.recorded.print());
    match &ledger.lost {
        Value::Count(0) => text.push_str(", none lost"),
        Value::Missing(reason) => {
            let _ = write!(text, ", losses not known ({reason})");
        }
        lost => {
            let _ = write!(text, ", {} lost", lost.print());
        }
    }
    match &ledger.filtered {
        Value::Count(0) | Value::Missing(_) => {}
        filtered => {
            let _ = write!(text, ", {} filtered out", filtered.print());
        }
    }
    match (&ledger.happened, ledger.closes) {
        (Value::Missing(_), _) => {}
        (happened, Some(true)) => {
            let _ = write!(text, " = {} happened", happened.print());
        }
        (happened, Some(false)) => {
            let _ = write!(text, " ≠ {} happened: the account does not close", happened.print());
        }
        (happened, None) => {
            let _ = write!(text, " of {} that happened", happened.print());
        }
    }
    text
}

/// A cross-check in words.
pub fn check(check: &Check) -> String {
    if check.verdict == Verdict::Unavailable {
        let reason = check.reason.as_deref().unwrap_or("the reason is not known");
        return format!("{}: not checked ({reason})", check.what);
    }
    let mut text = format!(
        "{}: {} from events, {} by {}",
        check.what,
        check.ours.print(),
        check.theirs.print(),
        check.source
    );
    if !matches!(check.difference, Value::Missing(_)) {
        let _ = write!(text, " ({})", check.difference.print());
    }
    if let Some(reason) = &check.reason {
        let _ = write!(text, "; {reason}");
    }
    text
}

/// The checks of one verdict, counted by quantity and source, for where a line for each would
/// hide what matters: `context switches of the whole machine (/proc/stat ctxt); run time of 8
/// threads (taskstats)`.
pub fn checks_in_short(checks: &[&Check]) -> String {
    let mut groups: Vec<((&str, &str), Vec<&Check>)> = Vec::new();
    for check in checks {
        let quantity = check.what.split(" of ").next().unwrap_or(&check.what);
        let key = (quantity, check.source.as_ref());
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, members)) => members.push(check),
            None => groups.push((key, vec![check])),
        }
    }
    let sentences = groups.iter().map(|((quantity, source), members)| match members.as_slice() {
        [one] => format!("{} ({source})", one.what),
        many => format!("{quantity} of {} threads ({source})", many.len()),
    });
    sentences.collect::<Vec<_>>().join("; ")
}

/// A limit in words.
pub fn limit(limit: &Limit) -> String {
    let verdict = match limit.holds {
        Some(true) => "holds",
        Some(false) => "does not hold",
        None => "cannot be decided",
    };
    let found = match &limit.found {
        Value::Missing(reason) => reason.to_string(),
        found => format!("found {}", found.print()),
    };
    format!("{} at most {}: {found}, {verdict}", limit.what, limit.limit.print())
}

/// The account of events in a few words.
pub fn ledger_in_short(ledger: &Ledger) -> String {
    let recorded = ledger.recorded.print();
    let account = match ledger.closes {
        Some(false) => ", the account does not close",
        _ => "",
    };
    match &ledger.lost {
        Value::Count(0) => format!("{recorded} events, none lost{account}"),
        Value::Missing(_) => format!("{recorded} events, losses not known{account}"),
        lost => format!("{recorded} events, {} lost{account}", lost.print()),
    }
}
