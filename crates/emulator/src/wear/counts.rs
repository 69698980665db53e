//! Erase counts of a drive, and when a zone is worn out.

use super::settings::{BlockMapping, EraseMode, WearError, WearSettings, WornZone};
use zoneweave_zoned::{BlockCount, Geometry, ZoneId, ZoneOffset, ZoneRecord, ZoneState};

/// The wear of one zone, as it is kept between lives of a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneWear {
    /// The distance from the zone's first block in flash to its block 0, in blocks (the paper's
    /// `PBA_op`).
    pub origin: ZoneOffset,
    /// The end of blocks that were written since the last reset and lost by a power failure: they
    /// are programmed although the write pointer is below it. Zero if there are none.
    pub lost_end: ZoneOffset,
    /// Erases of each erase block.
    pub erase_counts: Vec<u32>,
}

impl ZoneWear {
    /// A zone that was never erased.
    #[must_use]
    pub fn new(settings: &WearSettings) -> Self {
        let erase_counts = vec![0; settings.erase_blocks as usize];
        Self { origin: ZoneOffset(0), lost_end: ZoneOffset(0), erase_counts }
    }
}

/// The wear of every zone of a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wear {
    pub(super) settings: WearSettings,
    capacity: BlockCount,
    pub(super) zones: Vec<ZoneWear>,
}

impl Wear {
    /// A drive that was never erased.
    ///
    /// # Errors
    /// If the settings do not fit the geometry.
    pub fn new(settings: WearSettings, geometry: &Geometry) -> Result<Self, WearError> {
        settings.validate(geometry)?;
        let zone = ZoneWear::new(&settings);
        Ok(Self {
            settings,
            capacity: geometry.zone_capacity,
            zones: vec![zone; geometry.zones as usize],
        })
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &WearSettings {
        &self.settings
    }

    /// How many zones there are.
    #[must_use]
    pub fn zones(&self) -> u32 {
        u32::try_from(self.zones.len()).expect("zones are counted by 32 bits")
    }

    /// The wear of a zone.
    ///
    /// # Panics
    /// If there is no such zone.
    #[must_use]
    pub fn zone(&self, zone: ZoneId) -> &ZoneWear {
        &self.zones[zone.index()]
    }

    /// Takes over the wear of a zone from an earlier life of the drive. What exceeds the settings
    /// or the capacity is cut.
    ///
    /// # Panics
    /// If there is no such zone.
    pub fn restore(&mut self, zone: ZoneId, mut wear: ZoneWear) {
        wear.origin.0 %= self.capacity.0;
        wear.lost_end.0 = self.capacity.0.min(wear.lost_end.0);
        wear.erase_counts.resize(self.settings.erase_blocks as usize, 0);
        let endurance = self.endurance();
        wear.erase_counts.iter_mut().for_each(|count| *count = endurance.min(*count));
        self.zones[zone.index()] = wear;
    }

    /// The position of a zone's block in the zone's flash: Eq. 3 and 4.
    ///
    /// # Panics
    /// If there is no such zone.
    #[must_use]
    pub fn physical(&self, zone: ZoneId, offset: ZoneOffset) -> u32 {
        let place = u64::from(offset.0) + u64::from(self.zones[zone.index()].origin.0);
        u32::try_from(place % u64::from(self.capacity.0)).expect("below a 32-bit capacity")
    }

    /// Blocks that were written up to `end` were lost: they are programmed all the same.
    pub fn lost(&mut self, zone: ZoneId, end: ZoneOffset) {
        let before = &mut self.zones[zone.index()].lost_end;
        *before = end.max(*before);
    }

    /// Erases the blocks of a zone that is reset; `record` is the zone's before the reset.
    ///
    /// # Errors
    /// If an erase block has no cycle left: nothing is erased, and the zone must become the
    /// returned kind of worn zone.
    pub fn reset(&mut self, zone: ZoneId, record: ZoneRecord) -> Result<(), WornZone> {
        let programmed = self.programmed(zone, record);
        let erased: Vec<usize> = match self.settings.reset {
            EraseMode::Full => (0..self.settings.erase_blocks as usize).collect(),
            EraseMode::Partial => self.touched(zone, programmed),
        };
        let (endurance, wear) = (self.endurance(), &mut self.zones[zone.index()]);
        if erased.iter().any(|block| wear.erase_counts[*block] >= endurance) {
            return Err(self.settings.worn);
        }
        erased.iter().for_each(|block| wear.erase_counts[*block] += 1);
        if self.settings.mapping == BlockMapping::Circular {
            // Eq. 5.
            self.zones[zone.index()].origin = ZoneOffset(self.physical(zone, programmed));
        }
        self.zones[zone.index()].lost_end = ZoneOffset(0);
        Ok(())
    }

    fn endurance(&self) -> u32 {
        self.settings.endurance_cycles.unwrap_or(u32::MAX)
    }

    fn programmed(&self, zone: ZoneId, record: ZoneRecord) -> ZoneOffset {
        if self.settings.finish_programs && record.state == ZoneState::Full {
            return ZoneOffset(self.capacity.0);
        }
        record.write_pointer.max(self.zones[zone.index()].lost_end)
    }

    /// The erase blocks that hold the first `programmed` blocks of a zone, each once.
    fn touched(&self, zone: ZoneId, programmed: ZoneOffset) -> Vec<usize> {
        let start = self.physical(zone, ZoneOffset(0));
        let end = u64::from(start) + u64::from(programmed.0);
        let capacity = u64::from(self.capacity.0);
        let wrapped = u32::try_from(end.saturating_sub(capacity)).expect("at most the capacity");
        let end = u32::try_from(end.min(capacity)).expect("at most the capacity");
        let mut touched = vec![false; self.settings.erase_blocks as usize];
        self.touch(start, end, &mut touched);
        self.touch(0, wrapped, &mut touched);
        (0..touched.len()).filter(|block| touched[*block]).collect()
    }

    /// Marks the erase blocks of a range of the zone's flash.
    fn touch(&self, from: u32, to: u32, touched: &mut [bool]) {
        let (row_blocks, abreast) =
            (self.settings.row_blocks(self.capacity), self.settings.abreast);
        let mut at = from;
        while at < to {
            let row = at / row_blocks;
            let end = to.min((row + 1).saturating_mul(row_blocks));
            // Of a long range every lane is hit; of a short one, those from its first on.
            for block in at..end.min(at.saturating_add(abreast)) {
                let lane = (block - row * row_blocks) % abreast;
                touched[(row * abreast + lane) as usize] = true;
            }
            at = end;
        }
    }
}

#[cfg(test)]
mod tests;
