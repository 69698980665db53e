//! An array of zoned drives, whatever volume is on it.
//!
//! 1. `format` has the bytes of superblock records; a volume adds its part and its payloads.
//! 2. `offered` is a drive with its label; `start` finds the members among the offered drives.
//! 3. `state` is the array in the running engine: `member` is a slot, `attachment` one drive's time
//!    in it, `zone_pool` its free zones, `superblock_logs` the journal on each drive.
//! 4. `eviction` decides whether the array can do without a member; `stop` says why writes stopped.
//! 5. `hedge` estimates read latencies, and `latency` finds slow drives.
//!
//! `error` has the errors of a start and of administrative requests.
//!
//! Invariant: nothing here knows the volume. Volumes import the array.

pub(crate) mod attachment;
pub mod error;
mod eviction;
pub mod format;
pub(crate) mod hedge;
mod latency;
pub(crate) mod member;
pub(crate) mod offered;
pub mod start;
pub(crate) mod state;
pub(crate) mod stop;
pub(crate) mod superblock_logs;
pub(crate) mod zone_pool;
