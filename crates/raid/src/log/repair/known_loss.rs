//! Marks of lost blocks, as a scrub meets them.
//!
//! A lost block is relocated as a mark, which reads as an error until the block is written again.

use crate::array::repair::faults::RecordsFaults;
use crate::instrument::marks::{Mark, mark};
use crate::log::engine::address::BlockPlace;
use crate::log::engine::core::Core;
use crate::log::format::{EntryKind, IndexEntry};

/// Whether a block is the mark of a lost block of the volume that is still lost. It is listed then,
/// as an operator may have cleared the list.
pub(super) fn note_known_loss(core: &Core, place: BlockPlace, entry: &IndexEntry) -> bool {
    let mut state = core.state.borrow_mut();
    // The drives may be hostile.
    let is_loss = entry.kind == EntryKind::Lost
        && entry.lba.0 < state.array.config.log().volume_blocks
        && state.mapping.index.get(entry.lba) == Some(state.space.pba(place));
    let is_new = is_loss && !state.array.lost.lose(entry.lba);
    drop(state);
    if is_new {
        mark(Mark::ScrubListedLoss);
        core.schedule_fault_record();
    }
    is_loss
}
