//! An array of zoned drives, whatever volume is on it.
//!
//! 1. `format` has the bytes of superblock records; a volume adds its part and its payloads.
//! 2. `offered` is a drive with its label; `create` writes the first superblock to each; `start`
//!    finds the members among the offered drives.
//! 3. `state` is the array in the running engine: `member` is a slot, `attachment` one drive's time
//!    in it, `zone_pool` its free zones.
//! 4. `volume` is the trait by which a volume lends the array its state.
//! 5. `superblock` commits records to all members, each with a journal (`superblock_logs`), and
//!    evicts a member that fails a commit. `probe` does so before a membership is recorded.
//! 6. `io` reads and resets; `health` counts failures and evicts; `eviction` decides whether the
//!    array can do without a member; `stop` says why writes stopped.
//! 7. `repair` prepares new drives and drives rebuilds.
//! 8. `latency` measures reads and finds slow drives.
//!
//! `error` has the errors of a start and of administrative requests.
//!
//! Invariants: nothing here knows the volume; volumes import the array. An eviction is durable on
//! the survivors before a write that the evicted drive misses is acknowledged.

pub(crate) mod attachment;
pub(crate) mod create;
pub mod error;
pub(crate) mod eviction;
pub mod format;
pub(crate) mod health;
pub(crate) mod io;
pub(crate) mod latency;
pub(crate) mod member;
pub(crate) mod offered;
pub(crate) mod probe;
pub mod repair;
pub mod start;
pub(crate) mod state;
pub(crate) mod stop;
mod superblock;
pub(crate) mod superblock_logs;
pub(crate) mod volume;
pub(crate) mod zone_pool;
