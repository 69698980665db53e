//! Relocating blocks that describe several blocks of the volume: tombstones and index pages.

use zoneweave_zoned::Lba;

use crate::array::repair::faults::RecordsFaults;
use crate::instrument::marks::{Mark, mark};
use crate::log::engine::address::Pba;
use crate::log::engine::limits::BATCH_BLOCKS;
use crate::log::engine::state::State;
use crate::log::format::{ContentKind, EntryKind, Sequence, TombstoneBlock, TrimExtent};
use crate::log::index::cache::moves::range_of;
use crate::log::index::cache::{For, Held, hold_range};
use crate::log::index::steps::step_of;
use crate::log::reclaim::relocate::{Mover, Moving, lost_block, moved_run, newest_of};
use crate::log::segment::scan::ListedBlock;
use crate::log::segment::verify::FoundBlock;

/// Parts of a block's extents that are to be relocated, with their pages.
#[derive(Default)]
struct Parts {
    extents: Vec<TrimExtent>,
    held: Vec<Held>,
}

impl Parts {
    fn pages(&self) -> u64 {
        self.held.iter().map(Held::pages).sum()
    }
}

impl Mover {
    /// Relocates a block that may concern more than one block of the volume. Returns `false` if
    /// nothing can be relocated any more.
    pub(in crate::log) async fn move_wide(
        &mut self,
        (place, entry): ListedBlock,
        found: Option<FoundBlock>,
    ) -> bool {
        let core = self.core().clone();
        let (pba, page) = {
            let state = core.state.borrow();
            let pba = state.space.pba(place);
            (pba, state.blocks_of_page_at(pba, &entry))
        };
        if let Some(blocks) = page {
            // It is not the listed block: if it cannot be read now, relocation stops.
            return hold_range(&core, For::Moving, blocks).await.is_ok();
        }
        let (array, blocks, known) = {
            let state = core.state.borrow();
            (
                state.array.config.array,
                state.array.config.log().volume_blocks,
                state.mapping.tombstones.contains_key(&pba),
            )
        };
        let was_tombstone = |found: &FoundBlock| found.identity.kind == ContentKind::Tombstone;
        let of_no_use = matches!(entry.kind, EntryKind::Tombstone | EntryKind::Mapping);
        if !known && (of_no_use || found.as_ref().is_some_and(was_tombstone)) {
            mark(Mark::TombstoneDiedBeforeMove);
            return true;
        }
        let decoded =
            found.and_then(|found| TombstoneBlock::decode(&found.data, array, blocks).ok());
        match decoded.filter(|_| known) {
            Some(tombstone) => {
                let most = step_of(&core, For::Moving);
                self.move_parts(pba, newest_of(tombstone.extents), most, |state, part| {
                    let oldest = state.segments.oldest_sequence(place.slot);
                    moved_run(state, part, pba, oldest).into_iter().collect()
                })
                .await
            }
            None => {
                if known {
                    mark(Mark::TombstoneLost);
                }
                let mut sequence = None;
                let volume = TrimExtent { lba: Lba(0), blocks, sequence: Sequence::NONE };
                let most = step_of(&core, For::Moving).min(BATCH_BLOCKS as u64);
                self.move_parts(pba, vec![volume], most, |state, part| {
                    let sequence = *sequence.get_or_insert_with(|| state.writes.take_sequence());
                    mark(Mark::UnknownBlockLost);
                    let lbas = range_of(part.lba, part.blocks).map(Lba);
                    let pointing = lbas.filter(|lba| state.mapping.index.get(*lba) == Some(pba));
                    let pointing: Vec<_> = pointing.collect();
                    if !pointing.is_empty() {
                        core.schedule_fault_record();
                    }
                    let lost = pointing.into_iter();
                    lost.map(|lba| lost_block(state, pba, lba, sequence)).collect()
                })
                .await
            }
        }
    }

    /// Relocates the entries that point at a block, for some extents, in parts of so many blocks.
    async fn move_parts(
        &mut self,
        pba: Pba,
        extents: Vec<TrimExtent>,
        most: u64,
        mut make: impl FnMut(&mut State, TrimExtent) -> Vec<Moving>,
    ) -> bool {
        let core = self.core().clone();
        let of_a_trim = {
            let state = core.state.borrow();
            state.mapping.offload.as_ref().map_or(u64::MAX, |offload| offload.limit.of_a_trim)
        };
        assert!(
            most > 0 && of_a_trim > 0,
            "parts of {most} blocks, with {of_a_trim} pages at a time"
        );
        let mut parts = Parts::default();
        for extent in extents {
            let end = extent.lba.0 + extent.blocks;
            for start in (extent.lba.0..end).step_by(Lba(most).index()) {
                let part = TrimExtent { lba: Lba(start), blocks: most.min(end - start), ..extent };
                let range = range_of(part.lba, part.blocks);
                let Ok(held) = hold_range(&core, For::Moving, range.clone()).await else {
                    return false;
                };
                let points = |lba| core.state.borrow().mapping.index.get(Lba(lba)) == Some(pba);
                if !range.into_iter().any(points) {
                    continue;
                }
                parts.extents.push(part);
                parts.held.push(held);
                let full = parts.pages() >= of_a_trim || parts.extents.len() >= BATCH_BLOCKS;
                if full && !self.queue_parts(std::mem::take(&mut parts), &mut make).await {
                    return false;
                }
            }
        }
        self.queue_parts(parts, &mut make).await
    }

    async fn queue_parts(
        &mut self,
        parts: Parts,
        make: &mut impl FnMut(&mut State, TrimExtent) -> Vec<Moving>,
    ) -> bool {
        let (extents, held) = (parts.extents.len(), parts.held.len());
        assert!(extents == held, "{extents} extents with pages of {held}");
        let blocks = {
            let mut state = self.core().state.borrow_mut();
            let state = &mut *state;
            parts.extents.into_iter().flat_map(|part| make(state, part)).collect()
        };
        self.queue(blocks, parts.held).await
    }
}
