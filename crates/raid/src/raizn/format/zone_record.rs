//! The state of a logical zone in superblock records.
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | zone |
//! | 4 | flags: 1 a reset is under way, 2 finished, 4 finished by the volume itself |
//! | 5 | number of junk ranges |
//! | 6..8 | zero |
//! | 8..16 | generation: resets of the zone |
//! | 16..20 | logical blocks of a finished zone, else 0 |
//! | 20.. | junk ranges of 12 bytes: column, three zero bytes, first block, block behind the last |
//!
//! *Junk* is what a crash left in a column behind the zone's write pointer. It cannot be
//! overwritten, so later blocks of these places are in the parity log (RAIZN §5.2). A zone under
//! reset is neither finished nor has junk.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::array::format::bounds::NUMBER_LIMIT;
use crate::array::format::config::ArrayConfig;
use crate::array::format::numbers::Generation;
use crate::scheme::Column;

const RESETTING: u8 = 1;
const FINISHED: u8 = 2;
const BY_VOLUME: u8 = 4;

/// Blocks of a column that hold nothing of the zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Junk {
    pub(crate) column: Column,
    /// Column offset of the first block.
    pub(crate) start: u32,
    /// Column offset behind the last block.
    pub(crate) end: u32,
}

/// The state of a logical zone. A later record of a zone replaces an earlier one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ZoneRecord {
    pub(crate) zone: u32,
    /// Resets of the zone.
    pub(crate) generation: Generation,
    /// The zone is empty, although some columns may still hold blocks of an earlier generation.
    pub(crate) resetting: bool,
    /// Blocks of a finished zone.
    pub(crate) finished: Option<u32>,
    /// Whether a start finished it for want of resources.
    pub(crate) by_volume: bool,
    /// In ascending order; ranges of a column neither overlap nor touch.
    pub(crate) junk: Vec<Junk>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Raw {
    zone: U32,
    flags: u8,
    junk: u8,
    reserved: [u8; 2],
    generation: U64,
    finished: U32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawJunk {
    column: u8,
    reserved: [u8; 3],
    start: U32,
    end: U32,
}

impl ZoneRecord {
    /// A zone that was never reset.
    #[must_use]
    pub(crate) fn new(zone: u32) -> Self {
        Self {
            zone,
            generation: Generation::NONE,
            resetting: false,
            finished: None,
            by_volume: false,
            junk: Vec::new(),
        }
    }

    /// Bytes of the record.
    #[must_use]
    pub(crate) fn bytes(&self) -> usize {
        Self::bytes_with(self.junk.len())
    }

    /// Bytes of a record with so many junk ranges.
    #[must_use]
    pub(crate) const fn bytes_with(junk_ranges: usize) -> usize {
        size_of::<Raw>() + junk_ranges * size_of::<RawJunk>()
    }

    pub(crate) fn encode_to(&self, out: &mut Vec<u8>) {
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let raw = Raw {
            zone: self.zone.into(),
            flags: flag(self.resetting, RESETTING)
                | flag(self.finished.is_some(), FINISHED)
                | flag(self.by_volume, BY_VOLUME),
            junk: u8::try_from(self.junk.len()).expect("at most 255 junk ranges"),
            reserved: [0; 2],
            generation: self.generation.into(),
            finished: self.finished.unwrap_or(0).into(),
        };
        out.extend_from_slice(raw.as_bytes());
        for junk in &self.junk {
            let Junk { column, start, end } = *junk;
            let raw = RawJunk {
                column: column.0,
                reserved: [0; 3],
                start: start.into(),
                end: end.into(),
            };
            out.extend_from_slice(raw.as_bytes());
        }
    }

    /// Decodes the record at the start of `bytes`; returns the rest.
    pub(crate) fn decode<'a>(bytes: &'a [u8], config: &ArrayConfig) -> Option<(Self, &'a [u8])> {
        let (raw, mut rest) = Raw::ref_from_prefix(bytes).ok()?;
        let mut junk = Vec::with_capacity(raw.junk.into());
        for _ in 0..raw.junk {
            let (one, after) = RawJunk::ref_from_prefix(rest).ok()?;
            let (start, end) = (one.start.get(), one.end.get());
            let fits = usize::from(one.column) < config.scheme.columns() && start < end;
            let one = Junk { column: Column(one.column), start, end };
            let in_order = junk.last().is_none_or(|last: &Junk| {
                last.column < one.column || last.column == one.column && last.end < one.start
            });
            (fits && in_order && end <= config.zone_capacity.0).then(|| junk.push(one))?;
            rest = after;
        }
        let (generation, zone) = (Generation::from(raw.generation), raw.zone.get());
        let finished = (raw.flags & FINISHED != 0).then(|| raw.finished.get());
        let by_volume = raw.flags & BY_VOLUME != 0;
        let resetting = raw.flags & RESETTING != 0;
        let sane = raw.flags & !(RESETTING | FINISHED | BY_VOLUME) == 0
            && (finished.is_some() || !by_volume)
            && !(resetting && (finished.is_some() || !junk.is_empty()))
            && zone < config.zones
            && generation.0 < NUMBER_LIMIT;
        let found = Self { zone, generation, resetting, finished, by_volume, junk };
        sane.then_some((found, rest))
    }
}

#[cfg(test)]
mod tests {
    use crate::array::format::config::{Checksums, VolumeKind, ZonedConfig};
    use crate::array::format::envelope::ArrayUuid;
    use crate::scheme::Scheme;
    use crate::shards::Shard;
    use zoneweave_zoned::BlockCount;

    use super::*;

    /// The start with such a record panicked.
    #[test]
    fn a_zone_under_reset_is_empty() {
        let config = ArrayConfig {
            array: ArrayUuid([7; 16]),
            name: "zoned".to_owned(),
            scheme: Scheme::new(2, 1).expect("a possible scheme"),
            write_unit: BlockCount(1),
            zone_capacity: BlockCount(240),
            zones: 11,
            shard: Shard::WHOLE,
            volume: VolumeKind::Zoned(ZonedConfig {
                unit_blocks: 4,
                checksums: Checksums::Metadata,
            }),
        };
        let decodes = |record: &ZoneRecord| {
            let mut bytes = Vec::new();
            record.encode_to(&mut bytes);
            ZoneRecord::decode(&bytes, &config).is_some_and(|(found, _)| found == *record)
        };
        let resetting = ZoneRecord { resetting: true, ..ZoneRecord::new(3) };
        assert!(decodes(&resetting));
        let junk = vec![Junk { column: Column(0), start: 8, end: 9 }];
        assert!(decodes(&ZoneRecord { junk: junk.clone(), ..ZoneRecord::new(3) }));
        assert!(!decodes(&ZoneRecord { junk, ..resetting.clone() }));
        assert!(!decodes(&ZoneRecord { finished: Some(8), ..resetting }));
    }
}
