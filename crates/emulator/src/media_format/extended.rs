//! Where the parts of a file are that only version 2 has: unreadable blocks and wear.

use std::ops::Range;

use zoneweave_zoned::{BLOCK_BYTES, ZoneId};

use super::defects::{self, Defect};
use super::error::FormatError;
use super::layout::DriveLayout;
use super::preset_name::PresetName;
use super::record::StoredRecord;
use super::wear_record;
use crate::{Wear, WearSettings, ZoneWear};

impl DriveLayout {
    /// Where the list of unreadable blocks is, if the file has one.
    #[must_use]
    pub fn defects(&self) -> Option<Range<u64>> {
        let start = self.table(1).end;
        self.extension.as_ref().map(|_| start..start + BLOCK_BYTES as u64)
    }

    /// The block of unreadable blocks, of which there are [`DEFECTS_MAX`](super::DEFECTS_MAX) at
    /// most.
    ///
    /// # Panics
    /// If there are more.
    #[must_use]
    pub fn encode_defects(&self, defects: &[Defect]) -> [u8; BLOCK_BYTES] {
        defects::encode(defects)
    }

    /// The blocks of a list that are unreadable in zones with the given records.
    ///
    /// # Errors
    /// If the list is damaged.
    pub fn decode_defects(
        &self,
        bytes: &[u8],
        records: &[StoredRecord],
    ) -> Result<Vec<Defect>, FormatError> {
        let bytes = bytes.first_chunk().ok_or(FormatError::DefectsDamaged)?;
        let is_current = |defect: &Defect| {
            let stored = records.get(defect.at.zone.index());
            stored.is_some_and(|stored| stored.record.resets == defect.resets)
        };
        Ok(defects::decode(bytes)?.into_iter().filter(is_current).collect())
    }

    /// The structure of the drive's zones, if it counts erases.
    #[must_use]
    pub fn wear(&self) -> Option<&WearSettings> {
        self.extension.as_ref()?.wear.as_ref()
    }

    /// The preset that gives the drive its timing, if any.
    #[must_use]
    pub fn preset(&self) -> Option<&PresetName> {
        self.extension.as_ref()?.preset.as_ref()
    }

    /// The wear of all zones, padding included; empty if the drive counts no erases.
    #[must_use]
    pub fn wear_table(&self) -> Range<u64> {
        let start = self.defects().map_or(self.table(1).end, |defects| defects.end);
        start..start + self.wear_table_bytes
    }

    /// The wear record of a zone and its position, if the drive counts erases.
    ///
    /// # Panics
    /// If there is no such zone, or its erase blocks are not those of the settings.
    #[must_use]
    pub fn encode_wear(&self, zone: ZoneId, wear: &ZoneWear) -> Option<(u64, Vec<u8>)> {
        self.check(zone);
        let range = self.wear_record(self.wear()?, zone);
        let bytes = wear_record::encode(&self.uuid, zone, wear, range.len());
        Some((self.wear_table().start + range.start as u64, bytes))
    }

    /// The wear of the drive as the bytes of the [table](DriveLayout::wear_table) tell, if it
    /// counts erases. A damaged record becomes the worst that can have happened.
    ///
    /// # Errors
    /// If the table is too short.
    pub fn decode_wear(
        &self,
        table: &[u8],
        records: &[StoredRecord],
    ) -> Result<Option<Wear>, FormatError> {
        let Some(settings) = self.wear() else { return Ok(None) };
        let mut wear = Wear::new(*settings, &self.geometry)?;
        for (zone, stored) in (0..).map(ZoneId).zip(records) {
            let range = self.wear_record(settings, zone);
            let (found, needed) = (table.len() as u64, range.end as u64);
            let bytes = table.get(range).ok_or(FormatError::Truncated { found, needed })?;
            let resets = stored.record.resets;
            wear.restore(zone, wear_record::decode(&self.uuid, zone, settings, bytes, resets));
        }
        Ok(Some(wear))
    }

    /// Where in the table the record of a zone is.
    fn wear_record(&self, settings: &WearSettings, zone: ZoneId) -> Range<usize> {
        let length = usize::try_from(wear_record::record_bytes(settings.erase_blocks));
        let length = length.expect("a table of bounded size");
        zone.index() * length..(zone.index() + 1) * length
    }
}
