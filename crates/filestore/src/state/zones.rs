//! Zones: phases, free space, and the blocks that are live.

use zoneweave_zoned::{BlockCount, ZoneAddress, ZoneId, ZoneOffset};

use super::extents::BlockRun;
use crate::hint::Lifetime;
use crate::ids::Incarnation;

/// What a zone is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing is written.
    Empty,
    /// It is being recorded that it is open.
    Opening,
    /// It takes blocks.
    Open,
    /// It takes no more blocks; writes are in flight, or its extents are not all on record.
    Sealing,
    /// It takes no more blocks, and its extents are on record.
    Sealed,
    /// It is being reset.
    Resetting,
    /// It belongs to the metadata log.
    Metadata,
    /// It cannot be written: offline, read-only and without data, or a failed reset.
    Unusable,
}

impl Phase {
    /// Every phase.
    pub const ALL: [Self; 8] = [
        Self::Empty,
        Self::Opening,
        Self::Open,
        Self::Sealing,
        Self::Sealed,
        Self::Resetting,
        Self::Metadata,
        Self::Unusable,
    ];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Opening => "opening",
            Self::Open => "open",
            Self::Sealing => "sealing",
            Self::Sealed => "sealed",
            Self::Resetting => "resetting",
            Self::Metadata => "metadata",
            Self::Unusable => "unusable",
        }
    }
}

/// A zone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Zone {
    /// Its phase.
    pub(crate) phase: Phase,
    /// This use of it.
    pub(crate) incarnation: Incarnation,
    /// The next block to be written.
    pub(crate) next: ZoneOffset,
    /// Blocks that files need.
    pub(crate) live: u32,
    /// All extents below this block are on record.
    pub(crate) known: u32,
    /// The lifetime that it was opened for.
    pub(crate) lifetime: Lifetime,
    /// Reads in flight: it must not be reset.
    pub(crate) readers: u32,
    /// Writers of files that append to it.
    pub(crate) writers: u32,
    /// Writes in flight.
    pub(crate) in_flight: u32,
    /// Resets, as far as they are known.
    pub(crate) resets: u64,
    /// Whether it was opened for relocation from the reserve.
    pub(crate) is_reserved: bool,
    /// Whether it is sealed only once writes of its files have ended.
    pub(crate) waits_for_files: bool,
    /// Whether a command finishes it.
    pub(crate) is_finishing: bool,
    /// Whether it needs a command to become full for the drive.
    pub(crate) must_finish: bool,
    /// Whether the drive writes it no more.
    pub(crate) is_read_only: bool,
}

impl Zone {
    const EMPTY: Self = Self {
        phase: Phase::Empty,
        incarnation: Incarnation(0),
        next: ZoneOffset(0),
        live: 0,
        known: 0,
        lifetime: Lifetime::NotSet,
        readers: 0,
        writers: 0,
        in_flight: 0,
        resets: 0,
        is_reserved: false,
        waits_for_files: false,
        is_finishing: false,
        must_finish: false,
        is_read_only: false,
    };

    /// Whether it counts against the active zones of the drive.
    #[must_use]
    pub(crate) const fn is_active(&self) -> bool {
        match self.phase {
            Phase::Opening | Phase::Open => true,
            Phase::Sealing => self.in_flight > 0 || self.is_finishing,
            _ => false,
        }
    }

    /// Whether files have blocks in it.
    #[must_use]
    pub(crate) const fn holds_data(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Sealing | Phase::Sealed)
    }
}

/// The zones of a drive.
#[derive(Clone, Debug)]
pub(crate) struct ZoneTable {
    zones: Vec<Zone>,
    capacity: BlockCount,
    unit: BlockCount,
}

impl ZoneTable {
    /// Empty zones, two of them for metadata.
    #[must_use]
    pub(crate) fn new(
        zones: u32,
        capacity: BlockCount,
        unit: BlockCount,
        metadata: [ZoneId; 2],
    ) -> Self {
        assert!(unit.0 > 0, "a drive without a write unit");
        let mut table = Self { zones: vec![Zone::EMPTY; zones as usize], capacity, unit };
        for zone in metadata {
            table.get_mut(zone).phase = Phase::Metadata;
        }
        table
    }

    /// Blocks of a zone.
    #[must_use]
    pub(crate) const fn capacity(&self) -> BlockCount {
        self.capacity
    }

    /// A zone of the drive.
    #[must_use]
    pub(crate) fn get(&self, zone: ZoneId) -> &Zone {
        &self.zones[zone.index()]
    }

    /// A zone of the drive, to be changed.
    #[must_use]
    pub(crate) fn get_mut(&mut self, zone: ZoneId) -> &mut Zone {
        &mut self.zones[zone.index()]
    }

    /// Every zone with its number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ZoneId, &Zone)> {
        (0..).map(ZoneId).zip(&self.zones)
    }

    /// Zones in a phase.
    #[must_use]
    pub(crate) fn count(&self, phase: Phase) -> usize {
        self.zones.iter().filter(|zone| zone.phase == phase).count()
    }

    /// Zones that count against the active zones of the drive, metadata apart.
    #[must_use]
    pub(crate) fn active(&self) -> usize {
        self.zones.iter().filter(|zone| zone.is_active()).count()
    }

    /// The block where the next write to a zone begins.
    #[must_use]
    pub(crate) fn next_start(&self, zone: ZoneId) -> u32 {
        self.get(zone).next.0.next_multiple_of(self.unit.0)
    }

    /// Blocks that an open zone still takes.
    #[must_use]
    pub(crate) fn room(&self, zone: ZoneId) -> BlockCount {
        match self.get(zone).phase {
            Phase::Open => BlockCount(self.capacity.0.saturating_sub(self.next_start(zone))),
            _ => BlockCount(0),
        }
    }

    /// Blocks that a reset would free: those that are not live, written or not.
    #[must_use]
    pub(crate) fn garbage(&self, zone: ZoneId) -> u32 {
        match self.get(zone).phase {
            Phase::Sealed if !self.get(zone).is_read_only => {
                self.capacity.0.saturating_sub(self.get(zone).live)
            }
            _ => 0,
        }
    }

    /// Takes blocks of an open zone for a write, which is in flight from then on. The zone takes no
    /// more blocks once it has no room.
    ///
    /// # Panics
    /// If it has less room.
    pub(crate) fn take(&mut self, zone: ZoneId, blocks: BlockCount) -> ZoneAddress {
        let room = self.room(zone);
        assert!(blocks.0 > 0 && blocks <= room, "{blocks} of {zone} with {room}");
        let start = self.next_start(zone);
        let entry = self.get_mut(zone);
        entry.next = ZoneOffset(start + blocks.0);
        entry.in_flight += 1;
        if self.room(zone).0 == 0 {
            self.get_mut(zone).phase = Phase::Sealing;
        }
        ZoneAddress::new(zone, start)
    }

    /// Counts blocks as live.
    pub(crate) fn add_live(&mut self, run: BlockRun) {
        self.get_mut(run.at.zone).live += run.blocks.0;
    }

    /// Counts blocks as garbage.
    ///
    /// # Panics
    /// If fewer were live.
    pub(crate) fn free(&mut self, run: BlockRun) {
        let zone = self.get_mut(run.at.zone);
        assert!(zone.live >= run.blocks.0, "{run:?} of {} live blocks", zone.live);
        zone.live -= run.blocks.0;
    }

    /// Whether a zone holds nothing that is needed, and can be reset.
    #[must_use]
    pub(crate) fn is_reclaimable(&self, zone: ZoneId) -> bool {
        let zone = self.get(zone);
        zone.phase == Phase::Sealed && zone.live == 0 && zone.readers == 0 && !zone.is_read_only
    }

    /// Makes a zone empty after its reset.
    ///
    /// # Panics
    /// If it is not being reset, or in use.
    pub(crate) fn clear(&mut self, zone: ZoneId) {
        let entry = self.get_mut(zone);
        assert!(entry.phase == Phase::Resetting, "{zone} is {:?}", entry.phase);
        assert!(entry.live == 0 && entry.readers == 0, "{zone} is in use");
        *entry = Zone { resets: entry.resets + 1, ..Zone::EMPTY };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(unit: u32) -> ZoneTable {
        ZoneTable::new(4, BlockCount(10), BlockCount(unit), [ZoneId(0), ZoneId(1)])
    }

    #[test]
    fn writes_begin_at_units_and_fill_the_zone() {
        let mut zones = table(4);
        let zone = ZoneId(2);
        assert_eq!(zones.room(zone), BlockCount(0));
        zones.get_mut(zone).phase = Phase::Open;
        assert_eq!(zones.take(zone, BlockCount(1)), ZoneAddress::new(zone, 0));
        assert_eq!(zones.room(zone), BlockCount(6));
        assert_eq!(zones.take(zone, BlockCount(3)), ZoneAddress::new(zone, 4));
        assert_eq!(zones.take(zone, BlockCount(2)), ZoneAddress::new(zone, 8));
        assert_eq!((zones.get(zone).phase, zones.get(zone).in_flight), (Phase::Sealing, 3));
    }

    #[test]
    fn only_unneeded_sealed_zones_are_reset() {
        let mut zones = table(1);
        let zone = ZoneId(3);
        let run = BlockRun { at: ZoneAddress::new(zone, 0), blocks: BlockCount(4) };
        zones.get_mut(zone).phase = Phase::Sealed;
        zones.add_live(run);
        assert!(!zones.is_reclaimable(zone));
        assert_eq!(zones.garbage(zone), 6);
        zones.free(run);
        zones.get_mut(zone).readers = 1;
        assert!(!zones.is_reclaimable(zone));
        zones.get_mut(zone).readers = 0;
        assert!(zones.is_reclaimable(zone));
        zones.get_mut(zone).phase = Phase::Resetting;
        zones.clear(zone);
        assert_eq!((zones.get(zone).phase, zones.get(zone).resets), (Phase::Empty, 1));
    }
}
