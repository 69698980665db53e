//! The drives under the volume, as far as the volume takes part: `crate::array` has the rest.
//!
//! 1. `create` writes the first superblock to every drive.
//! 2. `io` reads and resets, and records the outcome for the member.
//! 3. `superblock` commits records to all members, in two zones that are written in turn, and
//!    evicts a member that fails a commit.
//! 4. `eviction` removes a member (`fail_member`): if its drive is gone (`note_read_failure`,
//!    `note_write`), after three failed writes or resets in a row (`note_write`) or a failed
//!    flush (`note_flush`), if it has lost too many zones, or if it spoils every segment.
//! 5. `replace` puts a new drive into a slot; `spares` and `refill` do so without an operator.
//! 6. `zone_budget` is the number of zones that writing needs.
//!
//! `error` has the errors of a replacement.
//!
//! Invariant: an eviction is durable on the survivors before a write that the evicted drive misses
//! is acknowledged.

pub mod create;
pub(in crate::log) mod error;
pub(in crate::log) mod eviction;
pub(in crate::log) mod io;
pub(in crate::log) mod refill;
pub(in crate::log) mod replace;
pub(in crate::log) mod spares;
pub(in crate::log) mod superblock;
pub(in crate::log) mod zone_budget;
