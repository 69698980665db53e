//! The order to clear the faults: blocks that are still lost are listed again.
//!
//! Nothing says which listed blocks were written since. So the order takes all off the list,
//! durably, and then reads them: a block that is still lost returns to the list.
//!
//! Invariant: a block that is not read yet is remembered, and a volume that closes lists it without
//! reading it. A crash meanwhile may cost it its place in the list, until it is read or scrubbed.

use std::rc::Rc;

use futures_util::stream::{self, StreamExt};
use zoneweave_zoned::{BlockError, Lba};

use crate::array::error::NotRecorded;
use crate::array::repair::faults::{self, RecordsFaults};
use crate::array::stop::StopReason;
use crate::log::admit::requests::check_range;
use crate::log::engine::core::Core;
use crate::log::read::range::read_range;

/// Most blocks that are read: 16 MiB.
const BLOCKS_MOST: usize = 4096;

/// Blocks that are read at a time. A lost block takes several attempts on each of its drives.
const BLOCKS_AT_A_TIME: usize = 8;

/// Forgets the errors of all members and the lost ranges, durably, and lists again what is still
/// lost of the first ones.
///
/// # Errors
/// If too few members are left, one of them does not take the record, or the volume is closing.
/// Nothing is forgotten.
pub(in crate::log) async fn clear(core: &Rc<Core>) -> Result<(), NotRecorded> {
    let blocks = {
        // A close waits for this, and then lists what is not read.
        let _before_a_close = core.publishing.acquire().await;
        if core.refusing.get() || core.closing.get() {
            return Err(NotRecorded::Stopped(StopReason::ShuttingDown));
        }
        let forgotten = faults::clear(core, |_| ()).await.map_err(|(_, error)| error)?;
        let blocks: Vec<_> = forgotten.lost_blocks().take(BLOCKS_MOST).collect();
        assert!(blocks.len() <= BLOCKS_MOST, "{} blocks are read again", blocks.len());
        core.not_listed.borrow_mut().add(&blocks, forgotten.joined);
        blocks
    };
    let blocks = stream::iter(blocks);
    blocks.for_each_concurrent(BLOCKS_AT_A_TIME, |lba| look_at(core, lba)).await;
    core.schedule_fault_record();
    Ok(())
}

/// Reads a block that was listed as lost, unless it is listed again, and lists it if it still is.
async fn look_at(core: &Rc<Core>, lba: Lba) {
    if !core.not_listed.borrow().contains(lba) {
        return;
    }
    let read = match check_range(core, lba, 1) {
        Ok(()) => read_range(core, lba, 1).await.map(drop),
        Err(error) => Err(error),
    };
    let is_unlisted = core.not_listed.borrow_mut().remove(lba);
    // A block that cannot be read for want of a drive would not be listed again.
    if is_unlisted && matches!(read, Err(BlockError::Unrecoverable { .. })) {
        core.state.borrow_mut().array.lost.lose(lba);
    }
}

/// Lists the blocks again that were not read yet: the volume closes.
pub(in crate::log) fn list_unread(core: &Core) {
    core.not_listed.take().list(&mut core.state.borrow_mut().array.lost);
}
