//! The event model, the waist of the hourglass: everything lotse learns about a
//! machine passes through here as one stream of [`Item`]s in time order.
//!
//! In: nothing (this crate declares). Out: types for times, identities, event
//! formats, typed events, losses, and the two traits that readers implement
//! ([`Source`]) and analyses implement ([`Sink`]). It never knows where data came
//! from, opens nothing and prints nothing.
//!
//! Modules from the lowest layer to the highest; each uses only those above it.

pub mod clock;
pub mod endian;
pub mod ident;
pub mod loss;
pub mod strings;
pub mod format;
pub mod task_state;
pub mod field;
pub mod event;
pub mod info;
pub mod stream;
pub mod decode;

pub use clock::{ClockKind, Nanos};
pub use endian::Endian;
pub use event::{Event, EventKind};
pub use format::EventFormat;
pub use ident::{Comm, Cpu, Tid};
pub use info::TraceInfo;
pub use loss::Loss;
pub use stream::{At, Item, Sink, Source, SourceError};
pub use task_state::TaskState;
