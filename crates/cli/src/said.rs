//! What is told on stderr before and after a recording, the same for `run` and `record`.

use report::number;
use run::preflight::Preflight;
use run::record::{EndedBy, Filtered, RecordOutcome, StopReason};

use crate::console::Console;

/// Measured rates and what follows from them.
pub fn preflight(preflight: &Preflight, console: &Console) {
    if let Some(measured) = &preflight.measured {
        let note = if measured.note.is_empty() { String::new() } else { format!(" ({})", measured.note) };
        console.say(&format!(
            "measured {} events/s{note}; rings of {} for each of {} CPUs",
            number::count(measured.per_s.round() as u64),
            run::recipe::format_bytes(preflight.ring_bytes_per_cpu),
            preflight.cpus,
        ));
    } else {
        console.detail("nothing was measured before: the ring's size is given and no end in time");
    }
    match (preflight.expected_disk_bytes, preflight.free_disk_bytes) {
        (Some(expected), Some(free)) => console.say(&format!(
            "disk: about {} needed while recording, {} free",
            run::recipe::format_bytes(expected),
            run::recipe::format_bytes(free)
        )),
        (None, Some(free)) => console.detail(&format!("disk: {} free", run::recipe::format_bytes(free))),
        _ => {}
    }
    for event in &preflight.left_out {
        console.say(&format!("this kernel has no {event}: left out (the recipe can do without)"));
    }
    for hidden in &preflight.hidden_switches {
        console.warn(&hidden.to_string());
    }
}

/// How far back a flight recording reaches.
pub fn flight(preflight: &Preflight, console: &Console) {
    let busiest = preflight
        .measured
        .as_ref()
        .map_or(0.0, |measured| measured.bytes_per_s * measured.busiest_cpu_per_s / measured.per_s.max(1.0));
    if busiest > 0.0 {
        let seconds = preflight.ring_bytes_per_cpu as f64 / busiest;
        console.say(&format!(
            "flight: the rings hold the last {seconds:.0} s or so at this rate; waiting for the trigger"
        ));
    } else {
        console.say("flight: waiting for the trigger");
    }
}

/// Why a recording ended, what was swept, what was lost.
pub fn recording(outcome: &RecordOutcome, console: &Console) {
    for name in &outcome.swept {
        console.say(&format!("removed what a killed run had left in the kernel: {name}"));
    }
    for note in &outcome.notes {
        console.say(note);
    }
    match outcome.ended_by {
        EndedBy::Stop(StopReason::Signal(_)) => {
            console.say("ended early by a signal; what was recorded is kept")
        }
        EndedBy::DiskFull => console.warn("the disk was full: what had been recorded until then is kept"),
        EndedBy::Duration | EndedBy::Command | EndedBy::Trigger | EndedBy::Stop(StopReason::Asked) => {}
    }
    let ledger = &outcome.ledger;
    let lost = ledger.lost();
    if lost > 0 {
        let unwritten: u64 = ledger.cpus.iter().map(|cpu| cpu.lost.unwritten).sum();
        let advice = if unwritten * 2 > lost {
            "they had no room on the disk: free some space, record shorter or fewer events"
        } else {
            "enlarge the rings (--ring) or record fewer events"
        };
        console.warn(&format!(
            "{} of {} events were lost ({:.2} %); {advice}",
            number::count(lost),
            number::count(ledger.happened()),
            lost as f64 * 100.0 / ledger.happened() as f64
        ));
    }
    for (cpu, found, read) in ledger.disagreements() {
        console.warn(&format!(
            "CPU {cpu}: {found} events are in the file, {read} were read by the kernel's count"
        ));
    }
    if let Filtered::Counted(filtered) = ledger.filtered {
        console.detail(&format!("{} events were filtered out", number::count(filtered)));
    }
}

/// Why a recording ended, in words for `run.json`.
pub fn ended_by(ended_by: EndedBy) -> String {
    match ended_by {
        EndedBy::Duration => "its time was over".to_owned(),
        EndedBy::Command => "the command or the last selected process ended".to_owned(),
        EndedBy::Stop(StopReason::Asked) => "it was asked to stop".to_owned(),
        EndedBy::Stop(StopReason::Signal(signal)) => format!("signal {signal}"),
        EndedBy::Trigger => "it was triggered".to_owned(),
        EndedBy::DiskFull => "the disk was full".to_owned(),
    }
}
