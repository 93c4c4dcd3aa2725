//! Tools of the family `memory`.
