//! Why a thread blocks, from the system call it is in and the state it leaves in.

use trace::TaskState;

use super::result::BlockReason;

/// What system call numbers mean on one architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syscalls {
    X86_64,
    /// arm64, riscv64, loongarch64 and others with the generic table.
    Generic,
    Unknown,
}

impl Syscalls {
    /// From `uname -m`; recorders without it are taken to be of the machine most common.
    pub fn of_machine(machine: Option<&str>) -> Syscalls {
        match machine {
            Some("x86_64" | "amd64") => Syscalls::X86_64,
            Some("aarch64" | "arm64" | "riscv64" | "loongarch64") => Syscalls::Generic,
            _ => Syscalls::Unknown,
        }
    }

    /// Why a thread blocks that leaves the CPU in `state` within the call `number`.
    pub fn reason(self, number: i64, state: TaskState) -> BlockReason {
        let kind = match self {
            Syscalls::X86_64 => x86_64(number),
            Syscalls::Generic => generic(number),
            Syscalls::Unknown => return BlockReason::OtherSyscall,
        };
        match kind {
            // The one call that both disks and pipes are read with: the state tells them apart,
            // since only waits for storage are uninterruptible.
            BlockReason::PipeOrSocket if state == TaskState::Uninterruptible => BlockReason::BlockIo,
            kind => kind,
        }
    }
}

/// arch/x86/entry/syscalls/syscall_64.tbl
fn x86_64(number: i64) -> BlockReason {
    match number {
        202 | 449 | 454..=456 => BlockReason::Futex,
        35 | 230 => BlockReason::Sleep,
        7 | 23 | 232 | 270 | 271 | 281 | 441 => BlockReason::Poll,
        41..=55 | 288 | 299 | 307 => BlockReason::Network,
        61 | 247 => BlockReason::Child,
        26 | 74 | 75 | 162 | 277 | 306 => BlockReason::Sync,
        0 | 1 | 17..=20 | 40 | 275 | 276 | 278 | 295 | 296 | 326..=328 => BlockReason::PipeOrSocket,
        _ => BlockReason::OtherSyscall,
    }
}

/// include/uapi/asm-generic/unistd.h
fn generic(number: i64) -> BlockReason {
    match number {
        98 | 449 | 454..=456 => BlockReason::Futex,
        101 | 115 => BlockReason::Sleep,
        22 | 72 | 73 | 441 => BlockReason::Poll,
        198..=212 | 242 | 243 | 269 => BlockReason::Network,
        95 | 260 => BlockReason::Child,
        81..=84 | 227 | 267 => BlockReason::Sync,
        63..=71 | 75..=77 | 285..=287 => BlockReason::PipeOrSocket,
        _ => BlockReason::OtherSyscall,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_call_is_storage_or_a_pipe_by_its_state() {
        let table = Syscalls::of_machine(Some("x86_64"));
        assert_eq!(table.reason(0, TaskState::Sleeping), BlockReason::PipeOrSocket);
        assert_eq!(table.reason(0, TaskState::Uninterruptible), BlockReason::BlockIo);
        assert_eq!(table.reason(202, TaskState::Sleeping), BlockReason::Futex);
        assert_eq!(Syscalls::of_machine(Some("aarch64")).reason(98, TaskState::Sleeping), BlockReason::Futex);
        assert_eq!(Syscalls::of_machine(None).reason(202, TaskState::Sleeping), BlockReason::OtherSyscall);
    }
}
