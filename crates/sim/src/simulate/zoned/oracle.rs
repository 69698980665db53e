//! The allowed states of all zones.

use super::zone::{Before, EraNumber, FoundZone, ZoneHistory};
use crate::simulate::oracle::Survives;

/// The history of the volume.
#[derive(Clone, Debug, Default)]
pub(crate) struct ZonedOracle {
    pub zones: Vec<ZoneHistory>,
    /// Blocks of each zone.
    pub capacity: usize,
    versions: u64,
}

/// A submitted write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Submitted {
    pub zone: usize,
    pub era: EraNumber,
    pub end: usize,
}

/// What a flush that begins makes durable, by zone.
pub(crate) struct FlushBegun(Vec<(EraNumber, usize)>);

impl ZonedOracle {
    /// A new volume.
    pub(crate) fn new(zones: u32, capacity: u32) -> Self {
        let zones = (0..zones).map(|_| ZoneHistory::new()).collect();
        Self { zones, capacity: capacity as usize, versions: 0 }
    }

    /// The versions that the next blocks get.
    pub(crate) fn next_versions(&self, blocks: usize) -> Vec<u64> {
        (self.versions + 1..).take(blocks).collect()
    }

    /// Blocks that a zone has room for.
    pub(crate) fn room(&self, zone: usize) -> usize {
        match self.zones[zone].is_full(self.capacity) {
            true => 0,
            false => self.capacity - self.zones[zone].submitted(),
        }
    }

    /// A write of the next versions was submitted.
    pub(crate) fn submit(&mut self, zone: usize, blocks: usize) -> Submitted {
        let versions = self.next_versions(blocks);
        self.versions += blocks as u64;
        let era = self.zones[zone].submit(&versions);
        let end = self.zones[zone].submitted();
        assert!(end <= self.capacity, "a submitted write fits into its zone");
        Submitted { zone, era, end }
    }

    /// It was acknowledged; `durable` if that promises durability.
    pub(crate) fn acknowledge(&mut self, write: Submitted, durable: bool) {
        self.zones[write.zone].acknowledge(write.era, write.end, durable);
    }

    /// A flush begins.
    pub(crate) fn begin_flush(&self) -> FlushBegun {
        FlushBegun(self.zones.iter().map(ZoneHistory::acknowledged).collect())
    }

    /// It was acknowledged.
    pub(crate) fn flushed(&mut self, begun: &FlushBegun) {
        for (zone, promised) in self.zones.iter_mut().zip(&begun.0) {
            zone.flushed(*promised);
        }
    }

    /// A read begins.
    pub(crate) fn begin_read(&self, zone: usize) -> Before {
        self.zones[zone].begin_read()
    }

    /// A zone was found after a crash.
    ///
    /// # Errors
    ///
    /// If its state is not allowed, with the reason.
    pub(crate) fn settle(
        &mut self,
        zone: usize,
        found: &FoundZone,
        survives: Survives,
    ) -> Result<(), String> {
        let capacity = self.capacity;
        let settled = self.zones[zone].settle(found, capacity, survives);
        settled.map_err(|why| format!("after a crash, zone {zone} is wrong: {why}"))
    }
}
