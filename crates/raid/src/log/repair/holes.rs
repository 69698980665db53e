//! Blocks that a rebuild cannot reconstruct: it writes typed holes, reading which is an error.

use crate::array::repair::faults::RecordsFaults;
use crate::instrument::marks::{Mark, mark, mark_if};
use crate::log::engine::address::BlockPlace;
use crate::log::engine::core::Core;
use crate::log::format::{EntryKind, IndexEntry};
use crate::log::segment::table::{DamagedBlock, Fate};

/// A block of a column under rebuild that cannot be reconstructed.
pub(super) struct Hole {
    pub(super) place: BlockPlace,
    /// Whether another member, which is out of service, may return with what it takes.
    pub(super) awaits_member: bool,
}

/// Counts a hole. A valid block of the volume is lost, and listed at once: an operator may clear
/// the faults before the segment is relocated. A hole in parity, or in a block that is not valid
/// any more, takes nothing from users. The rest of the stripe has no redundancy left, so the
/// segment is relocated, unless a member may return with some.
pub(super) fn note_hole(core: &Core, hole: Hole, entry: Option<&IndexEntry>) {
    let Hole { place, awaits_member } = hole;
    mark(Mark::HoleWritten);
    mark_if(Mark::HoleAwaitsMember, || awaits_member);
    let mut state = core.state.borrow_mut();
    let volume = state.array.config.log().volume_blocks;
    let mapped = entry.filter(|entry| {
        matches!(entry.kind, EntryKind::Data | EntryKind::Lost)
            && entry.lba.0 < volume
            && state.mapping.index.get(entry.lba) == Some(state.space.pba(place))
    });
    let is_lost = !awaits_member && mapped.is_some_and(|entry| entry.kind == EntryKind::Data);
    let offset = state.segments[place.slot].geometry.offset_of(place.block);
    let hole = DamagedBlock { column: place.column, offset, is_readable: false };
    state.count_damage(place.slot, hole, if is_lost { Fate::Lost } else { Fate::Found });
    if awaits_member {
        state.note_awaited_at(place);
        mapped.inspect(|entry| state.note_awaited(&(place, **entry)));
    } else {
        state.segments[place.slot].mark_damaged();
        mapped.inspect(|entry| {
            state.array.lost.lose(entry.lba);
        });
    }
    drop(state);
    core.schedule_fault_record();
}
