//! Seals of leftover segments, one after the other in superblock records: docs/format.md, section
//! 4.

use zerocopy::FromBytes;
use zerocopy::little_endian::{U32, U64};

use crate::array::format::numbers::{Generation, SegmentId};

/// Most rows that a seal decides individually.
pub const MAX_SEAL_ROWS: u32 = 16_384;

/// Bytes before the bitmap.
const SEAL_HEAD: usize = 24;

/// The valid stripes of a leftover segment: decided once, kept until the segment is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealRecord {
    /// Number of the segment.
    pub segment: SegmentId,
    /// Generation of the segment.
    pub generation: Generation,
    /// Every stripe of rows below this one counts.
    pub rows: u32,
    /// Whether each stripe of the group that starts at `rows` counts, in order.
    pub valid: Vec<bool>,
}

impl SealRecord {
    /// Largest size of one seal in bytes.
    pub(super) const BYTES_MOST: usize = SEAL_HEAD + MAX_SEAL_ROWS as usize / 8;

    /// Size in a record, in bytes.
    fn encoded_bytes(&self) -> usize {
        SEAL_HEAD + self.valid.len().div_ceil(8)
    }

    fn encode_to(&self, bytes: &mut Vec<u8>) {
        let rows = u32::try_from(self.valid.len()).expect("a group's rows");
        assert!(rows <= MAX_SEAL_ROWS, "a seal of {rows} rows");
        bytes.extend(self.segment.0.to_le_bytes());
        bytes.extend(self.generation.0.to_le_bytes());
        bytes.extend(self.rows.to_le_bytes());
        bytes.extend(rows.to_le_bytes());
        bytes.extend(self.valid.chunks(8).map(|eight| {
            eight.iter().enumerate().fold(0, |byte, (bit, set)| byte | u8::from(*set) << bit)
        }));
    }

    /// Decodes the seal at the start of some bytes; returns the rest.
    fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (segment, rest) = U64::ref_from_prefix(bytes).ok()?;
        let (generation, rest) = U64::ref_from_prefix(rest).ok()?;
        let (rows, rest) = U32::ref_from_prefix(rest).ok()?;
        let (count, rest) = U32::ref_from_prefix(rest).ok()?;
        let count = count.get();
        if count > MAX_SEAL_ROWS {
            return None;
        }
        let (bitmap, rest) = rest.split_at_checked((count as usize).div_ceil(8))?;
        let valid = (0..count as usize).map(|at| bitmap[at / 8] >> (at % 8) & 1 == 1).collect();
        let (segment, generation) = (SegmentId::from(*segment), Generation::from(*generation));
        Some((Self { segment, generation, rows: rows.get(), valid }, rest))
    }
}

/// Encodes seals one after the other.
pub(super) fn encode(seals: &[SealRecord]) -> Vec<u8> {
    let mut bytes = Vec::new();
    seals.iter().for_each(|seal| seal.encode_to(&mut bytes));
    bytes
}

/// Decodes seals up to the end of the bytes; each segment once, in their order.
pub(super) fn decode(mut bytes: &[u8]) -> Option<Vec<SealRecord>> {
    let mut seals: Vec<SealRecord> = Vec::new();
    while !bytes.is_empty() {
        let (seal, rest) = SealRecord::decode(bytes)?;
        if seals.last().is_some_and(|last| last.segment >= seal.segment) {
            return None;
        }
        seals.push(seal);
        bytes = rest;
    }
    Some(seals)
}

/// The fewest lists of seals that fit into so many bytes each, in their order.
pub(super) fn pack<'a>(
    seals: impl IntoIterator<Item = &'a SealRecord>,
    most_bytes: usize,
) -> Vec<Vec<SealRecord>> {
    let mut lists: Vec<Vec<SealRecord>> = Vec::new();
    for (begins, seal) in packed(seals, most_bytes) {
        match lists.last_mut() {
            Some(list) if !begins => list.push(seal.clone()),
            _ => lists.push(vec![seal.clone()]),
        }
    }
    lists
}

/// Number of these lists.
pub(super) fn count_packed<'a>(
    seals: impl IntoIterator<Item = &'a SealRecord>,
    most_bytes: usize,
) -> usize {
    packed(seals, most_bytes).filter(|(begins, _)| *begins).count()
}

/// Seals, with a flag for each that begins a list.
fn packed<'a>(
    seals: impl IntoIterator<Item = &'a SealRecord>,
    most_bytes: usize,
) -> impl Iterator<Item = (bool, &'a SealRecord)> {
    let mut left = 0;
    seals.into_iter().map(move |seal| {
        let bytes = seal.encoded_bytes();
        assert!(
            bytes <= most_bytes,
            "the seal of segment {} takes {bytes} bytes of {most_bytes}",
            seal.segment
        );
        let begins = bytes > left;
        left = if begins { most_bytes } else { left } - bytes;
        (begins, seal)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seals_take_as_few_lists_as_they_fit_in() {
        let generation = Generation(8);
        let seal =
            |segment, rows| SealRecord { segment, generation, rows: 0, valid: vec![true; rows] };
        // The second large one does not fit, but the small ones behind it do.
        let seals = [
            seal(SegmentId(1), 16_000),
            seal(SegmentId(2), 16_000),
            seal(SegmentId(3), 8),
            seal(SegmentId(4), 0),
        ];
        let lists = pack(&seals, 2800);
        assert_eq!(lists, [&seals[..1], &seals[1..]]);
        for list in lists {
            assert_eq!(decode(&encode(&list)), Some(list));
        }
        assert_eq!(count_packed(&vec![seal(SegmentId(1), 0); 500], 2800), 5);
        assert!(pack([], 2800).is_empty());
    }

    #[test]
    fn what_is_cut_off_is_no_seal() {
        let (segment, generation) = (SegmentId(1), Generation(2));
        let seal = SealRecord { segment, generation, rows: 3, valid: vec![true; 9] };
        let next = SealRecord { segment: SegmentId(2), ..seal.clone() };
        let bytes = encode(&[seal.clone(), next.clone()]);
        for length in 1..bytes.len() {
            let whole = length == bytes.len() / 2;
            assert_eq!(decode(&bytes[..length]).is_some(), whole, "{length} bytes");
        }
        for twice in [[seal.clone(), seal.clone()], [next, seal]] {
            assert_eq!(decode(&encode(&twice)), None);
        }
    }
}
