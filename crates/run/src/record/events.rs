//! From the patterns a user gives to the events of this kernel, and the formats they have.

use kernel::error::Refused;
use kernel::tracefs::{EventName, Tracefs};

use super::error::RecordError;
use super::spec::EventSelection;

/// An event to record, with its filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChosenEvent {
    pub event: EventName,
    pub filter: Option<String>,
}

/// Finds the events that each pattern means, in the order of the patterns. An event named
/// twice is recorded once; the later filter counts.
pub(super) fn choose(
    available: &[EventName],
    selections: &[EventSelection],
) -> Result<Vec<ChosenEvent>, RecordError> {
    let mut chosen: Vec<ChosenEvent> = Vec::new();
    for selection in selections {
        let (system, name) = selection.pattern.split_once(':').unwrap_or((&selection.pattern, "*"));
        let mut any = false;
        // `ftrace:*` are the tracers' own records: they have formats but cannot be enabled.
        for event in available.iter().filter(|event| event.system != "ftrace") {
            if !matches(system, &event.system) || !matches(name, &event.name) {
                continue;
            }
            any = true;
            match chosen.iter_mut().find(|earlier| earlier.event == *event) {
                Some(earlier) => earlier.filter = selection.filter.clone().or(earlier.filter.take()),
                None => chosen.push(ChosenEvent { event: event.clone(), filter: selection.filter.clone() }),
            }
        }
        if !any {
            let nearest = nearest(available, &selection.pattern);
            return Err(RecordError::UnknownEvent { pattern: selection.pattern.clone(), nearest });
        }
    }
    if chosen.is_empty() {
        return Err(RecordError::Spec("no event was asked for; name some, such as 'sched:*'".to_owned()));
    }
    Ok(chosen)
}

/// Wildcard match with `*` and `?`.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Where to go on after a mismatch: behind the last star, one byte of text further.
    let mut retry = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p, t + 1));
                p += 1;
            }
            Some(&byte) if byte == b'?' || byte == text[t] => (p, t) = (p + 1, t + 1),
            _ => match retry {
                Some((star, next)) => {
                    (p, t) = (star + 1, next);
                    retry = Some((star, next + 1));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

/// Up to three events whose names are near to what was asked for.
fn nearest(available: &[EventName], pattern: &str) -> Vec<String> {
    let asked_name = pattern.split_once(':').map_or(pattern, |(_, name)| name);
    let mut scored: Vec<(usize, String)> = available
        .iter()
        .map(|event| {
            let full = event.to_string();
            // A right name in the wrong system is as near as a small misspelling.
            let distance = edit_distance(&full, pattern).min(edit_distance(&event.name, asked_name) + 1);
            (distance, full)
        })
        .filter(|(distance, _)| *distance <= 2 + asked_name.len() / 4)
        .collect();
    scored.sort();
    scored.truncate(3);
    scored.into_iter().map(|(_, name)| name).collect()
}

fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &cb) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(ca != cb);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// The names of the fields in a `format` text, the common ones too.
pub(super) fn field_names(format: &str) -> Vec<String> {
    let declaration = |line: &str| -> Option<String> {
        let declared = line.trim().strip_prefix("field:")?.split(';').next()?;
        let name = declared.split('[').next()?.rsplit([' ', '*']).next()?;
        Some(name.to_owned())
    };
    format.lines().filter_map(declaration).collect()
}

/// The formats of these events by system, as a trace file holds them.
pub(super) fn formats(
    tracefs: &Tracefs,
    chosen: &[ChosenEvent],
) -> Result<Vec<(String, Vec<String>)>, Refused> {
    let mut systems: Vec<(String, Vec<String>)> = Vec::new();
    for ChosenEvent { event, .. } in chosen {
        let format = tracefs.format(event)?;
        match systems.iter_mut().find(|(system, _)| *system == event.system) {
            Some((_, formats)) => formats.push(format),
            None => systems.push((event.system.clone(), vec![format])),
        }
    }
    Ok(systems)
}

/// The formats of the tracers' own records.
pub(super) fn ftrace_formats(tracefs: &Tracefs) -> Result<Vec<String>, Refused> {
    let root = tracefs.root();
    let mut formats = Vec::new();
    for name in root.list("events/ftrace")? {
        let file = format!("events/ftrace/{name}/format");
        if root.has(&file) {
            formats.push(root.read_text(&file)?);
        }
    }
    Ok(formats)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn available() -> Vec<EventName> {
        [
            "sched:sched_switch",
            "sched:sched_wakeup",
            "sched:sched_wakeup_new",
            "irq:irq_handler_entry",
            "ftrace:print",
        ]
        .iter()
        .map(|name| EventName::parse(name).unwrap())
        .collect()
    }

    fn names(patterns: &[&str]) -> Vec<String> {
        let selections: Vec<_> = patterns.iter().map(|p| EventSelection::new(*p)).collect();
        choose(&available(), &selections).unwrap().iter().map(|chosen| chosen.event.to_string()).collect()
    }

    #[test]
    fn patterns_choose_events_once_and_in_order() {
        assert_eq!(
            names(&["irq", "sched:*wake*", "sched:sched_wakeup"]),
            ["irq:irq_handler_entry", "sched:sched_wakeup", "sched:sched_wakeup_new"]
        );
        assert_eq!(names(&["*:*_sw?tch"]), ["sched:sched_switch"]);
    }

    #[test]
    fn an_unknown_event_is_told_with_its_nearest() {
        let nearest = |pattern: &str| match choose(&available(), &[EventSelection::new(pattern)]) {
            Err(RecordError::UnknownEvent { nearest, .. }) => nearest,
            other => panic!("{other:?}"),
        };
        assert_eq!(nearest("sched:sched_swich"), ["sched:sched_switch"]);
        assert_eq!(nearest("irq:sched_wakeup"), ["sched:sched_wakeup", "sched:sched_wakeup_new"]);
        assert!(nearest("ftrace:prin").len() <= 1);
        assert!(nearest("nothing:like_this_at_all").is_empty());
    }

    #[test]
    fn the_later_filter_counts() {
        let selections = [
            EventSelection::new("sched:*").filtered("a"),
            EventSelection::new("sched:sched_switch").filtered("b"),
        ];
        let chosen = choose(&available(), &selections).unwrap();
        assert_eq!(chosen[0].filter.as_deref(), Some("b"));
        assert_eq!(chosen[1].filter.as_deref(), Some("a"));
    }

    #[test]
    fn field_names_come_without_their_types() {
        let format = "format:\n\tfield:unsigned short common_type;\toffset:0;\n\n\tfield:char prev_comm[16];\toffset:8;\n\tfield:const char * name;\toffset:8;\n";
        assert_eq!(field_names(format), ["common_type", "prev_comm", "name"]);
    }
}
