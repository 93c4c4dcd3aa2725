//! Work on the project itself: structure checks, benchmarks, the kernel matrix. Ships nothing.
fn main() {}
