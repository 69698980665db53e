//! One drive of a simulated array, and its damage.

use std::rc::Rc;

use zoneweave_emulator::RamDrive;
use zoneweave_zoned::{ZoneId, ZoneState};

use crate::simulate::scenario::Shape;

/// The state of a drive's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    None,
    /// Some contents differ from the written data, or may in future.
    Present,
    /// A scrub found no damage any more. The drive counts as healed after the next start confirms
    /// it.
    Scrubbed,
}

/// A drive in a slot.
pub(crate) struct Drive {
    /// The hardware.
    pub ram: RamDrive,
    /// Source of its identity as a member.
    pub number: u64,
    pub damage: Damage,
    /// Number of times that damage was done, to detect damage that a scrub missed.
    pub damaged: u64,
    /// The engine may take it out of service in this life.
    pub suspect: bool,
    /// It has had other faults than slowness: a failed write may have left data behind.
    pub struck: bool,
    /// It may lose a zone in this life.
    pub wearing: bool,
    /// Zones with contents that belong to no segment, as damage causes.
    pub orphans: u32,
    /// It was pulled, and the contents of its cache are lost.
    pub forgetting: bool,
    /// An earlier copy of its contents.
    pub kept: Option<RamDrive>,
    /// Result of the last recovery in which it was a member.
    pub seen: Option<Rc<Seen>>,
}

/// First zones of a drive, from which those for superblock records are chosen: a drive that lost
/// one of them can hardly stay a member.
const SUPERBLOCK_ZONES: u32 = 4;

impl Drive {
    /// Marks that a fault may take it out of service.
    pub(crate) fn suspect(&mut self) {
        self.suspect = true;
        self.struck = true;
    }

    /// Marks that it loses a zone, now or later.
    pub(crate) fn wear(&mut self) {
        self.wearing = true;
    }

    /// Read-only and offline zones.
    pub(crate) fn lost_zones(&self) -> impl Iterator<Item = ZoneId> + '_ {
        let failed = |zone: &ZoneId| {
            matches!(self.ram.zone(*zone).state, ZoneState::ReadOnly | ZoneState::Offline)
        };
        (0..self.ram.geometry().zones).map(ZoneId).filter(failed)
    }

    /// Whether it lost more zones than the array has to spare.
    pub(crate) fn is_worn(&self, shape: &Shape) -> bool {
        let needed = self.lost_zones().any(|zone| zone.0 < SUPERBLOCK_ZONES);
        needed || self.lost_zones().count() + self.orphans as usize > shape.spare_zones as usize
    }
}

/// The result of a recovery.
pub(crate) struct Seen {
    /// Writes submitted before.
    pub writes: usize,
    /// The version of each block.
    pub found: Vec<Option<u64>>,
}
