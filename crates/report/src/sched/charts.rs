//! Distributions, heat maps and timelines of the analysis in the terms of this crate.

use analysis::{
    distribution::{self, Quantiles},
    sched::{SchedResult, result},
};

use crate::{
    chart::{Distribution, HeatMap, Lane, Meaning, Percentile, Series, TimeAxis, Timeline, Track},
    document::Section,
    table::{Column, Table, Unit, Value},
};

/// Several distributions on common bins; empty ones are left out.
pub fn distribution(
    id: &'static str,
    title: &'static str,
    series: &[(&'static str, &'static str, &distribution::Distribution)],
) -> Distribution {
    let full: Vec<_> = series.iter().filter(|(_, _, d)| d.count > 0).collect();
    let buckets = || full.iter().filter_map(|(_, _, d)| d.histogram.as_ref()).flat_map(|h| &h.buckets);
    let mut edges: Vec<u64> = buckets().flat_map(|b| [b.low_ns, b.high_ns]).collect();
    edges.sort_unstable();
    edges.dedup();
    // Empty buckets are not in the results. The holes they leave are divided at powers of two,
    // where buckets end too, so that no bin is wider than an octave.
    let octaves: Vec<u64> = edges
        .windows(2)
        .filter(|hole| !buckets().any(|b| b.low_ns <= hole[0] && hole[1] <= b.high_ns))
        .flat_map(|hole| (0..64).map(|power| 1u64 << power).filter(|&edge| hole[0] < edge && edge < hole[1]))
        .collect();
    edges.extend(octaves);
    edges.sort_unstable();
    let series = full.iter().map(|(key, title, values)| {
        let mut counts = vec![0; edges.len().saturating_sub(1)];
        for bucket in values.histogram.iter().flat_map(|h| &h.buckets) {
            if let Ok(bin) = edges.binary_search(&bucket.low_ns) {
                counts[bin] += bucket.count;
            }
        }
        Series {
            key: (*key).into(),
            title: (*title).into(),
            counts,
            count: values.count,
            sum: Some(values.sum_ns),
            percentiles: values.quantiles.map(percentiles).unwrap_or_default(),
        }
    });
    let series = series.collect();
    Distribution { id: id.into(), title: title.into(), about: None, unit: Unit::Nanos, edges, series }
}

fn percentiles(q: Quantiles) -> Vec<Percentile> {
    let inner = [("p50", q.p50_ns), ("p90", q.p90_ns), ("p99", q.p99_ns), ("p99.9", q.p999_ns)];
    let mut percentiles: Vec<Percentile> = inner
        .into_iter()
        .map(|(name, value)| Percentile {
            name: name.into(),
            value,
            bounds: (q.error_ns > 0).then(|| (value.saturating_sub(q.error_ns), value)),
        })
        .collect();
    percentiles.push(Percentile { name: "max".into(), value: q.max_ns, bounds: None });
    percentiles
}

/// A heat map, with the columns marked in which events were lost.
pub fn heat_map(
    result: &SchedResult,
    id: &'static str,
    title: &'static str,
    about: &'static str,
    map: &distribution::HeatMap,
) -> HeatMap {
    let mut edges = map.row_low_ns.clone();
    edges.push(map.row_end_ns);
    let time = TimeAxis {
        start_ns: map.start_ns,
        zero_ns: super::zero_ns(result),
        step_ns: map.column_ns,
        columns: map.columns.len(),
    };
    let doubtful = (0..map.columns.len() as u64).map(|column| {
        let from = map.start_ns + column * map.column_ns;
        let to = from + map.column_ns;
        result.losses.intervals.iter().any(|loss| loss.from.0 < to && loss.to.0 > from)
    });
    HeatMap {
        id: id.into(),
        title: title.into(),
        about: Some(about.into()),
        unit: Unit::Nanos,
        time,
        counts: map.columns.iter().flatten().map(|&count| count.into()).collect(),
        edges,
        doubtful: doubtful.collect(),
    }
}

/// What the CPUs did: over time and in total.
pub fn cpus(result: &SchedResult) -> Section {
    let mut section = Section::new("cpus", "What the CPUs did");
    if !result.timeline.lanes.is_empty() {
        section = section.with(timeline(result, &result.timeline));
    }
    if !result.cpus.is_empty() {
        section = section.with(cpu_table(result));
    }
    section
}

fn timeline(result: &SchedResult, timeline: &result::Timeline) -> Timeline {
    let columns = timeline.lanes.iter().map(|lane| lane.busy_ns.len()).max().unwrap_or(0);
    let lanes: Vec<Lane> = timeline
        .lanes
        .iter()
        .map(|lane| {
            let known = |column: usize| {
                let from = timeline.start_ns + column as u64 * timeline.column_ns;
                let whole = timeline.column_ns.min(timeline.end_ns.saturating_sub(from));
                let known = whole.saturating_sub(lane.unknown_ns.get(column).copied().unwrap_or(0));
                // Less than a hundredth of a column says nothing about it.
                (known * 100 >= timeline.column_ns && known > 0).then_some(known as f64)
            };
            let part = |values: &[u64]| -> Vec<Option<f64>> {
                (0..columns).map(|c| Some(*values.get(c)? as f64 / known(c)?)).collect()
            };
            Lane {
                title: format!("CPU {}", lane.cpu.0).into(),
                values: vec![
                    part(&lane.busy_ns).into_iter().map(|v| v.map(|v| v.min(1.0))).collect(),
                    part(&lane.waiting_ns),
                ],
            }
        })
        .collect();
    let most = lanes.iter().flat_map(|lane| &lane.values[1]).flatten().fold(0.0f64, |most, &v| most.max(v));
    Timeline {
        id: "cpus_over_time".into(),
        title: "Utilisation and waiting threads of each CPU".into(),
        about: Some(
            "How much of the time the CPU ran threads, and how many more waited for it on average.".into(),
        ),
        time: TimeAxis {
            start_ns: timeline.start_ns,
            zero_ns: super::zero_ns(result),
            step_ns: timeline.column_ns,
            columns,
        },
        tracks: vec![
            Track {
                key: "busy".into(),
                title: "busy".into(),
                unit: Unit::Share,
                meaning: Meaning::Running,
                top: 1.0,
            },
            Track {
                key: "waiting".into(),
                title: "waiting".into(),
                unit: Unit::Number,
                meaning: Meaning::Waiting,
                top: most.ceil().max(1.0),
            },
        ],
        lanes,
    }
}

fn cpu_table(result: &SchedResult) -> Table {
    let mut table = Table::new(
        "cpus",
        "CPUs",
        vec![
            Column::new("cpu", "CPU", Unit::Id).essential(),
            Column::new("busy", "busy", Unit::Share).essential(),
            Column::new("switches", "switches", Unit::Count).essential(),
            Column::new("max_waiting", "most waiting", Unit::Count)
                .about("Most threads seen waiting for it at one time.")
                .essential(),
            Column::new("waits", "waits", Unit::Count).about("Waits of threads that then ran on it."),
            Column::new("p50", "p50", Unit::Nanos).over("one wait"),
            Column::new("p90", "p90", Unit::Nanos).over("one wait"),
            Column::new("p99", "p99", Unit::Nanos).over("one wait"),
            Column::new("p99_9", "p99.9", Unit::Nanos).over("one wait"),
            Column::new("max", "max", Unit::Nanos).over("one wait"),
            Column::new("busy", "busy", Unit::Nanos).over("time").detail(),
            Column::new("idle", "idle", Unit::Nanos).over("time").detail(),
            Column::new("unknown", "not known", Unit::Nanos).over("time").detail(),
            Column::new("irq", "interrupts", Unit::Nanos).over("time").detail(),
            Column::new("softirq", "softirqs", Unit::Nanos).over("time").detail(),
            Column::new("lost", "events lost", Unit::Count).detail(),
        ],
    )
    .brief(16);
    for cpu in &result.cpus {
        let known = cpu.busy_ns + cpu.idle_ns;
        let waits =
            result.wait.by_cpu.iter().find(|g| g.group == result::Group::Cpu(cpu.cpu)).map(|g| &g.total);
        let quantiles = waits.and_then(|w| w.quantiles);
        let quantile = |pick: fn(Quantiles) -> u64| {
            Value::or_missing(quantiles.map(|q| Value::Nanos(pick(q))), "no thread waited for this CPU")
        };
        table.push(vec![
            Value::Id(cpu.cpu.0.into()),
            if known > 0 {
                Value::Share(cpu.busy_ns as f64 / known as f64)
            } else {
                Value::missing("nothing is known of this CPU")
            },
            Value::Count(cpu.switches),
            Value::Count(cpu.max_waiting.into()),
            Value::Count(waits.map_or(0, |w| w.count)),
            quantile(|q| q.p50_ns),
            quantile(|q| q.p90_ns),
            quantile(|q| q.p99_ns),
            quantile(|q| q.p999_ns),
            quantile(|q| q.max_ns),
            Value::Nanos(cpu.busy_ns),
            Value::Nanos(cpu.idle_ns),
            Value::Nanos(cpu.unknown_ns),
            Value::Nanos(cpu.irq_ns),
            Value::Nanos(cpu.softirq_ns),
            Value::Count(cpu.lost),
        ]);
    }
    table
}
