//! A small made-up document that uses every kind of block. Numbers follow fixed formulas,
//! so that every format of it can be compared with a text.

use report::{
    Column, Document, Table, Unit, Value,
    chart::{
        Budget, Distribution, HeatMap, Lane, Meaning, Part, Percentile, Series, TimeAxis, Timeline, Track,
    },
    document::{Check, Finding, Findings, Ledger, Level, Limit, Notice, Section, Verdict},
    flame::Flame,
};

/// The whole document. `columns` is the number of columns of heat map and timeline.
pub fn document(columns: usize) -> Document {
    let mut document = Document::new("sched", "Where threads wait for the CPU");
    document.question = Some("Where do the threads of this workload wait for the CPU?".into());
    document.answer = vec![
        "Threads waited 3.41 s for a CPU in 2.00 s on 2 CPUs; p99 of one wait is 4.12 ms, the longest 23.1 ms (make, tid 4711).".into(),
        "cc1 waited most: 1.20 s, 34 % of its time.".into(),
    ];
    document.headline_fact("host", "host", Value::text("build-1"));
    document.headline_fact("kernel", "kernel", Value::text("Linux 6.18.0 x86_64"));
    document.headline_fact("span", "span", Value::Nanos(2_000_000_000));
    document.fact("command", "command", Value::text("make -j8"));
    document.fact("governor", "power governor", Value::missing("no cpufreq in this guest"));
    document.ledger = Some(ledger());
    document.checks = checks();
    document.limits = vec![Limit {
        what: "p99 of the wait for the CPU".into(),
        limit: Value::Nanos(1_000_000),
        found: Value::Nanos(4_118_000),
        holds: Some(false),
    }];
    document.notices = vec![Notice {
        level: Level::Note,
        text: "12 waits were under way when the recording ended; they are not in the percentiles.".into(),
        remedy: None,
    }];
    document.sections = vec![
        Section::new("wait", "How long one wait for the CPU takes")
            .lead("Half of all waits end within 12.3 µs, but one in a hundred takes over 4.12 ms.")
            .with(distribution())
            .with(heat_map(columns)),
        Section::new("threads", "Who waits").with(threads()),
        Section::new("budget", "Where each thread's time went").with(budget()),
        Section::new("cpus", "What the CPUs did").with(timeline(columns)),
        Section::new("stacks", "Where the time on the CPU went").with(flame()),
        Section::new("host", "Findings about the host").with(findings()),
        Section::new("basis", "What the numbers rest on").detail().with("Nothing but formulas.".to_owned()),
    ];
    document
}

fn ledger() -> Ledger {
    let mut places = Table::new(
        "ledger_by_cpu",
        "CPUs",
        vec![
            Column::new("cpu", "CPU", Unit::Id).essential(),
            Column::new("recorded", "recorded", Unit::Count).essential(),
            Column::new("lost", "lost", Unit::Count).essential(),
        ],
    );
    places.push(vec![Value::Id(0), Value::Count(351_319), Value::Count(48_681)]);
    places.push(vec![Value::Id(1), Value::Count(400_000), Value::Count(0)]);
    Ledger {
        happened: Value::Count(800_000),
        recorded: Value::Count(751_319),
        lost: Value::Count(48_681),
        filtered: Value::Count(0),
        closes: Some(true),
        remedy: Some("lotse run sched --buffer 16MiB".into()),
        places: Some(places),
    }
}

fn checks() -> Vec<Check> {
    vec![
        Check {
            key: "switches".into(),
            what: "context switches".into(),
            ours: Value::Count(28_325),
            theirs: Value::Count(28_331),
            source: "/proc/stat".into(),
            difference: Value::Share(-0.0002),
            verdict: Verdict::Agrees,
            reason: Some("within 1 %".into()),
        },
        Check {
            key: "run_time".into(),
            what: "run time".into(),
            ours: Value::Nanos(3_100_000_000),
            theirs: Value::Nanos(3_400_000_000),
            source: "schedstat".into(),
            difference: Value::Share(-0.088),
            verdict: Verdict::Differs,
            reason: Some("48,681 events were lost on CPU 0.".into()),
        },
        Check {
            key: "wait_time".into(),
            what: "wait time".into(),
            ours: Value::Nanos(3_410_000_000),
            theirs: Value::missing("delay accounting is off"),
            source: "taskstats".into(),
            difference: Value::missing("nothing to compare"),
            verdict: Verdict::Unavailable,
            reason: Some("delay accounting is off".into()),
        },
    ]
}

fn edges() -> Vec<u64> {
    (10..=34).map(|power| 1u64 << power).collect()
}

fn percentiles(factor: u64) -> Vec<Percentile> {
    [("p50", 12_300), ("p90", 410_000), ("p99", 4_118_000), ("p99.9", 9_700_000), ("max", 23_118_000)]
        .into_iter()
        .map(|(name, value)| Percentile { name: name.into(), value: value / factor, bounds: None })
        .collect()
}

fn distribution() -> Distribution {
    let shape: [u64; 24] = [
        3, 40, 900, 4_200, 9_800, 7_400, 2_600, 1_200, 800, 640, 500, 260, 90, 12, 3, 0, 0, 0, 0, 0, 0, 0, 0,
        0,
    ];
    let series = |key: &'static str, title: &'static str, factor: u64| Series {
        key: key.into(),
        title: title.into(),
        counts: shape.iter().map(|c| c / factor).collect(),
        count: shape.iter().map(|c| c / factor).sum(),
        sum: Some(3_410_000_000 / factor),
        percentiles: percentiles(factor),
    };
    Distribution {
        id: "wait".into(),
        title: "wait for the CPU".into(),
        about: Some("From becoming runnable to running.".into()),
        unit: Unit::Nanos,
        edges: edges(),
        series: vec![
            series("all", "all waits", 1),
            series("wakeup", "after a wakeup", 2),
            series("preempted", "after preemption", 9),
        ],
    }
}

fn axis(columns: usize) -> TimeAxis {
    TimeAxis {
        start_ns: 5_000_000_000,
        zero_ns: 5_000_000_000,
        step_ns: 2_000_000_000 / columns as u64,
        columns,
    }
}

fn heat_map(columns: usize) -> HeatMap {
    let rows = edges().len() - 1;
    let mut counts = Vec::new();
    for column in 0..columns {
        for row in 0..rows {
            let from_middle = (row as i64 - 4 - (column * 5 / columns.max(1)) as i64).unsigned_abs();
            counts.push(if from_middle > 5 {
                0
            } else {
                (1u64 << (2 * (5 - from_middle))) + (column as u64 * 7 + row as u64) % 5
            });
        }
    }
    HeatMap {
        id: "wait_over_time".into(),
        title: "Waits over time".into(),
        about: Some("Each wait counts at the time it ended.".into()),
        unit: Unit::Nanos,
        time: axis(columns),
        edges: edges(),
        counts,
        doubtful: (0..columns).map(|c| c == columns / 3).collect(),
    }
}

const NAMES: [&str; 5] = ["cc1", "make", "a b] ==> c", "</script><b>&\"'", "\u{1b}[2J\u{202e}evil"];

fn threads() -> Table {
    let mut table = Table::new(
        "threads",
        "threads",
        vec![
            Column::new("thread", "thread", Unit::Text).essential(),
            Column::new("tid", "tid", Unit::Id),
            Column::new("waits", "waits", Unit::Count).essential().about("Completed waits for a CPU."),
            Column::new("p50", "p50", Unit::Nanos).over("one wait"),
            Column::new("p99", "p99", Unit::Nanos).over("one wait").essential(),
            Column::new("max", "max", Unit::Nanos).over("one wait").essential(),
            Column::new("total", "total wait", Unit::Nanos).essential(),
            Column::new("of_span", "of its time", Unit::Share),
            Column::new("priority", "prio", Unit::Id).detail(),
        ],
    )
    .about("Longest total wait first.")
    .brief(4);
    for (i, name) in NAMES.iter().enumerate() {
        let i = i as u64;
        let p99 =
            if i == 3 { Value::missing("fewer than 100 waits") } else { Value::Nanos(4_118_000 / (i + 1)) };
        table.push(vec![
            Value::text(*name),
            Value::Id(4711 + i as i64),
            Value::Count(12_345 / (i + 1)),
            Value::Nanos(12_300 / (i + 1)),
            p99,
            Value::Nanos(23_118_000 / (i + 1)),
            Value::Nanos(1_200_000_000 / (i + 1)),
            Value::Share(0.34 / (i + 1) as f64),
            Value::Id(120),
        ]);
    }
    table
}

fn budget() -> Budget {
    let parts = [
        ("running", "running", Meaning::Running),
        ("waiting", "waiting for a CPU", Meaning::Waiting),
        ("io", "blocked on a device", Meaning::BlockedIo),
        ("sleeping", "sleeping", Meaning::Sleeping),
        ("unknown", "not known", Meaning::Unknown),
    ];
    let mut columns = vec![
        Column::new("thread", "thread", Unit::Text).essential(),
        Column::new("span", "observed", Unit::Nanos),
    ];
    columns.extend(parts.iter().map(|(key, title, _)| Column::new(*key, *title, Unit::Nanos).over("time")));
    let mut table = Table::new("budget", "threads", columns).brief(4);
    for (i, name) in NAMES.iter().enumerate() {
        let i = i as u64;
        let running = 900_000_000 / (i + 1);
        let waiting = 680_000_000 / (i + 1);
        let io = 100_000_000 * i;
        let unknown = 4_000_000;
        let rest = 2_000_000_000 - running - waiting - io - unknown;
        let mut row = vec![Value::text(*name), Value::Nanos(2_000_000_000)];
        row.extend([running, waiting, io, rest, unknown].map(Value::Nanos));
        table.push(row);
    }
    Budget {
        parts: parts.iter().map(|(key, _, meaning)| Part { key: (*key).into(), meaning: *meaning }).collect(),
        table,
    }
}

fn timeline(columns: usize) -> Timeline {
    let lane = |cpu: usize| Lane {
        title: format!("CPU {cpu}").into(),
        values: vec![
            (0..columns)
                .map(|c| {
                    if c == columns / 3 && cpu == 0 { None } else { Some((c * (cpu + 3) % 11) as f64 / 10.0) }
                })
                .collect(),
            (0..columns).map(|c| Some((c * 5 / columns.max(1)) as f64 + cpu as f64 * 0.5)).collect(),
        ],
    };
    Timeline {
        id: "cpus".into(),
        title: "Utilisation and runnable threads of each CPU".into(),
        about: Some("Runnable threads do not count the one that runs.".into()),
        time: axis(columns),
        tracks: vec![
            Track {
                key: "busy".into(),
                title: "busy".into(),
                unit: Unit::Share,
                meaning: Meaning::Running,
                top: 1.0,
            },
            Track {
                key: "runnable".into(),
                title: "waiting".into(),
                unit: Unit::Number,
                meaning: Meaning::Waiting,
                top: 6.0,
            },
        ],
        lanes: vec![lane(0), lane(1)],
    }
}

fn flame() -> Flame {
    let mut folded = String::new();
    for (stack, weight) in [
        ("make;main;eval;read_file;__x64_sys_read_[k];vfs_read_[k];copy_page_to_iter_[k]", 220),
        ("make;main;eval;read_file", 35),
        ("make;main;job_start;fork;__x64_sys_clone_[k];copy_process_[k];dup_mm_[k]", 310),
        ("make;main;job_start", 12),
        ("cc1;main;compile;parse", 940),
        ("cc1;main;compile;parse;lex", 480),
        ("cc1;main;compile;optimise;pass<int, std::allocator<int> >::run", 1_350),
        ("cc1;main;compile;optimise", 90),
        ("cc1;main;exit_group_[k];mmput_[k]", 45),
        ("</script><b>;`code`", 3),
    ] {
        folded.push_str(&format!("{stack} {weight}000000\n"));
    }
    Flame {
        id: "on_cpu".into(),
        title: "On the CPU, by caller".into(),
        about: Some("Sampled 99 times a second; widths are time on the CPU.".into()),
        unit: Unit::Nanos,
        counted: "samples".into(),
        stacks: Flame::parse_folded(&folded).0,
        before: None,
    }
}

fn findings() -> Findings {
    Findings {
        id: "host".into(),
        items: vec![
            Finding {
                key: "btf".into(),
                level: Level::Good,
                what: "BTF".into(),
                found: "/sys/kernel/btf/vmlinux, 6.1 MB".into(),
                meaning: None,
                remedy: None,
            },
            Finding {
                key: "tracefs".into(),
                level: Level::Note,
                what: "tracefs".into(),
                found: "not mounted".into(),
                meaning: Some("lotse uses a private mount of its own; other tools will not find it".into()),
                remedy: Some("mount -t tracefs none /sys/kernel/tracing".into()),
            },
        ],
    }
}
