//! Explains rows that hold no chunk, and no damage either: a torn append has displaced the chunks
//! behind it.
//!
//! A drive may have stored a part of an append that failed. The next append then begins in the
//! middle of a row and ends in the middle of the next one. The writer saw the failure and wrote the
//! chunk elsewhere, as a chunk is valid only in its row. Such rows hold no chunk that verifies, and
//! without this check would pass for acknowledged chunks that are damaged.
//!
//! Blocks of a zone are written once, in order. If every block verifies, the blocks show which
//! appends were stored, and that none of them was in a row. If one does not verify, or does not
//! follow its predecessor (as after a misdirected write over chunks), nothing is known of the rows
//! around it.

use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

use zoneweave_zoned::{BlockCount, ZoneAddress};

use crate::array::io::MemberIo;
use crate::log::engine::address::SegmentSlot;
use crate::log::engine::core::Core;
use crate::log::engine::geometry::Row;
use crate::log::format::Oob;
use crate::scheme::{Column, StripeId};

/// A block of a chunk, wherever that begins.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Part {
    stripe: StripeId,
    within: u16,
}

/// Remains of appends outside rows, for a column in a group.
#[derive(Default)]
pub(in crate::log) struct Displaced {
    /// Rows that certainly hold no chunk.
    pub(in crate::log) rows: usize,
    /// The stripes with blocks in these rows, counted through the segment: the result of their
    /// appends is known.
    pub(in crate::log) stripes: BTreeSet<StripeId>,
}

/// Examines the written rows that hold no chunk; `stripes` are those of the other rows.
pub(in crate::log) async fn find_displaced(
    core: &Rc<Core>,
    slot: SegmentSlot,
    column: Column,
    mut rows: Range<u32>,
    stripes: &[Option<StripeId>],
) -> Displaced {
    let mut found = Displaced::default();
    assert!(
        rows.len() == stripes.len(),
        "rows {rows:?} of {column} with {} stripes",
        stripes.len()
    );
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

/// The stripes with blocks in a run of rows, from the end of a chunk to the start of the next or to
/// the write pointer. `None` if any of it may be a chunk.
async fn displaced_in(
    core: &Rc<Core>,
    slot: SegmentSlot,
    column: Column,
    rows: &[Row],
) -> Option<BTreeSet<StripeId>> {
    let in_order = rows.windows(2).all(|pair| pair[1].0 == pair[0].0 + 1);
    assert!(in_order, "a run of rows with a gap: {rows:?}");
    let mut stripes = BTreeSet::new();
    let mut before = None;
    for row in rows {
        let parts = parts_of(core, slot, column, *row).await?;
        let stripe = parts.first()?.stripe;
        if (0..).zip(&parts).all(|(within, part)| *part == Part { stripe, within }) {
            // A chunk that could not be read before.
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

/// The parts in a row, if every block verifies.
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
        let oob = Oob::verify_chunk(state.array.seed, &beside, &data, scheme.data())?;
        let ours = oob.generation == generation
            && oob.column == column
            && oob.role == scheme.role_of(column, oob.stripe)
            && oob.stripe.is_in(&geometry.group_of(row))
            && u32::from(oob.block_in_chunk) < geometry.chunk_blocks();
        ours.then_some(Part { stripe: oob.stripe, within: oob.block_in_chunk })
    };
    (0..geometry.chunk_blocks()).map(part).collect()
}
