//! Helper functions.
