//! The shelf: programs that come with lotse, each one file `tools/NAME.bt` whose first lines say what question it
//! answers, how to read the answer and what it costs.

pub mod header;
pub mod options;

mod shelf;
pub mod page;

pub mod document;

pub use header::{Family, Header, HeaderError};
pub use options::ToolOption;
pub use shelf::{SHELF, Tool, find, near, read};
