//! The write path: from pending blocks to durable stripes.
//!
//! 1. `policy` defines the lanes of a start: chunk size, append or in-place, number of open
//!    segments.
//! 2. `stream` holds the pending blocks of one kind of data (users, relocation) and its lanes.
//! 3. `schedule` decides which lane issues a stripe next, and when a partial stripe is closed. Its
//!    answer is a step of `plan`.
//! 4. `writer` carries out the step: one task per stream. `narrow` serves lone writes.
//! 5. `stripe` builds data chunks, parity and block metadata.
//! 6. `zone` writes chunks: appended at once, or in place through a queue for each zone.
//! 7. `in_flight` gives each chunk a share of its stripe; `completion` ends the stripe when the
//!    last share returns.
//! 8. `commit` (`finish_stripe`) points the index at the new blocks and answers the tickets, or
//!    returns the blocks to the queue if a chunk failed.
//!
//! `state` holds what these files decide from.
//!
//! Invariants: a stripe takes effect only when every column of its segment has its chunk. No write
//! enters a group before the group in front of it is durable. No timer closes a stripe.

pub(in crate::log) mod commit;
pub(in crate::log) mod completion;
pub(in crate::log) mod in_flight;
pub(in crate::log) mod narrow;
pub(in crate::log) mod plan;
pub(in crate::log) mod policy;
pub(in crate::log) mod schedule;
pub(in crate::log) mod state;
pub(in crate::log) mod stream;
pub(in crate::log) mod stripe;
pub(in crate::log) mod writer;
pub(in crate::log) mod zone;
