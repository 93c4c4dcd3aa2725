//! What recording costs the recorded: nanoseconds of CPU time that each event adds to a load, for a bare
//! tracefs instance, for the recorder and for `perf record`, in turn, round by round.
//!
//! `record_cost [ROUNDS [CALLS]]` prints one JSON object for each contestant and for each ratio
//! of medians within rounds: `{"contestant": …, "added_ns": …}`, `{"ratio": …, "value": …}`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kernel::tracefs::{EventName, Tracefs};
use kernel::tracefs_instance::Instance;
use run::record::{OwnEvents, RecordSpec, Selection, record};

const EVENT: &str = "syscalls:sys_enter_getppid";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, calls, result] = arguments.as_slice()
        && word == "load"
    {
        return load(calls.parse().expect("a number"), Path::new(result));
    }
    let number =
        |at: usize, default| arguments.get(at).map_or(default, |text| text.parse().expect("a number"));
    let (rounds, calls) = (number(0, 7), number(1, 2_000_000));
    let folder = std::env::temp_dir().join(format!("lotse-cost-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let bench = Bench { calls, folder };
    let mut added: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for round in 0..=rounds {
        let base = bench.base();
        for (name, run) in CONTESTANTS {
            let Some(time) = run(&bench) else { continue };
            if round > 0 {
                added.entry(name).or_default().push((time - base) / calls as f64);
            }
        }
    }
    for (name, values) in &added {
        println!(
            "{}",
            serde_json::json!({"contestant": name, "added_ns": median(values), "rounds": values.len()})
        );
    }
    for (name, ours, theirs) in RATIOS {
        if let (Some(ours), Some(theirs)) = (added.get(ours), added.get(theirs)) {
            let ratios: Vec<f64> = ours.iter().zip(theirs).map(|(a, b)| a / b).collect();
            println!("{}", serde_json::json!({"ratio": name, "value": median(&ratios)}));
        }
    }
    let _ = std::fs::remove_dir_all(&bench.folder);
}

type Run = fn(&Bench) -> Option<f64>;

const CONTESTANTS: &[(&str, Run)] = &[
    ("bare instance", Bench::bare),
    ("lotse", |bench| bench.lotse(Selection::Everything)),
    ("lotse, own events refused", Bench::refusing),
    ("lotse, the command alone", |bench| bench.lotse(Selection::Command)),
    ("perf record -a", |bench| bench.perf(&["-a"])),
    ("perf record", |bench| bench.perf(&[])),
];

const RATIOS: &[(&str, &str, &str)] = &[
    ("lotse to a bare instance", "lotse", "bare instance"),
    ("lotse to perf record -a", "lotse", "perf record -a"),
    ("lotse to perf record, the command alone", "lotse, the command alone", "perf record"),
];

/// Makes its calls and writes how many nanoseconds of CPU time they took: what others do on a
/// shared machine is not counted.
fn load(calls: u64, result: &Path) {
    let begun = kernel::clock::process_cpu_ns();
    for _ in 0..calls {
        std::hint::black_box(parent_id());
    }
    let took = kernel::clock::process_cpu_ns() - begun;
    std::fs::write(result, took.to_string()).expect("the result is written");
}

struct Bench {
    calls: u64,
    folder: PathBuf,
}

impl Bench {
    fn words(&self) -> Vec<OsString> {
        let own = std::env::current_exe().expect("the own executable");
        // CPU 1 alone makes calls; recorders run where they like.
        let mut words: Vec<OsString> = ["taskset", "-c", "1"].iter().map(OsString::from).collect();
        words.extend([own.into(), "load".into(), self.calls.to_string().into(), self.result().into()]);
        words
    }

    fn result(&self) -> PathBuf {
        self.folder.join("nanoseconds")
    }

    fn taken(&self) -> f64 {
        std::fs::read_to_string(self.result()).expect("the load has run").parse().expect("a number")
    }

    fn base(&self) -> f64 {
        let words = self.words();
        assert!(Command::new(&words[0]).args(&words[1..]).status().expect("the load").success());
        self.taken()
    }

    fn bare(&self) -> Option<f64> {
        let tracefs = Tracefs::open().ok()?;
        let instance = Instance::create(&tracefs).expect("an instance");
        instance.write("trace_clock", "mono").expect("the clock");
        instance.set_buffer_kb(8192).expect("the rings");
        instance.enable(&EventName::parse(EVENT)?, true).expect("the event");
        instance.set_tracing(true).expect("tracing");
        Some(self.base())
    }

    fn lotse(&self, selection: Selection) -> Option<f64> {
        self.record(RecordSpec { selection, ..self.spec() })
    }

    fn refusing(&self) -> Option<f64> {
        self.record(RecordSpec { own_events: OwnEvents::Refuse, ..self.spec() })
    }

    fn spec(&self) -> RecordSpec {
        RecordSpec { command: Some(self.words()), ..RecordSpec::new(&[EVENT], self.folder.join("trace.dat")) }
    }

    fn record(&self, spec: RecordSpec) -> Option<f64> {
        let outcome = record(&spec, &mut |_| {}).expect("a recording");
        let ledger = &outcome.ledger;
        assert!(ledger.recorded() >= self.calls && ledger.lost() == 0, "lost {}", ledger.lost());
        Some(self.taken())
    }

    fn perf(&self, options: &[&str]) -> Option<f64> {
        let output = self.folder.join("perf.data");
        let recorded = Command::new("perf")
            .args(["record", "-q", "-e", EVENT, "-o"])
            .arg(&output)
            .args(options)
            .arg("--")
            .args(self.words())
            .stderr(Stdio::null())
            .status();
        recorded.ok()?.success().then(|| self.taken())
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}
