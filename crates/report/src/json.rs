//! Documents as JSON: a contract with a version, described in `docs/json.md`.
//!
//! Numbers are raw (nanoseconds, bytes, 0…1) and carry their unit in their key. Keys stay
//! in the order written here, which is the order of reading.

use crate::{
    chart::{Budget, Distribution, HeatMap, TimeAxis, Timeline},
    document::{Block, Document, Findings, Ledger},
    flame::Flame,
    table::{Table, Value},
};

/// Rises when a key changes its meaning or goes away. New keys do not raise it.
pub const SCHEMA: u32 = 1;

/// The document as indented JSON, with a line break at the end.
pub fn document(document: &Document) -> String {
    let mut text = String::new();
    value(document).write(0, &mut text);
    text.push('\n');
    text
}

/// A JSON value whose objects keep their order.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A whole number.
    Unsigned(u64),
    /// A whole number.
    Signed(i64),
    /// A number; `null` where it is not finite.
    Float(f64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Json>),
    /// Keys and values in order.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Appends the value, indented; lists of plain numbers and texts stand on one line, or a
    /// heat map would take a line for each of its cells.
    pub fn write(&self, indent: usize, out: &mut String) {
        let line = |out: &mut String, indent: usize| {
            out.push('\n');
            out.push_str(&"  ".repeat(indent));
        };
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(v) => out.push_str(if *v { "true" } else { "false" }),
            Json::Unsigned(v) => out.push_str(&v.to_string()),
            Json::Signed(v) => out.push_str(&v.to_string()),
            Json::Float(v) => out.push_str(&serde_json::Value::from(*v).to_string()),
            Json::Text(v) => out.push_str(&serde_json::Value::from(v.as_str()).to_string()),
            Json::List(items) => {
                let plain = !items.iter().any(|i| matches!(i, Json::List(_) | Json::Object(_)));
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    if !plain {
                        line(out, indent + 1);
                    }
                    item.write(indent + 1, out);
                }
                if !plain {
                    line(out, indent);
                }
                out.push(']');
            }
            Json::Object(entries) => {
                out.push('{');
                for (i, (key, value)) in entries.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    line(out, indent + 1);
                    out.push_str(&serde_json::Value::from(key.as_str()).to_string());
                    out.push_str(": ");
                    value.write(indent + 1, out);
                }
                if !entries.is_empty() {
                    line(out, indent);
                }
                out.push('}');
            }
        }
    }
}

fn text(text: impl Into<String>) -> Json {
    Json::Text(text.into())
}

fn optional(value: Option<impl Into<String>>) -> Json {
    value.map_or(Json::Null, text)
}

fn object<const N: usize>(entries: [(&str, Json); N]) -> Json {
    Json::Object(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

fn list(items: impl Iterator<Item = Json>) -> Json {
    Json::List(items.collect())
}

impl From<&Value> for Json {
    fn from(value: &Value) -> Json {
        match value {
            Value::Text(v) => text(v.as_ref()),
            Value::Id(v) => Json::Signed(*v),
            Value::Count(v) | Value::Nanos(v) | Value::Bytes(v) => Json::Unsigned(*v),
            Value::Share(v) | Value::Rate(v) | Value::Number(v) => Json::Float(*v),
            Value::Missing(_) => Json::Null,
        }
    }
}

/// Puts a value under its key; a missing one is `null`, with its reason under `KEY_missing`.
fn put(entries: &mut Vec<(String, Json)>, key: String, value: &Value) {
    entries.push((key.clone(), value.into()));
    if let Value::Missing(reason) = value {
        entries.push((format!("{key}_missing"), text(reason.as_ref())));
    }
}

/// The unit's ending for a value that has no column.
fn suffix(value: &Value) -> &'static str {
    match value {
        Value::Nanos(_) => "_ns",
        Value::Bytes(_) => "_bytes",
        Value::Share(_) => "_share",
        Value::Rate(_) => "_per_s",
        _ => "",
    }
}

/// The document as a value.
pub fn value(document: &Document) -> Json {
    let mut facts = Vec::new();
    for fact in &document.facts {
        put(&mut facts, format!("{}{}", fact.key, suffix(&fact.value)), &fact.value);
    }
    let mut data = Vec::new();
    let sections = document.sections.iter().map(|section| {
        let blocks = section.blocks.iter().map(|block| {
            let (id, content) = self::block(block);
            match id {
                Some(id) => {
                    let name = (id.clone(), text(id));
                    data.push((name.0, content));
                    object([("data", name.1)])
                }
                None => object([("text", content)]),
            }
        });
        let blocks = Json::List(blocks.collect());
        object([
            ("id", text(section.id.as_ref())),
            ("title", text(section.title.as_ref())),
            ("lead", optional(section.lead.as_deref())),
            ("blocks", blocks),
        ])
    });
    let sections = Json::List(sections.collect());
    object([
        (
            "lotse",
            object([
                ("schema", Json::Unsigned(SCHEMA.into())),
                ("version", text(env!("CARGO_PKG_VERSION"))),
                ("kind", text(document.kind.as_ref())),
            ]),
        ),
        ("title", text(document.title.as_ref())),
        ("question", optional(document.question.as_deref())),
        ("answer", list(document.answer.iter().map(text))),
        ("holds", Json::Bool(document.holds())),
        ("facts", Json::Object(facts)),
        ("ledger", document.ledger.as_ref().map_or(Json::Null, ledger)),
        ("checks", list(document.checks.iter().map(check))),
        ("limits", list(document.limits.iter().map(limit))),
        (
            "notices",
            list(document.notices.iter().map(|notice| {
                object([
                    ("level", text(notice.level.word())),
                    ("text", text(&notice.text)),
                    ("remedy", optional(notice.remedy.as_deref())),
                ])
            })),
        ),
        ("sections", sections),
        ("data", Json::Object(data)),
    ])
}

fn ledger(ledger: &Ledger) -> Json {
    let mut entries = Vec::new();
    put(&mut entries, "happened".into(), &ledger.happened);
    put(&mut entries, "recorded".into(), &ledger.recorded);
    put(&mut entries, "lost".into(), &ledger.lost);
    put(&mut entries, "filtered".into(), &ledger.filtered);
    entries.push(("closes".into(), ledger.closes.map_or(Json::Null, Json::Bool)));
    entries.push(("remedy".into(), optional(ledger.remedy.as_deref())));
    entries.push(("places".into(), ledger.places.as_ref().map_or(Json::Null, table)));
    Json::Object(entries)
}

fn check(check: &crate::document::Check) -> Json {
    let mut entries =
        vec![("key".to_owned(), text(check.key.as_ref())), ("what".into(), text(check.what.as_ref()))];
    // Both sides have one unit; the side that is missing takes the other's ending.
    let ending = if suffix(&check.ours).is_empty() { suffix(&check.theirs) } else { suffix(&check.ours) };
    put(&mut entries, format!("ours{ending}"), &check.ours);
    put(&mut entries, format!("theirs{ending}"), &check.theirs);
    entries.push(("source".into(), text(check.source.as_ref())));
    put(&mut entries, "difference_share".into(), &check.difference);
    entries.push(("verdict".into(), text(check.verdict.word())));
    entries.push(("reason".into(), optional(check.reason.as_deref())));
    Json::Object(entries)
}

fn limit(limit: &crate::document::Limit) -> Json {
    let mut entries = vec![("what".to_owned(), text(limit.what.as_ref()))];
    let ending = suffix(&limit.limit);
    put(&mut entries, format!("limit{ending}"), &limit.limit);
    put(&mut entries, format!("found{ending}"), &limit.found);
    entries.push(("holds".into(), limit.holds.map_or(Json::Null, Json::Bool)));
    Json::Object(entries)
}

/// A block's name and content; a paragraph has no name.
fn block(block: &Block) -> (Option<String>, Json) {
    match block {
        Block::Text(paragraph) => (None, text(paragraph)),
        Block::Table(block) => (Some(block.id.to_string()), table(block)),
        Block::Distribution(block) => (Some(block.id.to_string()), distribution(block)),
        Block::HeatMap(block) => (Some(block.id.to_string()), heat_map(block)),
        Block::Budget(block) => (Some(block.table.id.to_string()), budget(block)),
        Block::Timeline(block) => (Some(block.id.to_string()), timeline(block)),
        Block::Flame(block) => (Some(block.id.to_string()), flame(block)),
        Block::Findings(block) => (Some(block.id.to_string()), findings(block)),
    }
}

/// A table alone, for commands that print nothing else.
pub fn table(table: &Table) -> Json {
    object([
        ("type", text("table")),
        ("title", optional(table.title.as_deref())),
        ("about", optional(table.about.as_deref())),
        (
            "columns",
            list(table.columns.iter().map(|column| {
                object([
                    ("key", text(column.json_key())),
                    ("title", text(column.title.as_ref())),
                    ("over", optional(column.over.as_deref())),
                    ("unit", text(column.unit.name())),
                    ("about", optional(column.about.as_deref())),
                ])
            })),
        ),
        ("rows", list(table.rows.iter().map(|row| self::row(table, row)))),
    ])
}

fn row(table: &Table, row: &[Value]) -> Json {
    let mut entries = Vec::with_capacity(row.len());
    for (column, value) in table.columns.iter().zip(row) {
        put(&mut entries, column.json_key(), value);
    }
    Json::Object(entries)
}

fn budget(budget: &Budget) -> Json {
    let Json::Object(mut entries) = table(&budget.table) else { return Json::Null };
    entries[0].1 = text("budget");
    let parts = budget.parts.iter().filter_map(|part| {
        let column = &budget.table.columns[budget.part_column(part)?];
        Some(object([("key", text(column.json_key())), ("meaning", text(part.meaning.name()))]))
    });
    entries.insert(3, ("parts".into(), list(parts)));
    Json::Object(entries)
}

fn distribution(distribution: &Distribution) -> Json {
    let unit = distribution.unit.json_suffix();
    let series = distribution.series.iter().map(|series| {
        let percentiles =
            series.percentiles.iter().map(|p| (p.name.replace('.', "_") + unit, Json::Unsigned(p.value)));
        let bounds = series.percentiles.iter().filter_map(|p| {
            let (low, high) = p.bounds?;
            Some((p.name.replace('.', "_"), Json::List(vec![Json::Unsigned(low), Json::Unsigned(high)])))
        });
        Json::Object(vec![
            ("key".into(), text(series.key.as_ref())),
            ("title".into(), text(series.title.as_ref())),
            ("count".into(), Json::Unsigned(series.count)),
            (format!("sum{unit}"), series.sum.map_or(Json::Null, Json::Unsigned)),
            ("percentiles".into(), Json::Object(percentiles.collect())),
            (format!("percentile_bounds{unit}"), Json::Object(bounds.collect())),
            ("counts".into(), list(series.counts.iter().map(|&c| Json::Unsigned(c)))),
        ])
    });
    Json::Object(vec![
        ("type".into(), text("distribution")),
        ("title".into(), text(distribution.title.as_ref())),
        ("about".into(), optional(distribution.about.as_deref())),
        ("unit".into(), text(distribution.unit.name())),
        (format!("edges{unit}"), list(distribution.edges.iter().map(|&e| Json::Unsigned(e)))),
        ("series".into(), list(series)),
    ])
}

fn time(axis: &TimeAxis) -> Json {
    object([
        ("start_ns", Json::Unsigned(axis.start_ns)),
        ("zero_ns", Json::Unsigned(axis.zero_ns)),
        ("step_ns", Json::Unsigned(axis.step_ns)),
        ("columns", Json::Unsigned(axis.columns as u64)),
    ])
}

fn heat_map(map: &HeatMap) -> Json {
    let columns = (0..map.time.columns)
        .map(|column| list((0..map.rows()).map(move |row| Json::Unsigned(map.at(column, row)))));
    Json::Object(vec![
        ("type".into(), text("heat_map")),
        ("title".into(), text(map.title.as_ref())),
        ("about".into(), optional(map.about.as_deref())),
        ("unit".into(), text(map.unit.name())),
        ("time".into(), time(&map.time)),
        (format!("edges{}", map.unit.json_suffix()), list(map.edges.iter().map(|&e| Json::Unsigned(e)))),
        ("counts".into(), list(columns)),
        ("doubtful".into(), list(map.doubtful.iter().map(|&d| Json::Bool(d)))),
    ])
}

fn timeline(timeline: &Timeline) -> Json {
    let lanes = timeline.lanes.iter().map(|lane| {
        let mut entries = vec![("title".to_owned(), text(lane.title.as_ref()))];
        for (track, values) in timeline.tracks.iter().zip(&lane.values) {
            let key = format!("{}{}", track.key, track.unit.json_suffix());
            entries.push((key, list(values.iter().map(|v| v.map_or(Json::Null, Json::Float)))));
        }
        Json::Object(entries)
    });
    object([
        ("type", text("timeline")),
        ("title", text(timeline.title.as_ref())),
        ("about", optional(timeline.about.as_deref())),
        ("time", time(&timeline.time)),
        ("lanes", list(lanes)),
    ])
}

fn flame(flame: &Flame) -> Json {
    let weight = format!("weight{}", flame.unit.json_suffix());
    let stacks = flame.stacks.iter().map(|stack| {
        Json::Object(vec![
            ("frames".into(), list(stack.frames.iter().map(text))),
            (weight.clone(), Json::Unsigned(stack.weight)),
        ])
    });
    object([
        ("type", text("flame")),
        ("title", text(flame.title.as_ref())),
        ("about", optional(flame.about.as_deref())),
        ("unit", text(flame.unit.name())),
        ("stacks", list(stacks)),
    ])
}

fn findings(findings: &Findings) -> Json {
    let items = findings.items.iter().map(|item| {
        object([
            ("key", text(item.key.as_ref())),
            ("level", text(item.level.word())),
            ("what", text(item.what.as_ref())),
            ("found", text(&item.found)),
            ("meaning", optional(item.meaning.as_deref())),
            ("remedy", optional(item.remedy.as_deref())),
        ])
    });
    object([("type", text("findings")), ("items", list(items))])
}
