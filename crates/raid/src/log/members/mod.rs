//! The drives under the volume: the members in their slots, and the superblock records about them.
//!
//! 1. `create` writes the first superblock to every drive; `offered` is a drive with its label.
//! 2. `member` is a slot of the running array; `attachment` is one drive's time in a slot.
//! 3. `io` reads, resets and flushes, and records the outcome for the member.
//! 4. `superblock` commits records to all members, in two zones that are written in turn;
//!    `superblock_cursor` is the position in them.
//! 5. `eviction` removes members that keep the volume from making progress.
//! 6. `replace` puts a new drive into a slot; `spares` and `refill` do so without an operator.
//! 7. `zone_pool` holds a member's free zones.
//!
//! `error` has the errors of administrative requests.
//!
//! Invariant: an eviction is durable on the survivors before a write that the evicted drive misses
//! is acknowledged.

pub(in crate::log) mod attachment;
pub mod create;
pub(in crate::log) mod error;
pub(in crate::log) mod eviction;
pub(in crate::log) mod io;
pub(in crate::log) mod member;
pub(in crate::log) mod offered;
pub(in crate::log) mod refill;
pub(in crate::log) mod replace;
pub(in crate::log) mod spares;
pub(in crate::log) mod superblock;
pub(in crate::log) mod superblock_cursor;
pub(in crate::log) mod zone_pool;
