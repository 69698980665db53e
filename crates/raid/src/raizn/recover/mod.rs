//! Starting a zoned volume: its members, and what a crash left of its zones.
//!
//! 1. [`decisions`] collects the states of zones from superblock records.
//! 2. The start takes a mount number that no other start has, durably.
//! 3. `zones` reads all members: `log_scan` the parity logs of the published mount.
//! 4. `tail` reads a zone behind the last stripe that all members hold; `judge` finds how far it is
//!    readable, and `repair` puts missing blocks (the *stripe holes* of RAIZN) in their
//!    places, or in memory where junk is there.
//!    `excess` finishes zones that would take more than there is. Where drives do not answer and
//!    too few others are there, the start is refused ([`unread`]).
//! 5. `publish` writes what counts to a fresh zone of each parity log, flushes, and records the
//!    states of all zones with the mount in one snapshot. Only then are users served.
//!
//! After a clean stop, a start without a member that finds nothing to write serves reads at once.
//! Steps 2 and 5 come before its first change ([`unpublished`]).
//!
//! Each step is harmless to repeat after a crash inside it. Until the last snapshot is durable, the
//! next start reads the same records. Blocks that a start has put in place are those that the next
//! one expects there.

pub(crate) mod decisions;
pub(crate) mod error;
pub(crate) mod excess;
pub(crate) mod judge;
pub(crate) mod log_scan;
pub(crate) mod media;
pub(crate) mod open;
pub(crate) mod publish;
pub(crate) mod repair;
pub(crate) mod survey;
pub(crate) mod tail;
pub(crate) mod unpublished;
pub(crate) mod unread;
pub(crate) mod zones;
