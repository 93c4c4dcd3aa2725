//! A trace in, plain results with provenance and losses out. Never prints; knows no file format and no eBPF.
