//! Every system call and all unsafe code: facts, load, attach, rings, tracefs, perf events, /proc and /sys. Knows neither the language nor the event model.

pub mod usage;
