//! What an append that was cut short has displaced: rows that hold no chunk, and nothing damaged
//! either.
//!
//! Of an append that fails a drive may have stored a part. What it appends behind that begins in
//! the middle of a row and ends in the middle of the next one. Whoever wrote it was told so, and
//! wrote it elsewhere: only what is in a row counts. Such rows hold no chunk that verifies, and
//! would pass for chunks that were acknowledged and are damaged.
//!
//! Blocks of a zone are written once, one behind the other. So where every block verifies they tell
//! which appends were stored there, and that none of them was in a row. Where one does not, or does
//! not follow the one before it, as where a misdirected write has gone over chunks, nothing is
//! known of the rows around it.

use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

use zoneweave_zoned::{BlockCount, ZoneAddress};

use crate::log::engine::core::Core;
use crate::log::engine::geometry::Row;
use crate::log::format::Oob;
use crate::log::index::map::SegmentSlot;
use crate::scheme::Column;

/// A block of a chunk, wherever that begins.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Part {
    stripe: u32,
    within: u16,
}

/// What appends that were not in a row have left of a column in a group.
#[derive(Default)]
pub(in crate::log) struct Displaced {
    /// Rows that for certain hold no chunk.
    pub(in crate::log) rows: usize,
    /// The stripes that have something in these rows, counted through the segment: what was written
    /// of them is known.
    pub(in crate::log) stripes: BTreeSet<u32>,
}

/// Looks at those of some written rows that hold no chunk; given are the stripes of the others.
pub(in crate::log) async fn find_displaced(
    core: &Rc<Core>,
    slot: SegmentSlot,
    column: Column,
    mut rows: Range<u32>,
    stripes: &[Option<u32>],
) -> Displaced {
    let mut found = Displaced::default();
    for run in stripes.chunk_by(|one, next| one.is_some() == next.is_some()) {
        let of_run: Vec<_> = rows.by_ref().take(run.len()).map(Row).collect();
        if run[0].is_some() {
            continue;
        }
        if let Some(stripes) = displaced_in(core, slot, column, &of_run).await {
            found.rows += run.len();
            found.stripes.extend(stripes);
        }
    }
    found
}

/// The stripes of which some rows hold something, from where a chunk ends to where one begins or
/// nothing is written; `None` if any of it may be a chunk.
async fn displaced_in(
    core: &Rc<Core>,
    slot: SegmentSlot,
    column: Column,
    rows: &[Row],
) -> Option<BTreeSet<u32>> {
    let mut stripes = BTreeSet::new();
    let mut before = None;
    for row in rows {
        let parts = parts_of(core, slot, column, *row).await?;
        let stripe = parts.first()?.stripe;
        if (0..).zip(&parts).all(|(within, part)| *part == Part { stripe, within }) {
            // A chunk: it could not be read before.
            return None;
        }
        for part in parts {
            let follows = |within| before == Some(Part { within, ..part });
            if !part.within.checked_sub(1).is_none_or(follows) {
                return None;
            }
            stripes.insert(part.stripe);
            before = Some(part);
        }
    }
    Some(stripes)
}

/// What is in a row, if every block verifies.
async fn parts_of(
    core: &Rc<Core>,
    slot: SegmentSlot,
    column: Column,
    row: Row,
) -> Option<Vec<Part>> {
    let (zone, geometry) = {
        let state = core.state.borrow();
        let segment = &state.segments[slot];
        (segment.zones[column.index()]?.zone, segment.geometry)
    };
    let at = ZoneAddress { zone, offset: geometry.offset_of_row(row) };
    let payload = core.read_zone(column, at, BlockCount(geometry.chunk_blocks())).await.ok()?;
    let state = core.state.borrow();
    let (scheme, generation) = (geometry.scheme(), state.segments[slot].generation);
    let part = |within: u32| {
        let block = within as usize;
        let (data, beside) = (payload.block(block), payload.block_oob(block));
        let oob = Oob::verify_chunk(state.seed, &beside, &data, scheme.data())?;
        let ours = oob.generation == generation
            && oob.column == column
            && oob.role == scheme.role_of(column, oob.stripe)
            && geometry.group_of(row).contains(&oob.stripe)
            && u32::from(oob.block_in_chunk) < geometry.chunk_blocks();
        ours.then_some(Part { stripe: oob.stripe, within: oob.block_in_chunk })
    };
    (0..geometry.chunk_blocks()).map(part).collect()
}
