//! Progress of a recording.
