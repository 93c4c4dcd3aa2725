//! Text of instructions, readable like bpftool's, and back.
