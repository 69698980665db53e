//! Verifies blocks of chunks: their checksums, and that they are where a segment has them.

use bytes::Bytes;

use crate::instrument::marks::{Mark, mark};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::address::BlockPlace;
use crate::log::engine::state::State;
use crate::log::format::{BlockIdentity, Oob};
use crate::scheme::Column;

/// Verifies a chunk's block: checksums, generation, column, and its place in the chunk.
#[must_use]
pub(in crate::log) fn verify(
    state: &State,
    place: BlockPlace,
    column: Column,
    data: &[u8],
    oob: &[u8],
) -> Option<Oob> {
    let scheme = state.segments.get(place.slot)?.geometry.scheme();
    let oob = Oob::verify_chunk(state.array.seed, oob, data, scheme.data())?;
    is_placed(state, place, column, &oob).then_some(oob)
}

/// Whether metadata that verifies belongs to a chunk's block: its generation, column, and its place
/// in the chunk.
#[must_use]
pub(in crate::log) fn is_placed(
    state: &State,
    place: BlockPlace,
    column: Column,
    oob: &Oob,
) -> bool {
    let Some(segment) = state.segments.get(place.slot) else { return false };
    if !segment.geometry.scheme().contains(column) {
        return false;
    }
    let current = oob.generation == segment.generation || mutant(Mutant::GenerationNotChecked);
    if !current || oob.column != column {
        mark(Mark::StaleBlock);
        return false;
    }
    let (_, within) = segment.geometry.row_of(place.block);
    let misplaced = u32::from(oob.block_in_chunk) != within;
    if misplaced && !mutant(Mutant::MisdirectedBlockAccepted) {
        mark(Mark::BlockOfOtherPlaceInChunk);
        return false;
    }
    true
}

/// A verified block with its identity.
#[derive(Clone, Debug)]
pub(in crate::log) struct FoundBlock {
    /// Contents of the block.
    pub data: Bytes,
    /// Identity from its metadata.
    pub identity: BlockIdentity,
}
