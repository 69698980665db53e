//! The narrow list in superblock records: docs/format.md, section 4.
//!
//! The whole list is in one record, so that the newest readable one is complete.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
use zoneweave_zoned::ZoneId;

use super::header::{NO_ZONE, StreamKind, chunks_are_legal};
use super::{ArrayConfig, SegmentHeader};
use crate::array::format::bounds::NUMBER_LIMIT;
use crate::array::format::numbers::{Generation, SegmentId};
use crate::log::engine::geometry::SegmentGeometry;
use crate::scheme::ColumnSet;

/// The narrow segments that are alive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NarrowListRecord {
    /// Every live narrow segment with a smaller generation is listed.
    pub below: Generation,
    /// Headers of the segments, ascending by generation.
    pub segments: Vec<SegmentHeader>,
}

/// The fixed part of an entry, followed by one zone for each column of the segment.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Raw {
    segment: U64,
    generation: U64,
    epoch: U64,
    /// A bit for each column that it is not on.
    absent: U32,
    chunk_blocks: U32,
    group_rows: U32,
    stream: u8,
    tabled: u8,
    reserved: [u8; 2],
}

const _: () = assert!(size_of::<Raw>() == 40);

impl NarrowListRecord {
    /// Bytes of a segment on so many columns.
    pub(in crate::log) const fn bytes_of(columns: usize) -> usize {
        size_of::<Raw>() + columns * size_of::<U32>()
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = self.below.0.to_le_bytes().to_vec();
        for header in &self.segments {
            let scheme = header.geometry.scheme();
            assert!(
                header.zones.len() == scheme.width(),
                "narrow segment {} lists {} zones for {} columns",
                header.segment,
                header.zones.len(),
                scheme.width()
            );
            let raw = Raw {
                segment: header.segment.into(),
                generation: header.generation.into(),
                epoch: header.epoch.into(),
                absent: scheme.absent().bits().into(),
                chunk_blocks: header.geometry.chunk_blocks().into(),
                group_rows: header.geometry.group_rows().into(),
                stream: header.stream as u8,
                tabled: header.tabled.into(),
                reserved: [0; 2],
            };
            bytes.extend(raw.as_bytes());
            let zones = scheme.iter().map(|column| header.zone(column));
            bytes.extend(zones.flat_map(|zone| zone.map_or(NO_ZONE, |zone| zone.0).to_le_bytes()));
        }
        bytes
    }

    /// Decodes the list of an array, up to the end of the bytes.
    pub(super) fn decode(bytes: &[u8], config: &ArrayConfig) -> Option<Self> {
        let (below, mut rest) = U64::ref_from_prefix(bytes).ok()?;
        let below = Generation::from(*below);
        let mut segments: Vec<SegmentHeader> = Vec::new();
        while !rest.is_empty() {
            let (header, behind) = decode_segment(rest, config)?;
            let ascends = segments.last().is_none_or(|last| last.generation < header.generation);
            if !ascends || header.generation >= below {
                return None;
            }
            segments.push(header);
            rest = behind;
        }
        (below.0 < NUMBER_LIMIT).then_some(Self { below, segments })
    }
}

fn decode_segment<'a>(bytes: &'a [u8], config: &ArrayConfig) -> Option<(SegmentHeader, &'a [u8])> {
    let (raw, rest) = Raw::ref_from_prefix(bytes).ok()?;
    let absent = ColumnSet::of_bits(raw.absent.get());
    let all = ColumnSet::all(config.scheme.columns());
    if raw.tabled > 1 || raw.reserved != [0; 2] || !absent.without(all).is_empty() {
        return None;
    }
    let numbers = [raw.segment, raw.generation, raw.epoch];
    if numbers.iter().any(|number| number.get() >= NUMBER_LIMIT) {
        return None;
    }
    let scheme = config.scheme.on(all.without(absent)).filter(|scheme| scheme.is_narrow())?;
    let (chunk, group) = (raw.chunk_blocks.get(), raw.group_rows.get());
    let capacity = config.zone_capacity;
    let geometry = chunks_are_legal(chunk, group)
        .then(|| SegmentGeometry::in_units(scheme, config.write_unit, capacity, chunk, group))??;
    let (listed, rest) = <[U32]>::ref_from_prefix_with_elems(rest, scheme.columns()).ok()?;
    let mut zones = vec![None; scheme.width()];
    for (column, zone) in scheme.iter().zip(listed) {
        zones[column.index()] = Some(zone.get()).filter(|zone| *zone != NO_ZONE).map(ZoneId);
    }
    let header = SegmentHeader {
        segment: SegmentId(raw.segment.get()),
        generation: raw.generation.into(),
        epoch: raw.epoch.into(),
        stream: StreamKind::of(raw.stream)?,
        tabled: raw.tabled == 1,
        geometry,
        zone_capacity: capacity,
        zones,
    };
    Some((header, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::format::numbers::Epoch;
    use crate::scheme::{Column, Scheme};

    fn config() -> ArrayConfig {
        ArrayConfig { scheme: Scheme::new(3, 2).unwrap(), ..ArrayConfig::sample() }
    }

    fn header(generation: u64, columns: [u8; 3]) -> SegmentHeader {
        let config = config();
        let scheme = config.scheme.on(columns.into_iter().map(Column).collect()).unwrap();
        let zones = (0..5_u8).map(|at| columns.contains(&at).then_some(ZoneId(at.into())));
        let mut zones: Vec<_> = zones.collect();
        zones[usize::from(columns[1])] = None;
        SegmentHeader {
            segment: SegmentId(generation + 10),
            generation: Generation(generation),
            epoch: Epoch(3),
            stream: StreamKind::User,
            tabled: generation.is_multiple_of(2),
            geometry: SegmentGeometry::new(scheme, config.zone_capacity, 1, 16).unwrap(),
            zone_capacity: config.zone_capacity,
            zones,
        }
    }

    fn list() -> NarrowListRecord {
        NarrowListRecord {
            below: Generation(9),
            segments: vec![header(7, [0, 2, 4]), header(8, [1, 2, 3])],
        }
    }

    #[test]
    fn a_list_comes_back_as_it_was() {
        for list in [list(), NarrowListRecord { below: Generation(4), segments: Vec::new() }] {
            let bytes = list.encode();
            assert_eq!(bytes.len(), 8 + list.segments.len() * NarrowListRecord::bytes_of(3));
            assert_eq!(NarrowListRecord::decode(&bytes, &config()), Some(list));
        }
    }

    #[test]
    fn what_is_cut_off_is_no_list() {
        let bytes = list().encode();
        for length in 0..bytes.len() {
            let whole = [8, 8 + NarrowListRecord::bytes_of(3)].contains(&length);
            let decoded = NarrowListRecord::decode(&bytes[..length], &config());
            assert_eq!(decoded.is_some(), whole, "{length} bytes");
        }
    }

    #[test]
    fn segments_out_of_order_or_of_no_narrow_shape_are_none() {
        let listing =
            |below, segments| NarrowListRecord { below: Generation(below), segments }.encode();
        let decode = |bytes: Vec<u8>| NarrowListRecord::decode(&bytes, &config());
        let [one, two] = [7, 8].map(|generation| header(generation, [0, 2, 4]));
        assert_eq!(decode(listing(9, vec![two.clone(), one.clone()])), None);
        assert_eq!(decode(listing(9, vec![two.clone(), two.clone()])), None);
        assert_eq!(decode(listing(8, vec![one.clone(), two])), None, "not below");
        let bytes = listing(9, vec![one]);
        for absent in [0_u8, 0b1_1110, 0b10_0010] {
            let mut other = bytes.clone();
            other[8 + 24] = absent;
            assert_eq!(decode(other), None, "not on {absent:b}");
        }
    }
}
