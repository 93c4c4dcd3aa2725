//! Tools of the family `interrupts`.
