//! An own ring-buffer instance: made, set up, and removed on every way out.
//! Its name says who owns it, so that what a killed run left can be told from what a live
//! one uses. Nothing here touches the top-level buffer.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use crate::cpu;
use crate::directory::Directory;
use crate::error::Refused;
use crate::procfs::{ProcessIdentity, pid_namespace};
use crate::tracefs::{EventName, Tracefs};

/// Every instance of ours is called `lotse-PID-START-NAMESPACE-NUMBER`.
const PREFIX: &str = "lotse";

/// A ring-buffer instance of our own. Dropping it stops it and removes it.
#[derive(Debug)]
pub struct Instance {
    instances: Directory,
    // Taken out on removal: the kernel refuses to remove an instance with open files.
    directory: Option<Directory>,
    name: String,
}

impl Instance {
    /// Makes a new instance with tracing off. It holds no event yet.
    pub fn create(tracefs: &Tracefs) -> Result<Self, Refused> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let owner = ProcessIdentity::own().ok_or_else(|| {
            Refused::new("read", "/proc/self/stat", std::io::Error::from_raw_os_error(libc::ENOENT))
                .advise("mount /proc")
        })?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}-{}-{}-{}-{number}", owner.pid, owner.start_ticks, pid_namespace());
        let instances = tracefs.root().open_directory("instances")?;
        instances.make_directory(&name)?;
        // From here on a failure removes it again.
        let mut instance = Instance { instances, directory: None, name };
        instance.directory = Some(instance.instances.open_directory(&instance.name)?);
        instance.write("tracing_on", "0")?;
        Ok(instance)
    }

    /// Its name below `instances/`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its directory.
    pub fn directory(&self) -> &Directory {
        self.directory.as_ref().expect("an instance has its directory until it is removed")
    }

    /// Writes to one of its control files.
    pub fn write(&self, file: &str, text: &str) -> Result<(), Refused> {
        self.directory().write(file, text)
    }

    /// Starts or stops writing to the ring.
    pub fn set_tracing(&self, on: bool) -> Result<(), Refused> {
        self.write("tracing_on", if on { "1" } else { "0" })
    }

    /// Sets a trace option; an error where this kernel does not have it.
    pub fn set_option(&self, option: &str, on: bool) -> Result<(), Refused> {
        self.write("trace_options", &format!("{}{option}", if on { "" } else { "no" }))
    }

    /// Limits the instance to these CPUs.
    pub fn set_cpus(&self, cpus: &[u32]) -> Result<(), Refused> {
        self.write("tracing_cpumask", &cpu::mask_text(cpus))
    }

    /// Sets the ring size in KiB for each CPU and returns what the kernel made of it.
    pub fn set_buffer_kb(&self, kb_per_cpu: u32) -> Result<u32, Refused> {
        self.write("buffer_size_kb", &kb_per_cpu.to_string()).map_err(|refused| {
            if refused.errno() == libc::ENOMEM {
                refused.advise("the kernel has no memory for rings of this size: ask for smaller ones")
            } else {
                refused
            }
        })?;
        let text = self.directory().read_text("buffer_size_kb")?;
        Ok(text.split_ascii_whitespace().next().and_then(|kb| kb.parse().ok()).unwrap_or(kb_per_cpu))
    }

    /// Adds threads to a pid filter: `set_event_pid` or `set_event_notrace_pid`.
    pub fn add_threads(&self, filter: PidFilter, tids: &[u32]) -> Result<(), Refused> {
        // The kernel parses at most a page per write.
        for part in tids.chunks(400) {
            let text = part.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
            self.write(filter.file(), &text)?;
        }
        Ok(())
    }

    /// Sets an event's filter. What the kernel has to say against it is the error's text.
    pub fn set_filter(&self, event: &EventName, filter: &str) -> Result<(), FilterRefused> {
        let file = format!("{}/filter", event.directory());
        match self.write(&file, filter) {
            Ok(()) => Ok(()),
            Err(refused) if refused.errno() == libc::EINVAL => {
                let said = self.directory().read_text(&file).unwrap_or_default();
                // The kernel keeps the refused text with its complaint: leave none behind.
                let _ = self.write(&file, "0");
                Err(FilterRefused::BadFilter { kernel_says: said.trim_end().to_owned() })
            }
            Err(refused) => Err(FilterRefused::Other(refused)),
        }
    }

    /// Enables or disables one event.
    pub fn enable(&self, event: &EventName, on: bool) -> Result<(), Refused> {
        self.write(&format!("{}/enable", event.directory()), if on { "1" } else { "0" })
    }

    /// Stops and removes the instance; all files of its rings must be closed by then.
    pub fn remove(mut self) -> Result<(), Refused> {
        self.remove_now()
    }

    fn remove_now(&mut self) -> Result<(), Refused> {
        if let Some(directory) = self.directory.take() {
            let _ = directory.write("tracing_on", "0");
            let _ = directory.write("events/enable", "0");
        }
        remove_instance(&self.instances, &self.name)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if self.directory.is_some() || self.instances.has(&self.name) {
            let _ = self.remove_now();
        }
    }
}

/// Which of the two pid filters of an instance is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PidFilter {
    /// Only events of these threads are kept.
    Only,
    /// Events of these threads are refused.
    Not,
}

impl PidFilter {
    fn file(self) -> &'static str {
        match self {
            PidFilter::Only => "set_event_pid",
            PidFilter::Not => "set_event_notrace_pid",
        }
    }
}

/// Why a filter was not taken.
#[derive(Debug)]
pub enum FilterRefused {
    /// The filter is wrong; the kernel's own words, which repeat it with a mark below the fault.
    BadFilter {
        /// Text of the `filter` file after the refusal.
        kernel_says: String,
    },
    /// It could not be written for another reason.
    Other(Refused),
}

/// Removes the instances of runs that are dead and returns their names. Those of live
/// processes, of other pid namespaces and of other tools are left alone.
pub fn sweep(tracefs: &Tracefs) -> Result<Vec<String>, Refused> {
    let instances = tracefs.root().open_directory("instances")?;
    let namespace = pid_namespace();
    let mut removed = Vec::new();
    for name in instances.list(".")? {
        let Some((owner, owner_namespace)) = owner_of(&name) else { continue };
        if owner_namespace != namespace || owner.lives() {
            continue;
        }
        if let Ok(left_over) = instances.open_directory(&name) {
            let _ = left_over.write("tracing_on", "0");
            let _ = left_over.write("events/enable", "0");
        }
        // Another run may sweep at the same moment: gone is gone.
        if remove_instance(&instances, &name).is_ok() {
            removed.push(name);
        }
    }
    Ok(removed)
}

/// Who made an instance, with the pid namespace the number belongs to.
pub fn owner_of(instance_name: &str) -> Option<(ProcessIdentity, u64)> {
    let mut parts = instance_name.strip_prefix(PREFIX)?.strip_prefix('-')?.split('-');
    let mut number = || parts.next()?.parse::<u64>().ok();
    let (pid, start_ticks, namespace, _number) = (number()?, number()?, number()?, number()?);
    Some((ProcessIdentity { pid: pid.try_into().ok()?, start_ticks }, namespace))
}

/// Spliced pages and readers that are just closing keep an instance busy for a moment.
fn remove_instance(instances: &Directory, name: &str) -> Result<(), Refused> {
    const TRIES: u32 = 50;
    for _ in 0..TRIES {
        match instances.remove_directory(name) {
            Err(refused) if refused.errno() == libc::EBUSY => thread::sleep(Duration::from_millis(10)),
            Err(refused) if refused.errno() == libc::ENOENT => return Ok(()),
            other => return other,
        }
    }
    instances.remove_directory(name).map_err(|refused| refused.advise("another process has its files open"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_their_owner_and_foreign_names_have_none() {
        let (owner, namespace) = owner_of("lotse-12-3456-4026531836-0").unwrap();
        assert_eq!((owner.pid, owner.start_ticks, namespace), (12, 3456, 4026531836));
        for foreign in ["lotse", "lotse-12", "trace-cmd-1-2-3-4", "lotse-x-1-2-3", "lotse-99999999999-1-2-3"]
        {
            assert!(owner_of(foreign).is_none(), "{foreign}");
        }
    }

    #[test]
    fn a_dead_owners_instance_is_swept_and_a_live_ones_stays() {
        let tracefs = match Tracefs::open() {
            Ok(tracefs) => tracefs,
            Err(refusal) => testkit::skipped!("{refusal}"),
        };
        let live = Instance::create(&tracefs).unwrap();
        let own = ProcessIdentity::own().unwrap();
        // An earlier process of the same number is dead by definition.
        let dead = format!("lotse-{}-{}-{}-0", own.pid, own.start_ticks - 1, pid_namespace());
        tracefs.root().make_directory(&format!("instances/{dead}")).unwrap();
        // Another test's sweep may come first: what counts is that it is gone.
        sweep(&tracefs).unwrap();
        let left = tracefs.root().list("instances").unwrap();
        assert!(!left.contains(&dead), "{left:?}");
        assert!(left.contains(&live.name().to_owned()), "{left:?}");
        let name = live.name().to_owned();
        live.remove().unwrap();
        assert!(!tracefs.root().list("instances").unwrap().contains(&name));
    }
}
