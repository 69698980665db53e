//! Where everything is in the file of one drive.

use std::ops::Range;

use zoneweave_zoned::{
    BLOCK_BYTES, BlockCount, Geometry, OOB_BYTES, OobKind, ZoneAddress, ZoneId, ZoneRecord,
};

use super::error::FormatError;
use super::extension::{self, Extension};
use super::header::{self, HEADER_BYTES};
use super::limits::{EXTENSIONS_BYTES_MAX, ZONES_MAX, whole_blocks};
use super::record::{self, RECORD_BYTES, StoredRecord};

/// Where everything is in the file of one drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveLayout {
    pub(super) geometry: Geometry,
    pub(super) uuid: [u8; 16],
    pub(super) extension: Option<Extension>,
    pub(super) table_bytes: u64,
    pub(super) wear_table_bytes: u64,
    pub(super) extensions_bytes: u64,
    pub(super) zone_bytes: u64,
    pub(super) file_bytes: u64,
}

impl DriveLayout {
    /// The layout of a new drive. Format it by setting the file's length to
    /// [`DriveLayout::file_bytes`], writing [`DriveLayout::initial_records`] at
    /// [`DriveLayout::table`]`(0)`, and last, when those are durable, the
    /// [header](DriveLayout::header) at 0.
    ///
    /// # Errors
    /// If the geometry is impossible or too large.
    pub fn new(geometry: Geometry, uuid: [u8; 16]) -> Result<Self, FormatError> {
        Self::build(geometry, uuid, None)
    }

    /// As [`DriveLayout::new`], for a drive that has more than version 1 can tell.
    ///
    /// # Errors
    /// If the geometry is impossible or too large, or the wear settings do not fit it.
    pub fn extended(
        geometry: Geometry,
        uuid: [u8; 16],
        extension: Extension,
    ) -> Result<Self, FormatError> {
        Self::build(geometry, uuid, Some(extension))
    }

    fn build(
        geometry: Geometry,
        uuid: [u8; 16],
        extension: Option<Extension>,
    ) -> Result<Self, FormatError> {
        geometry.validate()?;
        if geometry.zrwa.is_some() {
            return Err(FormatError::RandomWriteAreas);
        }
        let extension = extension.or_else(|| beyond_version_1(&geometry).then(Extension::default));
        let (zones, capacity) = (geometry.zones, geometry.zone_capacity);
        let metadata = if has_oob(&geometry) { capacity.oob_bytes() } else { 0 };
        let zone_bytes = (capacity.data_bytes() + metadata.next_multiple_of(BLOCK_BYTES)) as u64;
        let table_bytes = whole_blocks(u64::from(zones) * RECORD_BYTES as u64);
        let wear = extension.as_ref().and_then(|extension| extension.wear);
        let wear_table_bytes =
            wear.map_or(Ok(0), |wear| extension::wear_table_bytes(&wear, &geometry))?;
        let defects = if extension.is_some() { BLOCK_BYTES as u64 } else { 0 };
        let bytes = geometry.descriptor_extension_bytes;
        let extensions_bytes = whole_blocks(u64::from(zones) * u64::from(bytes));
        if zones <= ZONES_MAX && extensions_bytes > EXTENSIONS_BYTES_MAX {
            return Err(FormatError::ExtensionsTooLarge { zones, bytes });
        }
        let tables = 2 * table_bytes + defects + wear_table_bytes + extensions_bytes;
        let front = HEADER_BYTES as u64 + tables;
        let file_bytes = u64::from(zones)
            .checked_mul(zone_bytes)
            .and_then(|bytes| bytes.checked_add(front))
            .filter(|bytes| zones <= ZONES_MAX && i64::try_from(*bytes).is_ok())
            .ok_or(FormatError::TooLarge { zones, capacity })?;
        Ok(Self {
            geometry,
            uuid,
            extension,
            table_bytes,
            wear_table_bytes,
            extensions_bytes,
            zone_bytes,
            file_bytes,
        })
    }

    /// The layout that a file's header describes. `header` is the first [`HEADER_BYTES`] of the
    /// file, or all of it if it is shorter; `file_bytes` is the file's length.
    ///
    /// # Errors
    /// If it is not the header of a drive that fits the file.
    pub fn parse(header: &[u8], file_bytes: u64) -> Result<Self, FormatError> {
        let (geometry, uuid, extension) = header::decode(header)?;
        let layout = Self::build(geometry, uuid, extension)?;
        if file_bytes < layout.file_bytes {
            let needed = layout.file_bytes;
            return Err(FormatError::Truncated { found: file_bytes, needed });
        }
        Ok(layout)
    }

    /// The header block.
    #[must_use]
    pub fn header(&self) -> [u8; HEADER_BYTES] {
        header::encode(&self.geometry, &self.uuid, self.extension.as_ref())
    }

    /// The drive's shape.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The identity given when the drive was made.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// The length of the file.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// The bytes of record table 0 or 1, padding included.
    ///
    /// # Panics
    /// If there is no such table.
    #[must_use]
    pub fn table(&self, index: u64) -> Range<u64> {
        assert!(index < 2, "two record tables, no table {index}");
        let start = HEADER_BYTES as u64 + index * self.table_bytes;
        start..start + self.table_bytes
    }

    /// The bytes of all extensions of zone descriptors, padding included.
    #[must_use]
    pub fn descriptor_extensions(&self) -> Range<u64> {
        let start = self.wear_table().end;
        start..start + self.extensions_bytes
    }

    /// The bytes of the extension of a zone's descriptor.
    ///
    /// # Panics
    /// If there is no such zone.
    #[must_use]
    pub fn descriptor_extension(&self, zone: ZoneId) -> Range<u64> {
        self.check(zone);
        let bytes = u64::from(self.geometry.descriptor_extension_bytes);
        let start = self.descriptor_extensions().start + u64::from(zone.0) * bytes;
        start..start + bytes
    }

    /// Where the record of a zone with a sequence number belongs.
    ///
    /// # Panics
    /// If there is no such zone.
    #[must_use]
    pub fn record_position(&self, zone: ZoneId, sequence: u64) -> u64 {
        self.check(zone);
        self.table(sequence % 2).start + u64::from(zone.0) * RECORD_BYTES as u64
    }

    /// The bytes of a record, to be written at its [position](DriveLayout::record_position) in
    /// one piece. `sequence` is one more than that of the zone's current record.
    ///
    /// # Panics
    /// If there is no such zone.
    #[must_use]
    pub fn encode_record(
        &self,
        zone: ZoneId,
        sequence: u64,
        record: ZoneRecord,
    ) -> [u8; RECORD_BYTES] {
        self.check(zone);
        record::encode(&self.uuid, zone, StoredRecord { sequence, record, alone: false })
    }

    /// Table 0 of a new drive: every zone empty, with sequence number 0.
    #[must_use]
    pub fn initial_records(&self) -> Vec<u8> {
        let records = (0..self.geometry.zones)
            .flat_map(|zone| self.encode_record(ZoneId(zone), 0, ZoneRecord::NEW));
        records.collect()
    }

    /// The current record of every zone, from both tables. Whether the records make sense together
    /// is for [`ZoneSet::import`](zoneweave_zoned::ZoneSet::import) to say.
    ///
    /// # Errors
    /// If a table is too short or a zone has no intact record.
    pub fn decode_records(&self, tables: [&[u8]; 2]) -> Result<Vec<StoredRecord>, FormatError> {
        let needed = self.geometry.zones as usize * RECORD_BYTES;
        if let Some(short) = tables.iter().find(|table| table.len() < needed) {
            let found = short.len() as u64;
            return Err(FormatError::Truncated { found, needed: needed as u64 });
        }
        let zone_record = |zone: u32| {
            let zone = ZoneId(zone);
            let start = zone.index() * RECORD_BYTES;
            let copies = tables.map(|table| &table[start..start + RECORD_BYTES]);
            record::current(&self.uuid, zone, copies).ok_or(FormatError::RecordDamaged { zone })
        };
        (0..self.geometry.zones).map(zone_record).collect()
    }

    /// All bytes of a zone's blocks, which a reset makes a hole.
    ///
    /// # Panics
    /// If there is no such zone.
    #[must_use]
    pub fn zone(&self, zone: ZoneId) -> Range<u64> {
        self.check(zone);
        let start = self.descriptor_extensions().end + u64::from(zone.0) * self.zone_bytes;
        start..start + self.zone_bytes
    }

    /// The position of a block's data; the next blocks follow.
    ///
    /// # Panics
    /// If there is no such block below the capacity.
    #[must_use]
    pub fn data_position(&self, at: ZoneAddress) -> u64 {
        self.check_block(at);
        self.zone(at.zone).start + BlockCount(at.offset.0).data_bytes() as u64
    }

    /// The position of a block's metadata, if the drive has any; that of the next blocks follows.
    ///
    /// # Panics
    /// If there is no such block below the capacity.
    #[must_use]
    pub fn oob_position(&self, at: ZoneAddress) -> Option<u64> {
        self.check_block(at);
        let start = self.zone(at.zone).start + self.geometry.zone_capacity.data_bytes() as u64;
        has_oob(&self.geometry).then(|| start + BlockCount(at.offset.0).oob_bytes() as u64)
    }

    pub(super) fn check(&self, zone: ZoneId) {
        assert!(zone.0 < self.geometry.zones, "{zone} of {}", self.geometry.zones);
    }

    fn check_block(&self, at: ZoneAddress) {
        assert!(at.offset.0 < self.geometry.zone_capacity.0, "{at} is above the capacity");
    }
}

fn has_oob(geometry: &Geometry) -> bool {
    geometry.oob != OobKind::None
}

/// Whether a header of version 1 cannot tell the geometry.
fn beyond_version_1(geometry: &Geometry) -> bool {
    geometry.descriptor_extension_bytes > 0
        || geometry.reads_across_zones
        || geometry.unwritten_read_error
}

const _: () = assert!(BLOCK_BYTES == 4096 && OOB_BYTES == 64, "the format has these sizes");

#[cfg(test)]
mod tests;
