//! Blocks that were found unreadable before a member returns: the list that `awaited` keeps.

use std::collections::BTreeMap;

use zoneweave_zoned::Lba;

use crate::log::engine::address::Pba;
use crate::log::format::SegmentId;

/// Blocks that only members out of service can give.
#[derive(Debug, Default)]
pub(in crate::log) struct AwaitedBlocks {
    pub(in crate::log) blocks: BTreeMap<Pba, AwaitedBlock>,
}

/// What is known of a block besides its address on media.
#[derive(Clone, Copy, Debug)]
pub(in crate::log) struct AwaitedBlock {
    /// Its segment: the address may have another one since.
    pub(in crate::log) segment: SegmentId,
    /// The block of the volume, once that is known.
    pub(in crate::log) lba: Option<Lba>,
}

impl AwaitedBlocks {
    /// A block that may be awaited is this one of the volume.
    pub(in crate::log) fn identify(&mut self, pba: Pba, lba: Lba) {
        if let Some(block) = self.blocks.get_mut(&pba) {
            block.lba = Some(lba);
        }
    }

    /// A drive has joined: whatever is still missing is met again.
    pub(in crate::log) fn forget(&mut self) {
        self.blocks.clear();
    }
}
