//! Documents as terminal text: aligned, aware of the terminal's width, coloured only
//! where a person looks at it.

mod charts;
mod document;
mod paint;
mod table;

pub use charts::{histogram, timeline};
pub use document::document;
pub use paint::TextOptions;
pub use table::table;
