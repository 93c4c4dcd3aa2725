//! Documents as terminal text: aligned, aware of the terminal's width, coloured only
//! where a person looks at it.

mod paint;
mod table;
mod charts;
mod flame;
mod document;

pub use charts::{histogram, timeline, top_of};
pub use document::document;
pub use flame::flame;
pub use paint::TextOptions;
pub use table::table;
