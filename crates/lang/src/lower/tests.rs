//! Programs to LIR to code, run in the interpreter.
