//! Tools of the family `locks`.
