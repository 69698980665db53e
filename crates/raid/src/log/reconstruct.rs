//! Rebuilding one block from the other chunks of its stripe.

use std::rc::Rc;

use bytes::Bytes;
use zoneweave_zoned::{AlignedBuffer, BLOCK_BYTES, BlockCount, ZoneAddress};

use crate::layout::{Column, Role};
use crate::log::core::Core;
use crate::log::format::{BlockIdentity, CODED_BYTES, Oob};
use crate::log::geometry::Row;
use crate::log::index::BlockPlace;
use crate::log::state::State;
use crate::marks::{Mark, mark, mark_if};
use crate::mutants::{Mutant, mutant};

/// A block rebuilt from its stripe.
#[derive(Clone, Debug)]
pub(super) struct Rebuilt {
    /// The data.
    pub data: Bytes,
    /// The coded metadata.
    pub coded: [u8; CODED_BYTES],
}

/// A block read and verified.
#[derive(Clone, Debug)]
pub(super) struct Verified {
    /// The data.
    pub data: Bytes,
    /// The metadata.
    pub oob: Oob,
}

struct Source {
    column: Column,
    role: Role,
    at: ZoneAddress,
}

struct Plan {
    stripe: u32,
    role: Role,
    sources: Vec<Source>,
    /// Rows of the stripe table that were looked at to find them.
    rows_searched: u64,
}

/// Rebuilds the block at `place` without reading it; `None` if too few other chunks are intact.
pub(super) async fn rebuild_block(core: &Rc<Core>, place: BlockPlace) -> Option<Rebuilt> {
    let plan = plan(&core.state.borrow(), place)?;
    core.state.borrow_mut().counters.table_rows_searched += plan.rows_searched;
    let needed = core.state.borrow().scheme().sources_needed();
    if plan.sources.len() < needed {
        mark(Mark::TooFewSources);
        return None;
    }
    let reads = plan.sources.iter().map(|source| async {
        let verified = read_verified(core, place, source.column, source.at).await?;
        let ours = verified.oob.stripe == plan.stripe && verified.oob.role == source.role;
        ours.then_some((source.role, verified))
    });
    let found = futures_util::future::join_all(reads).await;
    let found: Vec<_> = found.into_iter().flatten().collect();
    if found.len() < needed {
        mark(Mark::TooFewIntact);
        return None;
    }
    decode(core, &plan, &found)
}

fn plan(state: &State, place: BlockPlace) -> Option<Plan> {
    let segment = state.segments.get(place.slot)?;
    let geometry = &segment.geometry;
    let (row, within) = geometry.row_of(place.block);
    let stripe = segment.stripe_of(place.column, row);
    let sources = geometry.scheme().sources_of(place.column);
    let group = geometry.group_of(row);
    let mut rows_searched = 0;
    let sources = sources.filter_map(|column| {
        let zone = segment.zones[column.index()]?.zone;
        let row: Row = segment.row_of_stripe(column, stripe)?;
        if segment.table.is_some() {
            rows_searched += u64::from(row.0 - group.start) + 1;
        }
        let offset = geometry.offset_of(geometry.block_of(row, within));
        let role = geometry.scheme().role_of(column, stripe);
        Some(Source { column, role, at: ZoneAddress { zone, offset } })
    });
    let sources = sources.collect();
    Some(Plan {
        stripe,
        role: geometry.scheme().role_of(place.column, stripe),
        sources,
        rows_searched,
    })
}

fn decode(core: &Core, plan: &Plan, found: &[(Role, Verified)]) -> Option<Rebuilt> {
    let total = core.code.total_chunks();
    let mut data: Vec<Option<&[u8]>> = vec![None; total];
    let mut coded: Vec<Option<&[u8]>> = vec![None; total];
    for (role, verified) in found {
        data[role.index()] = Some(&verified.data);
        coded[role.index()] = Some(&verified.oob.coded);
    }
    let mirrored = core.state.borrow().scheme().is_mirrored();
    let two_missing = !mirrored && found.len() + 2 <= total;
    mark_if(Mark::TwoMissing, || two_missing);
    mark_if(Mark::RebuiltFromTwin, || mirrored);
    if two_missing && mutant(Mutant::WrongCoefficients) {
        swap_two(&mut data[..core.code.data_chunks()]);
    }
    let mut block = AlignedBuffer::zeroed(BlockCount(1));
    let mut identity = [0; CODED_BYTES];
    let wanted = plan.role.index();
    core.code.reconstruct(&data, &mut [(wanted, block.as_mut())]).ok()?;
    core.code.reconstruct(&coded, &mut [(wanted, &mut identity[..])]).ok()?;
    let data = block.freeze();
    if wanted < core.code.data_chunks() {
        let seed = core.state.borrow().seed;
        BlockIdentity::decode(&identity).filter(|identity| identity.verifies(seed, &data))?;
    }
    Some(Rebuilt { data, coded: identity })
}

/// For [`Mutant::WrongCoefficients`]: exchanges two chunks that are there.
fn swap_two(data: &mut [Option<&[u8]>]) {
    let first = data.iter().position(Option::is_some);
    let last = data.iter().rposition(Option::is_some);
    if let (Some(first), Some(last)) = (first, last) {
        data.swap(first, last);
    }
}

/// Reads the block of another column that is coded with the one at `place`, and verifies that it
/// is intact and belongs there.
pub(super) async fn read_verified(
    core: &Rc<Core>,
    place: BlockPlace,
    column: Column,
    at: ZoneAddress,
) -> Option<Verified> {
    let payload = core.read_zone(column, at, BlockCount(1)).await.ok()?;
    let data = payload.block(0);
    assert!(data.len() == BLOCK_BYTES, "a block of {} bytes", data.len());
    verify(&core.state.borrow(), place, column, &data, &payload.block_oob(0))
        .map(|oob| Verified { data, oob })
}

/// Verifies a chunk's block: checksums, generation, column, and its place in the chunk.
#[must_use]
pub(super) fn verify(
    state: &State,
    place: BlockPlace,
    column: Column,
    data: &[u8],
    oob: &[u8],
) -> Option<Oob> {
    let segment = state.segments.get(place.slot)?;
    let oob = Oob::verify_chunk(state.seed, oob, data, state.scheme().data())?;
    let current = oob.generation == segment.generation || mutant(Mutant::GenerationNotChecked);
    if !current || oob.column != column {
        mark(Mark::StaleBlock);
        return None;
    }
    let (_, within) = segment.geometry.row_of(place.block);
    let misplaced = u32::from(oob.block_in_chunk) != within;
    if misplaced && !mutant(Mutant::MisdirectedBlockAccepted) {
        mark(Mark::BlockOfOtherPlaceInChunk);
        return None;
    }
    Some(oob)
}
