//! Writes and reads the summaries that close each span.

use std::rc::Rc;

use zoneweave_zoned::{
    BlockCount, Payload, Status, ZoneAddress, ZoneId, ZoneOffset, ZonedDevice, ZonedDeviceExt,
    zero_blocks,
};

use crate::array::health::Members;
use crate::array::io::MemberIo;
use crate::array::io::is_blank;
use crate::array::repair::faults::RecordsFaults;
use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::address::SegmentSlot;
use crate::log::engine::core::Core;
use crate::log::engine::geometry::Row;
use crate::log::engine::state::State;
use crate::log::format::structured::structured_payload;
use crate::log::format::{
    ArrayUuid, ENTRIES_PER_INDEX_BLOCK, Generation, IndexBlock, IndexEntry, Oob, Place, Seed,
    SegmentId,
};
use crate::log::segment::active_zones::finish_durably;
use crate::log::segment::table::{DamagedBlock, Fate, Phase, Segment};
use crate::scheme::{Column, ColumnSet, StripeId};

/// Blocks of filler that are cheaper to write than finishing the zone: finishing pads at the
/// drive's program bandwidth, after a fixed time (measured on a ZN540: 2.6 ms even for a full
/// zone).
const FILLER_BLOCKS: u32 = 256;

/// Writes the summary of a finished span to every column, and continues with the segment. The
/// span's last group is made durable first: a summary must not promise blocks that a power loss can
/// still take.
pub(in crate::log) async fn write(core: &Rc<Core>, slot: SegmentSlot, span: u32) {
    let flush = !core.state.borrow().array.fua_always && !mutant(Mutant::IndexRunBeforeFlush);
    if flush && core.flush_members().await.is_err() {
        mark(Mark::GroupEndStopped);
        return;
    }
    let runs = {
        let state = core.state.borrow();
        if state.segments[slot].phase() != Phase::Open {
            mark(Mark::SpanGivenUp);
            return;
        }
        let zones = state.segments[slot].zones.clone();
        let columns = state.array.scheme().iter().zip(zones);
        let indexed = state.segments[slot].entries.summaries();
        assert!(indexed == span, "span {span} gets a summary after {indexed} others");
        let present = columns.filter_map(|(column, zone)| Some((column, zone?.zone)));
        present.map(|(column, zone)| (column, zone, run(&state, slot, span, column))).collect()
    };
    let aborted_by = write_runs(core, slot, span, runs).await;
    let mut state = core.state.borrow_mut();
    if state.segments[slot].phase() != Phase::Open {
        mark(Mark::SpanGivenUp);
        return;
    }
    if let Some(column) = aborted_by {
        mark(Mark::IndexRunNotWritten);
        drop(state);
        core.abort_segment(slot, column);
        return;
    }
    state.segments[slot].end_span(span);
    state.advance_group(slot);
    drop(state);
    core.changed.open();
}

/// Returns a column whose summary could not be written.
async fn write_runs(
    core: &Rc<Core>,
    slot: SegmentSlot,
    span: u32,
    runs: Vec<(Column, ZoneId, Vec<Payload>)>,
) -> Option<Column> {
    let geometry = core.state.borrow().segments[slot].geometry;
    let start = geometry.index_offset(span, 0);
    let writes = runs.into_iter().map(|(column, zone, run)| async move {
        let Some(device) = core.device(column) else { return Some(column) };
        let before = core.failures_before(column);
        let mut result = write_run(core, &*device, ZoneAddress { zone, offset: start }, run).await;
        if result.is_ok() && span + 1 == geometry.spans() {
            let end = ZoneAddress { zone, offset: geometry.end() };
            result = fill_up(core, &*device, column, end).await;
        }
        core.record_write(column, &device, before, result);
        result.is_err().then_some(column)
    });
    futures_util::future::join_all(writes).await.into_iter().flatten().next()
}

/// Writes one column's summary to its place, in transfers of the drive's size, one after the other.
///
/// # Errors
/// The first failing write's status.
pub(in crate::log) async fn write_run(
    core: &Core,
    device: &dyn ZonedDevice,
    start: ZoneAddress,
    run: Vec<Payload>,
) -> Result<(), Status> {
    let fua = core.state.borrow().array.fua_always;
    let unit = device.geometry().write_unit.index();
    let most = device.geometry().max_transfer.index() / unit * unit;
    assert!(most > 0, "a transfer of less than {unit} blocks");
    let mut at = start;
    for part in run.chunks(most) {
        let blocks = BlockCount(u32::try_from(part.len()).expect("a transfer"));
        device.write(at, join(part), fua).await?;
        at.offset = at.offset.plus(blocks);
    }
    Ok(())
}

/// Fills the zone of a sealed segment from its end, so that it no longer counts as active: with
/// filler if few blocks remain, by a finish if this drive's zones are larger than the array uses.
///
/// # Errors
/// Status of the drive.
pub(in crate::log) async fn fill_up(
    core: &Core,
    device: &dyn ZonedDevice,
    column: Column,
    end: ZoneAddress,
) -> Result<(), Status> {
    let (array, fua) = {
        let state = core.state.borrow();
        (state.array.config.array, state.array.fua_always)
    };
    let capacity = device.geometry().zone_capacity;
    assert!(end.offset.0 <= capacity.0, "{end} is beyond a zone of {capacity}");
    let left = BlockCount(capacity.0 - end.offset.0);
    if left.0 == 0 {
        return Ok(());
    }
    if left.0 > FILLER_BLOCKS.min(device.geometry().max_transfer.0) {
        mark(Mark::LargerZoneFinished);
        return finish_durably(device, end.zone).await;
    }
    mark(Mark::ZoneFilled);
    let zeros = || zero_blocks(BlockCount(1));
    let absent = ColumnSet::default();
    let none = Generation::NONE;
    let block = || structured_payload(array, zeros(), Place::Filler, none, column, absent);
    let filler: Vec<_> = (0..left.0).map(|_| block()).collect();
    device.write(end, join(&filler), fua).await?;
    Ok(())
}

fn join(parts: &[Payload]) -> Payload {
    let data = parts.iter().flat_map(|part| part.data.iter().cloned()).collect();
    let oob: Vec<u8> = parts.iter().flat_map(|part| part.oob.iter().copied()).collect();
    Payload { data, oob: oob.into() }
}

/// The blocks of a column's summary: its own entries and those of its predecessors.
fn run(state: &State, slot: SegmentSlot, span: u32, column: Column) -> Vec<Payload> {
    let segment = &state.segments[slot];
    let entries = |of: Column| &segment.entries.columns()[of.index()][..];
    run_of(state.array.config.array, segment, span, column, entries)
}

/// The summary as the running engine writes it, from entries by column.
pub(in crate::log) fn run_of<'a>(
    array: ArrayUuid,
    segment: &Segment,
    span: u32,
    column: Column,
    entries: impl Fn(Column) -> &'a [IndexEntry],
) -> Vec<Payload> {
    let geometry = &segment.geometry;
    let rows = geometry.rows_of_span(span);
    let expected = ((rows.end - rows.start) * geometry.chunk_blocks()) as usize;
    let mut blocks = Vec::new();
    for copy in 0..geometry.index_copies() {
        let of = geometry.indexed_column(column, copy);
        let listed = entries(of);
        assert!(listed.len() == expected, "{} entries of {expected} in span {span}", listed.len());
        for (at, part) in (0..).zip(listed.chunks(ENTRIES_PER_INDEX_BLOCK as usize)) {
            let block = IndexBlock {
                segment: segment.id,
                generation: segment.generation,
                column: of,
                span,
                first: at * ENTRIES_PER_INDEX_BLOCK,
                entries: part.to_vec(),
            };
            let encoded = block.encode(array);
            let (place, absent) = (Place::Index, geometry.scheme().absent());
            let generation = segment.generation;
            blocks.push(structured_payload(array, encoded, place, generation, column, absent));
        }
    }
    let most = geometry.index_copies() * geometry.index_blocks(span);
    assert!(blocks.len() == most as usize, "{} of {most} blocks of a summary", blocks.len());
    blocks
}

/// Reads a column's entries of a span from any intact copy.
pub(super) async fn read(
    core: &Rc<Core>,
    slot: SegmentSlot,
    span: u32,
    of: Column,
) -> Option<Vec<IndexEntry>> {
    let geometry = core.state.borrow().segments[slot].geometry;
    for copy in 0..geometry.index_copies() {
        let holder = geometry.index_holder(of, copy);
        if let Some(entries) = read_copy(core, slot, span, holder, copy).await {
            mark_if(Mark::ListCopyUsed, || copy > 0);
            return Some(entries);
        }
    }
    None
}

/// Reads one copy: number `copy` in the summary of column `holder`.
async fn read_copy(
    core: &Rc<Core>,
    slot: SegmentSlot,
    span: u32,
    holder: Column,
    copy: u32,
) -> Option<Vec<IndexEntry>> {
    let (at, blocks, expected) = expect(&core.state.borrow(), slot, span, holder, copy)?;
    let payload = core.read_zone(holder, at, blocks).await.ok()?;
    let entries = decode_copy(&payload, &expected);
    if entries.is_none() {
        count_damaged_copy(core, slot, holder, at, &payload, &expected);
    }
    entries
}

/// Counts the damaged blocks of a copy. Another copy is used; a scrub renews this one.
fn count_damaged_copy(
    core: &Core,
    slot: SegmentSlot,
    column: Column,
    at: ZoneAddress,
    payload: &Payload,
    expected: &Expected,
) {
    let mut state = core.state.borrow_mut();
    for (number, block) in (0..).zip(payload.iter_blocks()) {
        if !expected.is_at(number, &block, &payload.block_oob(number as usize)) {
            let offset = at.offset.plus(BlockCount(number));
            let damaged = DamagedBlock { column, offset, is_readable: true };
            state.count_damage(slot, damaged, Fate::Found);
        }
    }
    drop(state);
    core.schedule_fault_record();
}

/// Whether a column that a drive has in a zone, while its segment lacks it, has its chunks in the
/// rows in which the segment counts them, by the drive's own summaries.
pub(in crate::log) async fn has_known_order(
    core: &Core,
    slot: SegmentSlot,
    column: Column,
    device: &dyn ZonedDevice,
    zone: ZoneId,
) -> bool {
    let geometry = match core.state.borrow().segments.get(slot) {
        Some(segment) if segment.table.is_none() => return true,
        Some(segment) => segment.geometry,
        None => return false,
    };
    let mut copies = 0..geometry.index_copies();
    let own = copies.find(|copy| geometry.index_holder(column, *copy) == column);
    let Some(own) = own else { return false };
    for span in (0..geometry.spans()).filter(|span| !geometry.rows_of_span(*span).is_empty()) {
        let expected = expect_in(&core.state.borrow(), slot, span, (column, zone), own);
        let Some((at, blocks, expected)) = expected else { return false };
        let Ok(payload) = device.read(at, blocks).await else { return false };
        let Some(entries) = decode_copy(&payload, &expected) else { return false };
        let state = core.state.borrow();
        let Some(segment) = state.segments.get(slot) else { return false };
        let chunks = entries.chunks(geometry.chunk_blocks() as usize);
        let is_known = geometry.rows_of_span(span).zip(chunks).all(|(row, blocks)| {
            let group = geometry.group_of(Row(row));
            let stripe = StripeId::at(&group, blocks[0].stripe_in_group);
            stripe.is_in(&group) && segment.row_of_stripe(column, stripe) == Some(Row(row))
        });
        if !is_known {
            return false;
        }
    }
    true
}

/// Blocks of one copy that are damaged or misplaced.
pub(in crate::log) async fn damaged_blocks(
    core: &Rc<Core>,
    slot: SegmentSlot,
    span: u32,
    holder: Column,
    copy: u32,
) -> Vec<DamagedBlock> {
    let expected = expect(&core.state.borrow(), slot, span, holder, copy);
    let Some((at, blocks, expected)) = expected else { return Vec::new() };
    let mut damaged = Vec::new();
    for block in 0..blocks.0 {
        let at = ZoneAddress { zone: at.zone, offset: at.offset.plus(BlockCount(block)) };
        let read = core.read_zone(holder, at, BlockCount(1)).await;
        let is_intact =
            |payload: &Payload| expected.is_at(block, &payload.block(0), &payload.block_oob(0));
        if !read.as_ref().is_ok_and(is_intact) {
            let (column, offset, is_readable) = (holder, at.offset, read.is_ok());
            damaged.push(DamagedBlock { column, offset, is_readable });
        }
    }
    damaged
}

/// Damaged blocks in the filler behind a sealed segment's last summary, and the length of the
/// filler.
pub(in crate::log) async fn damaged_filler(
    core: &Rc<Core>,
    slot: SegmentSlot,
    column: Column,
) -> (Vec<DamagedBlock>, u64) {
    let Some(device) = core.device(column) else { return (Vec::new(), 0) };
    let (zone, end, seed) = {
        let state = core.state.borrow();
        let segment = &state.segments[slot];
        let Some(zone) = segment.zones[column.index()] else { return (Vec::new(), 0) };
        (zone.zone, segment.geometry.end().0, state.array.seed)
    };
    let capacity = device.geometry().zone_capacity.0;
    if capacity - end > FILLER_BLOCKS.min(device.geometry().max_transfer.0) {
        return (Vec::new(), 0);
    }
    let mut damaged = Vec::new();
    for offset in end..capacity {
        let read = core.read_zone(column, ZoneAddress::new(zone, offset), BlockCount(1)).await;
        // A crash may have come before the filler, and the next start finished the zone without it.
        let is_filler = |payload: &Payload| {
            let oob = payload.block_oob(0);
            Oob::verify_other(seed, &oob, &payload.block(0), Place::Filler).is_some()
        };
        if !is_blank(&read) && !read.as_ref().is_ok_and(is_filler) {
            let (offset, is_readable) = (ZoneOffset(offset), read.is_ok());
            damaged.push(DamagedBlock { column, offset, is_readable });
        }
    }
    (damaged, u64::from(capacity - end))
}

struct Expected {
    array: ArrayUuid,
    segment: SegmentId,
    generation: Generation,
    span: u32,
    column: Column,
    entries: usize,
}

/// Place, length and expected contents of a copy.
fn expect(
    state: &State,
    slot: SegmentSlot,
    span: u32,
    holder: Column,
    copy: u32,
) -> Option<(ZoneAddress, BlockCount, Expected)> {
    let zone = state.segments.get(slot)?.zones[holder.index()]?.zone;
    expect_in(state, slot, span, (holder, zone), copy)
}

/// The same, of a column in some zone.
fn expect_in(
    state: &State,
    slot: SegmentSlot,
    span: u32,
    (holder, zone): (Column, ZoneId),
    copy: u32,
) -> Option<(ZoneAddress, BlockCount, Expected)> {
    let segment = state.segments.get(slot)?;
    let geometry = &segment.geometry;
    let at = ZoneAddress { zone, offset: geometry.index_offset(span, copy) };
    let expected = Expected {
        array: state.array.config.array,
        segment: segment.id,
        generation: segment.generation,
        span,
        column: geometry.indexed_column(holder, copy),
        entries: geometry.rows_of_span(span).len() * geometry.chunk_blocks() as usize,
    };
    Some((at, BlockCount(geometry.index_blocks(span)), expected))
}

impl Expected {
    /// Whether a block is number `block` of the copy.
    fn is_at(&self, block: u32, data: &[u8], oob: &[u8]) -> bool {
        let first = (block * ENTRIES_PER_INDEX_BLOCK) as usize;
        self.enter(&mut Vec::new(), first, data, oob).is_some()
    }

    /// Enters the entries of a block, if it starts with the expected entry number.
    fn enter(
        &self,
        entries: &mut Vec<IndexEntry>,
        first: usize,
        block: &[u8],
        oob: &[u8],
    ) -> Option<()> {
        let oob = Oob::verify_other(Seed::of(self.array), oob, block, Place::Index)?;
        let decoded = IndexBlock::decode_verified(block, self.array, entries).ok()?;
        let right = oob.generation == self.generation
            && decoded.segment == self.segment
            && decoded.generation == self.generation
            && decoded.span == self.span
            && decoded.column == self.column
            && decoded.first as usize == first;
        if !right && !mutant(Mutant::IndexRunNotMatched) {
            mark(Mark::ListOfOtherPlace);
            return None;
        }
        Some(())
    }
}

fn decode_copy(payload: &Payload, expected: &Expected) -> Option<Vec<IndexEntry>> {
    let mut entries = Vec::with_capacity(expected.entries);
    for (at, block) in payload.iter_blocks().enumerate() {
        let first = entries.len();
        expected.enter(&mut entries, first, &block, &payload.block_oob(at))?;
    }
    (entries.len() == expected.entries).then_some(entries)
}
