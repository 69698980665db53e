//! Enters the pages of a checkpoint into the index, beneath replayed entries.
//!
//! Pages contain no sequences. Every entry of a page is older than the page, so a replayed version
//! with a sequence above the page's is newer. Otherwise (a copy made by relocation since, or one of
//! a version that was superseded during its relocation) the block that the page points at is read.
//! If it is lost, its summary contains its sequence.

use std::rc::Rc;

use zoneweave_zoned::Lba;

use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::address::{BlockPlace, Page, Pba, SegmentSlot};
use crate::log::engine::core::Core;
use crate::log::engine::state::State;
use crate::log::format::checkpoint::{Mapped, MappingBlock};
use crate::log::format::{
    ContentKind, EntryKind, IndexEntry, Sequence, TombstoneBlock, TrimExtent,
};
use crate::log::index::bulk_load::Plain;
use crate::log::index::checkpoint::read::{PAGES_AT_A_TIME, Unusable, read_pages};
use crate::log::index::partition::Partition;
use crate::log::read::retry::read_for_good;
use crate::log::segment::pin::pin_all;
use crate::log::segment::scan::span_entries;
use crate::log::segment::table::Segment;
use crate::log::segment::verify::FoundBlock;

/// Blocks whose sequence is looked up at a time.
pub(super) const LOOKED_UP: usize = 512;

/// Most blocks of a partition that are looked up, likewise.
const LOOKED_UP_MOST: usize = 1 << 19;

/// Most blocks looked up for undecided stripes: beyond that, reading every summary costs less.
const LOOKED_UP_FOR_WEAK: usize = 1 << 16;

/// Enters pages of a partition, and remembers the entries that had to be looked up, if requested.
/// Returns the counts of the entries that were entered in bulk.
///
/// # Errors
/// If the checkpoint is invalid.
pub(in crate::log) async fn enter_pages(
    core: &Rc<Core>,
    partition: &mut Partition,
    pages: &[Page],
    remember: bool,
) -> Result<Plain, Unusable> {
    let mut looked_up = 0;
    let mut plain = plain_of(&core.state.borrow(), pages.len());
    for pages in pages.chunks(PAGES_AT_A_TIME) {
        let (listed, newest) = {
            let state = core.state.borrow();
            let listed =
                pages.iter().filter_map(|page| Some((*page, state.checkpoints.page(*page)?)));
            (listed.collect::<Vec<_>>(), state.checkpoints.recorded().coverage.sequence)
        };
        let pages = read_pages(core, &listed, newest).await?;
        let unclear: Vec<_> = {
            let mut state = core.state.borrow_mut();
            let enter = |(page, block): &(Page, MappingBlock)| {
                enter_page(&mut state, partition, &mut plain, *page, block)
            };
            pages.iter().flat_map(enter).collect()
        };
        looked_up += unclear.len();
        if looked_up > LOOKED_UP_MOST || partition.has_many_promised() {
            return Err(Unusable);
        }
        for some in unclear.chunks(LOOKED_UP) {
            mark(Mark::PageUnclear);
            for Known { lba, sequence, pba, lost } in look_up(core, some).await? {
                if remember {
                    partition.mark_exact(lba);
                }
                if lost {
                    partition.mark_lost(pba);
                }
                partition.add(&mut core.state.borrow_mut(), lba, sequence, pba);
            }
        }
    }
    Ok(plain)
}

/// The segments whose entries can be entered in bulk, if there are enough pages to pay for
/// examining each segment first.
fn plain_of(state: &State, pages: usize) -> Plain {
    let columns = state.segments.slots() * state.array.scheme().columns() as u64;
    let worth_it = pages as u64 * state.mapping.index.page_entries() >= columns;
    let segments = worth_it.then(|| state.segments.iter()).into_iter().flatten();
    Plain::of(state.space, segments.filter(|(_, segment)| segment.is_in_checkpoint()))
}

/// Enters a page; returns entries whose age relative to replayed ones is unknown.
fn enter_page(
    state: &mut State,
    partition: &mut Partition,
    plain: &mut Plain,
    page: Page,
    block: &MappingBlock,
) -> Vec<(Lba, Pba)> {
    let mut unclear = Vec::new();
    let bound = bound_of(block);
    let (held, entries) = (block.entries.len() as u64, state.mapping.index.page_entries());
    assert!(held <= entries, "{held} entries in a page of {entries}");
    let start = state.mapping.index.blocks_of(page).start;
    assert!(block.first == Lba(start), "page {} begins with {}", page.0, block.first);
    // The page is present now, even if none of it is valid.
    state.mapping.index.take_in(page);
    let (entered, others) = plain.enter_unmapped(&mut state.mapping.index, page, block);
    partition.bound_all(block.first, entered, bound);
    tell(state, page, block, others, |state, told| {
        let Told { lba, pba, trimmed, .. } = told;
        let meets = told.meets(partition.known(state, lba), bound);
        match meets {
            Meets::LeftOut | Meets::Missing => {
                if meets == Meets::Missing {
                    partition.record_promised(lba);
                }
                if !mutant(Mutant::LeftOutEntryForgotten) {
                    partition.mark_written(lba);
                }
                return;
            }
            Meets::Nothing => {
                state.mapping.index.enter(lba, Some(pba));
                partition.bound(lba, bound);
            }
            Meets::Newer => {}
            Meets::Unclear => unclear.push((lba, pba)),
        }
        if trimmed {
            state.mapping.tombstones.entry(pba).or_insert(0);
        }
    });
    unclear
}

/// An entry of a page.
#[derive(Clone, Copy)]
pub(super) struct Told {
    pub(in crate::log) lba: Lba,
    pub(in crate::log) pba: Pba,
    pub(in crate::log) trimmed: bool,
    /// Whether it points at a segment that is not replayed; replayed segments decide by their own
    /// summaries.
    counts: bool,
    /// Whether it points at a replayed segment that has to hold this version as well, or a newer
    /// one.
    promised: bool,
}

/// The replayed version of a block compared with its page entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Meets {
    /// The page entry is invalid.
    LeftOut,
    /// Neither is valid, although some stripe has to hold a version.
    Missing,
    Nothing,
    Newer,
    /// The replayed version may be older or newer.
    Unclear,
}

impl Told {
    /// Compares the entry with a replayed version of that sequence; no entry of the page is newer
    /// than `bound`.
    pub(super) fn meets(&self, replayed: Option<Sequence>, bound: Sequence) -> Meets {
        match replayed {
            None if !self.counts && self.promised => Meets::Missing,
            _ if !self.counts => Meets::LeftOut,
            None => Meets::Nothing,
            Some(sequence) if is_newer(sequence, bound) => Meets::Newer,
            Some(_) => Meets::Unclear,
        }
    }
}

/// Calls `to` with the entries of a page at some positions.
pub(super) fn tell(
    state: &mut State,
    page: Page,
    block: &MappingBlock,
    entries: impl IntoIterator<Item = usize>,
    mut to: impl FnMut(&mut State, Told),
) {
    for at in entries {
        let (pba, trimmed) = match block.entries[at] {
            Mapped::Nowhere => continue,
            Mapped::Block(address) => (Pba::from(address), false),
            Mapped::Trimmed(address) => (Pba::from(address), true),
        };
        let lba = block.first.plus(at as u64);
        let place = state.space.place(pba);
        let segment = state.segments.get(place.slot);
        let trusted =
            |segment: &&Segment| segment.is_in_checkpoint() || mutant(Mutant::PageEntryTrusted);
        let counts = segment
            .filter(trusted)
            .is_some_and(|segment| segment.geometry.contains(place.column, place.block));
        // Another segment may have had the slot when the page was fixed.
        let listed = |segment: &Segment| {
            segment.is_listed() && segment.generation.sequence() < block.coverage.sequence
        };
        let promised = !counts && segment.is_some_and(listed);
        if !counts {
            mark(Mark::PageEntryLeftOut);
            state.mapping.index.mark_changed(page);
        }
        to(state, Told { lba, pba, trimmed, counts, promised });
    }
}

/// Bound of the sequences of all entries in a page.
pub(super) fn bound_of(block: &MappingBlock) -> Sequence {
    Sequence(block.coverage.sequence.0.saturating_sub(1)).max(Sequence::FIRST)
}

/// Whether a replayed version is certainly newer than a page's entry.
fn is_newer(replayed: Sequence, bound: Sequence) -> bool {
    mark_if(Mark::PageEntrySuperseded, || replayed > bound);
    replayed > bound || mutant(Mutant::ReplayedAlwaysWins)
}

/// Looks up the exact sequences of entries that weak blocks may supersede.
///
/// # Errors
/// If the checkpoint is invalid.
pub(in crate::log) async fn look_up_for_weak(
    core: &Rc<Core>,
    partition: &mut Partition,
    extents: impl Iterator<Item = TrimExtent>,
) -> Result<(), Unusable> {
    let mut looked_up = 0;
    for extent in extents {
        let unclear: Vec<_> = {
            let state = core.state.borrow();
            let within = partition.within(&extent).map(Lba);
            let unclear = |lba| Some((lba, partition.unclear(&state, lba, extent.sequence)?));
            within.filter_map(unclear).collect()
        };
        mark_if(Mark::WeakBlockUnclear, || !unclear.is_empty());
        looked_up += unclear.len();
        if looked_up > LOOKED_UP_FOR_WEAK {
            return Err(Unusable);
        }
        for some in unclear.chunks(LOOKED_UP) {
            for Known { lba, sequence, .. } in look_up(core, some).await? {
                partition.mark_exact(lba);
                partition.bound(lba, sequence);
            }
        }
    }
    Ok(())
}

/// The version that a page entry points at.
pub(super) struct Known {
    pub(in crate::log) lba: Lba,
    pub(in crate::log) sequence: Sequence,
    pub(in crate::log) pba: Pba,
    /// Whether it marks a lost block.
    lost: bool,
}

/// Sequences of the versions that page entries point at.
pub(super) async fn look_up(
    core: &Rc<Core>,
    entries: &[(Lba, Pba)],
) -> Result<Vec<Known>, Unusable> {
    let places: Vec<_> = {
        let state = core.state.borrow();
        entries.iter().map(|(_, pba)| state.space.place(*pba)).collect()
    };
    let _pins = pin_all(core, &places);
    let found = read_for_good(core, &places).await;
    assert!(found.len() == places.len(), "{} answers for {} blocks", found.len(), places.len());
    let mut known = Vec::with_capacity(entries.len());
    let mut span = None;
    for (((lba, pba), place), found) in entries.iter().zip(&places).zip(found) {
        let told = found.and_then(|found| {
            let sequence = sequence_of(&core.state.borrow(), *lba, &found)?;
            Some((sequence, found.identity.kind == ContentKind::Lost))
        });
        let told = match told {
            Some(told) => Some(told),
            None => listed(core, *lba, *place, &mut span).await,
        };
        let (sequence, lost) = told.ok_or(Unusable)?;
        known.push(Known { lba: *lba, sequence, pba: *pba, lost });
    }
    Ok(known)
}

/// Sequence of a block that can be neither read nor reconstructed, according to its summary, and
/// whether it marks a lost block. A request for the block itself gets an error; the rest of the
/// page does not depend on it.
async fn listed(
    core: &Rc<Core>,
    lba: Lba,
    place: BlockPlace,
    read: &mut Option<ReadSpan>,
) -> Option<(Sequence, bool)> {
    let (span, first) = {
        let geometry = core.state.borrow().segments.get(place.slot)?.geometry;
        let span = geometry.span_of(geometry.row_of(place.block).0);
        (span, geometry.first_of_span(span))
    };
    // Lost blocks are often neighbours.
    if read.as_ref().is_none_or(|read| (read.slot, read.span) != (place.slot, span)) {
        let entries = span_entries(core, place.slot, span).await;
        *read = Some(ReadSpan { slot: place.slot, span, entries });
    }
    let entries = &read.as_ref()?.entries;
    let entry = entries.get(place.column.index())?.get((place.block.0 - first.0) as usize)?;
    let told = matches!(entry.kind, EntryKind::Data | EntryKind::Lost) && entry.lba == lba;
    mark_if(Mark::LookedUpInList, || told);
    told.then_some((entry.sequence, entry.kind == EntryKind::Lost))
}

/// The summaries of the span that was read last.
struct ReadSpan {
    slot: SegmentSlot,
    span: u32,
    entries: Vec<Vec<IndexEntry>>,
}

/// The sequence of a block of the volume in a block on media.
fn sequence_of(state: &State, lba: Lba, found: &FoundBlock) -> Option<Sequence> {
    match found.identity.kind {
        ContentKind::Data | ContentKind::Lost => {
            (found.identity.lba == lba).then_some(found.identity.sequence)
        }
        ContentKind::Tombstone => {
            let (array, blocks) =
                (state.array.config.array, state.array.config.log().volume_blocks);
            let tombstone = TombstoneBlock::decode(&found.data, array, blocks).ok()?;
            let covers = |extent: &&TrimExtent| {
                (extent.lba.0..extent.lba.0 + extent.blocks).contains(&lba.0)
            };
            tombstone.extents.iter().filter(covers).map(|extent| extent.sequence).max()
        }
        ContentKind::Padding | ContentKind::Mapping => None,
    }
}
