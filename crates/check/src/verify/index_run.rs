//! Compares index runs with the blocks they list: docs/format.md section 8.

use crate::array::catalogue::Segment;
use crate::array::membership::Membership;
use crate::drive::{Block, may_be_unwritten};
use crate::format::blocks::{Content, Entry, EntryKind, IndexBlock, Oob, Place};
use crate::format::shape::{ENTRIES_PER_BLOCK, Shape};
use crate::report::{Findings, Problem};
use crate::verify::group::Group;

/// The expected entries of the index run of a span, from its groups.
pub(crate) struct SpanEntries {
    shape: Shape,
    span: u32,
    /// By column of the array, then by chunk block of the span; `None` if unknown. For missing
    /// columns, chunks are in order of stripes.
    columns: Vec<Vec<Option<Entry>>>,
    present: Vec<bool>,
}

impl SpanEntries {
    pub(crate) fn new(shape: &Shape, span: u32) -> Self {
        let rows = shape.span(span);
        let column = vec![None; ((rows.end - rows.start) * shape.chunk_blocks) as usize];
        let columns = shape.scheme.width() as usize;
        Self { shape: *shape, span, columns: vec![column; columns], present: vec![false; columns] }
    }

    /// Records the expected entries for one block of every chunk of a stripe, by role.
    pub(crate) fn note(
        &mut self,
        group: &Group,
        stripe: u32,
        block: u32,
        entry_of_role: impl Fn(u32) -> Entry,
    ) {
        let first = self.shape.span(self.span).start;
        let stripe_in_group =
            u16::try_from(stripe - group.rows.start).expect("at most 16,384 rows");
        for column in self.shape.scheme.own_columns() {
            self.present[column as usize] = group.has_column(column);
            let row = match group.row_of(stripe, column) {
                Some(row) => row,
                None if group.has_column(column) => continue,
                None => stripe,
            };
            if group.is_hole(stripe, column, block) {
                continue;
            }
            let entry = entry_of_role(self.shape.role_of(column, stripe));
            let at = (row - first) * self.shape.chunk_blocks + block;
            self.columns[column as usize][at as usize] = Some(Entry { stripe_in_group, ..entry });
        }
    }

    /// Checks the index run of every present column up to its write pointer.
    pub(crate) async fn check_run(
        &self,
        membership: &Membership,
        segment: &Segment,
        findings: &mut Findings,
    ) {
        let first = self.shape.index_offset(self.span);
        let blocks = self.shape.lists_end(self.span) - first;
        let reads = segment.read_columns(membership, first, blocks).await;
        let may_be_blank = segment.ends_before(self.shape.span(self.span).end);
        for (column, read) in (0..).zip(reads) {
            let Some((location, blocks)) = read else { continue };
            for (at, block) in (0..).zip(blocks) {
                if may_be_blank && may_be_unwritten(&block) {
                    continue;
                }
                let location = location.offset(first + at);
                match block {
                    Ok(block) => {
                        self.check_block(
                            membership,
                            segment,
                            (column, at),
                            &block,
                            &mut |problem| {
                                findings.add(location, problem);
                            },
                        );
                    }
                    Err(status) => findings.add(location, Problem::unreadable(status)),
                }
            }
        }
    }

    /// Checks block `at` of the index run of `column`.
    fn check_block(
        &self,
        membership: &Membership,
        segment: &Segment,
        (column, at): (u32, u32),
        block: &Block,
        report: &mut impl FnMut(Problem),
    ) {
        let header = &segment.header;
        let copy_blocks = self.shape.index_blocks(self.span);
        let listed = self.shape.listed_column(column, at / copy_blocks);
        let first = at % copy_blocks * ENTRIES_PER_BLOCK;
        let total = u32::try_from(self.columns[0].len()).expect("a span has 16,384 blocks at most");
        let count = (total - first).min(ENTRIES_PER_BLOCK);
        let oob =
            Oob::parse(membership.array, &block.oob, &block.data, self.shape.scheme.data_chunks)
                .filter(|oob| oob.place == Place::Index && oob.generation == header.generation)
                .filter(|oob| u32::from(oob.column) == column)
                .filter(|oob| oob.absent == self.shape.scheme.absent);
        let index = IndexBlock::parse(membership.array, &block.data).filter(|index| {
            index.segment == header.segment
                && index.generation == header.generation
                && (index.span, index.first) == (self.span, first)
                && u32::from(index.column) == listed
                && index.entries.len() == count as usize
        });
        let (Some(_), Some(index)) = (oob, index) else { return report(Problem::IndexDamaged) };
        for (entry, found) in (0..).zip(&index.entries) {
            if !self.agrees(listed, first + entry, found, header.tabled) {
                report(Problem::IndexDiffers { entry, column: listed });
            }
        }
    }

    /// Whether an entry equals the expected one of chunk block `at` of a column.
    fn agrees(&self, column: u32, at: u32, found: &Entry, tabled: bool) -> bool {
        let present = self.present[column as usize];
        if found.kind == EntryKind::Empty && !present {
            return true;
        }
        let first = self.shape.span(self.span).start;
        let group = self.shape.group_of(first + at / self.shape.chunk_blocks);
        let row = if present || !tabled {
            first + at / self.shape.chunk_blocks
        } else {
            group.start + u32::from(found.stripe_in_group)
        };
        if !group.contains(&row) {
            return false;
        }
        let block = at % self.shape.chunk_blocks;
        let position = (row - first) * self.shape.chunk_blocks + block;
        let Some(expected) = self.columns[column as usize][position as usize] else { return true };
        let names_block = expected.kind != EntryKind::Content(Content::Tombstones);
        let same_block = (found.lba, found.sequence) == (expected.lba, expected.sequence);
        found.kind == expected.kind
            && found.stripe_in_group == expected.stripe_in_group
            && (!names_block || same_block)
    }
}
