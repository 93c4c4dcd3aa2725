//! The shelf on kernels that are not here: every tool compiles for each kernel whose facts were saved, or says
//! with its `#error` what that kernel lacks.

use std::collections::BTreeSet;

use bpf::KernelFacts;
use bpf::facts::{Feature, SavedFacts};
use kernel::facts::LiveFacts;
use lang::environment::Nowhere;
use lang::options::{Options, SelectedCgroup, Selection};
use lang::presence::Presence;
use run::program::compile::compile;
use run::program::live_environment::LiveEnvironment;
use run::program::session;
use run::tool::{SHELF, Tool, find};

/// The arguments of a tool in the first example of its header.
fn first_example(tool: &Tool) -> Vec<String> {
    let example = &tool.header.examples[0].name;
    let words = example.strip_prefix(&format!("lotse tool {} ", tool.name)).unwrap_or("");
    // Quotes hold blanks together.
    let mut found = vec![String::new()];
    let mut quoted = false;
    for c in words.chars() {
        match c {
            '\'' => quoted = !quoted,
            ' ' if !quoted => found.push(String::new()),
            c => found.last_mut().unwrap().push(c),
        }
    }
    found.retain(|word| !word.is_empty());
    found.truncate(tool.header.arguments.len());
    assert_eq!(
        found.len(),
        tool.header.arguments.len(),
        "the first example of {} has its arguments",
        tool.name
    );
    found
}

fn everything_selected() -> Selection {
    let cgroup = Some(SelectedCgroup { id: 4711, level: 2 });
    Selection { pids: vec![1, 2], tids: vec![3], cpus: vec![0, 1], cgroup }
}

#[test]
fn every_tool_compiles_for_every_kernel_or_says_what_it_lacks() {
    // User-space probes are looked up in the files of this machine.
    let environment = LiveEnvironment::new(None);
    let mut failures = String::new();
    for kernel in testkit::saved_facts::names() {
        let facts = testkit::saved_facts::load(&kernel);
        for (name, _) in SHELF {
            let Some(Ok(tool)) = find(name) else { panic!("the header of {name} is wrong") };
            for selection in [Selection::default(), everything_selected()] {
                let options = Options {
                    name: format!("{name}.bt"),
                    environment: &environment,
                    selection,
                    ..Options::default()
                };
                let outcome = compile(&tool.program(&first_example(&tool)), &options, &facts, None);
                let lacks = outcome.report.contains("error[L0010]");
                if outcome.compiled.is_none() && !lacks {
                    failures.push_str(&format!("{name} for {kernel}:\n{}\n", outcome.report));
                }
                if let Some(compiled) = &outcome.compiled {
                    for option in &compiled.schema.options {
                        let known = tool.options.iter().any(|known| known.name == option.name);
                        assert!(known, "{name} asks for --{}, which its help does not know", option.name);
                    }
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn the_kernel_at_hand_takes_every_tool_it_has_the_probes_for() {
    let facts = LiveFacts::new();
    if !facts.has(Feature::TpBtf) || facts.tracepoints().is_empty() {
        testkit::skipped!("this kernel has no typed raw tracepoints, or its tracepoints cannot be read");
    }
    let environment = LiveEnvironment::new(None);
    let mut failures = String::new();
    for (name, _) in SHELF {
        let Some(Ok(tool)) = find(name) else { panic!("the header of {name} is wrong") };
        for selection in [Selection::default(), everything_selected()] {
            let options = Options { environment: &environment, selection, ..Options::default() };
            let outcome = compile(&tool.program(&first_example(&tool)), &options, &facts, None);
            let loaded = match &outcome.compiled {
                Some(compiled) => {
                    session::load(compiled, &facts, false).map(drop).map_err(|why| why.to_string())
                }
                None if outcome.report.contains("error[L0010]") => Ok(()),
                None => Err(outcome.report),
            };
            if let Err(why) = loaded {
                failures.push_str(&format!("{name}:\n{why}\n"));
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

fn ask(facts: &SavedFacts, question: &str, texts: &[&str]) -> Result<bool, String> {
    let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    Presence { facts, environment: &Nowhere }.ask(question, &texts)
}

#[test]
fn kernels_answer_by_what_they_have_and_allow() {
    for name in testkit::saved_facts::names() {
        let mut facts = testkit::saved_facts::load(&name);
        facts.features.extend([Feature::Fentry, Feature::Kprobes]);
        let holds = |question: &str, texts: &[&str]| ask(&facts, question, texts).unwrap();
        assert!(holds("probe", &["tracepoint:sched:sched_switch"]), "{name}");
        assert!(holds("probe", &["tracepoint:sched:sched_w*"]), "{name}");
        assert!(!holds("probe", &["tracepoint:sched:sched_nothing"]), "{name}");
        assert!(holds("probe", &["rawtracepoint:sched_switch"]), "{name}");
        assert!(!holds("probe", &["rawtracepoint:sched_nothing"]), "{name}");
        assert!(holds("probe", &["fentry:vfs_read"]) && holds("probe", &["kprobe:vfs_read"]), "{name}");
        assert!(!holds("probe", &["fentry:vfs_nothing"]) && !holds("probe", &["kprobe:vfs_nothing"]));
        assert!(holds("field", &["struct task_struct", "mm.arg_start"]), "{name}");
        assert!(holds("field", &["struct task_struct", "thread_pid->numbers.nr"]), "{name}");
        assert!(!holds("field", &["struct task_struct", "mm.arg_nothing"]), "{name}");
        assert!(!holds("field", &["struct nothing", "mm"]), "{name}");
        facts.features = BTreeSet::new();
        let holds = |probe: &str| ask(&facts, "probe", &[probe]).unwrap();
        assert!(!holds("fentry:vfs_read") && !holds("kprobe:vfs_read"), "refused by {name}");
    }
}
