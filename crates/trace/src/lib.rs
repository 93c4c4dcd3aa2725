//! The event model, the waist of the hourglass: clocks, identities, event formats, typed events, losses. Does not know where data came from.
