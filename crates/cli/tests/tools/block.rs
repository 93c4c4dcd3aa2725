//! Tools of the family `block`.
