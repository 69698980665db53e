//! One group of a segment: reads its chunks, verifies them, and finds their stripes.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;

use crate::array::catalogue::Segment;
use crate::array::membership::Membership;
use crate::drive::{ReadBlock, may_be_unwritten};
use crate::format::blocks::{Oob, Place};
use crate::report::{Findings, Location, Problem};

/// A block of a chunk as found on media.
pub(crate) enum ChunkBlock {
    /// At or above the write pointer, or above its value before the zone was finished.
    Unwritten,
    /// Unreadable, or without valid metadata for this place.
    Damaged,
    /// A placeholder for a block that a rebuild could not reconstruct.
    Hole,
    /// Verified.
    Good { coded: [u8; 24], data: Bytes },
}

/// A chunk as found on media.
pub(crate) struct Chunk {
    /// Number of the stripe in the segment; `None` if no block of the chunk verifies.
    stripe: Option<u32>,
    pub(crate) blocks: Vec<ChunkBlock>,
}

impl Chunk {
    /// Whether every block of it verified.
    pub(crate) fn is_whole(&self) -> bool {
        self.blocks.iter().all(|block| matches!(block, ChunkBlock::Good { .. }))
    }

    fn is_damaged(&self) -> bool {
        self.blocks.iter().any(|block| matches!(block, ChunkBlock::Damaged))
    }
}

/// A group with all its chunks in memory: at most a span of every column.
pub(crate) struct Group {
    pub(crate) rows: Range<u32>,
    /// By column of the array, then by row from the group's first.
    columns: Vec<Option<Vec<Chunk>>>,
    /// The row of each stripe's chunk in each column.
    places: BTreeMap<(u32, u32), u32>,
}

impl Group {
    /// Reads a group from every present column.
    pub(crate) async fn read(
        membership: &Membership,
        segment: &Segment,
        rows: Range<u32>,
        findings: &mut Findings,
    ) -> Self {
        let shape = &segment.header.shape;
        assert_eq!(shape.group_of(rows.start), rows, "a group is read as a whole");
        let first = shape.offset_of_row(rows.start);
        let blocks = (rows.end - rows.start) * shape.chunk_blocks;
        let reads = segment.read_columns(membership, first, blocks).await;
        let mut group = Self { rows, columns: Vec::new(), places: BTreeMap::new() };
        for (column, read) in (0..).zip(reads) {
            let chunks = read.map(|(location, blocks)| {
                group.sort_column(membership, segment, column, location, blocks, findings)
            });
            group.columns.push(chunks);
        }
        group
    }

    /// Sorts the blocks of a column into chunks and finds their stripes.
    fn sort_column(
        &mut self,
        membership: &Membership,
        segment: &Segment,
        column: u32,
        location: Location,
        blocks: Vec<ReadBlock>,
        findings: &mut Findings,
    ) -> Vec<Chunk> {
        let shape = &segment.header.shape;
        let first = shape.offset_of_row(self.rows.start);
        let verifier = Verifier { membership, segment, column, rows: self.rows.clone() };
        let may_be_blank = segment.ends_before(self.rows.end);
        let mut blocks = (first..).zip(blocks);
        let mut chunks = Vec::new();
        for row in self.rows.clone() {
            let mut chunk = Chunk {
                stripe: (!segment.header.tabled).then_some(row),
                blocks: Vec::with_capacity(shape.chunk_blocks as usize),
            };
            let written = blocks.by_ref().take(shape.chunk_blocks as usize);
            for (within, (offset, block)) in (0..).zip(written) {
                // Written zeros verify.
                let may_be_unwritten = may_be_blank && may_be_unwritten(&block);
                let (verified, problem) = verifier.verify(block, within, &mut chunk.stripe);
                if may_be_unwritten && matches!(verified, ChunkBlock::Damaged) {
                    chunk.blocks.push(ChunkBlock::Unwritten);
                    continue;
                }
                if matches!(verified, ChunkBlock::Good { .. }) {
                    findings.report.counts.verified_blocks += 1;
                }
                if let Some(problem) = problem {
                    findings.add(location.offset(offset), problem);
                }
                chunk.blocks.push(verified);
            }
            let any = chunk.blocks.iter().any(|block| !matches!(block, ChunkBlock::Unwritten));
            chunk.blocks.resize_with(shape.chunk_blocks as usize, || ChunkBlock::Unwritten);
            if let Some(stripe) = chunk.stripe.filter(|_| any)
                && self.places.insert((stripe, column), row).is_some()
            {
                let location = location.offset(shape.offset_of_row(row));
                findings.add(location, Problem::StripeTwice { stripe });
            }
            chunks.push(chunk);
        }
        assert!(blocks.next().is_none(), "no more blocks were read than the group has");
        chunks
    }

    /// The row at which a present column holds its chunk of a stripe.
    pub(crate) fn row_of(&self, stripe: u32, column: u32) -> Option<u32> {
        self.places.get(&(stripe, column)).copied()
    }

    /// The chunk of a stripe on a column.
    pub(crate) fn chunk(&self, stripe: u32, column: u32) -> Option<&Chunk> {
        let row = self.row_of(stripe, column)?;
        let chunks = self.columns[column as usize].as_ref()?;
        chunks.get((row - self.rows.start) as usize)
    }

    /// Whether a block of a chunk is a hole, whose identity only the index run has.
    pub(crate) fn is_hole(&self, stripe: u32, column: u32, block: u32) -> bool {
        self.chunk(stripe, column)
            .is_some_and(|chunk| matches!(chunk.blocks[block as usize], ChunkBlock::Hole))
    }

    /// Whether the segment has the column.
    pub(crate) fn has_column(&self, column: u32) -> bool {
        self.columns[column as usize].is_some()
    }

    /// Whether damage hides the stripe of some chunk of the column.
    pub(crate) fn hides_chunks(&self, column: u32) -> bool {
        let chunks = self.columns[column as usize].as_ref();
        chunks.is_some_and(|chunks| {
            chunks.iter().any(|chunk| chunk.stripe.is_none() && chunk.is_damaged())
        })
    }
}

/// The metadata that a chunk block of a given column and group must have.
struct Verifier<'a> {
    membership: &'a Membership,
    segment: &'a Segment,
    column: u32,
    rows: Range<u32>,
}

impl Verifier<'_> {
    /// Judges block number `within` of a chunk of stripe `stripe`. If the stripe is unknown, the
    /// block determines it.
    fn verify(
        &self,
        block: ReadBlock,
        within: u16,
        stripe: &mut Option<u32>,
    ) -> (ChunkBlock, Option<Problem>) {
        let block = match block {
            Ok(block) => block,
            Err(status) => return (ChunkBlock::Damaged, Some(Problem::unreadable(status))),
        };
        let shape = &self.segment.header.shape;
        let oob =
            Oob::parse(self.membership.array, &block.oob, &block.data, shape.scheme.data_chunks);
        let Some(oob) = oob.filter(|oob| oob.block_in_chunk == within && self.fits(oob, *stripe))
        else {
            return (ChunkBlock::Damaged, Some(Problem::ChunkDamaged));
        };
        *stripe = Some(oob.stripe);
        match oob.place {
            Place::Chunk => (ChunkBlock::Good { coded: oob.coded, data: block.data }, None),
            _ => (ChunkBlock::Hole, Some(Problem::Hole)),
        }
    }

    fn fits(&self, oob: &Oob, stripe: Option<u32>) -> bool {
        let shape = &self.segment.header.shape;
        matches!(oob.place, Place::Chunk | Place::Hole)
            && oob.generation == self.segment.header.generation
            && u32::from(oob.width) == shape.columns()
            && u32::from(oob.column) == self.column
            && self.rows.contains(&oob.stripe)
            && u32::from(oob.role) == shape.role_of(self.column, oob.stripe)
            && oob.columns >> self.column & 1 == 1
            && oob.absent == shape.scheme.absent
            && oob.columns & u64::from(oob.absent) == 0
            && stripe.is_none_or(|stripe| stripe == oob.stripe)
    }
}
