//! Tools of the family `syscalls`.
