//! Writes to the zones of an open segment, in the order in which a chunk meets the files:
//!
//! 1. `chunk` appends a chunk at once, or queues it for its `open_zone`.
//! 2. `queue` holds the chunks of one zone that are written in place; one write may take several.
//! 3. `coalescing` limits the size of a write and, through `in_flight_limit`, the number in flight.
//! 4. `pacing` keeps writes below the rate of the drive's flash.
//!
//! Invariant: a zone has one write in place in flight. A failed write breaks off its queue, and no
//! append is retried.

pub(in crate::log) mod chunk;
pub(in crate::log) mod coalescing;
pub(in crate::log) mod in_flight_limit;
pub(in crate::log) mod open_zone;
pub(in crate::log) mod pacing;
pub(in crate::log) mod queue;
pub(in crate::log) mod queues;
