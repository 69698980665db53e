//! Resolves the rows of a group to stripes, from the chunks that were found.

use std::ops::Range;
use std::rc::Rc;

use crate::instrument::marks::{Mark, mark, mark_if};
use crate::log::engine::address::{BlockPlace, SegmentSlot};
use crate::log::engine::core::Core;
use crate::log::engine::geometry::Row;
use crate::log::format::{BlockIdentity, IndexEntry};
use crate::log::read::reconstruct::{Rebuilt, rebuild_block};
use crate::log::segment::scanned::{ScannedRows, identity_entry};
use crate::scheme::{Column, ColumnSet, StripeId};

/// Which columns have a verified chunk of each stripe of a group.
#[must_use]
pub(in crate::log) fn columns_with_chunks(
    group: &Range<u32>,
    scans: &[ScannedRows<'_>],
) -> Vec<ColumnSet> {
    let mut columns = vec![ColumnSet::default(); group.len()];
    for (column, scan) in scans.iter().enumerate() {
        for stripe in distinct_stripes(group, scan) {
            columns[stripe] = columns[stripe].with(Column::of(column));
        }
    }
    columns
}

/// The stripes of a group that a column has chunks of, counted within the group.
fn distinct_stripes(group: &Range<u32>, scan: &ScannedRows<'_>) -> Vec<usize> {
    let mut seen = vec![false; group.len()];
    for stripe in scan.stripes.iter().flatten().filter(|stripe| stripe.is_in(group)) {
        seen[usize::from(stripe.position_in(group))] = true;
    }
    (0..seen.len()).filter(|stripe| seen[*stripe]).collect()
}

/// Resolves the entries of a group's rows. Chunks that did not verify belong to the stripes without
/// a verified chunk on their column. Their assignment among each other does not matter, as their
/// blocks are always reconstructed from the stripe. Stripes that do not count leave no entries.
pub(in crate::log) async fn resolve_group(
    core: &Rc<Core>,
    slot: SegmentSlot,
    group: Range<u32>,
    scans: &[ScannedRows<'_>],
    counts: &[bool],
) -> Vec<Vec<IndexEntry>> {
    let geometry = core.state.borrow().segments[slot].geometry;
    let chunk = geometry.chunk_blocks() as usize;
    assert!(
        counts.len() == group.len() && scans.iter().all(|scan| scan.stripes.len() == group.len()),
        "rows {group:?} with {} verdicts",
        counts.len()
    );
    let mut resolved = Vec::with_capacity(scans.len());
    let mut unread = Vec::new();
    for (at, scan) in scans.iter().enumerate() {
        let column = Column::of(at);
        if !geometry.scheme().contains(column) {
            resolved.push(Vec::new());
            continue;
        }
        let stripes = assign(core, slot, column, &group, scan);
        let mut entries = Vec::with_capacity(group.len() * chunk);
        for (row, stripe) in stripes.iter().enumerate() {
            let known = scan.stripes[row].filter(|known| known == stripe);
            let in_group = stripe.position_in(&group);
            match known {
                _ if !counts[usize::from(in_group)] => {
                    let empty = IndexEntry { stripe_in_group: in_group, ..IndexEntry::EMPTY };
                    entries.extend(std::iter::repeat_n(empty, chunk));
                }
                Some(_) => entries.extend(&scan.entries[row * chunk..(row + 1) * chunk]),
                None => {
                    unread.push((column, row, *stripe));
                    entries.extend(std::iter::repeat_n(IndexEntry::parity(in_group), chunk));
                }
            }
        }
        resolved.push(entries);
    }
    for (column, row, stripe) in unread {
        let rebuilt = rebuild_entries(core, slot, column, &group, row, stripe).await;
        resolved[column.index()][row * chunk..(row + 1) * chunk].copy_from_slice(&rebuilt);
    }
    let whole = |of: &Vec<IndexEntry>| of.is_empty() || of.len() == group.len() * chunk;
    assert!(resolved.iter().all(whole), "entries for a part of rows {group:?}");
    resolved
}

/// The stripe of every row of a column, which is also entered into the table.
fn assign(
    core: &Core,
    slot: SegmentSlot,
    column: Column,
    group: &Range<u32>,
    scan: &ScannedRows<'_>,
) -> Vec<StripeId> {
    let mut state = core.state.borrow_mut();
    let Some(table) = &mut state.segments[slot].table else {
        return group.clone().map(StripeId).collect();
    };
    let mut taken = vec![false; group.len()];
    let mut stripes: Vec<Option<StripeId>> = vec![None; group.len()];
    for (row, stripe) in scan.stripes.iter().enumerate() {
        let Some(stripe) = stripe.filter(|stripe| stripe.is_in(group)) else { continue };
        let in_group = usize::from(stripe.position_in(group));
        if !std::mem::replace(&mut taken[in_group], true) {
            stripes[row] = Some(stripe);
        } else {
            mark(Mark::StripeTwice);
        }
    }
    let is_free = |stripe: &StripeId| !taken[usize::from(stripe.position_in(group))];
    let mut free = group.clone().map(StripeId).filter(is_free);
    let mut assigned = Vec::with_capacity(stripes.len());
    for (row, stripe) in (group.start..).zip(stripes) {
        let found = stripe.or_else(|| free.next()).expect("as many stripes as rows");
        mark_if(Mark::UnreadChunkAssigned, || stripe.is_none());
        table.set(column, Row(row), found.position_in(group));
        assigned.push(found);
    }
    assert!(assigned.len() == group.len(), "{} stripes for rows {group:?}", assigned.len());
    assigned
}

/// The entries of an unreadable chunk, reconstructed from its stripe. A chunk that cannot be
/// reconstructed leaves no entries: none of it can be served.
async fn rebuild_entries(
    core: &Rc<Core>,
    slot: SegmentSlot,
    column: Column,
    group: &Range<u32>,
    row: usize,
    stripe: StripeId,
) -> Vec<IndexEntry> {
    let geometry = core.state.borrow().segments[slot].geometry;
    let scheme = geometry.scheme();
    let in_group = stripe.position_in(group);
    let role = scheme.role_of(column, stripe);
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
                core.state.borrow_mut().record_unaccounted(slot, [(column, 1)]);
            }
            identity.map(|identity| identity_entry(&identity, in_group))
        } else {
            Some(IndexEntry::parity(in_group))
        };
        let nothing = IndexEntry { stripe_in_group: in_group, ..IndexEntry::EMPTY };
        entries.push(entry.unwrap_or(nothing));
    }
    entries
}

/// Attempts at reconstructing a block whose identity only its stripe can show.
const TRIES: u32 = 4;

/// Reconstructs a block, with retries, as a drive may fail a read now and then.
pub(in crate::log) async fn rebuild_stubbornly(
    core: &Rc<Core>,
    place: BlockPlace,
) -> Option<Rebuilt> {
    for _ in 1..TRIES {
        if let Some(rebuilt) = rebuild_block(core, place).await {
            return Some(rebuilt);
        }
    }
    rebuild_block(core, place).await
}
