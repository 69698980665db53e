//! One drive of a simulated array, and what is wrong with it.

use std::rc::Rc;

use zoneweave_emulator::RamDrive;
use zoneweave_zoned::{ZoneId, ZoneState};

use crate::simulate::scenario::Shape;

/// What is wrong with the contents of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    None,
    /// Some of what it holds is not what was written, or may come to be.
    Present,
    /// A scrub found nothing any more. It counts as healed once a start has found it so.
    Scrubbed,
}

/// A drive in a slot.
pub(crate) struct Drive {
    /// The hardware.
    pub ram: RamDrive,
    /// What its identity as a member is made of.
    pub number: u64,
    pub damage: Damage,
    /// Times that damage was done, for scrubs that miss some.
    pub damaged: u64,
    /// It may be taken out of service in this life.
    pub suspect: bool,
    /// More was done to it at some time than to slow it down: a write that failed may have left something.
    pub struck: bool,
    /// It may lose a zone in this life.
    pub wearing: bool,
    /// Zones that hold something nobody accounts for, since it was damaged.
    pub orphans: u32,
    /// It was pulled, and what its cache holds is lost.
    pub forgetting: bool,
    /// What it held at some time.
    pub kept: Option<RamDrive>,
    /// What the last recovery found in which it was a member.
    pub seen: Option<Rc<Seen>>,
}

/// Zones at the start of a drive among which those for superblock records are chosen: a drive
/// that lost one of them is hardly a member any more.
const SUPERBLOCK_ZONES: u32 = 4;

impl Drive {
    /// It may be taken out of service for what is about to happen.
    pub(crate) fn suspect(&mut self) {
        self.suspect = true;
        self.struck = true;
    }

    /// It loses a zone, or is going to.
    pub(crate) fn wear(&mut self) {
        self.wearing = true;
    }

    /// Zones that failed.
    pub(crate) fn lost_zones(&self) -> impl Iterator<Item = ZoneId> + '_ {
        let failed = |zone: &ZoneId| {
            matches!(self.ram.zone(*zone).state, ZoneState::ReadOnly | ZoneState::Offline)
        };
        (0..self.ram.geometry().zones).map(ZoneId).filter(failed)
    }

    /// Whether it lost more zones than the array can do without.
    pub(crate) fn is_worn(&self, shape: &Shape) -> bool {
        let needed = self.lost_zones().any(|zone| zone.0 < SUPERBLOCK_ZONES);
        needed || self.lost_zones().count() + self.orphans as usize > shape.spare_zones as usize
    }
}

/// What a recovery found.
pub(crate) struct Seen {
    /// The writes submitted before.
    pub writes: usize,
    /// What each block read as.
    pub found: Vec<Option<u64>>,
}
