//! Confirms that pages left on media are where the checkpoint lists them.
//!
//! A drive may answer an append with the address of another one. If a checkpoint is recorded before
//! that shows, it lists a page at the wrong block. A page that is read before users are served
//! shows it, and recovery replays every summary. A page that is read later would fail their
//! requests.
//!
//! The segment of such a page was not sealed, so its entries are replayed, and they come from the
//! blocks themselves. In a sealed segment the summary agrees with the listed place, from which the
//! page is rebuilt.

use std::collections::BTreeMap;

use zoneweave_zoned::Lba;

use crate::instrument::marks::{Mark, mark};
use crate::log::engine::address::{BlockPlace, Page, Pba, PbaSpace, SegmentSlot};
use crate::log::engine::geometry::ChunkBlock;
use crate::log::engine::state::State;
use crate::log::format::{EntryKind, IndexEntry};
use crate::log::index::checkpoint::read::Unusable;
use crate::scheme::Column;

/// Pages of the newest checkpoint in replayed segments whose entry was not seen yet.
#[derive(Default)]
pub(in crate::log) struct Unconfirmed {
    /// The first block of each page, by the page's listed address.
    firsts: BTreeMap<Pba, Lba>,
}

impl Unconfirmed {
    /// The pages in these segments, except `read`, which are read before users are served.
    pub(in crate::log) fn of(state: &State, replayed: &[SegmentSlot], read: &[Page]) -> Self {
        let expected = |(page, at): &(Page, Pba)| {
            replayed.contains(&state.space.place(*at).slot) && !read.contains(page)
        };
        let first = |page| Lba(state.mapping.index.blocks_of(page).start);
        let pages = state.checkpoints.pages().filter(expected);
        Self { firsts: pages.map(|(page, at)| (at, first(page))).collect() }
    }

    /// Confirms the pages in one span of a segment, from its entries by column.
    pub(in crate::log) fn confirm(
        &mut self,
        space: &PbaSpace,
        (slot, block): (SegmentSlot, ChunkBlock),
        entries: &[Vec<IndexEntry>],
    ) {
        for (column, entries) in entries.iter().enumerate() {
            let start = space.pba(BlockPlace { slot, column: Column::of(column), block });
            for (at, entry) in (0..).zip(entries).filter(|(_, entry)| is_page(entry)) {
                let at = start.plus(at);
                if self.firsts.get(&at) == Some(&entry.lba) {
                    self.firsts.remove(&at);
                }
            }
        }
    }

    /// All entries were seen.
    ///
    /// # Errors
    /// If a page is elsewhere.
    pub(in crate::log) fn check(&self) -> Result<(), Unusable> {
        if self.firsts.is_empty() {
            return Ok(());
        }
        mark(Mark::PageElsewhere);
        Err(Unusable)
    }
}

fn is_page(entry: &IndexEntry) -> bool {
    entry.kind == EntryKind::Mapping
}
