//! Blocks that stay where they are, as only a member that is out of service can give them.
//!
//! Relocating such a block would write a mark of a lost block over the contents that the member
//! brings back. Its segment is relocated again when a drive joins: with the block, or without hope.

use std::rc::Rc;

use crate::instrument::marks::{Mark, mark};
use crate::log::engine::core::Core;
use crate::log::format::EntryKind;
use crate::log::read::reconstruct::may_yet_return;
use crate::log::read::retry::read_for_good;
use crate::log::segment::scan::ListedBlock;
use crate::log::segment::table::Fate;
use crate::log::segment::verify::FoundBlock;
use crate::scheme::ColumnSet;

/// Takes the blocks out of a batch that stay. Since these slots were out of service, it has been
/// read; a block that a member may have brought back meanwhile is read again.
pub(super) async fn leave_awaited(
    core: &Rc<Core>,
    out: ColumnSet,
    batch: Vec<ListedBlock>,
    found: Vec<Option<FoundBlock>>,
) -> (Vec<ListedBlock>, Vec<Option<FoundBlock>>) {
    let (mut kept, mut read) = (Vec::with_capacity(batch.len()), Vec::with_capacity(batch.len()));
    for (listed, found) in batch.into_iter().zip(found) {
        let found = match found {
            Some(found) => Some(found),
            // Only the block itself says what was trimmed: a start without it is refused.
            None if is_tombstone(core, &listed) => None,
            None => match find_again(core, out, &listed).await {
                Again::Found(found) => Some(found),
                Again::Awaited => continue,
                Again::Lost => None,
            },
        };
        kept.push(listed);
        read.push(found);
    }
    assert!(kept.len() == read.len(), "{} answers for {} blocks", read.len(), kept.len());
    (kept, read)
}

/// What becomes of a block that was not found.
enum Again {
    Found(FoundBlock),
    Awaited,
    Lost,
}

async fn find_again(core: &Rc<Core>, mut out: ColumnSet, listed: &ListedBlock) -> Again {
    let place = listed.0;
    loop {
        if may_yet_return(core, place).await {
            mark(Mark::AwaitedBlockLeft);
            leave(core, listed);
            return Again::Awaited;
        }
        // A drive that joined meanwhile may have it; one that was lost may return with it.
        let now = core.state.borrow().out_of_service();
        if out == now {
            return Again::Lost;
        }
        out = now;
        let mut again = read_for_good(core, &[place]).await;
        if let Some(found) = again.pop().flatten() {
            return Again::Found(found);
        }
    }
}

fn is_tombstone(core: &Core, (place, entry): &ListedBlock) -> bool {
    let state = core.state.borrow();
    let pba = state.space.pba(*place);
    entry.kind == EntryKind::Tombstone || state.mapping.tombstones.contains_key(&pba)
}

fn leave(core: &Core, listed: &ListedBlock) {
    let place = listed.0;
    let mut state = core.state.borrow_mut();
    state.note_awaited(listed);
    let segment = &mut state.segments[place.slot];
    segment.awaits_member = true;
    let offset = segment.geometry.offset_of(place.block);
    let counted = segment.damage.fate(place.column, offset) == Some(Fate::Restored);
    state.restorations_put_off += u64::from(counted);
}
