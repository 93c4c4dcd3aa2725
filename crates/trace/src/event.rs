//! The kinds of events that lotse understands, each declared once.
//!
//! A declaration gives the kernel's name, a sentence, and the fields that analyses
//! use with the names they have had (`a | b`: the first that the format has; LTTng gives some
//! events a `tid`, which is the thread, besides a `pid`, which is there the process). From it
//! come the struct, the [`Event`] variant and the binding of formats to it. To add a
//! kind, add its declaration here; nothing else.

use crate::{
    field::{Endian, FieldValue},
    format::EventFormat,
    ident::{Comm, Cpu, Tid},
    strings::{StringId, Strings},
    task_state::TaskState,
};

macro_rules! events {
    ($(
        $(#[doc = $doc:literal])*
        $kind:ident = $($system:literal : $name:literal)|+ {
            $($(#[doc = $field_doc:literal])* $field:ident : $type:ty = $($alias:literal)|+ $(, else $default:expr)? ;)*
        }
    )*) => {
        $(
            $(#[doc = $doc])*
            #[derive(Clone, Copy, Debug, PartialEq)]
            pub struct $kind {
                $($(#[doc = $field_doc])* pub $field: $type,)*
            }
        )*

        /// One understood event.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum Event {
            $($(#[doc = $doc])* $kind($kind),)*
        }

        /// The kind of an understood event.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum EventKind {
            $($(#[doc = $doc])* $kind,)*
        }

        impl EventKind {
            /// All kinds, in order of declaration.
            pub const ALL: &'static [EventKind] = &[$(EventKind::$kind,)*];

            /// The kernel names (`system`, `name`) that records of this kind come under.
            pub fn names(self) -> &'static [(&'static str, &'static str)] {
                match self {
                    $(EventKind::$kind => &[$(($system, $name)),+],)*
                }
            }
        }

        /// How to read records of one format as an [`Event`], by its kind.
        #[derive(Clone, Debug)]
        pub enum Binding {
            $($(#[doc = $doc])* $kind(Box<plan::$kind>),)*
        }

        /// Formats bound to kinds of events: where each field is, to read some fields and
        /// leave the others.
        pub mod plan {
            use super::*;
            $(
                $(#[doc = $doc])*
                #[derive(Clone, Debug)]
                pub struct $kind {
                    $($(#[doc = $field_doc])* pub $field: Option<<$type as FieldValue>::Plan>,)*
                }

                impl $kind {
                    $(
                        $(#[doc = $field_doc])*
                        #[inline(always)]
                        pub fn $field(&self, record: &[u8], strings: &mut Strings) -> Option<$type> {
                            match &self.$field {
                                Some(field) => <$type as FieldValue>::read(field, record, strings),
                                None => events!(@default $($default)?),
                            }
                        }
                    )*
                }
            )*
        }

        impl Binding {
            /// Binds a format by its name; `Ok(None)` if lotse has no such kind, `Err`
            /// with the field's name if a needed field is not there.
            pub fn new(format: &EventFormat, endian: Endian) -> Result<Option<Binding>, &'static str> {
                let known = |system: &str, name: &str| {
                    format.name == name && (format.system == system || format.system.is_empty())
                };
                $(
                    if $(known($system, $name))||+ {
                        return Ok(Some(Binding::$kind(Box::new(plan::$kind {
                            $($field: {
                                let found = None
                                    $(.or_else(|| format.field($alias)))+
                                    .and_then(|field| <$type as FieldValue>::plan(format, field, endian));
                                let defaults: &[&str] = &[$(stringify!($default))?];
                                let optional = !defaults.is_empty();
                                if found.is_none() && !optional {
                                    return Err(stringify!($field));
                                }
                                found
                            },)*
                        }))));
                    }
                )*
                Ok(None)
            }

            /// The kind this binding reads.
            pub fn kind(&self) -> EventKind {
                match self { $(Binding::$kind(_) => EventKind::$kind,)* }
            }

            /// Reads a record; `None` when it is too short for its format.
            #[inline]
            pub fn read(&self, record: &[u8], strings: &mut Strings) -> Option<Event> {
                match self {
                    $(Binding::$kind(plan) => Some(Event::$kind($kind {
                        $($field: plan.$field(record, strings)?,)*
                    })),)*
                }
            }
        }
    };
    (@default $default:expr) => { Some($default) };
    (@default) => { None };
}

events! {
    /// A CPU goes from one thread to the next.
    SchedSwitch = "sched":"sched_switch" {
        /// Name of the thread that leaves.
        prev_comm: Comm = "prev_comm";
        /// The thread that leaves.
        prev_tid: Tid = "prev_tid" | "prev_pid";
        /// Its priority (0–99 real-time, 100–139 normal, -1 deadline).
        prev_prio: i32 = "prev_prio";
        /// Why it leaves.
        prev_state: TaskState = "prev_state";
        /// Name of the thread that comes.
        next_comm: Comm = "next_comm";
        /// The thread that comes.
        next_tid: Tid = "next_tid" | "next_pid";
        /// Its priority.
        next_prio: i32 = "next_prio";
    }
    /// A thread is about to be woken; runs on the waker's CPU in the waker's context.
    SchedWaking = "sched":"sched_waking" {
        /// Name of the thread that is woken.
        comm: Comm = "comm";
        /// The thread that is woken.
        tid: Tid = "tid" | "pid";
        /// Its priority.
        prio: i32 = "prio";
        /// The CPU it was last on, or is meant for.
        target_cpu: Cpu = "target_cpu";
    }
    /// A thread has become runnable (on some kernels in the context of the target CPU).
    SchedWakeup = "sched":"sched_wakeup" {
        /// Name of the thread that is woken.
        comm: Comm = "comm";
        /// The thread that is woken.
        tid: Tid = "tid" | "pid";
        /// Its priority.
        prio: i32 = "prio";
        /// The CPU whose run queue it is on.
        target_cpu: Cpu = "target_cpu";
    }
    /// A new thread has become runnable for the first time.
    SchedWakeupNew = "sched":"sched_wakeup_new" {
        /// Name of the new thread.
        comm: Comm = "comm";
        /// The new thread.
        tid: Tid = "tid" | "pid";
        /// Its priority.
        prio: i32 = "prio";
        /// The CPU whose run queue it is on.
        target_cpu: Cpu = "target_cpu";
    }
    /// A thread is moved to another CPU's run queue.
    SchedMigrateTask = "sched":"sched_migrate_task" {
        /// Name of the thread that moves.
        comm: Comm = "comm";
        /// The thread that moves.
        tid: Tid = "tid" | "pid";
        /// Its priority.
        prio: i32 = "prio";
        /// From this CPU
        orig_cpu: Cpu = "orig_cpu";
        /// to this one.
        dest_cpu: Cpu = "dest_cpu";
    }
    /// The kernel's own account of time run since its last account.
    SchedStatRuntime = "sched":"sched_stat_runtime" {
        /// Name of the thread.
        comm: Comm = "comm";
        /// The thread.
        tid: Tid = "tid" | "pid";
        /// Nanoseconds run.
        runtime: u64 = "runtime";
    }
    /// A thread or process is made.
    SchedProcessFork = "sched":"sched_process_fork" {
        /// Name of the maker.
        parent_comm: Comm = "parent_comm";
        /// The maker.
        parent_tid: Tid = "parent_tid" | "parent_pid";
        /// Name of the made.
        child_comm: Comm = "child_comm";
        /// The made.
        child_tid: Tid = "child_tid" | "child_pid";
    }
    /// A process runs another program.
    SchedProcessExec = "sched":"sched_process_exec" {
        /// Path of the program.
        filename: StringId = "filename";
        /// The thread, from now on alone in its process.
        tid: Tid = "tid" | "pid";
        /// Its number before (differs when a thread other than the leader called exec).
        old_tid: Tid = "old_tid" | "old_pid", else Tid(-1);
    }
    /// A thread ends (it still runs for a little, then switches off for good).
    SchedProcessExit = "sched":"sched_process_exit" {
        /// Its name.
        comm: Comm = "comm";
        /// The thread.
        tid: Tid = "tid" | "pid";
        /// Its priority.
        prio: i32 = "prio";
    }
    /// A thread's remains are freed; its number may be used again.
    SchedProcessFree = "sched":"sched_process_free" {
        /// Its name.
        comm: Comm = "comm";
        /// The thread.
        tid: Tid = "tid" | "pid";
    }
    /// A thread gets another name.
    TaskRename = "task":"task_rename" {
        /// The thread.
        tid: Tid = "tid" | "pid";
        /// Its name before.
        old_comm: Comm = "oldcomm";
        /// Its name from now on.
        new_comm: Comm = "newcomm";
    }
    /// A hardware interrupt's handler begins.
    IrqHandlerEntry = "irq":"irq_handler_entry" {
        /// Interrupt number.
        irq: i32 = "irq";
        /// The handler's name.
        name: StringId = "name";
    }
    /// A hardware interrupt's handler ends.
    IrqHandlerExit = "irq":"irq_handler_exit" {
        /// Interrupt number.
        irq: i32 = "irq";
        /// 1: handled, 0: not for this handler.
        ret: i32 = "ret";
    }
    /// A soft interrupt begins.
    SoftirqEntry = "irq":"softirq_entry" {
        /// Vector number.
        vector: u32 = "vec";
    }
    /// A soft interrupt ends.
    SoftirqExit = "irq":"softirq_exit" {
        /// Vector number.
        vector: u32 = "vec";
    }
    /// A soft interrupt is asked for.
    SoftirqRaise = "irq":"softirq_raise" {
        /// Vector number.
        vector: u32 = "vec";
    }
    /// A system call begins.
    SysEnter = "raw_syscalls":"sys_enter" {
        /// Its number on the traced architecture.
        number: i64 = "id";
    }
    /// A system call ends.
    SysExit = "raw_syscalls":"sys_exit" {
        /// Its number on the traced architecture.
        number: i64 = "id";
        /// What it returned; -4095…-1 are errors, -512…-516 restarts.
        ret: i64 = "ret";
    }
    /// A page fault from user space.
    PageFaultUser = "exceptions":"page_fault_user" {
        /// The address.
        address: u64 = "address";
        /// The architecture's error code.
        error_code: u64 = "error_code";
    }
}
