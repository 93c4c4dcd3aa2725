//! Results in; terminal text, JSON, Markdown and one self-contained HTML file out.
//! Computes nothing: every number comes from the analysis, and what is done to it here
//! is choosing a unit, a place on an axis, a row to leave out (and say so).
//!
//! An analysis is turned into a [`Document`] once; every format is made from that.
//! Modules from the lowest layer to the highest; each uses only those above it.

pub mod number;
pub mod terminal_text;
pub mod table;
pub mod chart;
pub mod flame;
pub mod document;
pub mod sentences;
pub mod text;
pub mod json;
pub mod markdown;
pub mod html;
pub mod flame_graph;
pub mod prometheus;
pub mod sched;

pub use document::Document;
pub use table::{Column, Table, Unit, Value};
pub use text::TextOptions;
