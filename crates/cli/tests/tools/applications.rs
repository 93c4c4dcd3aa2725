//! Tools of the family `applications`.
