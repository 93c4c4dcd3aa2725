//! The recordings as trace-cmd sees them.

mod recording;

use recording::{Scratch, own_instances, trace_cmd_report, tracefs_or_skip};
use run::record::{FileFormat, RecordSpec, record};
use testkit::load::Load;
use testkit::skip::has_program;

const LOAD: Load = Load { calls: 30_000, threads: 2, pause: 0 };

#[test]
fn the_load_makes_exactly_its_calls() {
    if !testkit::load::run_if_asked() {
        assert_eq!(LOAD.total(), 60_000);
    }
}

#[test]
fn trace_cmd_opens_every_format_and_counts_the_same() {
    tracefs_or_skip!();
    if !has_program("trace-cmd") {
        testkit::skipped!("trace-cmd is not installed");
    }
    for format in [FileFormat::V7Zstd(3), FileFormat::V7, FileFormat::V6] {
        let scratch = Scratch::new("peer");
        let mut spec = RecordSpec {
            format,
            ..RecordSpec::new(
                &["syscalls:sys_enter_getppid", "sched:sched_switch"],
                scratch.file("trace.dat"),
            )
        };
        spec.command = Some(LOAD.command("0,1"));
        let outcome = record(&spec, &mut |_| {}).unwrap();
        let (report, warnings) = trace_cmd_report(&outcome.file, &["-q"]);
        assert_eq!(warnings.trim(), "", "{format:?}");
        let lines = |what: &str| report.lines().filter(|line| line.contains(what)).count() as u64;
        // Others may call getppid meanwhile, so the whole file is compared with its account.
        assert_eq!(
            lines(" sys_enter_getppid: ") + lines(" sched_switch: "),
            outcome.ledger.recorded(),
            "{format:?}"
        );
        assert!(lines(" sys_enter_getppid: ") >= LOAD.total());
        assert_eq!(scratch.names(), ["trace.dat"]);
        assert_eq!(own_instances(), Vec::<String>::new());
    }
}
