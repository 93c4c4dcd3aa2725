//! What each fact means for lotse, and what mends it. To add a finding, add it to a group.

use kernel::facts_host::environment::ControlGroups;
use kernel::facts_host::rights::Capability;
use report::document::{Finding, Level};

use bpf::facts::Feature;

use super::Examined;

/// All findings by group, in reading order.
pub(super) fn all(examined: &Examined) -> Vec<(&'static str, Vec<Finding>)> {
    vec![
        ("recording", vec![tracefs(examined), event_rights(examined), perf_paranoid(examined), instance_memory()]),
        (
            "programs in the kernel",
            vec![
                btf(examined),
                bpf_rights(examined),
                unprivileged_bpf(examined),
                raw_tracepoints(examined),
                ring_buffer(examined),
                kprobes(examined),
                fentry(examined),
                uprobes(examined),
            ],
        ),
        ("counters and addresses", vec![hardware(examined), kptr(examined), capabilities(examined), lockdown(examined)]),
        ("cross-checks", vec![schedstat(examined), thread_exits(examined)]),
        (
            "machine",
            vec![
                machine(examined),
                container(examined),
                control_groups(examined),
                clock(examined),
                processors(examined),
                frequency(examined),
                idle(examined),
            ],
        ),
    ]
}

fn finding(key: &'static str, what: &'static str, level: Level, found: impl Into<String>) -> Finding {
    Finding { key: key.into(), level, what: what.into(), found: found.into(), meaning: None, remedy: None }
}

trait Explained {
    fn means(self, text: impl Into<String>) -> Self;
    fn mend(self, text: impl Into<String>) -> Self;
}

impl Explained for Finding {
    fn means(mut self, text: impl Into<String>) -> Self {
        self.meaning = Some(text.into());
        self
    }
    fn mend(mut self, text: impl Into<String>) -> Self {
        self.remedy = Some(text.into());
        self
    }
}

fn tracefs(examined: &Examined) -> Finding {
    let abilities = &examined.abilities;
    let found = |level, text: String| finding("tracefs", "tracefs", level, text);
    let events = abilities.tracepoints.map_or(String::new(), |count| format!(", {count} tracepoints"));
    match (&abilities.tracefs, abilities.tracefs_private, &abilities.tracefs_mounted) {
        (kernel::facts_host::abilities::Ability::No(reason), _, _) => found(Level::Bad, "out of reach".into())
            .means(format!("{reason}. Events cannot be listed or recorded"))
            .mend("sudo lotse doctor, or as root: mount -t tracefs tracefs /sys/kernel/tracing"),
        (_, true, Some(path)) => found(Level::Good, format!("mounted at {path}, own mount opened{events}"))
            .means("lotse records through an instance of its own and leaves the mounted one alone"),
        (_, true, None) => found(Level::Good, format!("not mounted; own mount opened{events}"))
            .means("lotse needs no mount point; tools that do will not find it"),
        (_, false, path) => {
            found(Level::Good, format!("mounted at {}{events}", path.as_deref().unwrap_or("debugfs")))
                .means("an own mount was refused, so the mounted one is used, through an own instance")
        }
    }
}

fn event_rights(examined: &Examined) -> Finding {
    let rights = &examined.host.rights;
    let what = "event rights";
    if examined.abilities.perf_system.is_yes() {
        return finding("event_rights", what, Level::Good, "events of the whole system, the kernel's included");
    }
    let own = if examined.abilities.perf_own.is_yes() { "only own processes" } else { "none" };
    let missing = if rights.has(Capability::PERFMON) { "the kernel refuses" } else { "CAP_PERFMON is missing" };
    finding("event_rights", what, Level::Warning, format!("{own} ({missing})"))
        .means("sampling, counters and perf rings see no other process and not the kernel")
        .mend("run as root, or: sudo setcap cap_perfmon,cap_bpf,cap_dac_read_search+ep $(command -v lotse)")
}

fn perf_paranoid(examined: &Examined) -> Finding {
    let rights = &examined.host.rights;
    let (key, what) = ("perf_event_paranoid", "perf_event_paranoid");
    let Some(level) = rights.perf_event_paranoid else {
        return finding(key, what, Level::Warning, "not there")
            .means("the kernel was built without perf events: no sampling, no counters; tracefs still records")
            .mend("boot a kernel with CONFIG_PERF_EVENTS=y");
    };
    let meaning = match level {
        ..=-1 => "everybody may see everything",
        0 => "ordinary users may count CPU-wide and in the kernel, raw tracepoints excepted",
        1 => "ordinary users may trace own processes and the kernel's work for them",
        2 => "ordinary users may trace own processes, in user space alone",
        _ => "ordinary users may open no perf event at all (a distribution's addition)",
    };
    let finding = finding(key, what, if level >= 3 { Level::Note } else { Level::Good }, level.to_string());
    if rights.may_trace_system() {
        return finding.means(format!("{meaning}; this process has the capability, so the value does not bind it"));
    }
    finding.means(meaning).mend("sudo sysctl kernel.perf_event_paranoid=-1")
}

fn instance_memory() -> Finding {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = text.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB"));
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    match available.and_then(|kib| kib.trim().parse::<u64>().ok()) {
        Some(kib) => {
            let share = kib / 8 / cpus / 1024;
            let level = if share >= 8 { Level::Good } else { Level::Warning };
            let found = format!("{} MiB available", kib / 1024);
            let finding = finding("ring_memory", "ring memory", level, found);
            if share >= 8 {
                return finding.means(format!("rings of up to {share} MiB for each CPU use an eighth of it"));
            }
            finding
                .means("rings of the usual 8 MiB for each CPU would take more than an eighth of it")
                .mend("give a smaller ring: lotse run --ring 1MiB …")
        }
        None => finding("ring_memory", "ring memory", Level::Note, "unknown"),
    }
}

fn btf(examined: &Examined) -> Finding {
    let (key, what) = ("btf", "BTF");
    if let Some(bytes) = examined.abilities.btf_bytes {
        let found = format!("/sys/kernel/btf/vmlinux, {:.1} MB", bytes as f64 / 1e6);
        return finding(key, what, Level::Good, found)
            .means("programs read kernel structures by name, and raw tracepoints by argument");
    }
    finding(key, what, Level::Warning, "none")
        .means("programs cannot read kernel structures by name; tracepoints still work")
        .mend("boot a kernel with CONFIG_DEBUG_INFO_BTF=y (every distribution's since about 2020)")
}

fn bpf_rights(examined: &Examined) -> Finding {
    let rights = &examined.host.rights;
    let (key, what) = ("bpf_rights", "eBPF rights");
    if examined.config.is_known() && !examined.config.has("CONFIG_BPF_SYSCALL") {
        return finding(key, what, Level::Warning, "the kernel has no eBPF")
            .means("`lotse trace` cannot work; `lotse run` and `record` do")
            .mend("boot a kernel with CONFIG_BPF_SYSCALL=y");
    }
    if rights.may_load_bpf() {
        return finding(key, what, Level::Good, "tracing programs may be loaded");
    }
    finding(key, what, Level::Warning, "CAP_BPF with CAP_PERFMON, or CAP_SYS_ADMIN, is missing")
        .means("`lotse trace` cannot load its programs")
        .mend("run as root, or: sudo setcap cap_perfmon,cap_bpf,cap_dac_read_search+ep $(command -v lotse)")
}

fn unprivileged_bpf(examined: &Examined) -> Finding {
    let (key, what) = ("unprivileged_bpf_disabled", "unprivileged eBPF");
    match examined.host.rights.unprivileged_bpf_disabled {
        Some(0) => finding(key, what, Level::Note, "allowed (0)")
            .means("not needed by lotse; any user may load socket filters, which is a risk on a shared host")
            .mend("sudo sysctl kernel.unprivileged_bpf_disabled=2"),
        Some(1) => finding(key, what, Level::Good, "refused until the next boot (1)").means("as it should be"),
        Some(value) => finding(key, what, Level::Good, format!("refused ({value})")).means("as it should be"),
        None => finding(key, what, Level::Note, "unknown"),
    }
}

fn raw_tracepoints(examined: &Examined) -> Finding {
    let (key, what) = ("raw_tracepoints", "raw tracepoints");
    let has = |feature| examined.features.contains(&feature);
    match (has(Feature::RawTracepoint), has(Feature::TpBtf)) {
        (_, true) => finding(key, what, Level::Good, "programs attach, with typed arguments")
            .means("the cheapest way to an event: chosen where the fields used allow it"),
        (true, false) => finding(key, what, Level::Note, "programs attach, arguments without types")
            .means("ordinary tracepoints are used instead, at some more cost per event"),
        (false, false) => finding(key, what, Level::Warning, "programs are refused")
            .means("`lotse trace` falls back to ordinary tracepoints, or cannot load at all: see eBPF rights"),
    }
}

fn ring_buffer(examined: &Examined) -> Finding {
    let (key, what) = ("ring_buffer", "BPF ring buffer");
    if examined.features.contains(&Feature::RingBuf) {
        return finding(key, what, Level::Good, "can be made");
    }
    finding(key, what, Level::Warning, "cannot be made")
        .means("programs cannot stream events (needs kernel 5.8 and the right to load programs)")
        .mend("see eBPF rights; on an older kernel nothing")
}

fn fentry(examined: &Examined) -> Finding {
    let (key, what) = ("fentry", "fentry, fexit");
    if examined.features.contains(&Feature::Fentry) {
        return finding(key, what, Level::Good, "kernel functions can be traced with typed arguments");
    }
    let finding = finding(key, what, Level::Note, "refused by this kernel (tried)")
        .means("programs with fentry: and fexit: probes cannot attach; tracepoints can");
    if examined.config.is_known() && !examined.config.has("CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS") {
        return finding.mend("nothing at run time: a kernel with CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS");
    }
    finding.mend("nothing at run time, where the rights above are there: the kernel forbids changing its code")
}

fn kprobes(examined: &Examined) -> Finding {
    let (key, what) = ("kprobes", "kprobes");
    if examined.abilities.kprobes.is_yes() {
        return finding(key, what, Level::Good, "kernel functions can be probed");
    }
    finding(key, what, Level::Warning, "none (CONFIG_KPROBES, CONFIG_KPROBE_EVENTS)")
        .means("programs with kprobe: probes cannot attach; tracepoints and raw tracepoints can")
        .mend("nothing at run time: another kernel, or the tracepoint that covers it (lotse list)")
}

fn uprobes(examined: &Examined) -> Finding {
    let (key, what) = ("uprobes", "uprobes");
    if examined.abilities.uprobes.is_yes() {
        return finding(key, what, Level::Good, "user functions can be probed");
    }
    finding(key, what, Level::Warning, "none (CONFIG_UPROBE_EVENTS)")
        .means("programs with uprobe: and usdt: probes cannot attach")
        .mend("nothing at run time: another kernel")
}

fn hardware(examined: &Examined) -> Finding {
    let (key, what) = ("hardware_counters", "hardware counters");
    match &examined.abilities.hardware_counters {
        kernel::facts_host::abilities::Ability::Yes => finding(key, what, Level::Good, "cycles can be counted"),
        kernel::facts_host::abilities::Ability::No(reason) => {
            let virtual_machine = examined.host.environment.hypervisor.is_some();
            let finding = finding(key, what, Level::Note, format!("none: {reason}"))
                .means("no cycles, cache misses or branches; CPU sampling goes by the clock instead");
            if virtual_machine {
                finding.mend("nothing inside the guest: the host has to pass a virtual PMU through")
            } else {
                finding.mend("see perf_event_paranoid above; on metal, the processor's PMU driver is missing")
            }
        }
    }
}

fn kptr(examined: &Examined) -> Finding {
    let (key, what) = ("kptr_restrict", "kptr_restrict");
    match examined.host.rights.kptr_restrict {
        Some(0) => finding(key, what, Level::Good, "0").means("kernel addresses have names in stacks"),
        Some(1) if examined.host.rights.has(Capability::SYSLOG) => {
            finding(key, what, Level::Good, "1").means("this process has CAP_SYSLOG, so it sees kernel addresses")
        }
        Some(value) => finding(key, what, Level::Warning, value.to_string())
            .means("kernel functions in stacks have no names")
            .mend("sudo sysctl kernel.kptr_restrict=0"),
        None => finding(key, what, Level::Note, "unknown"),
    }
}

fn capabilities(examined: &Examined) -> Finding {
    let rights = &examined.host.rights;
    let wanted = [
        Capability::SYS_ADMIN,
        Capability::BPF,
        Capability::PERFMON,
        Capability::DAC_READ_SEARCH,
        Capability::SYSLOG,
        Capability::SYS_PTRACE,
        Capability::NET_ADMIN,
        Capability::SYS_RESOURCE,
    ];
    let missing: Vec<String> = wanted.into_iter().filter(|c| !rights.has(*c)).map(|c| c.name()).collect();
    let user = if rights.effective_uid == 0 { "root".to_owned() } else { format!("user {}", rights.effective_uid) };
    let (key, what) = ("capabilities", "capabilities");
    if missing.is_empty() {
        return finding(key, what, Level::Good, format!("{user}, all that tracing can use"));
    }
    let only_resource = missing == ["cap_sys_resource"];
    let level = if only_resource { Level::Note } else { Level::Warning };
    let finding = finding(key, what, level, format!("{user}, without {}", missing.join(", ")));
    if only_resource {
        return finding.means("lotse does not need it: locked memory has not been limited for eBPF since 5.11");
    }
    finding.means("what each is for: man 7 capabilities; the findings above name those in the way").mend(
        "run as root; in a container: --cap-add SYS_ADMIN,BPF,PERFMON,SYSLOG,SYS_PTRACE (and --pid host)",
    )
}

fn lockdown(examined: &Examined) -> Finding {
    let (key, what) = ("lockdown", "lockdown");
    match examined.host.rights.lockdown.as_deref() {
        None => finding(key, what, Level::Good, "none"),
        Some("none") => finding(key, what, Level::Good, "off"),
        Some("integrity") => finding(key, what, Level::Note, "integrity")
            .means("reading kernel memory is allowed; programs that write user memory are refused"),
        Some(other) => finding(key, what, Level::Bad, other.to_owned())
            .means("the kernel refuses tracefs, kernel probes and reading kernel memory")
            .mend("boot with lockdown=integrity, or without Secure Boot"),
    }
}

fn schedstat(examined: &Examined) -> Finding {
    let (key, what) = ("schedstat", "run and wait times");
    let config = &examined.config;
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let counts = text.split_ascii_whitespace().nth(2).is_some_and(|times| times != "0");
    if counts || config.has("CONFIG_SCHED_INFO") {
        return finding(key, what, Level::Good, "/proc/PID/schedstat counts")
            .means("run-queue waits of a trace are checked against the kernel's own sum");
    }
    finding(key, what, Level::Note, "/proc/PID/schedstat does not count (CONFIG_SCHED_INFO)")
        .means("wait times cannot be checked; switches can")
        .mend("nothing at run time: a kernel with CONFIG_SCHEDSTATS or CONFIG_TASK_DELAY_ACCT")
}

fn thread_exits(_examined: &Examined) -> Finding {
    let (key, what) = ("thread_exits", "ended threads");
    match kernel::task_exits::ExitListener::open() {
        Ok(_) => finding(key, what, Level::Good, "taskstats tells of each exit")
            .means("also threads that end during a run are checked against the kernel's counters"),
        Err(refused) => finding(key, what, Level::Note, "taskstats is out of reach")
            .means(format!("{refused}. Threads that end during a run are checked in sums only"))
            .mend("run as root, outside of network namespaces"),
    }
}

fn machine(examined: &Examined) -> Finding {
    let environment = &examined.host.environment;
    let (key, what) = ("machine", "machine");
    let product = environment.product.as_deref().map_or(String::new(), |product| format!(" ({product})"));
    match &environment.hypervisor {
        None => finding(key, what, Level::Good, format!("hardware{product}")),
        Some(name) => {
            let steal: u64 = kernel::proc_counters::SystemCounters::read()
                .map_or(0, |counters| counters.cpus.iter().map(|cpu| cpu.steal).sum());
            finding(key, what, Level::Note, format!("virtual machine, {name}{product}")).means(format!(
                "time that the hypervisor takes away shows as running or waiting of whoever had the CPU; \
                 stolen so far: {:.1} s",
                steal as f64 / 100.0
            ))
        }
    }
}

fn container(examined: &Examined) -> Finding {
    let environment = &examined.host.environment;
    let (key, what) = ("container", "container");
    let name = environment.container.as_deref().unwrap_or("unknown kind");
    if !environment.initial_user_namespace {
        return finding(key, what, Level::Bad, format!("inside a user namespace ({name})"))
            .means("capabilities of a user namespace do not count for tracing")
            .mend("run on the host, or in a container without its own user namespace (--privileged --userns host)");
    }
    if !environment.initial_pid_namespace {
        return finding(key, what, Level::Warning, format!("inside a pid namespace ({name})"))
            .means("process numbers in events are the host's, not those that ps shows here")
            .mend("start the container with --pid host");
    }
    match &environment.container {
        Some(name) => finding(key, what, Level::Note, format!("{name}, with the host's namespaces")),
        None => finding(key, what, Level::Good, "none"),
    }
}

fn control_groups(examined: &Examined) -> Finding {
    let (key, what) = ("control_groups", "control groups");
    match examined.host.environment.control_groups {
        ControlGroups::V2 => finding(key, what, Level::Good, "version 2"),
        ControlGroups::Hybrid => finding(key, what, Level::Note, "version 1 with a version 2 tree beside it")
            .means("--cgroup takes a directory of either; quotas are set in version 1"),
        ControlGroups::V1 => finding(key, what, Level::Note, "version 1")
            .means("--cgroup works by following members; filters in the kernel need version 2")
            .mend("boot with systemd.unified_cgroup_hierarchy=1"),
        ControlGroups::None => finding(key, what, Level::Note, "not mounted")
            .means("--cgroup cannot be used")
            .mend("mount -t cgroup2 cgroup2 /sys/fs/cgroup"),
    }
}

fn clock(examined: &Examined) -> Finding {
    let clock = &examined.host.clock;
    let (key, what) = ("clock", "clock");
    let source = clock.source.as_deref().unwrap_or("unknown");
    let mut found = format!("{source}, {:.0} ns to read", clock.reading_ns);
    if let Some(check) = &clock.between_cpus {
        found.push_str(&format!("; {} handovers between CPUs, {} backwards", check.handovers, check.backward));
    }
    if !clock.tsc_flags.is_empty() {
        found.push_str(&format!(" ({})", clock.tsc_flags.join(", ")));
    }
    if let Some(check) = clock.between_cpus.as_ref().filter(|check| check.backward > 0) {
        return finding(key, what, Level::Warning, found)
            .means(format!(
                "time stamps of different CPUs are off by up to {} ns: waits shorter than that are not to be believed",
                check.largest_backward_ns
            ))
            .mend("check firmware and hypervisor for TSC synchronisation; boot with tsc=reliable only if you know better");
    }
    if clock.is_healthy() {
        return finding(key, what, Level::Good, found).means("time stamps compare between CPUs");
    }
    let tsc_rejected = source != "tsc" && !clock.available.iter().any(|name| name == "tsc");
    let finding = finding(key, what, Level::Warning, found)
        .means("a slow or coarse source: each event costs more, and short waits are blurred");
    if tsc_rejected {
        finding.mend("the kernel found the TSC unstable: dmesg | grep -i tsc says why")
    } else {
        finding.mend("echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource")
    }
}

fn processors(examined: &Examined) -> Finding {
    let topology = &examined.host.topology;
    let (key, what) = ("processors", "processors");
    let model = topology.model.as_deref().unwrap_or("unknown processor");
    let many = |count: usize, name: &str| format!("{count} {name}{}", if count == 1 { "" } else { "s" });
    let mut found = format!(
        "{} in {}, {}, {}: {model}",
        many(topology.cpus.len(), "CPU"),
        many(topology.cores(), "core"),
        many(topology.sockets(), "socket"),
        many(topology.nodes(), "memory node")
    );
    for (list, name) in [(&topology.offline, "offline"), (&topology.isolated, "isolated"), (&topology.tickless, "tickless")] {
        if !list.is_empty() {
            found.push_str(&format!("; {} {name}", list.len()));
        }
    }
    let restricted = topology.allowed.len() < topology.cpus.len();
    let finding = finding(key, what, if restricted { Level::Note } else { Level::Good }, found);
    if restricted {
        return finding.means(format!(
            "this process may run on {} of them: commands it starts inherit that",
            topology.allowed.len()
        ));
    }
    if topology.smt_active == Some(true) {
        return finding.means("two CPUs of a core share it: a CPU whose sibling is busy runs slower");
    }
    finding
}

fn frequency(examined: &Examined) -> Finding {
    let power = &examined.host.power;
    let (key, what) = ("frequency", "frequency");
    let Some(driver) = &power.frequency_driver else {
        return finding(key, what, Level::Note, "not chosen by this kernel")
            .means("the hypervisor or firmware decides; it can change between runs unseen");
    };
    let governors: Vec<&str> = power.governors.keys().map(String::as_str).collect();
    let turbo = match power.turbo {
        Some(true) => ", turbo on",
        Some(false) => ", turbo off",
        None => "",
    };
    let found = format!("{driver}, {}{turbo}", governors.join(" and "));
    if governors == ["performance"] {
        return finding(key, what, Level::Good, found);
    }
    finding(key, what, Level::Note, found)
        .means("the same work takes a different time as the frequency follows the load")
        .mend("for comparisons: sudo cpupower frequency-set -g performance")
}

fn idle(examined: &Examined) -> Finding {
    let power = &examined.host.power;
    let (key, what) = ("idle", "idle states");
    let states: Vec<&str> = power.idle_states.iter().filter(|s| s.enabled).map(|s| s.name.as_str()).collect();
    let deepest = power.idle_states.iter().filter(|s| s.enabled).filter_map(|s| s.exit_latency_us).max();
    match (&power.idle_driver, deepest) {
        (None, _) => finding(key, what, Level::Note, "not chosen by this kernel")
            .means("waking an idle CPU takes as long as the hypervisor or firmware makes it"),
        (Some(driver), Some(latency)) if latency >= 100 => {
            finding(key, what, Level::Note, format!("{driver}: {}", states.join(", ")))
                .means(format!("waking a CPU from the deepest takes {latency} µs, which shows as run-queue wait"))
                .mend("for comparisons: sudo cpupower idle-set -D 50")
        }
        (Some(driver), _) => finding(key, what, Level::Good, format!("{driver}: {}", states.join(", "))),
    }
}
