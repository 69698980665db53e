//! The read path, in the order in which a read meets the files:
//!
//! 1. `blocks` looks the blocks up, pins their segments, reads and verifies.
//! 2. `batch` merges adjacent blocks into as few drive commands as possible.
//! 3. `hedge` decides which drives not to wait for.
//! 4. `reconstruct` computes blocks from the other chunks of their stripes.
//! 5. `retry` repeats reads whose failure would lose data.
//!
//! Invariant: a returned block passed its checksum, which covers the array, the address and the
//! version.

pub(in crate::log) mod batch;
pub(in crate::log) mod blocks;
pub(in crate::log) mod found;
pub(in crate::log) mod guards;
pub(in crate::log) mod hedge;
pub(in crate::log) mod range;
pub(in crate::log) mod reconstruct;
pub(in crate::log) mod retry;
pub(in crate::log) mod route;
