//! The typed program as text (`--emit hir`): one line for each statement, types where they matter.
