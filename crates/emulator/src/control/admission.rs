//! The controller's answer about a command: the outcome, and the work on the media.

use zoneweave_runtime::Nanos;
use zoneweave_zoned::{BlockCount, ChangedZones, Status, ZoneAddress, ZoneId, ZoneReport};

use crate::Damage;

/// The controller's answer about a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The work on the media, even if the outcome is an error.
    pub work: Work,
    /// The status to complete with, after the work.
    pub outcome: Result<(), Status>,
    /// How much longer than usual the command takes.
    pub delay: Nanos,
}

impl Admission {
    pub(super) fn refused(status: Status) -> Self {
        Self { work: Work::Nothing, outcome: Err(status), delay: Nanos::ZERO }
    }
}

/// A command's work on the media.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Nothing.
    Nothing,
    /// Return blocks.
    Read {
        /// The first block.
        at: ZoneAddress,
        /// How many to return.
        blocks: BlockCount,
        /// How many of them, from the first on, may be written; zeros follow.
        written: BlockCount,
        /// Damage to the returned copy.
        damage: Option<Damage>,
        /// Damage to the first block where it is stored.
        rot: Option<Damage>,
    },
    /// Return blocks of several zones, as one payload.
    ReadAcross {
        /// The parts, in order.
        parts: Vec<ZonePart>,
        /// Damage to the returned copy.
        damage: Option<Damage>,
        /// Damage to the first block where it is stored.
        rot: Option<Damage>,
    },
    /// Store blocks at the zone's former write pointer, or in its random write area.
    Write {
        /// Where they go.
        at: ZoneAddress,
        /// How many of the command's blocks, from the first on.
        blocks: BlockCount,
        /// The fate of the blocks.
        placement: Placement,
        /// The address to answer with.
        reply: ZoneAddress,
        /// Whether completion promises durability of the zone up to the command's end.
        fua: bool,
        /// Whether the blocks go into the zone's random write area, possibly over others. Blocks
        /// that the write pointer then passes are committed.
        area: bool,
    },
    /// Drop every block of the zone.
    Reset(ZoneId),
    /// Drop every block of several zones.
    ResetAll(Vec<ZoneId>),
    /// Only the state of the zone changed. If the zone has, or had, a random write area, blocks
    /// that the write pointer has passed are committed.
    ZoneChanged(ZoneId),
    /// The same for several zones.
    ZonesChanged(Vec<ZoneId>),
    /// The zone became closed, with the command's extension of its descriptor, which has to be
    /// stored with `ZoneSet::store_extension`.
    Extended(ZoneId),
    /// Answer with this report.
    Report(ZoneReport),
    /// Answer with this list.
    Changed(ChangedZones),
    /// Make completed writes durable.
    Flush {
        /// Whether to do it really.
        effective: bool,
    },
}

/// The part of a read that is in one zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZonePart {
    /// The first block.
    pub at: ZoneAddress,
    /// How many to return.
    pub blocks: BlockCount,
    /// How many of them, from the first on, may be written; zeros follow.
    pub written: BlockCount,
}

/// The fate of a write's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// They are stored where they belong.
    Stored,
    /// They are stored, and once more right behind.
    Twice,
    /// Zeros are in their place.
    Lost,
    /// Zeros are in their place, and they overwrite written blocks at this address.
    Misdirected(ZoneAddress),
    /// They are stored after this damage.
    Damaged(Damage),
}

impl Placement {
    /// How many copies of the blocks the write pointer counts.
    #[must_use]
    pub const fn copies(self) -> u64 {
        if matches!(self, Self::Twice) { 2 } else { 1 }
    }
}
