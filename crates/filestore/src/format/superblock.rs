//! The superblock: the first entry of each snapshot.

use zoneweave_zoned::{BlockCount, Geometry, ZoneId};

use super::cursor::Cursor;
use super::layout::BlockLayout;

/// Most bytes of a label.
pub const LABEL_BYTES_MAX: usize = 64;

/// What a store is made of. The UUID is in the envelope of each record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Zones of the drive.
    pub zones: u32,
    /// Blocks of a zone that can be written.
    pub zone_capacity: BlockCount,
    /// The unit of writes of the drive.
    pub write_unit: BlockCount,
    /// Where tags are.
    pub layout: BlockLayout,
    /// The metadata zones.
    pub metadata_zones: [ZoneId; 2],
    /// Free space in a zone, in percent of its capacity, below which the zone is finished.
    pub finish_percent: u8,
    /// Seconds since 1970 when the store was made.
    pub created: u64,
    /// A name for people, up to [`LABEL_BYTES_MAX`] bytes.
    pub label: String,
}

impl Superblock {
    /// Whether the drive has the geometry that the store was made with.
    #[must_use]
    pub fn fits(&self, geometry: &Geometry) -> bool {
        self.zones == geometry.zones
            && self.zone_capacity == geometry.zone_capacity
            && self.write_unit == geometry.write_unit
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        assert!(self.label.len() <= LABEL_BYTES_MAX, "checked when the store was made");
        out.extend(self.zones.to_le_bytes());
        out.extend(self.zone_capacity.0.to_le_bytes());
        out.extend(self.write_unit.0.to_le_bytes());
        for zone in self.metadata_zones {
            out.extend(zone.0.to_le_bytes());
        }
        out.extend(self.created.to_le_bytes());
        out.push(self.layout as u8);
        out.push(self.finish_percent);
        out.push(u8::try_from(self.label.len()).expect("at most 64"));
        out.extend(self.label.as_bytes());
    }

    pub(super) fn decode(from: &mut Cursor<'_>) -> Option<Self> {
        let zones = from.u32()?;
        let zone_capacity = BlockCount(from.u32()?);
        let write_unit = BlockCount(from.u32()?);
        let metadata_zones = [ZoneId(from.u32()?), ZoneId(from.u32()?)];
        let created = from.u64()?;
        let layout = BlockLayout::from_number(from.u8()?)?;
        let finish_percent = from.u8()?;
        let label = from.text()?.to_owned();
        let is_sane = label.len() <= LABEL_BYTES_MAX
            && finish_percent <= 100
            && write_unit.0 > 0
            && metadata_zones[0] != metadata_zones[1]
            && metadata_zones.iter().all(|zone| zone.0 < zones);
        is_sane.then_some(Self {
            zones,
            zone_capacity,
            write_unit,
            layout,
            metadata_zones,
            finish_percent,
            created,
            label,
        })
    }
}
