//! Tools of the family `network`.
