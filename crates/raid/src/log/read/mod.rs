//! The read path, in the order in which a read meets the files:
//!
//! 1. `range` pins the index pages of a request, looks its blocks up, and pins their segments.
//! 2. `blocks` reads and verifies.
//! 3. `batch` merges adjacent blocks into as few drive commands as possible.
//! 4. `route` decides which drives to read around, by the latencies in `hedge`. `guards` measure
//!    the reads and resets in flight.
//! 5. `reconstruct` computes blocks from the other chunks of their stripes.
//! 6. `retry` repeats reads whose failure would lose data. `awaited` remembers blocks that only an
//!    absent member can give, in `awaited_blocks`.
//!
//! Invariant: a returned block passed its checksum, which covers the array, the address and the
//! version.

mod awaited;
pub(in crate::log) mod awaited_blocks;
pub(in crate::log) mod batch;
pub(in crate::log) mod blocks;
pub(in crate::log) mod range;
pub(in crate::log) mod reconstruct;
pub(in crate::log) mod retry;
pub(in crate::log) mod route;
