//! The drives under the volume: the members in their slots, and the superblock records about them.
//!
//! 1. `create` writes the first superblock to every drive; `offered` is a drive with its label.
//! 2. `member` is a slot of the running array; `attachment` is one drive's time in a slot.
//!    `array` has all slots, and `hedge` the read latencies of each.
//! 3. `io` reads and resets, and records the outcome for the member.
//! 4. `superblock` commits records to all members, in two zones that are written in turn, and
//!    evicts a member that fails a commit; `superblock/cursor` is the position in these zones.
//! 5. `eviction` removes a member (`fail_member`): if its drive is gone (`note_read_failure`,
//!    `note_write`), after three failed writes or resets in a row (`note_write`) or a failed
//!    flush (`note_flush`), if it has lost too many zones, or if it spoils every segment.
//! 6. `replace` puts a new drive into a slot; `spares` and `refill` do so without an operator.
//! 7. `zone_pool` holds a member's free zones; `zone_budget` is the number that writing needs.
//!
//! `error` has the errors of administrative requests.
//!
//! Invariant: an eviction is durable on the survivors before a write that the evicted drive misses
//! is acknowledged.

pub(in crate::log) mod array;
pub(in crate::log) mod attachment;
pub mod create;
pub(in crate::log) mod error;
pub(in crate::log) mod eviction;
pub(in crate::log) mod hedge;
pub(in crate::log) mod io;
pub(in crate::log) mod member;
pub(in crate::log) mod offered;
pub(in crate::log) mod refill;
pub(in crate::log) mod replace;
pub(in crate::log) mod spares;
pub(in crate::log) mod superblock;
pub(in crate::log) mod zone_budget;
pub(in crate::log) mod zone_pool;
