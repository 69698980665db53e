//! Finding out what a segment holds: from its index runs, or from the blocks themselves.

use std::ops::Range;
use std::rc::Rc;

use zoneweave_zoned::{BlockCount, Payload, ZoneAddress};

use crate::layout::{Column, ColumnSet};
use crate::log::core::Core;
use crate::log::format::{BlockIdentity, IndexEntry, Oob};
use crate::log::geometry::{Row, SegmentGeometry};
use crate::log::index::{BlockPlace, SegmentSlot};
use crate::log::index_run;
use crate::log::reconstruct::{Rebuilt, rebuild_block, verify};
use crate::log::segment::ColumnZone;
use crate::log::stripe::{entry_kind, parity_entry};
use crate::marks::{Mark, mark, mark_if};

/// A chunk whose every block was read and verified.
#[derive(Clone, Debug)]
pub(super) struct ScannedChunk {
    /// Its stripe, counted through the segment.
    pub stripe: u32,
    /// One entry a block.
    pub entries: Vec<IndexEntry>,
}

/// The chunks of one column in consecutive rows; `None` where none verified.
pub(super) type ColumnScan = Vec<Option<ScannedChunk>>;

/// The entries of every column of a span, by column: from index runs where they are intact, from
/// the blocks otherwise. Stripe tables are filled on the way.
pub(super) async fn load_span(
    core: &Rc<Core>,
    slot: SegmentSlot,
    span: u32,
) -> Vec<Vec<IndexEntry>> {
    let columns: Vec<_> = core.state.borrow().scheme().iter().collect();
    let reads = columns.iter().map(|column| index_run::read(core, slot, span, *column));
    let found = futures_util::future::join_all(reads).await;
    let mut entries = Vec::with_capacity(found.len());
    if found.iter().any(Option::is_none) {
        // Only the columns whose every list is damaged are taken from the blocks.
        mark(Mark::ListsFromBlocks);
        let scanned = scan_span(core, slot, span).await;
        entries.extend(found.into_iter().zip(scanned).map(|(list, scan)| list.unwrap_or(scan)));
    } else {
        entries.extend(found.into_iter().flatten());
    }
    enter_table(core, slot, span, &entries);
    entries
}

fn enter_table(core: &Core, slot: SegmentSlot, span: u32, entries: &[Vec<IndexEntry>]) {
    let mut state = core.state.borrow_mut();
    let segment = &mut state.segments[slot];
    let geometry = segment.geometry;
    let Some(table) = &mut segment.table else { return };
    let chunk = geometry.chunk_blocks() as usize;
    for (column, entries) in geometry.scheme().iter().zip(entries) {
        for (row, blocks) in geometry.rows_of_span(span).zip(entries.chunks(chunk)) {
            let in_group = blocks[0].stripe_in_group;
            let rows = geometry.group_of(Row(row));
            if u32::from(in_group) < rows.end - rows.start {
                table.set(column, Row(row), in_group);
            }
        }
    }
}

/// The entries of a whole span from its blocks: every stripe of it counts.
async fn scan_span(core: &Rc<Core>, slot: SegmentSlot, span: u32) -> Vec<Vec<IndexEntry>> {
    let geometry = core.state.borrow().segments[slot].geometry;
    let rows = geometry.rows_of_span(span);
    let scans = scan_rows(core, slot, rows.clone()).await;
    let mut entries = vec![Vec::new(); scans.len()];
    let mut at = rows.start;
    while at < rows.end {
        let group = geometry.group_of(Row(at));
        let part: Vec<ColumnScan> = scans
            .iter()
            .map(|scan| {
                scan[(group.start - rows.start) as usize..(group.end - rows.start) as usize]
                    .to_vec()
            })
            .collect();
        let count = (group.end - group.start) as usize;
        let resolved = resolve_group(core, slot, group.clone(), &part, &vec![true; count]).await;
        for (all, some) in entries.iter_mut().zip(resolved) {
            all.extend(some);
        }
        at = group.end;
    }
    let expected = rows.len() * geometry.chunk_blocks() as usize;
    assert!(entries.iter().all(|column| column.len() == expected), "an entry for every block");
    entries
}

/// Reads and verifies every chunk of a range of rows within one span, column by column.
pub(super) async fn scan_rows(
    core: &Rc<Core>,
    slot: SegmentSlot,
    rows: Range<u32>,
) -> Vec<ColumnScan> {
    let columns: Vec<_> = core.state.borrow().scheme().iter().collect();
    let scans = columns.into_iter().map(|column| scan_column(core, slot, column, rows.clone()));
    futures_util::future::join_all(scans).await
}

async fn scan_column(
    core: &Rc<Core>,
    slot: SegmentSlot,
    column: Column,
    rows: Range<u32>,
) -> ColumnScan {
    let mut scan = Vec::with_capacity(rows.len());
    let geometry = core.state.borrow().segments[slot].geometry;
    let step = (256 / geometry.chunk_blocks()).max(1);
    let mut start = rows.start;
    while start < rows.end {
        let end = rows.end.min(start + step);
        scan.extend(scan_part(core, slot, column, start..end, &geometry).await);
        start = end;
    }
    scan
}

async fn scan_part(
    core: &Rc<Core>,
    slot: SegmentSlot,
    column: Column,
    rows: Range<u32>,
    geometry: &SegmentGeometry,
) -> ColumnScan {
    let chunk = geometry.chunk_blocks();
    let zone = core.state.borrow().segments[slot].zones[column.index()];
    let count = rows.end - rows.start;
    let Some(ColumnZone { zone, .. }) = zone else { return vec![None; count as usize] };
    let at = ZoneAddress { zone, offset: geometry.offset_of_row(Row(rows.start)) };
    let whole = core.read_zone(column, at, BlockCount(count * chunk)).await;
    if let Ok(payload) = whole {
        let starts = (0..).step_by(chunk as usize);
        let chunks =
            starts.zip(rows).map(|(at, row)| scanned(core, slot, column, &payload, at, Row(row)));
        return chunks.collect();
    }
    // Something in the range cannot be read: the rest may be, chunk by chunk.
    mark(Mark::ScanChunkByChunk);
    let mut scan = Vec::with_capacity(count as usize);
    for row in rows {
        let at = ZoneAddress { zone, offset: geometry.offset_of_row(Row(row)) };
        let payload = core.read_zone(column, at, BlockCount(chunk)).await.ok();
        scan.push(payload.and_then(|payload| scanned(core, slot, column, &payload, 0, Row(row))));
    }
    scan
}

/// The chunk read in a row, from block `first` of a payload on, if all of it verifies.
fn scanned(
    core: &Core,
    slot: SegmentSlot,
    column: Column,
    payload: &Payload,
    first: usize,
    row: Row,
) -> Option<ScannedChunk> {
    let state = core.state.borrow();
    let scheme = state.scheme();
    let segment = &state.segments[slot];
    let geometry = &segment.geometry;
    let mut stripe = None;
    let chunk_blocks = geometry.chunk_blocks();
    let mut entries = Vec::with_capacity(chunk_blocks as usize);
    for (at, within) in (first..).zip(0..chunk_blocks) {
        let place = BlockPlace { slot, column, block: geometry.block_of(row, within) };
        let data = payload.block(at);
        let oob = verify(&state, place, column, &data, &payload.block_oob(at))?;
        if *stripe.get_or_insert(oob.stripe) != oob.stripe {
            return None;
        }
        let right_role = oob.role == scheme.role_of(column, oob.stripe);
        if !right_role || oob.stripe >= geometry.rows() {
            return None;
        }
        entries.push(entry_of(&oob, scheme.is_data(oob.role), geometry)?);
    }
    // Where appends chose the rows the stripe is what is being found out; elsewhere a chunk of
    // another row is there by mistake, and the row that it came from lacks it.
    let stripe = stripe?;
    if segment.table.is_none() && stripe != row.0 {
        mark(Mark::ChunkOfOtherRow);
        return None;
    }
    Some(ScannedChunk { stripe, entries })
}

fn entry_of(oob: &Oob, is_data: bool, geometry: &SegmentGeometry) -> Option<IndexEntry> {
    let group = geometry.group_of(Row(oob.stripe));
    let stripe_in_group = u16::try_from(oob.stripe - group.start).ok()?;
    if !is_data {
        return Some(parity_entry(stripe_in_group));
    }
    let identity = oob.identity()?;
    Some(identity_entry(&identity, stripe_in_group))
}

fn identity_entry(identity: &BlockIdentity, stripe_in_group: u16) -> IndexEntry {
    IndexEntry {
        sequence: identity.sequence,
        lba: identity.lba,
        kind: entry_kind(identity.kind),
        stripe_in_group,
    }
}

/// Which columns have a verified chunk of each stripe of a group.
#[must_use]
pub(super) fn columns_with_chunks(group: &Range<u32>, scans: &[ColumnScan]) -> Vec<ColumnSet> {
    let mut columns = vec![ColumnSet::default(); group.len()];
    for (column, scan) in scans.iter().enumerate() {
        for stripe in distinct_stripes(group, scan) {
            columns[stripe] = columns[stripe].with(Column::of(column));
        }
    }
    columns
}

/// The stripes of a group that a column has chunks of, counted within the group.
fn distinct_stripes(group: &Range<u32>, scan: &ColumnScan) -> Vec<usize> {
    let mut seen = vec![false; group.len()];
    for chunk in scan.iter().flatten().filter(|chunk| group.contains(&chunk.stripe)) {
        seen[(chunk.stripe - group.start) as usize] = true;
    }
    (0..seen.len()).filter(|stripe| seen[*stripe]).collect()
}

/// Works out the entries of a group's rows. Chunks that did not verify belong to the stripes
/// that no verified chunk of their column belongs to; which of them is which does not matter, as
/// their blocks are always rebuilt from the stripe. Stripes that do not count leave no entries.
pub(super) async fn resolve_group(
    core: &Rc<Core>,
    slot: SegmentSlot,
    group: Range<u32>,
    scans: &[ColumnScan],
    counts: &[bool],
) -> Vec<Vec<IndexEntry>> {
    let chunk = core.state.borrow().segments[slot].geometry.chunk_blocks() as usize;
    let mut resolved = Vec::with_capacity(scans.len());
    let mut unread = Vec::new();
    for (at, scan) in scans.iter().enumerate() {
        let column = Column::of(at);
        let stripes = assign(core, slot, column, &group, scan);
        let mut entries = Vec::with_capacity(group.len() * chunk);
        for (row, stripe) in stripes.iter().enumerate() {
            let known = scan[row].as_ref().filter(|chunk| chunk.stripe == group.start + *stripe);
            let in_group = u16::try_from(*stripe).expect("a group's rows");
            match known {
                _ if !counts[*stripe as usize] => {
                    let empty = IndexEntry { stripe_in_group: in_group, ..IndexEntry::EMPTY };
                    entries.extend(std::iter::repeat_n(empty, chunk));
                }
                Some(known) => entries.extend(known.entries.iter().copied()),
                None => {
                    unread.push((column, row, *stripe));
                    entries.extend(std::iter::repeat_n(parity_entry(in_group), chunk));
                }
            }
        }
        resolved.push(entries);
    }
    for (column, row, stripe) in unread {
        let rebuilt = rebuild_entries(core, slot, column, &group, row, stripe).await;
        resolved[column.index()][row * chunk..(row + 1) * chunk].copy_from_slice(&rebuilt);
    }
    resolved
}

/// The stripe of every row of a column, counted within the group, and enters it into the table.
fn assign(
    core: &Core,
    slot: SegmentSlot,
    column: Column,
    group: &Range<u32>,
    scan: &ColumnScan,
) -> Vec<u32> {
    let mut state = core.state.borrow_mut();
    let Some(table) = &mut state.segments[slot].table else {
        return (0..group.end - group.start).collect();
    };
    let mut taken = vec![false; group.len()];
    let mut stripes: Vec<Option<u32>> = vec![None; group.len()];
    for (row, chunk) in scan.iter().enumerate() {
        let Some(chunk) = chunk.as_ref().filter(|chunk| group.contains(&chunk.stripe)) else {
            continue;
        };
        let stripe = chunk.stripe - group.start;
        if !std::mem::replace(&mut taken[stripe as usize], true) {
            stripes[row] = Some(stripe);
        } else {
            mark(Mark::StripeTwice);
        }
    }
    let mut free = (0..group.end - group.start).filter(|stripe| !taken[*stripe as usize]);
    let mut assigned = Vec::with_capacity(stripes.len());
    for (row, stripe) in (group.start..).zip(stripes) {
        mark_if(Mark::UnreadChunkAssigned, || stripe.is_none());
        let stripe = stripe.or_else(|| free.next()).expect("as many stripes as rows");
        table.set(column, Row(row), u16::try_from(stripe).expect("a group's rows"));
        assigned.push(stripe);
    }
    assigned
}

/// The entries of a chunk that could not be read, from the rest of its stripe. A chunk that
/// cannot be rebuilt either leaves no entries: nothing of it can be served.
async fn rebuild_entries(
    core: &Rc<Core>,
    slot: SegmentSlot,
    column: Column,
    group: &Range<u32>,
    row: usize,
    stripe: u32,
) -> Vec<IndexEntry> {
    let (geometry, scheme) = {
        let state = core.state.borrow();
        (state.segments[slot].geometry, state.scheme())
    };
    let in_group = u16::try_from(stripe).expect("a group's rows");
    let role = scheme.role_of(column, group.start + stripe);
    let row = Row(group.start + u32::try_from(row).expect("a group's rows"));
    let mut entries = Vec::new();
    for within in 0..geometry.chunk_blocks() {
        let place = BlockPlace { slot, column, block: geometry.block_of(row, within) };
        let entry = if scheme.is_data(role) {
            let rebuilt = rebuild_stubbornly(core, place).await;
            let identity = rebuilt.and_then(|rebuilt| BlockIdentity::decode(&rebuilt.coded));
            if identity.is_some() {
                mark(Mark::ChunkEntriesRebuilt);
            } else {
                mark(Mark::ChunkBeyondRebuild);
                core.state.borrow_mut().note_unaccounted(slot);
            }
            identity.map(|identity| identity_entry(&identity, in_group))
        } else {
            Some(parity_entry(in_group))
        };
        let nothing = IndexEntry { stripe_in_group: in_group, ..IndexEntry::EMPTY };
        entries.push(entry.unwrap_or(nothing));
    }
    entries
}

/// How often a chunk's block is rebuilt of which only its stripe tells what it was.
const TRIES: u32 = 4;

/// Rebuilds a block, again where that fails: a drive may err now and then.
async fn rebuild_stubbornly(core: &Rc<Core>, place: BlockPlace) -> Option<Rebuilt> {
    for _ in 1..TRIES {
        if let Some(rebuilt) = rebuild_block(core, place).await {
            return Some(rebuilt);
        }
    }
    rebuild_block(core, place).await
}
