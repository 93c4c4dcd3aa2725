//! The `lotse` command: arguments in, exit status out.
fn main() {}
