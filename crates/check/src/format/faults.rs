//! Faults in superblock records: docs/format.md section 4.

use crate::format::fields::Fields;

const HEAD_BYTES: usize = 8;

/// Five counters of 8 bytes for each member.
const ERRORS_BYTES: usize = 40;

const RANGE_BYTES: usize = 16;

/// Most lost ranges in a record.
const RANGES_MOST: usize = 64;

/// Bound of the counters.
const COUNT_LIMIT: u64 = 1 << 62;

/// What a record says of lost blocks and errors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Faults {
    /// Damaged blocks that were restored, and that were not, by slot.
    pub(crate) damaged: Vec<(u64, u64)>,
    /// Lost ranges of the volume: first block and number.
    pub(crate) lost: Vec<(u64, u64)>,
    /// Whether ranges were joined, with blocks between them that are not lost.
    pub(crate) joined: bool,
}

impl Faults {
    /// The payload of a record of an array with so many columns and blocks.
    pub(crate) fn parse(bytes: &[u8], columns: u32, volume_blocks: u64) -> Option<Self> {
        let (head, rest) = bytes.split_at_checked(HEAD_BYTES)?;
        let head = Fields(head);
        let (ranges, columns) = (usize::from(head.u16(0)), columns as usize);
        if usize::from(head.u8(2)) != columns || head.u8(3) > 1 || ranges > RANGES_MOST {
            return None;
        }
        let (errors, rest) = rest.split_at_checked(columns * ERRORS_BYTES)?;
        if rest.len() != ranges * RANGE_BYTES {
            return None;
        }
        let mut faults = Self { joined: head.u8(3) == 1, ..Self::default() };
        for member in errors.chunks_exact(ERRORS_BYTES).map(Fields) {
            let counts = [0, 8, 16, 24, 32].map(|at| member.u64(at));
            if counts.iter().any(|count| *count >= COUNT_LIMIT) {
                return None;
            }
            faults.damaged.push((counts[3], counts[4]));
        }
        for range in rest.chunks_exact(RANGE_BYTES).map(Fields) {
            let (lba, blocks) = (range.u64(0), range.u64(8));
            let end = lba.checked_add(blocks)?;
            let is_apart = faults
                .lost
                .last()
                .is_none_or(|(lba_before, blocks_before)| lba_before + blocks_before < lba);
            if blocks == 0 || end > volume_blocks || !is_apart {
                return None;
            }
            faults.lost.push((lba, blocks));
        }
        Some(faults)
    }
}
