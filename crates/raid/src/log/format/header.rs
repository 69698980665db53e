//! The segment header: the first block of each of a segment's zones, the same on all of them.
//!
//! It is durable before the segment's first chunk; any one valid copy is enough. Its block metadata
//! names the column that it was written for.

use bytes::Bytes;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
use zoneweave_zoned::{AlignedBuffer, BlockCount, ZoneId};

use super::{ArrayUuid, BlockType, Envelope, FormatError, MAX_SEAL_ROWS};
use crate::array::format::bounds::NUMBER_LIMIT;
use crate::array::format::config::{decode_unit, encode_unit};
use crate::array::format::numbers::{Epoch, Generation, SegmentId};
use crate::log::engine::geometry::SegmentGeometry;
use crate::scheme::{Arrangement, Column, ColumnSet, MAX_COLUMNS, Scheme};

pub(super) const NO_ZONE: u32 = u32::MAX;

/// The source of a segment's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum StreamKind {
    /// Writes of the volume's users.
    User = 1,
    /// Blocks relocated out of segments that are reclaimed.
    Relocation = 2,
}

impl StreamKind {
    pub(super) const fn of(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::User),
            2 => Some(Self::Relocation),
            _ => None,
        }
    }
}

/// A segment's identity and shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The segment's number, never used again in this array.
    pub segment: SegmentId,
    /// The incarnation of its zones; every block of the segment repeats it.
    pub generation: Generation,
    /// The array epoch in which it was created.
    pub epoch: Epoch,
    /// The source of its blocks.
    pub stream: StreamKind,
    /// Whether chunks of a group may be in any order (Zone Append), with a table of their stripes.
    pub tabled: bool,
    /// The shape, which determines every offset.
    pub geometry: SegmentGeometry,
    /// The usable blocks of its zones, which determine the shape.
    pub zone_capacity: BlockCount,
    /// Each column's zone; `None` if the member was missing when the segment was created, or the
    /// segment is not on the column.
    pub zones: Vec<Option<ZoneId>>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Raw {
    segment: U64,
    generation: U64,
    epoch: U64,
    volume: U16,
    shard: U16,
    stream: u8,
    tabled: u8,
    data_chunks: u8,
    parity_chunks: u8,
    /// The code of the scheme's [`Arrangement`].
    rotation: u8,
    /// The write unit, as in superblock records: 0 if metadata is beside each block.
    frame_exponent: u8,
    reserved: [u8; 2],
    /// A bit for each column that it is not on.
    absent: U32,
    chunk_blocks: U32,
    group_rows: U32,
    zone_capacity: U32,
    rows: U32,
    zones: [U32; MAX_COLUMNS],
}

impl SegmentHeader {
    /// The header block, with its envelope.
    #[must_use]
    pub fn encode(&self, array: ArrayUuid) -> Bytes {
        let scheme = self.geometry.scheme();
        let (zones, width) = (self.zones.len(), scheme.width());
        assert!(zones == width, "segment {} lists {zones} zones for {width} columns", self.segment);
        assert!(
            scheme.absent().iter().all(|column| self.zones[column.index()].is_none()),
            "segment {} lists a zone on a column that it is not on: {:?}",
            self.segment,
            self.zones
        );
        // The decoder derives the shape from these numbers.
        let (unit, chunk) = (self.geometry.unit(), self.geometry.chunk_blocks());
        let group = self.geometry.group_rows();
        assert!(
            SegmentGeometry::in_units(scheme, unit, self.zone_capacity, chunk, group)
                == Some(self.geometry),
            "segment {} is not of the shape that its header gives: {:?} in zones of {}",
            self.segment,
            self.geometry,
            self.zone_capacity
        );
        let mut zones = [U32::new(NO_ZONE); MAX_COLUMNS];
        for (stored, zone) in zones.iter_mut().zip(&self.zones) {
            *stored = zone.map_or(NO_ZONE, |zone| zone.0).into();
        }
        let small = |value: usize| u8::try_from(value).expect("at most 32 columns");
        let raw = Raw {
            segment: self.segment.into(),
            generation: self.generation.into(),
            epoch: self.epoch.into(),
            volume: 0.into(),
            shard: 0.into(),
            stream: self.stream as u8,
            tabled: self.tabled.into(),
            data_chunks: small(scheme.data()),
            parity_chunks: small(scheme.parity()),
            rotation: scheme.arrangement().code(),
            frame_exponent: encode_unit(self.geometry.unit()).expect("a unit of drives"),
            reserved: [0; 2],
            absent: scheme.absent().bits().into(),
            chunk_blocks: self.geometry.chunk_blocks().into(),
            group_rows: self.geometry.group_rows().into(),
            zone_capacity: self.zone_capacity.0.into(),
            rows: self.geometry.rows().into(),
            zones,
        };
        let mut block = AlignedBuffer::zeroed(BlockCount(1));
        let bytes = block.as_mut();
        bytes[Envelope::BYTES..Envelope::BYTES + size_of::<Raw>()].copy_from_slice(raw.as_bytes());
        Envelope::seal(bytes, BlockType::SegmentHeader, array, size_of::<Raw>());
        block.freeze()
    }

    /// The header in a block.
    ///
    /// # Errors
    /// The first violation of the format.
    pub fn decode(block: &[u8], array: ArrayUuid) -> Result<Self, FormatError> {
        let body = Envelope::open_of(block, BlockType::SegmentHeader, array)?;
        let (raw, _) =
            Raw::ref_from_prefix(body).map_err(|_| FormatError::Field { field: "length" })?;
        let geometry = decode_geometry(raw)?;
        let columns = geometry.scheme().width();
        let stream = StreamKind::of(raw.stream).ok_or(FormatError::Field { field: "stream" })?;
        let numbers = [raw.segment, raw.generation, raw.epoch];
        if numbers.iter().any(|number| number.get() >= NUMBER_LIMIT) {
            return Err(FormatError::Field { field: "segment" });
        }
        if raw.tabled > 1 {
            return Err(FormatError::Field { field: "layout" });
        }
        let zones = raw.zones[..columns].iter().map(|zone| zone.get());
        let zones: Vec<_> = zones.map(|zone| (zone != NO_ZONE).then_some(ZoneId(zone))).collect();
        let elsewhere = |column: Column| zones[column.index()].is_some();
        if geometry.scheme().absent().iter().any(elsewhere) {
            return Err(FormatError::Field { field: "zones" });
        }
        Ok(Self {
            segment: SegmentId(raw.segment.get()),
            generation: raw.generation.into(),
            epoch: raw.epoch.into(),
            stream,
            tabled: raw.tabled == 1,
            geometry,
            zone_capacity: BlockCount(raw.zone_capacity.get()),
            zones,
        })
    }

    /// The zone of a column.
    #[must_use]
    pub fn zone(&self, column: Column) -> Option<ZoneId> {
        self.zones[column.index()]
    }
}

fn decode_geometry(raw: &Raw) -> Result<SegmentGeometry, FormatError> {
    let arrangement =
        Arrangement::of_code(raw.rotation).ok_or(FormatError::Field { field: "rotation" })?;
    let (data, parity) = (raw.data_chunks.into(), raw.parity_chunks.into());
    let scheme = Scheme::arranged(arrangement, data, parity)
        .and_then(|scheme| scheme.without(ColumnSet::of_bits(raw.absent.get())))
        .map_err(|_| FormatError::Field { field: "scheme" })?;
    let (chunk, group) = (raw.chunk_blocks.get(), raw.group_rows.get());
    if !chunks_are_legal(chunk, group) {
        return Err(FormatError::Field { field: "chunk or group" });
    }
    let capacity = BlockCount(raw.zone_capacity.get());
    if capacity.0 > 1 << 28 {
        return Err(FormatError::Field { field: "zone capacity" });
    }
    let unit = decode_unit(raw.frame_exponent).ok_or(FormatError::Field { field: "layout" })?;
    SegmentGeometry::in_units(scheme, unit, capacity, chunk, group)
        .filter(|geometry| geometry.rows() == raw.rows.get())
        .ok_or(FormatError::Field { field: "rows" })
}

/// Whether segments may have chunks of so many blocks and groups of so many rows.
pub(super) fn chunks_are_legal(blocks: u32, rows: u32) -> bool {
    (1..=1024).contains(&blocks) && (1..=MAX_SEAL_ROWS).contains(&rows)
}

const _: () = assert!(size_of::<Raw>() == 184);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back_as_it_was() {
        for arrangement in [Arrangement::Rotated, Arrangement::Fixed] {
            comes_back(Scheme::arranged(arrangement, 3, 1).unwrap());
        }
        comes_back(Scheme::arranged(Arrangement::Mirrored, 2, 2).unwrap());
        let narrow = [0, 2].into_iter().map(Column).collect();
        comes_back(Scheme::new(3, 1).unwrap().on(narrow).unwrap());
    }

    fn comes_back(scheme: Scheme) {
        let header = SegmentHeader {
            segment: SegmentId(17),
            generation: Generation(99),
            epoch: Epoch(3),
            stream: StreamKind::Relocation,
            tabled: true,
            geometry: SegmentGeometry::new(scheme, BlockCount(4096), 2, 64).unwrap(),
            zone_capacity: BlockCount(4096),
            zones: [Some(4), None, Some(6), Some(0)]
                .into_iter()
                .zip(0..)
                .map(|(zone, column)| zone.filter(|_| scheme.contains(Column(column))).map(ZoneId))
                .collect(),
        };
        let block = header.encode(ArrayUuid([1; 16]));
        assert_eq!(SegmentHeader::decode(&block, ArrayUuid([1; 16])).as_ref(), Ok(&header));
        let foreign = FormatError::ForeignArray { found: ArrayUuid([1; 16]) };
        assert_eq!(SegmentHeader::decode(&block, ArrayUuid([2; 16])), Err(foreign));
    }
}
