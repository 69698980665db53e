//! Scrub: reads and verifies all valid blocks, and renews damaged ones.
//!
//! Blocks of a zone cannot be overwritten, so damage is repaired by relocation. A segment with any
//! damaged block (data, parity, header or summary) is evacuated and its zones are reset. Damaged
//! superblock records are replaced by a snapshot in the other superblock zone. Open segments are
//! closed first, so that they are verified like all others. The scrub ends when no damage is left.
//!
//! A block beyond repair is relocated as a mark of the lost block. So that each loss is counted
//! once, as new or as old, a scrub begins when earlier relocations of damage have ended: the marks
//! that they wrote are then in segments that it reads.

use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

use zoneweave_erasure::Code;
use zoneweave_runtime::Semaphore;
use zoneweave_zoned::{AlignedBuffer, BlockCount, Payload, ZoneAddress, ZoneOffset};

use crate::array::health::Members;
use crate::array::io::MemberIo;
use crate::array::repair::faults::RecordsFaults;
use crate::array::repair::scrub::{Scrub, ScrubState, ScrubUnits};
use crate::array::stop::StopReason;
use crate::instrument::marks::{Mark, mark, mark_if};
use crate::log::engine::address::{BlockPlace, SegmentSlot};
use crate::log::engine::core::Core;
use crate::log::engine::geometry::Row;
use crate::log::format::{CODED_BYTES, EntryKind, IndexEntry, Oob, SegmentId};
use crate::log::recover::records::read_records;
use crate::log::recover::{NoHeader, read_header};
use crate::log::repair::awaited::{awaits_member, leave_damage};
use crate::log::repair::known_loss::note_known_loss;
use crate::log::repair::relocations::{check_going_on, close_open_segments, relocations_ended};
use crate::log::segment::pin::Pin;
use crate::log::segment::scan::load_span;
use crate::log::segment::spans;
use crate::log::segment::table::{DamagedBlock, Fate, Phase, Segment, Work};
use crate::log::segment::verify::verify;
use crate::scheme::{Column, ColumnSet, StripeId};

/// Findings of a scrub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubReport {
    /// Number of segments read.
    pub segments: u64,
    /// Blocks read and verified.
    pub blocks: u64,
    /// Blocks that were damaged or unreadable.
    pub damaged: u64,
    /// Stripes whose parity did not match although every block verified.
    pub parity_mismatches: u64,
    /// Blocks lost for good.
    pub unrepairable: u64,
    /// Damaged blocks that stay as they are, as only a drive that is out of service can restore
    /// them.
    pub left: u64,
    /// Blocks of the volume that were lost before: reading them is an error until they are written
    /// again.
    pub lost_before: u64,
    /// Slots that had no drive for all of the scrub or a part of it.
    pub unread: ColumnSet,
    /// Whether it was stopped before the end.
    pub stopped: bool,
}

impl ScrubReport {
    /// Whether everything was read, and what can be restored is.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.unread.is_empty() && !self.stopped && self.left == 0
    }
}

/// A scrub under way.
pub(in crate::log) struct Findings {
    report: ScrubReport,
    /// Segments that are claimed for it from the beginning.
    held: Vec<SegmentSlot>,
    /// Segments below this number are read. Losses found meanwhile are marked in later ones.
    end: SegmentId,
    /// Lost blocks that each member has counted so far.
    counted: Vec<u64>,
}

impl Findings {
    /// Adds the blocks lost since the last call. Between units, a member may be replaced, and the
    /// new one counts from zero.
    fn count_lost(&mut self, core: &Core) {
        let now = unrepairable(core);
        assert_eq!(now.len(), self.counted.len(), "an array has a fixed number of members");
        let lost = now.iter().zip(&self.counted).map(|(now, before)| now.saturating_sub(*before));
        self.report.unrepairable += lost.sum::<u64>();
        self.counted = now;
    }
}

impl ScrubUnits for Core {
    type Unit = SegmentSlot;
    type Report = Findings;

    fn scrub_state(&self) -> &ScrubState {
        &self.scrub
    }

    fn membership_permit(&self) -> &Semaphore {
        &self.admin
    }

    fn check_scrub(&self) -> Result<(), StopReason> {
        let stopped = self.state.borrow().array.stopped;
        let closing = || self.closing.get().then_some(StopReason::ShuttingDown);
        stopped.or_else(closing).map_or(Ok(()), Err)
    }

    async fn scrub_unit(
        self: &Rc<Self>,
        slot: SegmentSlot,
        findings: &mut Findings,
    ) -> Result<Option<SegmentSlot>, StopReason> {
        findings.count_lost(self);
        let held = findings.held.contains(&slot);
        let end = findings.end;
        scrub_slot(self, slot, (held, end), &mut findings.report).await?;
        findings.count_lost(self);
        Ok(None)
    }
}

/// Scrubs the volume while it is in use.
///
/// # Errors
/// If the volume stops.
pub(in crate::log) async fn scrub(core: &Rc<Core>) -> Result<ScrubReport, StopReason> {
    let Some(mut scrub) = Scrub::begin(core).await? else {
        return Ok(ScrubReport { stopped: true, ..ScrubReport::default() });
    };
    let mut report = ScrubReport::default();
    scrub_superblocks(core, &mut report).await?;
    if !relocations_ended(core, &mut scrub).await? {
        return Ok(ScrubReport { stopped: true, ..report });
    }
    let counted = unrepairable(core);
    let (closed, slots, end) = {
        let mut state = core.state.borrow_mut();
        (state.losses_unmet, state.restorations_put_off) = (0, 0);
        let closed = close_open_segments(&mut state, |_| true);
        for slot in &closed {
            // Claimed until it is verified.
            state.segments[*slot].life.claim(Work::Scrub);
        }
        let others = state.segments.iter().map(|(slot, _)| slot).filter(|at| !closed.contains(at));
        // Claimed segments come first: other tasks may wait for the space in them.
        let slots: Vec<_> = closed.iter().copied().chain(others).collect();
        (closed, slots, state.registry.next_segment)
    };
    let held = closed.len();
    let mut findings = Findings { report, held: closed, end, counted };
    let is_whole = scrub.units(&slots, held, &mut findings).await?;
    findings.report.stopped = !is_whole;
    // The rest is relocation, which needs no standstill of the members.
    scrub.release_members();
    // Segments being freed were skipped and may be damaged: until their zones are reset, they can
    // be found damaged.
    let dying: BTreeSet<SegmentId> = {
        let state = core.state.borrow();
        let dead = state.segments.iter().filter(|(_, segment)| segment.phase() == Phase::Dead);
        dead.map(|(_, segment)| segment.id).collect()
    };
    let to_go =
        |segment: &Segment| segment.is_damaged() && !segment.waits() || dying.contains(&segment.id);
    while core.state.borrow().segments.iter().any(|(_, segment)| to_go(segment)) {
        check_going_on(core)?;
        close_open_segments(&mut core.state.borrow_mut(), Segment::is_damaged);
        core.changed.open();
        core.changed.wait().await;
        findings.count_lost(core);
    }
    findings.count_lost(core);
    // A reader may have found a loss first, and the block was gone when its segment was read.
    let (unmet, put_off) = {
        let state = core.state.borrow();
        (state.losses_unmet, state.restorations_put_off)
    };
    mark_if(Mark::ScrubMissedLoss, || unmet > 0);
    let report = &mut findings.report;
    report.left += put_off;
    report.damaged = (report.damaged + unmet).max(report.unrepairable + report.left);
    drop(scrub);
    core.state.borrow().array.stopped.map_or(Ok(findings.report), Err)
}

/// Lost blocks that each member has counted.
fn unrepairable(core: &Core) -> Vec<u64> {
    core.state.borrow().array.members.iter().map(|member| member.errors.unrepairable).collect()
}

async fn scrub_superblocks(core: &Rc<Core>, report: &mut ScrubReport) -> Result<(), StopReason> {
    let columns: Vec<_> = core.state.borrow().array.scheme().iter().collect();
    let mut damaged = 0;
    // If the superblock moved to the other zone meanwhile, the old one would seem to have lost its
    // records.
    let held = core.superblock.hold().await;
    record_unread(core, report);
    for column in columns {
        let (Some(device), Some(zones)) = (core.device(column), core.superblock.zones(column))
        else {
            continue;
        };
        let Ok(found) = read_records(&*device).await else { continue };
        let broken =
            found.scan.damaged.iter().filter(|(at, _)| zones.contains(&at.zone)).count() as u64;
        // A zone without readable records is no longer recognised as a superblock zone.
        let unrecognised = zones.iter().filter(|zone| {
            let written = found.scan.zones[zone.index()].write_pointer.0 > 0;
            written && !found.scan.records.iter().any(|(at, _)| at.zone == **zone)
        });
        let gone: u64 = unrecognised
            .map(|zone| u64::from(found.scan.zones[zone.index()].write_pointer.0))
            .sum();
        report.blocks += found.scan.records.len() as u64;
        damaged += broken + gone;
        core.state.borrow_mut().array.members[column.index()].errors.checksum += broken + gone;
        core.state.borrow_mut().array.members[column.index()].errors.repaired += broken + gone;
    }
    drop(held);
    report.damaged += damaged;
    if damaged > 0 {
        // The first snapshot leaves the damaged zone, which is then reset; the other zone is fresh.
        mark(Mark::ScrubRenewedRecords);
        core.superblock.commit_snapshot(core).await?;
    }
    Ok(())
}

/// Scrubs the segment in a slot, unless it is empty or its segment was opened since.
async fn scrub_slot(
    core: &Rc<Core>,
    slot: SegmentSlot,
    (held, end): (bool, SegmentId),
    report: &mut ScrubReport,
) -> Result<(), StopReason> {
    if !hold_still(core, slot, held, end).await? {
        mark(Mark::ScrubPassedOver);
        return Ok(());
    }
    let pin = Pin::new(core, slot);
    let damaged = scrub_segment(core, slot, report).await;
    drop(pin);
    let mut state = core.state.borrow_mut();
    let segment = &mut state.segments[slot];
    segment.life.release(|work| work == Work::Scrub);
    if damaged {
        segment.mark_damaged();
    }
    drop(state);
    core.changed.open();
    Ok(())
}

/// Waits until a segment can be claimed, and claims it. Returns `false` if it is gone or changes
/// again. A segment under relocation or rebuild is waited for, as that may stop and leave it as it
/// is.
async fn hold_still(
    core: &Rc<Core>,
    slot: SegmentSlot,
    held: bool,
    end: SegmentId,
) -> Result<bool, StopReason> {
    loop {
        if core.closing.get() && !held {
            return Err(StopReason::ShuttingDown);
        }
        {
            let mut state = core.state.borrow_mut();
            let Some(segment) = state.segments.get_mut(slot) else { return Ok(false) };
            if !segment.is_closed() || segment.id >= end {
                return Ok(false);
            }
            if segment.in_flight() == 0 && (held || !segment.is_busy()) {
                segment.life.claim(Work::Scrub);
                return Ok(true);
            }
        }
        mark(Mark::ScrubWaited);
        if !held {
            check_going_on(core)?;
        }
        core.changed.wait().await;
    }
}

async fn scrub_segment(core: &Rc<Core>, slot: SegmentSlot, report: &mut ScrubReport) -> bool {
    report.segments += 1;
    {
        let state = core.state.borrow();
        let segment = &state.segments[slot];
        assert!(segment.is_busy(), "segment {} is scrubbed without a claim", segment.id);
    }
    record_unread(core, report);
    let to_repair = |report: &ScrubReport| report.damaged - report.left + report.parity_mismatches;
    let before = to_repair(report);
    scrub_headers(core, slot, report).await;
    let (geometry, indexed) = {
        let state = core.state.borrow();
        (state.segments[slot].geometry, state.segments[slot].entries.summaries())
    };
    for span in 0..indexed {
        scrub_index_runs(core, slot, span, report).await;
    }
    if core.state.borrow().segments[slot].phase() == Phase::Sealed {
        scrub_filler(core, slot, report).await;
    }
    let rows = if indexed < geometry.spans() {
        let longest = core.state.borrow().segments[slot].entries.longest();
        geometry.rows_of_span(indexed).start + longest / geometry.chunk_blocks()
    } else {
        geometry.rows()
    };
    let mut row = 0;
    while row < rows {
        let group = geometry.group_of(Row(row));
        scrub_group(core, slot, group.clone(), report).await;
        row = group.end;
    }
    // A drive that was lost meanwhile.
    record_unread(core, report);
    to_repair(report) > before
}

/// Records the slots without a drive. A member that is evicted loses its columns in all segments,
/// so the segments do not show which were not read.
fn record_unread(core: &Core, report: &mut ScrubReport) {
    let columns: Vec<_> = core.state.borrow().array.scheme().iter().collect();
    for column in columns.into_iter().filter(|column| core.device(*column).is_none()) {
        mark(Mark::ScrubIncomplete);
        report.unread = report.unread.with(column);
    }
}

/// Counts damaged blocks of a column. Nothing is counted for a member that failed meanwhile, as all
/// of it is lost. Relocation finds out which of the blocks cannot be restored.
fn count_damage(
    core: &Core,
    slot: SegmentSlot,
    column: Column,
    blocks: Vec<DamagedBlock>,
    report: &mut ScrubReport,
) {
    if blocks.is_empty() || core.device(column).is_none() {
        return;
    }
    mark(Mark::ScrubFoundDamage);
    report.damaged += blocks.len() as u64;
    let mut state = core.state.borrow_mut();
    for block in blocks {
        assert!(block.column == column, "{block:?} is not of {column}");
        let known = state.count_damage(slot, block, Fate::Restored);
        if known == Some(Fate::Lost) {
            state.losses_unmet = state.losses_unmet.saturating_sub(1);
        }
    }
    drop(state);
    core.schedule_fault_record();
}

async fn scrub_headers(core: &Rc<Core>, slot: SegmentSlot, report: &mut ScrubReport) {
    let zones = core.state.borrow().segments[slot].zones.clone();
    for (column, zone) in zones.into_iter().enumerate() {
        let column = Column::of(column);
        let Some(zone) = zone else { continue };
        report.blocks += 1;
        if let Err(why) = read_header(core, column, zone.zone).await {
            let is_readable = why == NoHeader::Damaged;
            let header = DamagedBlock { column, offset: ZoneOffset(0), is_readable };
            count_damage(core, slot, column, vec![header], report);
        }
    }
}

async fn scrub_filler(core: &Rc<Core>, slot: SegmentSlot, report: &mut ScrubReport) {
    let columns: Vec<_> = core.state.borrow().array.scheme().iter().collect();
    for column in columns {
        let (damaged, blocks) = spans::damaged_filler(core, slot, column).await;
        report.blocks += blocks;
        count_damage(core, slot, column, damaged, report);
    }
}

async fn scrub_index_runs(core: &Rc<Core>, slot: SegmentSlot, span: u32, report: &mut ScrubReport) {
    let (columns, copies, blocks) = {
        let state = core.state.borrow();
        let segment = &state.segments[slot];
        let columns: Vec<_> = segment.columns().iter().collect();
        (columns, segment.geometry.index_copies(), segment.geometry.index_blocks(span))
    };
    for column in columns {
        for copy in 0..copies {
            report.blocks += u64::from(blocks);
            let damaged = spans::damaged_blocks(core, slot, span, column, copy).await;
            count_damage(core, slot, column, damaged, report);
        }
    }
}

/// Verifies every written chunk block of a group, and the parity of its stripes.
async fn scrub_group(
    core: &Rc<Core>,
    slot: SegmentSlot,
    rows: Range<u32>,
    report: &mut ScrubReport,
) {
    let geometry = core.state.borrow().segments[slot].geometry;
    let scheme = geometry.scheme();
    assert!(rows == geometry.group_of(Row(rows.start)), "rows {rows:?} are not a group");
    let span = geometry.span_of(Row(rows.start));
    let indexed = span < core.state.borrow().segments[slot].entries.summaries();
    let entries = if indexed {
        load_span(core, slot, span).await
    } else {
        core.state.borrow().segments[slot].entries.columns().to_vec()
    };
    let span_first = geometry.first_of_span(span).0;
    // The blocks that verified, by stripe, block within the chunk, and role.
    let chunk = geometry.chunk_blocks() as usize;
    let mut found: Vec<Vec<Option<(Payload, usize, Oob)>>> =
        vec![vec![None; scheme.columns()]; rows.len() * chunk];
    let mut counted = vec![false; rows.len() * chunk];
    let mut rotten_marks = Vec::new();
    let mut damaged = Vec::new();
    for column in scheme.iter() {
        let chunks = read_rows(core, slot, column, rows.clone()).await;
        let Some(chunks) = chunks else { continue };
        for (row, chunk_read) in rows.clone().zip(chunks) {
            for within in 0..geometry.chunk_blocks() {
                let block = geometry.block_of(Row(row), within);
                let listed = entries[column.index()].get((block.0 - span_first) as usize);
                let in_group =
                    |entry: &&IndexEntry| usize::from(entry.stripe_in_group) < rows.len();
                let listed = listed.filter(in_group);
                let Some(entry) = listed.filter(|entry| entry.kind != EntryKind::Empty) else {
                    continue;
                };
                report.blocks += 1;
                let place = BlockPlace { slot, column, block };
                let is_lost = note_known_loss(core, place, entry);
                let at = usize::from(entry.stripe_in_group) * chunk + within as usize;
                counted[at] = true;
                let read = chunk_read.block(within as usize);
                let is_readable = read.is_some();
                let verified = read.and_then(|(payload, within)| {
                    let (data, oob) = (payload.block(within), payload.block_oob(within));
                    let state = core.state.borrow();
                    let oob = verify(&state, place, column, &data, &oob)?;
                    let stripe = StripeId::at(&rows, entry.stripe_in_group);
                    let ours = oob.stripe == stripe && oob.role == scheme.role_of(column, stripe);
                    ours.then_some((payload.clone(), within, oob))
                });
                match verified {
                    Some(verified) => {
                        report.lost_before += u64::from(is_lost);
                        let role = verified.2.role.index();
                        found[at][role] = Some(verified);
                    }
                    None => {
                        rotten_marks.extend(is_lost.then_some(at));
                        let offset = geometry.offset_of(block);
                        let block = DamagedBlock { column, offset, is_readable };
                        damaged.push((at, (place, *entry), block));
                    }
                }
            }
        }
    }
    let intact = |at: usize| -> ColumnSet {
        found[at].iter().flatten().map(|(_, _, oob)| oob.column).collect()
    };
    for (at, listed, block) in damaged {
        let awaits = awaits_member(&core.state.borrow(), slot, block.column, intact(at));
        if !awaits {
            count_damage(core, slot, block.column, vec![block], report);
        } else if leave_damage(core, listed, block) {
            report.damaged += 1;
            report.left += 1;
        }
    }
    for at in rotten_marks {
        // A mark that cannot be restored is found lost, and counted so, when it is relocated.
        mark(Mark::ScrubFoundRottenMark);
        report.lost_before += u64::from(scheme.is_readable_from(intact(at)));
    }
    for blocks in found.iter().zip(counted).filter(|(_, counted)| *counted).map(|(b, _)| b) {
        let matches = parity_matches(core.code(scheme), blocks);
        mark_if(Mark::ScrubFoundParity, || !matches);
        report.parity_mismatches += u64::from(!matches);
    }
}

/// A chunk as it was read.
enum ChunkRead {
    Whole(Payload),
    /// By block, as the chunk could not be read at once; `None` if a block cannot be read.
    Blocks(Vec<Option<Payload>>),
}

impl ChunkRead {
    /// The payload with a block of the chunk, and its place in that.
    fn block(&self, within: usize) -> Option<(&Payload, usize)> {
        match self {
            Self::Whole(payload) => Some((payload, within)),
            Self::Blocks(blocks) => blocks[within].as_ref().map(|payload| (payload, 0)),
        }
    }
}

/// The chunk of each row; `None` if the segment does not have the column.
async fn read_rows(
    core: &Rc<Core>,
    slot: SegmentSlot,
    column: Column,
    rows: Range<u32>,
) -> Option<Vec<ChunkRead>> {
    let (zone, geometry) = {
        let state = core.state.borrow();
        let segment = &state.segments[slot];
        (segment.zones[column.index()]?.zone, segment.geometry)
    };
    let chunk = BlockCount(geometry.chunk_blocks());
    let count = BlockCount(u32::try_from(rows.len()).expect("a group's rows") * chunk.0);
    let at = ZoneAddress { zone, offset: geometry.offset_of_row(Row(rows.start)) };
    if let Ok(whole) = core.read_zone(column, at, count).await {
        let whole = Rc::new(whole);
        let rows = (0..rows.len()).map(|row| ChunkRead::Whole(chunk_of(&whole, row, chunk)));
        return Some(rows.collect());
    }
    mark(Mark::ScrubChunkByChunk);
    let mut chunks = Vec::with_capacity(rows.len());
    for row in rows {
        let at = ZoneAddress { zone, offset: geometry.offset_of_row(Row(row)) };
        chunks.push(read_chunk(core, column, at, chunk).await);
    }
    Some(chunks)
}

/// Reads a chunk, and each block by itself if it cannot be read at once: others are not damaged.
async fn read_chunk(
    core: &Rc<Core>,
    column: Column,
    at: ZoneAddress,
    blocks: BlockCount,
) -> ChunkRead {
    if let Ok(whole) = core.read_zone(column, at, blocks).await {
        return ChunkRead::Whole(whole);
    }
    let mut read = Vec::with_capacity(blocks.index());
    for block in 0..blocks.0 {
        let at = ZoneAddress { zone: at.zone, offset: at.offset.plus(BlockCount(block)) };
        read.push(core.read_zone(column, at, BlockCount(1)).await.ok());
    }
    ChunkRead::Blocks(read)
}

fn chunk_of(whole: &Payload, row: usize, chunk: BlockCount) -> Payload {
    let first = row * chunk.index();
    assert!(
        first + chunk.index() <= whole.blocks().index(),
        "a chunk at block {first} of {}",
        whole.blocks()
    );
    let data = (first..first + chunk.index()).map(|at| whole.block(at)).collect();
    let oob = whole.oob.slice(first * 64..(first + chunk.index()) * 64);
    Payload { data, oob }
}

/// Whether the stored parity equals the parity of the data blocks; also true if a data block is
/// missing, as there is nothing to compare.
fn parity_matches(code: &Code, blocks: &[Option<(Payload, usize, Oob)>]) -> bool {
    let (data, parity) = blocks.split_at(code.data_chunks());
    let bodies: Option<Vec<_>> = data
        .iter()
        .map(|block| block.as_ref().map(|(p, at, oob)| (p.block(*at), oob.coded)))
        .collect();
    let Some(bodies) = bodies else { return true };
    let sources: Vec<&[u8]> = bodies.iter().map(|(data, _)| &data[..]).collect();
    let coded: Vec<&[u8]> = bodies.iter().map(|(_, coded)| &coded[..]).collect();
    let mut computed: Vec<_> =
        (0..parity.len()).map(|_| AlignedBuffer::zeroed(BlockCount(1))).collect();
    let mut identities = vec![[0; CODED_BYTES]; parity.len()];
    let mut targets: Vec<&mut [u8]> = computed.iter_mut().map(|block| block.as_mut()).collect();
    code.encode(&sources, &mut targets);
    let mut targets: Vec<&mut [u8]> = identities.iter_mut().map(|bytes| &mut bytes[..]).collect();
    code.encode(&coded, &mut targets);
    parity.iter().zip(computed.iter().zip(&identities)).all(|(stored, (data, identity))| {
        stored.as_ref().is_none_or(|(payload, at, oob)| {
            payload.block(*at)[..] == *data.as_ref() && oob.coded == *identity
        })
    })
}
