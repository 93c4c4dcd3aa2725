//! Bytes of a trace file in, a `trace` stream out. Never panics on bad bytes; knows no analysis.
