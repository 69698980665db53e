//! Reads and resets in flight, counted per member while the guard lives.

use std::rc::Rc;

use zoneweave_runtime::Nanos;
use zoneweave_zoned::BlockCount;

use crate::array::latency::hedge::size_of;
use crate::array::volume::ArrayVolume;
use crate::scheme::Column;

/// A read in flight.
pub(crate) struct ReadUnderWay<V: ArrayVolume> {
    volume: Rc<V>,
    column: Column,
    number: u64,
    size: usize,
    resetting: bool,
    begun: Nanos,
}

impl<V: ArrayVolume> ReadUnderWay<V> {
    /// Records the start of a read if latencies are in use.
    #[must_use]
    pub(crate) fn begin(volume: &Rc<V>, column: Column, blocks: BlockCount) -> Option<Self> {
        let mut array = volume.array_mut();
        if !array.is_hedging() {
            return None;
        }
        let now = volume.handle().now();
        let size = size_of(blocks.0);
        let late = array.usual_bound(size).map_or(Nanos(u64::MAX), |bound| now + Nanos(bound));
        let number = array.hedge.next;
        array.hedge.next += 1;
        let pace = &mut array.members[column.index()].pace;
        let before = pace.under_way.insert(number, late);
        assert!(before.is_none(), "two reads of {column} have number {number}");
        let resetting = pace.resets > 0;
        Some(Self { volume: volume.clone(), column, number, size, resetting, begun: now })
    }

    /// Records the answer of a drive.
    pub(crate) fn answered(self) {
        // The drive answered in the last turn, not when this task was resumed.
        let latency = self.volume.handle().recent().since(self.begun);
        let mut array = self.volume.array_mut();
        let pace = &mut array.members[self.column.index()].pace;
        // The latencies of a replaced drive were discarded.
        if pace.under_way.contains_key(&self.number) {
            let resetting = self.resetting || pace.resets > 0;
            let estimates = if resetting { &mut pace.resetting } else { &mut pace.usual };
            estimates[self.size].note(latency);
        }
    }
}

impl<V: ArrayVolume> Drop for ReadUnderWay<V> {
    fn drop(&mut self) {
        // The state may still be borrowed after a panic.
        if !std::thread::panicking() {
            let mut array = self.volume.array_mut();
            array.members[self.column.index()].pace.under_way.remove(&self.number);
        }
    }
}

/// A reset in flight.
pub(crate) struct ResetUnderWay<'a, V: ArrayVolume>(&'a V, Column);

impl<'a, V: ArrayVolume> ResetUnderWay<'a, V> {
    /// Records the start of a reset.
    #[must_use]
    pub(crate) fn begin(volume: &'a V, column: Column) -> Self {
        volume.array_mut().members[column.index()].pace.resets += 1;
        Self(volume, column)
    }
}

impl<V: ArrayVolume> Drop for ResetUnderWay<'_, V> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let mut array = self.0.array_mut();
            let resets = &mut array.members[self.1.index()].pace.resets;
            // The drive may have been replaced meanwhile.
            *resets = resets.saturating_sub(1);
        }
    }
}
