//! What an array needs of the volume on it.
//!
//! The array's state is a part of the volume's, behind the volume's one borrow, so that decisions
//! see both. No reference is held while anything is awaited.

use std::cell::{Ref, RefMut};

use zoneweave_runtime::{Gate, Handle};

use crate::array::format::numbers::{SegmentId, Sequence};
use crate::array::format::record::VolumeBody;
use crate::array::state::Array;
use crate::array::superblock_logs::SuperblockLog;
use crate::scheme::Column;

/// A volume on an array.
pub(crate) trait ArrayVolume: Sized + 'static {
    /// The payloads of its superblock records.
    type Body: VolumeBody;

    /// The state of the array.
    fn array(&self) -> Ref<'_, Array>;

    /// The state of the array, to be changed.
    fn array_mut(&self) -> RefMut<'_, Array>;

    /// The superblock logs of the members.
    fn superblock(&self) -> &SuperblockLog;

    /// Clock and task spawner.
    fn handle(&self) -> &Handle;

    /// Opened by every change that a waiting task may react to.
    fn changed(&self) -> &Gate;

    /// The volume's numbers in the next records.
    fn numbers(&self) -> VolumeNumbers;

    /// Payloads with all current information of the volume. With `last` and the end of the snapshot
    /// behind them, the records before are no longer needed; what `last` replaces is left out.
    fn snapshot(&self, last: &Self::Body) -> Vec<Self::Body>;

    /// Evicts a member ([`Array::evict`]), gives up whatever the volume was writing to it, and
    /// stops writes if too few members are left. Returns whether it was in service before.
    fn evict(&self, column: Column, reason: &str) -> bool;

    /// An error of a member was counted. A volume that keeps the counts on media does so soon.
    fn errors_counted(&self) {}
}

/// Numbers of a volume that each record repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VolumeNumbers {
    /// The next sequence. It distinguishes histories that were started apart.
    pub(crate) next_sequence: Sequence,
    /// Every assigned sequence is below this.
    pub(crate) sequence_ceiling: Sequence,
    /// Every assigned segment number is below this.
    pub(crate) segment_ceiling: SegmentId,
}
