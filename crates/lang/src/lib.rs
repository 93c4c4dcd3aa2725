//! Program text and kernel facts in; an image, a schema of what it will emit, and diagnostics out. Never touches a live kernel, never stops at the first error.

pub mod source;
pub mod operator;
pub mod glob;
pub mod diagnostic;
pub mod aggregate;
pub mod environment;
pub mod presence;
pub mod format;
pub mod types;
pub mod config;
pub mod schema;
pub mod layout;
pub mod syntax;
pub mod hir;
pub mod lir;
pub mod emit;
pub mod options;
pub mod sema;
pub mod front;
pub mod generate;
pub mod lower;
