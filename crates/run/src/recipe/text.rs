//! The keys of a recipe's text and what they mean. To add a key, take it here.

use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::reader::{Context, Table, choice, kind, list, string, understood};
use super::{
    Analysis, Clock, Keep, Problem, Problems, Recipe, RecipeEvent, RingPolicy, Side, Threshold, WhenFull,
    parse_bytes, parse_duration,
};
use crate::metric::{self, Metric};

/// Reads a recipe; on failure every problem of the text.
pub fn parse(text: &str) -> Result<Recipe, Problems> {
    let mut context = Context::new(text);
    let (document, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let problem = |error: &toml::de::Error| {
            let start = error.span().map_or(0, |span| span.start).min(text.len());
            let line = text.as_bytes()[..start].iter().filter(|&&b| b == b'\n').count() + 1;
            Problem { line, message: format!("not TOML: {}", error.message()), help: String::new() }
        };
        return Err(Problems(errors.iter().map(problem).collect()));
    }
    // A missing key belongs to no line: the first stands for all.
    let mut table = Table::new("", 0..0, document.get_ref());
    let recipe = recipe(&mut context, &mut table);
    table.end(&mut context);
    context.finish(recipe)
}

fn recipe(context: &mut Context, table: &mut Table) -> Option<Recipe> {
    if let Some(version) = table.need(context, "version", "version = 1") {
        match version.get_ref() {
            DeValue::Integer(number) if number.as_str() == "1" => {}
            other => context.problem(
                version.span(),
                format!("recipes of version {} are not known to this lotse", shown(other)),
                "version = 1 is; a newer lotse may read it",
            ),
        }
    }
    let name = table
        .need(context, "name", "name = \"short-name\"")
        .and_then(|value| understood(context, "name", value, short_name));
    let question = table
        .need(context, "question", "the question that the run answers, in quotes")
        .and_then(|value| string(context, "question", value).map(str::to_owned));
    let events = table
        .need(context, "events", "events = [\"sched:sched_switch\", …]")
        .and_then(|value| events(context, value));
    let record = sub_table(context, table, "record");
    let record = record.map_or_else(|| Some(Record::default()), |t| record_table(context, t));
    let ring = sub_table(context, table, "ring");
    let ring = ring.map_or_else(|| Some(RingPolicy::default()), |t| ring_table(context, t));
    let analyses =
        table.need(context, "analyses", "analyses = [\"sched\"]").and_then(|value| analyses(context, value));
    let thresholds = table.take("thresholds").map_or(Some(Vec::new()), |value| thresholds(context, value));
    let keep = sub_table(context, table, "keep");
    let keep = keep.map_or_else(|| Some(Keep::default()), |t| keep_table(context, t));
    let record = record?;
    Some(Recipe {
        name: name?,
        question: question?,
        events: events?,
        clock: record.clock,
        duration: record.duration,
        warm_up: record.warm_up,
        max_disk_bytes: record.max_disk_bytes,
        ring: ring?,
        analyses: analyses?,
        thresholds: thresholds?,
        keep: keep?,
    })
}

fn shown(value: &DeValue) -> String {
    match value {
        DeValue::Integer(number) => number.as_str().to_owned(),
        DeValue::String(text) => format!("\"{text}\""),
        other => kind(other).to_owned(),
    }
}

fn short_name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if text.is_empty() || text.len() > 40 || !text.chars().all(fits) {
        return Err(format!(
            "`{text}` cannot be part of a folder's name; use up to 40 letters, digits, `-`, `_`"
        ));
    }
    Ok(text.to_owned())
}

fn sub_table<'a, 'i>(
    context: &mut Context,
    table: &mut Table<'a, 'i>,
    key: &'static str,
) -> Option<Table<'a, 'i>> {
    let value = table.take(key)?;
    as_table(context, &format!("[{key}]"), value)
}

fn as_table<'a, 'i>(
    context: &mut Context,
    name: &str,
    value: &'a Spanned<DeValue<'i>>,
) -> Option<Table<'a, 'i>> {
    match value.get_ref() {
        DeValue::Table(inner) => Some(Table::new(name, value.span(), inner)),
        other => {
            context.problem(value.span(), format!("{name} is {}", kind(other)), "write a table");
            None
        }
    }
}

fn events(context: &mut Context, value: &Spanned<DeValue>) -> Option<Vec<RecipeEvent>> {
    let elements = list(context, "events", value)?;
    if elements.is_empty() {
        context.problem(
            value.span(),
            "`events` is empty",
            "name at least one; `lotse list` shows what there is",
        );
        return None;
    }
    let mut events = Vec::new();
    for element in elements {
        let event = match element.get_ref() {
            DeValue::String(pattern) => understood(context, "events", element, |_| event_pattern(pattern))
                .map(|pattern| RecipeEvent { pattern, filter: None, required: true }),
            _ => as_table(context, "an element of `events`", element)
                .and_then(|table| event_table(context, table)),
        };
        events.push(event);
    }
    events.into_iter().collect()
}

fn event_table(context: &mut Context, mut table: Table) -> Option<RecipeEvent> {
    let pattern = table
        .need(context, "match", "{ match = \"sched:sched_switch\", … }")
        .and_then(|value| understood(context, "match", value, event_pattern));
    let filter = match table.take("filter") {
        Some(value) => Some(string(context, "filter", value)?.to_owned()),
        None => None,
    };
    let required = match table.take("required") {
        Some(value) => boolean(context, "required", value)?,
        None => true,
    };
    table.end(context);
    Some(RecipeEvent { pattern: pattern?, filter, required })
}

fn event_pattern(text: &str) -> Result<String, String> {
    let (system, name) = text.split_once(':').unwrap_or((text, "*"));
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-*?".contains(c);
    if system.is_empty() || name.is_empty() || !system.chars().all(fits) || !name.chars().all(fits) {
        return Err(format!(
            "`{text}` is no event; write `system:name`, such as `sched:sched_switch` or `irq:*`"
        ));
    }
    Ok(format!("{system}:{name}"))
}

fn boolean(context: &mut Context, key: &str, value: &Spanned<DeValue>) -> Option<bool> {
    match value.get_ref() {
        DeValue::Boolean(value) => Some(*value),
        other => {
            context.problem(value.span(), format!("`{key}` is {}", kind(other)), "write true or false");
            None
        }
    }
}

#[derive(Default)]
struct Record {
    clock: Clock,
    duration: Option<Duration>,
    warm_up: Duration,
    max_disk_bytes: Option<u64>,
}

fn record_table(context: &mut Context, mut table: Table) -> Option<Record> {
    let mut record = Record::default();
    let mut right = true;
    if let Some(value) = table.take("clock") {
        match choice(context, "clock", value, &Clock::ALL) {
            Some(clock) => record.clock = clock,
            None => right = false,
        }
    }
    if let Some(value) = table.take("duration") {
        record.duration = understood(context, "duration", value, parse_duration);
        right &= record.duration.is_some();
        if record.duration == Some(Duration::ZERO) {
            context.problem(value.span(), "`duration` is 0", "leave it out to run until the command ends");
        }
    }
    if let Some(value) = table.take("warm_up") {
        match understood(context, "warm_up", value, parse_duration) {
            Some(warm_up) if record.duration.is_some_and(|duration| warm_up >= duration) => {
                context.problem(value.span(), "`warm_up` leaves nothing of the duration", "make it shorter");
            }
            Some(warm_up) => record.warm_up = warm_up,
            None => right = false,
        }
    }
    if let Some(value) = table.take("max_disk") {
        record.max_disk_bytes = understood(context, "max_disk", value, parse_bytes);
        right &= record.max_disk_bytes.is_some();
    }
    table.end(context);
    right.then_some(record)
}

fn ring_table(context: &mut Context, mut table: Table) -> Option<RingPolicy> {
    let mut ring = RingPolicy::default();
    let mut right = true;
    if let Some(value) = table.take("size") {
        let size = understood(context, "size", value, |text| match text {
            "auto" => Ok(None),
            text => parse_bytes(text).map(Some).map_err(|reason| format!("{reason}, or \"auto\"")),
        });
        right &= size.is_some();
        ring.bytes_per_cpu = size.flatten();
        if ring.bytes_per_cpu.is_some_and(|bytes| !(16 << 10..=4 << 30).contains(&bytes)) {
            context.problem(
                value.span(),
                "`size` is out of range",
                "16KiB to 4GiB for each CPU, or \"auto\"",
            );
        }
    }
    if let Some(value) = table.take("when_full") {
        let allowed = [("overwrite", WhenFull::Overwrite), ("refuse", WhenFull::Refuse)];
        match choice(context, "when_full", value, &allowed) {
            Some(when_full) => ring.when_full = when_full,
            None => right = false,
        }
    }
    table.end(context);
    right.then_some(ring)
}

fn analyses(context: &mut Context, value: &Spanned<DeValue>) -> Option<Vec<Analysis>> {
    let elements = list(context, "analyses", value)?;
    let found: Vec<_> =
        elements.iter().map(|element| choice(context, "analyses", element, &Analysis::ALL)).collect();
    if found.is_empty() {
        context.problem(
            value.span(),
            "`analyses` is empty",
            "write [\"sched\"]; to record alone use `lotse record`",
        );
        return None;
    }
    found.into_iter().collect()
}

fn thresholds(context: &mut Context, value: &Spanned<DeValue>) -> Option<Vec<Threshold>> {
    let elements = list(context, "thresholds", value)?;
    let mut all = Vec::new();
    for element in elements {
        let table = as_table(context, "an element of `thresholds`", element);
        all.push(table.and_then(|table| threshold(context, element, table)));
    }
    all.into_iter().collect()
}

fn threshold(context: &mut Context, element: &Spanned<DeValue>, mut table: Table) -> Option<Threshold> {
    let names: Vec<(&'static str, Metric)> =
        metric::ALL.iter().map(|&metric| (metric.name(), metric)).collect();
    let metric = table
        .need(context, "metric", "metric = \"wait.p99\"")
        .and_then(|value| choice(context, "metric", value, &names));
    let limits = [(Side::AtMost, table.take("at_most")), (Side::AtLeast, table.take("at_least"))];
    let then = match table.take("then") {
        Some(value) => Some(string(context, "then", value)?.to_owned()),
        None => None,
    };
    table.end(context);
    let metric = metric?;
    match limits {
        [(side, Some(value)), (_, None)] | [(_, None), (side, Some(value))] => {
            let key = if side == Side::AtMost { "at_most" } else { "at_least" };
            let limit = understood(context, key, value, |text| metric.parse(text))?;
            Some(Threshold { metric, side, limit, then })
        }
        _ => {
            let example = format!("write at_most = {}", metric.example());
            context.problem(
                element.span(),
                "a threshold needs exactly one of `at_most`, `at_least`",
                example,
            );
            None
        }
    }
}

fn keep_table(context: &mut Context, mut table: Table) -> Option<Keep> {
    let mut keep = Keep::default();
    let mut right = true;
    if let Some(value) = table.take("age") {
        keep.age = understood(context, "age", value, parse_duration);
        right &= keep.age.is_some();
    }
    if let Some(value) = table.take("runs") {
        keep.runs = understood(context, "runs", value, |text| {
            text.parse()
                .map_err(|_| format!("`{text}` is no number of runs; write a whole number, such as 20"))
        });
        right &= keep.runs.is_some();
    }
    table.end(context);
    right.then_some(keep)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str =
        "version = 1\nname = \"a\"\nquestion = \"Why?\"\nevents = [\"sched:*\"]\nanalyses = [\"sched\"]\n";

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let problems = parse(text).expect_err("the recipe has mistakes").to_string();
        assert_eq!(problems.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_smallest_recipe_has_defaults() {
        let recipe = parse(SMALL).unwrap();
        assert_eq!(recipe.clock, Clock::Mono);
        assert_eq!(recipe.events, [RecipeEvent { pattern: "sched:*".into(), filter: None, required: true }]);
        assert_eq!(recipe.ring, RingPolicy::default());
        assert_eq!(recipe.duration, None);
    }

    #[test]
    fn everything_can_be_said() {
        let text = format!(
            "{SMALL}\nthresholds = [{{ metric = \"wait.p99\", at_most = \"10ms\", then = \"look at quotas\" }}]\n\
             [record]\nclock = \"boot\"\nduration = \"10s\"\nwarm_up = \"1s\"\nmax_disk = \"2GiB\"\n\
             [ring]\nsize = \"16MiB\"\nwhen_full = \"refuse\"\n[keep]\nage = \"30d\"\nruns = 20\n"
        );
        let recipe = parse(&text).unwrap();
        assert_eq!(recipe.thresholds[0].limit, 10e6);
        assert!(recipe.thresholds[0].holds(10e6) && !recipe.thresholds[0].holds(10.1e6));
        assert_eq!((recipe.clock, recipe.warm_up), (Clock::Boot, Duration::from_secs(1)));
        assert_eq!(recipe.ring, RingPolicy { bytes_per_cpu: Some(16 << 20), when_full: WhenFull::Refuse });
        assert_eq!(recipe.keep, Keep { age: Some(Duration::from_secs(30 * 86400)), runs: Some(20) });
    }

    #[test]
    fn every_mistake_is_told_with_its_line() {
        check(
            "version = 1\nname = \"a b\"\nquestion = \"Why?\"\nevnts = [\"sched:*\"]\nanalyses = [\"shed\"]\n\n[record]\nclok = \"mono\"\nduration = 10\n",
            &[
                "line 1: `events` is missing; write events = [\"sched:sched_switch\", …]",
                "line 2: `name`: `a b` cannot be part of a folder's name; use up to 40 letters, digits, `-`, `_`",
                "line 4: unknown key `evnts`; did you mean `events`?",
                "line 5: `shed` is no value for `analyses`; did you mean `sched`? (allowed: sched)",
                "line 8: unknown key `clok` in [record]; did you mean `clock`?",
                "line 9: `duration`: `10` is no duration; write a number and its unit: 500ms, 10s, 2m, 1h, 30d",
            ],
        );
    }

    #[test]
    fn text_that_is_no_toml_says_where() {
        let problems = parse("version = 1\nname = \n").unwrap_err();
        assert_eq!(problems.0[0].line, 2, "{problems}");
        assert!(problems.0[0].message.starts_with("not TOML: "));
    }

    #[test]
    fn a_threshold_needs_one_limit_of_its_metrics_kind() {
        check(
            &format!(
                "{SMALL}thresholds = [{{ metric = \"wait.p99\", at_most = \"5%\" }}, {{ metric = \"wait.share\" }}]\n"
            ),
            &[
                "line 6: `at_most`: `5%` is no duration; write a number and its unit: 500ms, 10s, 2m, 1h, 30d",
                "line 6: a threshold needs exactly one of `at_most`, `at_least`; write at_most = \"5%\"",
            ],
        );
    }

    #[test]
    fn newer_versions_and_wrong_types_are_refused() {
        check(
            &SMALL.replace("version = 1", "version = 2"),
            &[
                "line 1: recipes of version 2 are not known to this lotse; version = 1 is; a newer lotse may read it",
            ],
        );
        check(
            &SMALL.replace("[\"sched:*\"]", "\"sched:*\""),
            &["line 4: `events` is text; write a list: [\"…\", \"…\"]"],
        );
        check(
            &SMALL.replace("[\"sched:*\"]", "[{ match = \"sched\", requird = true }, 7]"),
            &[
                "line 4: unknown key `requird` in an element of `events`; did you mean `required`?",
                "line 4: an element of `events` is a whole number; write a table",
            ],
        );
    }

    #[test]
    fn hostile_texts_do_not_panic() {
        for length in 0..SMALL.len() {
            let _ = parse(&SMALL[..length]);
        }
        let _ = parse("[[[[");
        let _ = parse(&"a.".repeat(2000));
        let _ = parse("name = \"ä\"\nö = 1\n");
    }
}
