//! Queues a relocated block: its data, the mark of a lost block, or the live extents of a tombstone
//! block.
//!
//! Nothing here waits. Blocks keep their sequences, so that a copy supersedes no version newer than
//! the original.

use std::cmp::Reverse;
use std::iter::once;
use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use zoneweave_zoned::{BLOCK_BYTES, BlockCount, Lba, zero_blocks};

use crate::array::repair::faults::RecordsFaults;
use crate::instrument::marks::{Mark, mark};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::admit::pending::{
    Origin, PendingBlock, PendingData, PendingTrim, Ticket, TicketReceiver,
};
use crate::log::engine::address::Pba;
use crate::log::engine::class::Lifetime;
use crate::log::engine::core::Core;
use crate::log::engine::state::State;
use crate::log::format::{
    BlockIdentity, ContentKind, EntryKind, IndexEntry, Seed, Sequence, TombstoneBlock, TrimExtent,
};
use crate::log::segment::scan::ListedBlock;
use crate::log::segment::verify::FoundBlock;

/// Queues blocks to be written elsewhere.
pub(in crate::log) fn queue_blocks(
    core: &Rc<Core>,
    lifetime: Lifetime,
    mut blocks: Vec<Moving>,
) -> Option<TicketReceiver> {
    // Once the volume closes they would never be written, and a task would wait for them for ever.
    if blocks.is_empty() || core.closing.get() {
        return None;
    }
    if blocks.len() > 1 && mutant(Mutant::MovedBlocksShareSequence) {
        share_sequence(core.state.borrow().array.seed, &mut blocks);
    }
    let (ticket, moved) = Ticket::new(blocks.len() as u64);
    let mut state = core.state.borrow_mut();
    let class = state.writes.relocation.class_of(1, lifetime);
    for block in blocks {
        match block {
            Moving::Data(data) => {
                let block = PendingBlock::Data(data.pending(ticket.clone()));
                state.writes.relocation.queue_mut(class).push_back(block);
            }
            Moving::Trim(extent, from) => {
                let (origin, ticket) = (Origin::Relocation { from }, ticket.clone());
                state.writes.relocation.push_trim(lifetime, PendingTrim { extent, origin, ticket });
            }
        }
    }
    drop(state);
    core.changed.open();
    Some(moved)
}

/// Gives all relocated blocks one sequence; for [`Mutant::MovedBlocksShareSequence`].
fn share_sequence(seed: Seed, blocks: &mut [Moving]) {
    let mut first = None;
    for block in blocks {
        if let Moving::Data(data) = block {
            let BlockIdentity { kind, lba, sequence, .. } = data.identity;
            let sequence = *first.get_or_insert(sequence);
            data.identity = BlockIdentity::new(seed, kind, lba, sequence, &data.data);
        }
    }
}

/// A relocated item to be written.
pub(in crate::log) enum Moving {
    Data(MovedData),
    Trim(TrimExtent, Pba),
}

/// A data block and its former address.
pub(in crate::log) struct MovedData {
    identity: BlockIdentity,
    data: Bytes,
    from: Pba,
}

impl MovedData {
    fn pending(self, ticket: Ticket) -> PendingData {
        let Self { identity, data, from } = self;
        let BlockIdentity { lba, sequence, data_checksum, kind } = identity;
        let (origin, bytes) = (Origin::Relocation { from }, data.len());
        assert!(bytes == BLOCK_BYTES, "block {lba} is relocated with {bytes} bytes");
        PendingData { lba, sequence, kind, data, data_checksum, origin, ticket }
    }
}

/// Adds the items to be written for a listed block that was read.
pub(in crate::log) fn pending_or_lost(
    core: &Core,
    (place, entry): &ListedBlock,
    found: Option<FoundBlock>,
    moving: &mut Vec<Moving>,
) {
    let pba = core.state.borrow().space.pba(*place);
    let before = moving.len();
    pending_of(core, pba, entry, found, moving);
    // A block that no summary lists is searched where the index points: the block found there is
    // another.
    if moving.len() == before && entry.kind == EntryKind::Empty {
        let lost = lost_blocks(&mut core.state.borrow_mut(), pba);
        if !lost.is_empty() {
            core.schedule_fault_record();
        }
        moving.extend(lost);
    }
}

/// Adds the items to be written for a live block at `pba`.
pub(in crate::log) fn pending_of(
    core: &Core,
    pba: Pba,
    listed: &IndexEntry,
    found: Option<FoundBlock>,
    moving: &mut Vec<Moving>,
) {
    let mut state = core.state.borrow_mut();
    if state.mapping.tombstones.contains_key(&pba) {
        moving.extend(moved_tombstone(core, &mut state, pba, found));
        return;
    }
    let was_tombstone = |found: &FoundBlock| found.identity.kind == ContentKind::Tombstone;
    if listed.kind == EntryKind::Tombstone || found.as_ref().is_some_and(was_tombstone) {
        mark(Mark::TombstoneDiedBeforeMove);
        return;
    }
    match found {
        Some(FoundBlock { data, identity }) if identity.kind == ContentKind::Mapping => {
            if state.is_page_away(identity.lba, pba) {
                moving.push(Moving::Data(MovedData { identity, data, from: pba }));
            }
        }
        Some(FoundBlock { data, identity })
            if matches!(identity.kind, ContentKind::Data | ContentKind::Lost) =>
        {
            if !points_at(&state, identity.lba, pba) {
                mark(Mark::DiedBeforeMove);
                return;
            }
            let identity = if mutant(Mutant::MovedBlockGetsNewSequence) {
                let sequence = state.writes.take_sequence();
                BlockIdentity::new(state.array.seed, identity.kind, identity.lba, sequence, &data)
            } else {
                identity
            };
            moving.push(Moving::Data(MovedData { identity, data, from: pba }));
        }
        // Beyond repair: a mark of the lost block is relocated, unless it was written again.
        _ if matches!(listed.kind, EntryKind::Data | EntryKind::Lost) => {
            if !points_at(&state, listed.lba, pba) {
                mark(Mark::DiedBeforeMove);
                return;
            }
            mark(Mark::LostBlockMoved);
            moving.push(lost_block(&mut state, pba, listed.lba, listed.sequence));
            core.schedule_fault_record();
        }
        _ => {
            moving.extend(lost_blocks(&mut state, pba));
            core.schedule_fault_record();
        }
    }
}

/// Whether a block of the volume is the one at `pba`.
fn points_at(state: &State, lba: Lba, pba: Pba) -> bool {
    lba.0 < state.array.config.log().volume_blocks && state.mapping.index.get(lba) == Some(pba)
}

/// The mark of a lost block. It has the sequence of the lost version, so that it hides older
/// versions and newer ones hide it. The block is listed as lost.
pub(in crate::log) fn lost_block(
    state: &mut State,
    from: Pba,
    lba: Lba,
    sequence: Sequence,
) -> Moving {
    state.array.lost.lose(lba);
    let data = zero_blocks(BlockCount(1));
    let identity = BlockIdentity::new(state.array.seed, ContentKind::Lost, lba, sequence, &data);
    Moving::Data(MovedData { identity, data, from })
}

/// Marks the blocks of the volume that point at an unreadable block of unknown contents. They get a
/// new sequence: reading them is then an error for certain, and never returns an older version.
fn lost_blocks(state: &mut State, pba: Pba) -> Vec<Moving> {
    let lbas = (0..state.array.config.log().volume_blocks).map(Lba);
    let pointing: Vec<_> = lbas.filter(|lba| state.mapping.index.get(*lba) == Some(pba)).collect();
    if pointing.is_empty() {
        return Vec::new();
    }
    mark(Mark::UnknownBlockLost);
    let sequence = state.writes.take_sequence();
    pointing.into_iter().map(|lba| lost_block(state, pba, lba, sequence)).collect()
}

/// The live extents of a tombstone block, cut to the entries that point at it. Extents older than
/// every other segment are dropped: nothing is left that they could hide.
fn moved_tombstone(
    core: &Core,
    state: &mut State,
    pba: Pba,
    found: Option<FoundBlock>,
) -> Vec<Moving> {
    let array = state.array.config.array;
    let blocks = state.array.config.log().volume_blocks;
    let decoded = found.and_then(|found| TombstoneBlock::decode(&found.data, array, blocks).ok());
    let slot = state.space.place(pba).slot;
    let oldest = state.segments.oldest_sequence(slot);
    let Some(tombstone) = decoded else {
        mark(Mark::TombstoneLost);
        core.schedule_fault_record();
        return lost_blocks(state, pba);
    };
    newest_of(tombstone.extents)
        .into_iter()
        .flat_map(|run| moved_run(state, run, pba, oldest))
        .collect()
}

/// Merges extents: each block keeps its newest one. A relocated tombstone may share a block with a
/// newer one of the same blocks of the volume; entries that point at that block refer to the newer
/// one.
pub(in crate::log) fn newest_of(mut extents: Vec<TrimExtent>) -> Vec<TrimExtent> {
    let mut places: Vec<_> = extents.iter().map(range_of).collect();
    places.sort_unstable_by_key(|place| place.start);
    if places.windows(2).all(|pair| pair[0].end <= pair[1].start) {
        return extents;
    }
    extents.sort_by_key(|extent| Reverse(extent.sequence));
    let mut newest: Vec<TrimExtent> = Vec::new();
    for extent in extents {
        let Range { mut start, end } = range_of(&extent);
        let mut newer: Vec<_> = newest.iter().map(range_of).collect();
        newer.sort_unstable_by_key(|place| place.start);
        // The empty range at the end handles the rest.
        for place in newer.into_iter().chain(once(end..end)) {
            let (from, to) = (place.start.min(end), place.end);
            if start < from {
                newest.push(TrimExtent { lba: Lba(start), blocks: from - start, ..extent });
            }
            start = start.max(to);
        }
    }
    newest
}

fn range_of(extent: &TrimExtent) -> Range<u64> {
    extent.lba.0..extent.lba.0 + extent.blocks
}

/// The live part of an extent, from the first to the last block that points at it; `None` if it is
/// older than all other segments (`oldest` is their oldest sequence). Blocks between that point
/// elsewhere have a newer version, which hides the extent wherever both are found. Cutting these
/// out would turn a trim with scattered writes into a hundred thousand extents, and relocating a
/// block would take hundreds of blocks.
pub(in crate::log) fn moved_run(
    state: &mut State,
    extent: TrimExtent,
    pba: Pba,
    oldest: Sequence,
) -> Option<Moving> {
    let points = |state: &State, lba: &u64| state.mapping.index.get(Lba(*lba)) == Some(pba);
    let first = range_of(&extent).find(|lba| points(state, lba))?;
    let last = range_of(&extent).rfind(|lba| points(state, lba))?;
    let known = state.mapping.tombstones.contains_key(&pba);
    assert!(known, "block {first} points at {pba:?}, which is no tombstone block");
    if extent.sequence < oldest || mutant(Mutant::LiveTombstoneDropped) {
        mark(Mark::TombstoneDropped);
        for lba in first..=last {
            if points(state, &lba) {
                state.remap(Lba(lba), None);
            }
        }
        return None;
    }
    mark(Mark::TombstoneMoved);
    Some(Moving::Trim(TrimExtent { lba: Lba(first), blocks: last + 1 - first, ..extent }, pba))
}

#[cfg(test)]
mod tests {
    use zoneweave_runtime::Random;

    use super::*;

    fn extent(start: u64, blocks: u64, sequence: u64) -> TrimExtent {
        TrimExtent { lba: Lba(start), blocks, sequence: Sequence(sequence) }
    }

    #[test]
    fn of_two_trims_of_a_block_the_newer_one_counts() {
        let apart = vec![extent(8, 2, 3), extent(0, 8, 4)];
        assert_eq!(newest_of(apart.clone()), apart);
        assert_eq!(newest_of(vec![extent(1, 1, 20), extent(1, 1, 30)]), [extent(1, 1, 30)]);
        let around = newest_of(vec![extent(0, 9, 20), extent(3, 2, 30)]);
        assert_eq!(around, [extent(3, 2, 30), extent(0, 3, 20), extent(5, 4, 20)]);
    }

    #[test]
    fn every_block_is_by_its_newest_trim_and_by_no_other() {
        let mut random = Random::new(7);
        for _ in 0..2_000 {
            let mut extents = Vec::new();
            for sequence in 1..2 + random.below(8) {
                extents.push(extent(random.below(24), 1 + random.below(12), sequence));
            }
            extents.sort_by_cached_key(|_| random.below(1 << 20));
            let newest = newest_of(extents.clone());
            for lba in 0..40 {
                let of = |extents: &[TrimExtent]| -> Vec<Sequence> {
                    let here = extents.iter().filter(|extent| range_of(extent).contains(&lba));
                    here.map(|extent| extent.sequence).collect()
                };
                let expected: Vec<_> = of(&extents).into_iter().max().into_iter().collect();
                assert_eq!(of(&newest), expected, "block {lba} of {extents:?}");
            }
        }
    }
}
