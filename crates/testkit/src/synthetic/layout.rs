//! How a traced machine lays out numbers and records.

use super::{Happened, What, comm, priority};

/// Byte order and size of `long` of the traced machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// Most significant byte first.
    pub big_endian: bool,
    /// Bytes of a `long`: 4 or 8.
    pub long_size: u8,
}

impl Machine {
    /// x86-64, arm64 and the like.
    pub const USUAL: Machine = Machine { big_endian: false, long_size: 8 };

    /// All four.
    pub const ALL: [Machine; 4] = [
        Machine::USUAL,
        Machine { big_endian: false, long_size: 4 },
        Machine { big_endian: true, long_size: 8 },
        Machine { big_endian: true, long_size: 4 },
    ];

    pub(super) fn number(&self, out: &mut Vec<u8>, value: u64, size: usize) {
        if self.big_endian {
            out.extend_from_slice(&value.to_be_bytes()[8 - size..]);
        } else {
            out.extend_from_slice(&value.to_le_bytes()[..size]);
        }
    }

    pub(super) fn u16(&self, out: &mut Vec<u8>, value: u16) {
        self.number(out, u64::from(value), 2);
    }

    pub(super) fn u32(&self, out: &mut Vec<u8>, value: u32) {
        self.number(out, u64::from(value), 4);
    }

    pub(super) fn u64(&self, out: &mut Vec<u8>, value: u64) {
        self.number(out, value, 8);
    }

    /// A `long`.
    pub(super) fn long(&self, out: &mut Vec<u8>, value: u64) {
        self.number(out, value, usize::from(self.long_size));
    }

    /// The record of an event, common fields first, as [`Machine::formats`] describes it.
    pub(super) fn record(&self, event: &Happened, out: &mut Vec<u8>) {
        out.clear();
        let id = match event.what {
            What::Switch { .. } => SWITCH_ID,
            What::Waking { .. } => WAKING_ID,
            What::Wakeup { .. } => WAKEUP_ID,
        };
        self.u16(out, id);
        out.extend_from_slice(&[0, 0]);
        self.u32(out, event.current as u32);
        match event.what {
            What::Switch { prev, state, next } => {
                out.extend_from_slice(&comm(prev));
                self.u32(out, prev as u32);
                self.u32(out, priority(prev) as u32);
                self.long(out, state);
                out.extend_from_slice(&comm(next));
                self.u32(out, next as u32);
                self.u32(out, priority(next) as u32);
            }
            What::Waking { tid, target } | What::Wakeup { tid, target } => {
                out.extend_from_slice(&comm(tid));
                self.u32(out, tid as u32);
                self.u32(out, priority(tid) as u32);
                self.u32(out, target);
            }
        }
    }

    /// The format files of the three events.
    pub(super) fn formats(&self) -> [String; 3] {
        let long = u32::from(self.long_size);
        let next = 32 + long;
        let switch = format!(
            "name: sched_switch\nID: {SWITCH_ID}\nformat:\n{COMMON}\
             \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
             \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
             \tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n\
             \tfield:long prev_state;\toffset:32;\tsize:{long};\tsigned:1;\n\
             \tfield:char next_comm[16];\toffset:{next};\tsize:16;\tsigned:0;\n\
             \tfield:pid_t next_pid;\toffset:{};\tsize:4;\tsigned:1;\n\
             \tfield:int next_prio;\toffset:{};\tsize:4;\tsigned:1;\n\n\
             print fmt: \"prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s%s ==> next_comm=%s next_pid=%d next_prio=%d\", REC->prev_comm, REC->prev_pid, REC->prev_prio, (REC->prev_state & 0xff) ? __print_flags(REC->prev_state & 0xff, \"|\", {{ 0x0001, \"S\" }}, {{ 0x0002, \"D\" }}, {{ 0x0004, \"T\" }}, {{ 0x0008, \"t\" }}, {{ 0x0010, \"X\" }}, {{ 0x0020, \"Z\" }}, {{ 0x0040, \"P\" }}, {{ 0x0080, \"I\" }}) : \"R\", REC->prev_state & 0x100 ? \"+\" : \"\", REC->next_comm, REC->next_pid, REC->next_prio\n",
            next + 16,
            next + 20,
        );
        let wake = |name: &str, id: u16| {
            format!(
                "name: {name}\nID: {id}\nformat:\n{COMMON}\
                 \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
                 \tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n\
                 \tfield:int prio;\toffset:28;\tsize:4;\tsigned:1;\n\
                 \tfield:int target_cpu;\toffset:32;\tsize:4;\tsigned:1;\n\n\
                 print fmt: \"comm=%s pid=%d prio=%d target_cpu=%03d\", REC->comm, REC->pid, REC->prio, REC->target_cpu\n"
            )
        };
        [switch, wake("sched_waking", WAKING_ID), wake("sched_wakeup", WAKEUP_ID)]
    }

    /// The first parts of a `trace.dat` v6 and of perf's tracing data, behind their
    /// magic number: page header, event header, formats.
    pub(super) fn header_info(&self) -> Vec<u8> {
        let mut out = b"header_page\0".to_vec();
        let long = u32::from(self.long_size);
        let text = format!(
            "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
             \tfield: local_t commit;\toffset:8;\tsize:{long};\tsigned:1;\n\
             \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
             \tfield: char data;\toffset:{};\tsize:{};\tsigned:0;\n",
            8 + long,
            4096 - 8 - long
        );
        self.sized(&mut out, text.as_bytes());
        out.extend_from_slice(b"header_event\0");
        self.sized(&mut out, b"# compressed entry header\n\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n\tarray       :   32 bits\n");
        out
    }

    pub(super) fn event_formats(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.u32(&mut out, 1);
        out.extend_from_slice(b"sched\0");
        self.u32(&mut out, 3);
        for format in self.formats() {
            self.sized(&mut out, format.as_bytes());
        }
        out
    }

    fn sized(&self, out: &mut Vec<u8>, bytes: &[u8]) {
        self.u64(out, bytes.len() as u64);
        out.extend_from_slice(bytes);
    }
}

pub(super) const SWITCH_ID: u16 = 314;
pub(super) const WAKEUP_ID: u16 = 316;
pub(super) const WAKING_ID: u16 = 317;

const COMMON: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";
