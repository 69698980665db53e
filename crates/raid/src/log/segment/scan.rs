//! Reads back the contents of a segment: from its summaries, or from the blocks themselves.
//!
//! The identity of a block is in its metadata, with a checksum that covers the data's checksum, so
//! it can be trusted even if the data is damaged. The data is verified only to judge whether a
//! stripe counts; a later read verifies it again.

use std::ops::Range;
use std::rc::Rc;

use futures_util::stream::{self, StreamExt};
use zoneweave_zoned::{BLOCK_BYTES, BlockCount, OOB_BYTES, Payload, ZoneAddress};

use crate::array::io::MemberIo;
use crate::instrument::marks::{Mark, mark};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::address::{BlockPlace, SegmentSlot};
use crate::log::engine::core::Core;
use crate::log::engine::geometry::{Row, SegmentGeometry};
use crate::log::engine::state::State;
use crate::log::format::{IndexEntry, Oob};
use crate::log::segment::resolve::resolve_group;
use crate::log::segment::scanned::{ColumnScan, identity_entry};
use crate::log::segment::spans;
use crate::log::segment::table::ColumnZone;
use crate::log::segment::verify::{is_placed, verify};
use crate::scheme::{Column, StripeId};

/// The part of a chunk that has to verify.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::log) enum Depth {
    /// Metadata and data.
    Data,
    /// Metadata of its blocks.
    Metadata,
}

/// The entries of a span by column, empty for columns outside the segment: from summaries if
/// intact, else from the blocks. Stripe tables are filled on the way.
pub(in crate::log) async fn load_span(
    core: &Rc<Core>,
    slot: SegmentSlot,
    span: u32,
) -> Vec<Vec<IndexEntry>> {
    let columns: Vec<_> = core.state.borrow().array.scheme().iter().collect();
    let scheme = core.state.borrow().segments[slot].geometry.scheme();
    let reads = columns.iter().map(|column| async move {
        match scheme.contains(*column) {
            true => spans::read(core, slot, span, *column).await,
            false => Some(Vec::new()),
        }
    });
    let found = futures_util::future::join_all(reads).await;
    let mut entries = Vec::with_capacity(found.len());
    if found.iter().any(Option::is_none) {
        // Only columns without an intact summary are read from the blocks.
        mark(Mark::ListsFromBlocks);
        let scanned = scan_span(core, slot, span).await;
        entries.extend(found.into_iter().zip(scanned).map(|(list, scan)| list.unwrap_or(scan)));
    } else {
        entries.extend(found.into_iter().flatten());
    }
    assert!(
        entries.len() == columns.len(),
        "span {span} has lists of {} of {} columns",
        entries.len(),
        columns.len()
    );
    enter_table(core, slot, span, &entries);
    entries
}

fn enter_table(core: &Core, slot: SegmentSlot, span: u32, entries: &[Vec<IndexEntry>]) {
    let mut state = core.state.borrow_mut();
    let segment = &mut state.segments[slot];
    let geometry = segment.geometry;
    let Some(table) = &mut segment.table else { return };
    let chunk = geometry.chunk_blocks() as usize;
    for (column, entries) in entries.iter().enumerate() {
        let column = Column::of(column);
        for (row, blocks) in geometry.rows_of_span(span).zip(entries.chunks(chunk)) {
            let in_group = blocks[0].stripe_in_group;
            let rows = geometry.group_of(Row(row));
            if u32::from(in_group) < rows.end - rows.start {
                table.set(column, Row(row), in_group);
            }
        }
    }
}

/// The entries of a whole span from its blocks: all its stripes count.
async fn scan_span(core: &Rc<Core>, slot: SegmentSlot, span: u32) -> Vec<Vec<IndexEntry>> {
    let geometry = core.state.borrow().segments[slot].geometry;
    let rows = geometry.rows_of_span(span);
    let entries = scan_groups(core, slot, rows.clone()).await;
    let expected = rows.len() * geometry.chunk_blocks() as usize;
    let is_right = |column: Column| entries[column.index()].len() == expected;
    assert!(geometry.scheme().iter().all(is_right), "an entry for every block");
    entries
}

/// The entries of whole groups of one span, by column; all their stripes count.
pub(in crate::log) async fn scan_groups(
    core: &Rc<Core>,
    slot: SegmentSlot,
    rows: Range<u32>,
) -> Vec<Vec<IndexEntry>> {
    let geometry = core.state.borrow().segments[slot].geometry;
    let scans = scan_rows(core, slot, rows.clone(), Depth::Metadata).await;
    assert!(
        rows.is_empty() || geometry.group_of(Row(rows.start)).start == rows.start,
        "rows {rows:?} begin within a group"
    );
    let mut entries = vec![Vec::new(); scans.len()];
    let mut at = rows.start;
    while at < rows.end {
        let group = geometry.group_of(Row(at));
        let part: Vec<_> = scans.iter().map(|scan| scan.rows(&group)).collect();
        let all = vec![true; group.len()];
        let resolved = resolve_group(core, slot, group.clone(), &part, &all).await;
        for (all, some) in entries.iter_mut().zip(resolved) {
            all.extend(some);
        }
        at = group.end;
    }
    entries
}

/// Reads every chunk of a range of rows within one span, column by column.
pub(in crate::log) async fn scan_rows(
    core: &Rc<Core>,
    slot: SegmentSlot,
    rows: Range<u32>,
    depth: Depth,
) -> Vec<ColumnScan> {
    let columns: Vec<_> = core.state.borrow().array.scheme().iter().collect();
    let scans =
        columns.into_iter().map(|column| scan_column(core, slot, column, rows.clone(), depth));
    futures_util::future::join_all(scans).await
}

/// Blocks of a column that are read at a time: half a MiB.
const PART_BLOCKS: u32 = 128;

/// Parts of a column that are read ahead, to keep a drive busy.
const PARTS_AHEAD: usize = 8;

async fn scan_column(
    core: &Rc<Core>,
    slot: SegmentSlot,
    column: Column,
    rows: Range<u32>,
    depth: Depth,
) -> ColumnScan {
    let geometry = core.state.borrow().segments[slot].geometry;
    let step = (PART_BLOCKS / geometry.chunk_blocks()).max(1);
    let starts = rows.clone().step_by(step as usize);
    let parts =
        starts.map(|start| scan_part(core, slot, column, start..rows.end.min(start + step), depth));
    let parts = stream::iter(parts).buffered(PARTS_AHEAD);
    let whole = ColumnScan::new(rows.start);
    let append = |mut whole: ColumnScan, part| async {
        whole.append(part);
        whole
    };
    parts.fold(whole, append).await
}

async fn scan_part(
    core: &Rc<Core>,
    slot: SegmentSlot,
    column: Column,
    rows: Range<u32>,
    depth: Depth,
) -> ColumnScan {
    let (zone, geometry) = {
        let state = core.state.borrow();
        let segment = &state.segments[slot];
        (segment.zones[column.index()], segment.geometry)
    };
    let chunk = geometry.chunk_blocks();
    let mut scan = ColumnScan::new(rows.start);
    let Some(ColumnZone { zone, .. }) = zone else {
        rows.for_each(|_| scan.add_nothing(chunk));
        return scan;
    };
    let at = |row| ZoneAddress { zone, offset: geometry.offset_of_row(Row(row)) };
    let count = rows.end - rows.start;
    let whole = core.read_zone(column, at(rows.start), BlockCount(count * chunk)).await;
    if let Ok(payload) = whole {
        Chunks { core, slot, column, depth }.enter(&mut scan, &payload, rows);
        return scan;
    }
    // A block of the range is unreadable; the others are read chunk by chunk.
    mark(Mark::ScanChunkByChunk);
    for row in rows {
        match core.read_zone(column, at(row), BlockCount(chunk)).await {
            Ok(payload) => {
                Chunks { core, slot, column, depth }.enter(&mut scan, &payload, row..row + 1);
            }
            Err(_) => scan.add_nothing(chunk),
        }
    }
    scan
}

/// Chunks that were read, and the checks for them.
struct Chunks<'a> {
    core: &'a Core,
    slot: SegmentSlot,
    column: Column,
    depth: Depth,
}

impl Chunks<'_> {
    /// Enters the chunks of a payload, which covers these rows.
    fn enter(&self, scan: &mut ColumnScan, payload: &Payload, rows: Range<u32>) {
        let state = self.core.state.borrow();
        let chunk = state.segments[self.slot].geometry.chunk_blocks();
        let data = payload.data.iter().flat_map(|piece| piece.chunks_exact(BLOCK_BYTES));
        let mut blocks = data.zip(payload.oob.chunks_exact(OOB_BYTES));
        for row in rows {
            let entered = scan.entries.len();
            let mut blocks = blocks.by_ref().take(chunk as usize);
            let stripe = self.look_at_chunk(&state, Row(row), &mut blocks, &mut scan.entries);
            blocks.for_each(drop);
            if stripe.is_some() {
                let blocks = scan.entries.len() - entered;
                assert!(blocks == chunk as usize, "{blocks} of a chunk of {chunk} are scanned");
                scan.stripes.push(stripe);
            } else {
                scan.entries.truncate(entered);
                scan.add_nothing(chunk);
            }
        }
    }

    /// The stripe of a chunk if all its blocks verify; without metadata none does.
    fn look_at_chunk<'b>(
        &self,
        state: &State,
        row: Row,
        blocks: impl Iterator<Item = (&'b [u8], &'b [u8])>,
        entries: &mut Vec<IndexEntry>,
    ) -> Option<StripeId> {
        let mut stripe = None;
        for (within, (data, oob)) in (0..).zip(blocks) {
            let (of, entry) = self.look_at(state, row, within, data, oob)?;
            if *stripe.get_or_insert(of) != of {
                return None;
            }
            entries.push(entry);
        }
        stripe
    }

    /// The stripe and the entry of a block, if it verifies and fits its place.
    fn look_at(
        &self,
        state: &State,
        row: Row,
        within: u32,
        data: &[u8],
        oob: &[u8],
    ) -> Option<(StripeId, IndexEntry)> {
        let Self { slot, column, depth, .. } = *self;
        let segment = &state.segments[slot];
        let geometry = &segment.geometry;
        let scheme = geometry.scheme();
        let place = BlockPlace { slot, column, block: geometry.block_of(row, within) };
        // In aligned segments the row determines the stripe.
        let of_row = StripeId(row.0);
        let parity = || !scheme.is_data(scheme.role_of(column, of_row));
        if depth == Depth::Metadata && segment.table.is_none() && parity() {
            let in_group = of_row.position_in(&geometry.group_of(row));
            return Some((of_row, IndexEntry::parity(in_group)));
        }
        let oob = match depth {
            Depth::Data => verify(state, place, column, data, oob)?,
            Depth::Metadata => {
                let believed = Oob::parse(oob).filter(|_| mutant(Mutant::MetadataBelieved));
                let verified = || Oob::verify_metadata(state.array.seed, oob, data, scheme.data());
                let oob = believed.or_else(verified)?;
                is_placed(state, place, column, &oob).then_some(oob)?
            }
        };
        let right_role = oob.role == scheme.role_of(column, oob.stripe);
        if !right_role || oob.stripe.0 >= geometry.rows() {
            return None;
        }
        // With appends, the stripe is the unknown. Elsewhere, a chunk of another row is misplaced,
        // and its own row lacks it.
        if segment.table.is_none() && oob.stripe != of_row {
            mark(Mark::ChunkOfOtherRow);
            return None;
        }
        Some((oob.stripe, entry_of(&oob, scheme.is_data(oob.role), geometry)?))
    }
}

fn entry_of(oob: &Oob, is_data: bool, geometry: &SegmentGeometry) -> Option<IndexEntry> {
    let stripe_in_group = oob.stripe.position_in(&geometry.group_of_stripe(oob.stripe));
    if !is_data {
        return Some(IndexEntry::parity(stripe_in_group));
    }
    let identity = oob.identity()?;
    Some(identity_entry(&identity, stripe_in_group))
}

/// A block and its summary entry.
pub(in crate::log) type ListedBlock = (BlockPlace, IndexEntry);

/// The entries of a span: from its summary, or from memory if none was written yet.
pub(in crate::log) async fn span_entries(
    core: &Rc<Core>,
    slot: SegmentSlot,
    span: u32,
) -> Vec<Vec<IndexEntry>> {
    let in_memory = {
        let state = core.state.borrow();
        let segment = &state.segments[slot];
        let spans = segment.geometry.spans();
        assert!(span < spans, "span {span} of {spans} in segment {}", segment.id);
        match span.cmp(&segment.entries.summaries()) {
            std::cmp::Ordering::Less => None,
            std::cmp::Ordering::Equal => Some(segment.entries.columns().to_vec()),
            std::cmp::Ordering::Greater => Some(vec![Vec::new(); segment.zones.len()]),
        }
    };
    match in_memory {
        Some(entries) => entries,
        None => load_span(core, slot, span).await,
    }
}
