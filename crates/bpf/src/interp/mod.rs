//! An interpreter of the instruction set for tests.
