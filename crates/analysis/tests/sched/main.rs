//! The scheduler analysis against small traces written by hand, and against a slow and
//! simple reference on traces made at random.

mod describe;
mod random;
mod reference;
mod small;
mod large;
mod checks;
