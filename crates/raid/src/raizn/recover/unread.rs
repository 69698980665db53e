//! Reads that a start cannot do without, and that a drive failed without a word about the blocks.

use thiserror::Error;
use zoneweave_zoned::Status;

use crate::scheme::Column;

/// What was not read of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnreadPart {
    /// Blocks of its parity log.
    ParityLog,
    /// Blocks at the end of a zone of the volume.
    Zone(u32),
}

/// A read whose blocks may show that a zone goes on, or may have been moved to the parity log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "{} of slot {slot} was not read ({status}), and a start without it could lose data: start the \
     volume again once the drive answers; --force gives up what is not read, for good",
    match part {
        UnreadPart::ParityLog => "the parity log".to_owned(),
        UnreadPart::Zone(zone) => format!("the end of zone {zone}"),
    }
)]
pub struct Unread {
    /// What was not read.
    pub part: UnreadPart,
    /// The slot of the drive.
    pub slot: Column,
    /// How it failed the read.
    pub status: Status,
}
