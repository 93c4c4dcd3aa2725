//! Tools of the family `files`.
