//! The binary as a user meets it: each command in good and bad use, in folders of its own.

mod harness;

mod basics;
mod doctor_list;
mod documentation;
mod known_truth;
mod mistakes;
mod mistakes_record;
mod record_info;
mod run_report;
mod sched_peers;
