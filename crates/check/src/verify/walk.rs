//! Walks through a segment group by group: decides which stripes count, verifies them, and collects
//! the versions in them. docs/format.md sections 6, 7, 10 and 11.

use std::ops::Range;

use zoneweave_zoned::is_zero;

use crate::array::catalogue::Segment;
use crate::array::membership::Membership;
use crate::drive::{Block, may_be_unwritten};
use crate::format::blocks::{Content, Entry, EntryKind, Identity, Oob, Place, parse_tombstones};
use crate::format::parity::Code;
use crate::format::shape::Shape;
use crate::report::{Findings, Location, Problem};
use crate::verify::group::Group;
use crate::verify::index_run::SpanEntries;
use crate::verify::stripes::{DataBlock, Slice, read_slice};
use crate::volume::versions::{Spot, Versions};

/// Most blocks of filler behind a segment.
const FILLER_BLOCKS: u32 = 256;

/// The rule by which the stripes of a group count.
#[derive(PartialEq, Eq)]
enum Verdict {
    /// Every stripe counts.
    All,
    /// The seal lists the stripes that count.
    Sealed(Vec<bool>),
    /// Complete stripes count.
    Complete,
}

/// The inputs and outputs of a walk.
pub(crate) struct Walk<'a> {
    pub(crate) membership: &'a Membership,
    pub(crate) code: &'a Code,
    pub(crate) segment: &'a Segment,
    /// Ordinal of the segment among those found.
    pub(crate) ordinal: u32,
    pub(crate) versions: &'a mut Versions,
    pub(crate) findings: &'a mut Findings,
}

impl Walk<'_> {
    /// Checks all of the segment.
    pub(crate) async fn run(mut self) {
        let shape = self.segment.header.shape;
        self.findings.report.counts.segments += 1;
        self.findings.report.counts.sealed_segments += u64::from(self.segment.is_sealed());
        self.check_seal();
        for span in 0..shape.spans() {
            if !self.segment.written_beyond(shape.offset_of_row(shape.span(span).start)) {
                break;
            }
            let mut entries = SpanEntries::new(&shape, span);
            for rows in shape.groups(span) {
                if self.segment.written_beyond(shape.offset_of_row(rows.start)) {
                    self.check_group(rows, &mut entries).await;
                }
            }
            entries.check_run(self.membership, self.segment, self.findings).await;
        }
        if self.segment.is_sealed() {
            self.check_filler().await;
        }
    }

    /// Checks the blocks behind a sealed segment: a zone that is finished has none.
    async fn check_filler(&mut self) {
        let end = self.segment.header.shape.end();
        let reads = self.segment.read_columns(self.membership, end, FILLER_BLOCKS + 1).await;
        for (column, read) in (0..).zip(reads) {
            let Some((location, blocks)) = read else { continue };
            if blocks.len() > FILLER_BLOCKS as usize {
                continue;
            }
            for (offset, block) in (end..).zip(blocks) {
                if may_be_unwritten(&block) {
                    continue;
                }
                let problem = match block {
                    Ok(block) if self.is_filler(&block, column) => continue,
                    Ok(_) => Problem::FillerDamaged,
                    Err(status) => Problem::unreadable(status),
                };
                self.findings.add(location.offset(offset), problem);
            }
        }
    }

    fn is_filler(&self, block: &Block, column: u32) -> bool {
        let data_chunks = self.segment.header.shape.scheme.data_chunks;
        let oob = Oob::parse(self.membership.array, &block.oob, &block.data, data_chunks);
        oob.is_some_and(|oob| oob.place == Place::Filler && u32::from(oob.column) == column)
    }

    fn location(&self) -> Location {
        Location::default().segment(self.segment.header.segment)
    }

    fn check_seal(&mut self) {
        let Some(seal) = &self.segment.seal else { return };
        let header = &self.segment.header;
        let shape = &header.shape;
        let fits = seal.generation == header.generation
            && match shape.rows.checked_sub(seal.rows) {
                None => false,
                Some(0) => seal.valid.is_empty(),
                Some(_) => {
                    let group = shape.group_of(seal.rows);
                    group.start == seal.rows
                        && seal.valid.len() <= (group.end - group.start) as usize
                }
            };
        if !fits {
            let sealed = header.segment;
            self.findings.add(self.location(), Problem::SealMisfit { sealed });
        }
    }

    fn verdict(&self, rows: &Range<u32>) -> Verdict {
        let shape = &self.segment.header.shape;
        if let Some(seal) = &self.segment.seal {
            return match rows.start {
                first if first < seal.rows => Verdict::All,
                first if first == seal.rows => Verdict::Sealed(seal.valid.clone()),
                _ => Verdict::Sealed(Vec::new()),
            };
        }
        let end = shape.offset_of_row(rows.start) + (rows.end - rows.start) * shape.chunk_blocks;
        if self.segment.surely_written_beyond(end) { Verdict::All } else { Verdict::Complete }
    }

    async fn check_group(&mut self, rows: Range<u32>, entries: &mut SpanEntries) {
        let shape = self.segment.header.shape;
        assert!(!rows.is_empty() && rows.end <= shape.rows, "{rows:?} are no group of the segment");
        let verdict = self.verdict(&rows);
        let group = Group::read(self.membership, self.segment, rows.clone(), self.findings).await;
        for stripe in rows.clone() {
            let counts = match &verdict {
                Verdict::All => true,
                Verdict::Sealed(valid) => {
                    valid.get((stripe - rows.start) as usize).copied().unwrap_or(false)
                }
                Verdict::Complete => is_complete(&group, stripe, &shape),
            };
            if counts {
                self.findings.report.counts.stripes += 1;
                self.check_stripe(&group, stripe, entries);
                continue;
            }
            let counts = &mut self.findings.report.counts;
            if shape.scheme.own_columns().any(|column| group.row_of(stripe, column).is_some()) {
                counts.discarded_stripes += 1;
            }
            if verdict == Verdict::Complete && is_doubtful(&group, stripe, &shape) {
                counts.doubtful_stripes += 1;
            }
        }
    }

    /// Verifies a stripe that counts and adds its blocks to the versions.
    fn check_stripe(&mut self, group: &Group, stripe: u32, entries: &mut SpanEntries) {
        let shape = self.segment.header.shape;
        for column in shape.scheme.own_columns() {
            let gone = group.has_column(column) && group.row_of(stripe, column).is_none();
            if gone && !group.hides_chunks(column) {
                self.findings.add(self.location(), Problem::ChunkMissing { stripe, column });
            }
        }
        for block in 0..shape.chunk_blocks {
            let array = self.membership.array;
            match read_slice(array, &shape, self.code, group, stripe, block) {
                Slice::Whole(blocks) => {
                    let data_chunks = shape.scheme.data_chunks as usize;
                    assert_eq!(blocks.len(), data_chunks, "one block of each data chunk");
                    entries.note(group, stripe, block, |role| expected_entry(&blocks, role));
                    for (role, data) in (0..).zip(&blocks) {
                        self.take(data, role, stripe, block);
                    }
                }
                Slice::Lost(blocks) => {
                    self.findings.add(self.location(), Problem::StripeLost { stripe, block });
                    for (role, data) in (0..).zip(&blocks) {
                        if let Some(data) = data {
                            self.take(data, role, stripe, block);
                        }
                    }
                }
                Slice::Contradictory => {
                    self.findings.add(self.location(), Problem::ParityDiffers { stripe });
                }
            }
        }
    }

    /// Adds the content of a data block to the versions.
    fn take(&mut self, block: &DataBlock, role: u32, stripe: u32, at: u32) {
        let Identity { lba, sequence, data_checksum, content } = block.identity;
        let shape = self.segment.header.shape;
        self.findings.report.counts.reconstructed_blocks += u64::from(block.reconstructed);
        match content {
            Content::Padding => {
                let zero = lba == 0 && sequence == 0 && is_zero(&block.data);
                if !zero {
                    self.findings.add(self.location(), Problem::IdentityMalformed);
                }
            }
            // Redundant with other blocks: section 13.
            Content::Mapping => {}
            Content::Tombstones => self.take_trims(block),
            Content::Data | Content::Lost => {
                if lba >= self.membership.config.volume_blocks {
                    self.findings.add(self.location(), Problem::IdentityMalformed);
                    return;
                }
                self.check_ceiling(sequence);
                let column = u8::try_from(shape.column_of(role, stripe)).expect("below 32");
                let spot = Spot {
                    segment: self.ordinal,
                    column,
                    stripe_block: stripe * shape.chunk_blocks + at,
                    lost: content == Content::Lost,
                };
                if self.versions.add(lba, sequence, data_checksum, spot).is_err() {
                    let problem = Problem::VersionsDiffer { lba, sequence };
                    self.findings.add(self.location(), problem);
                }
            }
        }
    }

    fn take_trims(&mut self, block: &DataBlock) {
        let volume_blocks = self.membership.config.volume_blocks;
        match parse_tombstones(self.membership.array, &block.data, volume_blocks) {
            None => self.findings.add(self.location(), Problem::TombstonesMalformed),
            Some(trims) => {
                for trim in trims {
                    self.check_ceiling(trim.sequence);
                    self.versions.trim(trim);
                }
            }
        }
    }

    fn check_ceiling(&mut self, sequence: u64) {
        let ceiling = self.membership.sequence_ceiling;
        if sequence >= ceiling {
            self.findings.add(self.location(), Problem::SequenceAboveCeiling { sequence, ceiling });
        }
    }
}

/// Whether every present column has its whole chunk, and the columns are enough.
fn is_complete(group: &Group, stripe: u32, shape: &Shape) -> bool {
    let whole = |column: u32| group.chunk(stripe, column).is_some_and(|chunk| chunk.is_whole());
    let mut present = shape.scheme.own_columns().filter(|column| group.has_column(*column));
    shape.scheme.is_enough_in(|column| group.has_column(column)) && present.all(whole)
}

/// Whether every present column may have a chunk, and too few of them are whole to rebuild the
/// stripe.
fn is_doubtful(group: &Group, stripe: u32, shape: &Shape) -> bool {
    let chunk = |column: u32| group.chunk(stripe, column);
    let there = |column: &u32| chunk(*column).is_some() || group.hides_chunks(*column);
    let whole = |role| chunk(shape.column_of(role, stripe)).is_some_and(|chunk| chunk.is_whole());
    let mut present = shape.scheme.own_columns().filter(|column| group.has_column(*column));
    present.all(|column| there(&column)) && !shape.scheme.is_enough(whole)
}

/// The expected index entry of the block of a role.
fn expected_entry(blocks: &[DataBlock], role: u32) -> Entry {
    let entry = |kind, lba, sequence| Entry { sequence, lba, kind, stripe_in_group: 0 };
    match blocks.get(role as usize).map(|block| block.identity) {
        None => entry(EntryKind::Parity, 0, 0),
        Some(identity) => {
            entry(EntryKind::Content(identity.content), identity.lba, identity.sequence)
        }
    }
}
