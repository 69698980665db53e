//! Reading a checkpoint.
//!
//! With a checkpoint, a start need not read the summaries of settled segments. A checkpoint never
//! decides. Of two versions of a block the one with the higher sequence is valid, as always; if a
//! page does not show which that is, the block that it points at is read. Anything that violates
//! the format (a block that is gone, belongs to another segment, or does not verify) invalidates
//! the whole checkpoint: recovery begins anew and replays every summary.
//!
//! Pages contain addresses with slots. Segments get the slots that they had when the checkpoint was
//! written, so that unchanged pages can be part of the next one.

use std::collections::BTreeMap;
use std::rc::Rc;

use zoneweave_zoned::Lba;

use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::address::{Address, BlockPlace, Page, Pba, PbaSpace, SegmentSlot};
use crate::log::engine::core::Core;
use crate::log::engine::geometry::SegmentGeometry;
use crate::log::engine::state::State;
use crate::log::format::checkpoint::{
    BlockLocation, CheckpointPointer, DIRECTORY_ENTRIES, DirectoryBlock, Listed, MappingBlock,
    RootBlock, RootList, SegmentEntry,
};
use crate::log::format::{ContentKind, SegmentId, Sequence};
use crate::log::index::checkpoint::Parts;
use crate::log::read::blocks::read_places;
use crate::log::read::retry::read_for_good;
use crate::log::segment::pin::pin_all;
use crate::log::segment::scan::load_span;
use crate::log::segment::scanned::{FoundSegment, WeakBlock};
use crate::log::segment::table::{Phase, Segment};
use crate::log::segment::verify::FoundBlock;

/// Blocks of a checkpoint read at a time.
const BATCH_BLOCKS: usize = 512;

/// The checkpoint is invalid.
#[derive(Debug)]
pub(in crate::log) struct Unusable;

/// Reads a checkpoint up to the addresses of its pages, moves segments to their slots, and settles
/// segments that need not be replayed.
///
/// # Errors
/// If any part of it is invalid.
pub(in crate::log) async fn load(
    core: &Rc<Core>,
    pointer: CheckpointPointer,
    found: &mut [FoundSegment],
    weak: &mut [WeakBlock],
) -> Result<(), Unusable> {
    load_tables(core).await?;
    let (mut roots, chain) = read_chain(core, &pointer).await?;
    let mut entries = BTreeMap::new();
    let mut directories = Vec::new();
    for block in chain {
        match block.list {
            RootList::Segments(listed) => {
                entries.extend(listed.into_iter().map(|entry| (SegmentSlot(entry.slot), entry)));
            }
            RootList::Directories(Listed::Mapping, listed) => directories.extend(listed),
            RootList::Directories(Listed::Validity, _) => {}
        }
    }
    let moved = rearrange(core, &entries);
    {
        let segments = core.state.borrow().segments.iter().count();
        assert!(moved.len() == segments, "{} of {segments} segments got a slot", moved.len());
    }
    roots.iter_mut().for_each(|place| place.slot = moved[&place.slot]);
    found.iter_mut().for_each(|segment| segment.slot = moved[&segment.slot]);
    weak.iter_mut().for_each(|block| block.place.slot = moved[&block.place.slot]);
    settle(core, &entries, pointer.replay_from);
    let parts = read_directories(core, &entries, roots, directories, &pointer).await?;
    check_page_size(core, &parts, pointer.coverage.sequence).await?;
    let mut state = core.state.borrow_mut();
    // Numbers are never assigned again, even above a recorded ceiling: settled segments are not
    // scanned for theirs.
    let next = pointer.coverage.sequence.next();
    state.writes.next_sequence = state.writes.next_sequence.max(next);
    state.registry.next_segment = state.registry.next_segment.max(pointer.replay_from);
    state.writes.ceilings_to_record.1 = state
        .writes
        .ceilings_to_record
        .1
        .max(state.registry.next_segment.plus(crate::log::segment::open::SEGMENT_STEP));
    state.checkpoints.go_on_with(pointer, parts);
    state.count_reached();
    mark(Mark::CheckpointRead);
    Ok(())
}

/// Blocks of segments with a stripe table cannot be verified without it.
async fn load_tables(core: &Rc<Core>) -> Result<(), Unusable> {
    let tabled: Vec<_> = {
        let state = core.state.borrow();
        let doubtful = state.segments.iter().any(|(_, segment)| segment.suspect);
        if doubtful {
            return Err(Unusable);
        }
        let tabled = state.segments.iter().filter(|(_, segment)| segment.table.is_some());
        tabled.map(|(slot, segment)| (slot, segment.entries.summaries())).collect()
    };
    for (slot, spans) in tabled {
        for span in 0..spans {
            load_span(core, slot, span).await;
        }
    }
    Ok(())
}

/// The chain of root blocks, with their addresses.
async fn read_chain(
    core: &Rc<Core>,
    pointer: &CheckpointPointer,
) -> Result<(Vec<BlockPlace>, Vec<RootBlock>), Unusable> {
    let space = core.state.borrow().checkpoints.space;
    let (mut places, mut chain) = (Vec::new(), Vec::<RootBlock>::new());
    let mut next = Some(pointer.root);
    while let Some(location) = next {
        let place = place_of(core, &location).ok_or(Unusable)?;
        let found = read_all(core, &[place]).await?;
        let block = RootBlock::decode(&found[0].data, &space).map_err(|_| Unusable)?;
        let in_order = chain.last().map_or_else(|| block.begins(), |last| block.continues(last));
        let told = (block.shard, block.number, block.coverage, block.replay_from)
            == (pointer.shard, pointer.number, pointer.coverage, pointer.replay_from);
        if !in_order || !told {
            return Err(Unusable);
        }
        next = block.next;
        places.push(place);
        chain.push(block);
    }
    let ends = chain.last().is_some_and(RootBlock::ends);
    if ends { Ok((places, chain)) } else { Err(Unusable) }
}

fn place_of(core: &Core, location: &BlockLocation) -> Option<BlockPlace> {
    let state = core.state.borrow();
    let is_it = |segment: &Segment| {
        (segment.id, segment.generation) == (location.segment, location.generation)
    };
    let (slot, segment) = state.segments.iter().find(|(_, segment)| is_it(segment))?;
    let BlockLocation { column, block, .. } = *location;
    let inside = segment.geometry.contains(column, block);
    inside.then_some(BlockPlace { slot, column, block })
}

/// Moves every segment to the slot that it had.
fn rearrange(
    core: &Core,
    entries: &BTreeMap<SegmentSlot, SegmentEntry>,
) -> BTreeMap<SegmentSlot, SegmentSlot> {
    let slots: BTreeMap<_, _> =
        entries.iter().map(|(slot, entry)| ((entry.segment, entry.generation), *slot)).collect();
    let wanted = |segment: &Segment| slots.get(&(segment.id, segment.generation)).copied();
    core.state.borrow_mut().segments.rearrange(wanted)
}

/// Settles the segments whose contents are completely covered by the pages.
fn settle(core: &Core, entries: &BTreeMap<SegmentSlot, SegmentEntry>, replay_from: SegmentId) {
    let mut state = core.state.borrow_mut();
    for (slot, segment) in state.segments.iter_mut() {
        let Some(entry) = entries.get(&slot) else { continue };
        let known = (entry.segment, entry.generation) == (segment.id, segment.generation);
        if known {
            segment.list_in_checkpoint();
        }
        let complete = segment.phase() == Phase::Sealed && segment.table.is_none();
        if known && complete && !entry.replay && segment.id < replay_from {
            segment.enter_checkpoint();
            if !mutant(Mutant::SettledSequenceForgotten) {
                segment.holds_from(entry.min_sequence);
            }
        } else {
            mark_if(Mark::ListedSegmentReplayed, || known);
        }
    }
}

async fn read_directories(
    core: &Rc<Core>,
    entries: &BTreeMap<SegmentSlot, SegmentEntry>,
    roots: Vec<BlockPlace>,
    listed: Vec<Option<Address>>,
    pointer: &CheckpointPointer,
) -> Result<Parts, Unusable> {
    let space = core.state.borrow().checkpoints.space;
    let most = u64::from(DIRECTORY_ENTRIES);
    let directories: Vec<_> = listed.into_iter().map(|listed| listed.map(Pba::from)).collect();
    let known = Known::of(core, entries);
    let places: Option<Vec<_>> = directories.iter().flatten().map(|at| known.place(*at)).collect();
    let mut blocks = Vec::new();
    for places in places.ok_or(Unusable)?.chunks(BATCH_BLOCKS) {
        blocks.extend(read_all(core, places).await?);
    }
    let mut blocks = blocks.into_iter();
    let mut pages = Vec::new();
    for (first, directory) in
        (0..space.mapping_blocks()).step_by(Lba(most).index()).zip(&directories)
    {
        if directory.is_none() {
            let count = (space.mapping_blocks() - first).min(most);
            pages.extend((0..count).map(|_| None));
            continue;
        }
        let found = blocks.next().ok_or(Unusable)?;
        let block = DirectoryBlock::decode(&found.data, &space).map_err(|_| Unusable)?;
        let older = block.sequence <= pointer.coverage.sequence;
        if block.listed != Listed::Mapping || block.first != first || !older {
            return Err(Unusable);
        }
        pages.extend(block.entries.into_iter().map(|page| page.map(Pba::from)));
    }
    let listed = |page: &Pba| known.place(*page).is_some();
    if !pages.iter().flatten().all(listed) || pages.len() as u64 != space.mapping_blocks() {
        return Err(Unusable);
    }
    let state = core.state.borrow();
    let roots = roots.into_iter().map(|place| state.space.pba(place)).collect();
    Ok(Parts { pages, directories, roots })
}

/// Pages of another size would contain other blocks than their position implies. Any one page shows
/// that. If all pages are loaded on demand, none is checked before users are served.
async fn check_page_size(core: &Rc<Core>, parts: &Parts, newest: Sequence) -> Result<(), Unusable> {
    let mut pages = (0..).map(Page).zip(&parts.pages);
    let first = pages.find_map(|(page, at)| Some((page, (*at)?)));
    read_pages(core, first.as_slice(), newest).await.map(|_| ())
}

/// The segments that a checkpoint lists and that still exist.
struct Known {
    space: PbaSpace,
    /// The shapes of segments, by slot.
    shapes: Vec<Option<SegmentGeometry>>,
}

impl Known {
    fn of(core: &Core, entries: &BTreeMap<SegmentSlot, SegmentEntry>) -> Self {
        let state = core.state.borrow();
        let slots = entries.last_key_value().map_or(0, |(slot, _)| slot.0 as usize + 1);
        let mut shapes = vec![None; slots];
        for (slot, entry) in entries {
            let same = |segment: &&Segment| {
                (segment.id, segment.generation) == (entry.segment, entry.generation)
            };
            if let Some(segment) = state.segments.get(*slot).filter(same) {
                shapes[slot.0 as usize] = Some(segment.geometry);
            }
        }
        Self { space: state.space, shapes }
    }

    /// The place of an address, if it is in one of these segments.
    fn place(&self, pba: Pba) -> Option<BlockPlace> {
        let place = self.space.place(pba);
        let shape = self.shapes.get(place.slot.index())?.as_ref()?;
        shape.contains(place.column, place.block).then_some(place)
    }
}

/// Reads blocks of checkpoints.
async fn read_all(core: &Rc<Core>, places: &[BlockPlace]) -> Result<Vec<FoundBlock>, Unusable> {
    let _pins = pin_all(core, places);
    let found = read_places(core, places).await;
    assert!(found.len() == places.len(), "{} answers for {} blocks", found.len(), places.len());
    let found: Option<Vec<_>> =
        found.into_iter().map(|block| block.filter(is_of_checkpoint)).collect();
    found.ok_or(Unusable)
}

/// Reads pages; none may be newer than the checkpoint.
pub(in crate::log) async fn read_pages(
    core: &Rc<Core>,
    listed: &[(Page, Pba)],
    newest: Sequence,
) -> Result<Vec<(Page, MappingBlock)>, Unusable> {
    let found = read_all(core, &places_of(core, listed)).await?;
    let state = core.state.borrow();
    let decode = |((page, _), found): (&(Page, Pba), _)| {
        Ok((*page, page_in(&state, *page, &found, newest)?))
    };
    listed.iter().zip(found).map(decode).collect()
}

/// Reads the mapping blocks of pages for callers without an alternative source; `None` for lost
/// ones. Blocks relocated meanwhile are still in their old place. The decoded entries take four
/// times as much memory.
pub(in crate::log) async fn read_page_blocks(
    core: &Rc<Core>,
    listed: &[(Page, Pba)],
) -> Vec<(Page, Option<FoundBlock>)> {
    let places = places_of(core, listed);
    let _pins = pin_all(core, &places);
    let found = read_for_good(core, &places).await;
    assert!(found.len() == listed.len(), "{} answers for {} pages", found.len(), listed.len());
    let found = found.into_iter().map(|block| block.filter(is_of_checkpoint));
    listed.iter().map(|(page, _)| *page).zip(found).collect()
}

fn places_of(core: &Core, listed: &[(Page, Pba)]) -> Vec<BlockPlace> {
    let state = core.state.borrow();
    listed.iter().map(|(_, pba)| state.space.place(*pba)).collect()
}

fn is_of_checkpoint(block: &FoundBlock) -> bool {
    block.identity.kind == ContentKind::Mapping
}

/// The page in a block, if it is not newer than the checkpoint.
pub(in crate::log) fn page_in(
    state: &State,
    page: Page,
    found: &FoundBlock,
    newest: Sequence,
) -> Result<MappingBlock, Unusable> {
    let block =
        MappingBlock::decode(&found.data, &state.checkpoints.space).map_err(|_| Unusable)?;
    let start = state.mapping.index.blocks_of(page).start;
    let own = block.coverage.sequence == found.identity.sequence;
    let older = block.coverage.sequence <= newest;
    if block.first == Lba(start) && own && older { Ok(block) } else { Err(Unusable) }
}

/// Pages read at a time.
pub(in crate::log) const PAGES_AT_A_TIME: usize = BATCH_BLOCKS;
