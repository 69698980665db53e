//! Reads and resets in flight, counted per member while the guard lives.

use std::rc::Rc;

use zoneweave_runtime::Nanos;
use zoneweave_zoned::BlockCount;

use crate::array::hedge::size_of;
use crate::log::engine::core::Core;
use crate::scheme::Column;

/// A read in flight.
pub(in crate::log) struct ReadUnderWay {
    core: Rc<Core>,
    column: Column,
    number: u64,
    size: usize,
    resetting: bool,
    begun: Nanos,
}

impl ReadUnderWay {
    /// Records the start of a read if latencies are in use.
    #[must_use]
    pub(in crate::log) fn begin(
        core: &Rc<Core>,
        column: Column,
        blocks: BlockCount,
    ) -> Option<Self> {
        let now = core.handle.now();
        let mut state = core.state.borrow_mut();
        if !state.array.is_hedging() {
            return None;
        }
        let size = size_of(blocks.0);
        let late =
            state.array.usual_bound(size).map_or(Nanos(u64::MAX), |bound| now + Nanos(bound));
        let number = state.array.hedge.next;
        state.array.hedge.next += 1;
        let pace = &mut state.array.members[column.index()].pace;
        pace.under_way.insert(number, late);
        let resetting = pace.resets > 0;
        Some(Self { core: core.clone(), column, number, size, resetting, begun: now })
    }

    /// Records the answer of a drive.
    pub(in crate::log) fn answered(self) {
        let latency = self.core.handle.now().since(self.begun);
        let mut state = self.core.state.borrow_mut();
        let pace = &mut state.array.members[self.column.index()].pace;
        // The latencies of a replaced drive were discarded.
        if pace.under_way.contains_key(&self.number) {
            let resetting = self.resetting || pace.resets > 0;
            let estimates = if resetting { &mut pace.resetting } else { &mut pace.usual };
            estimates[self.size].note(latency);
        }
    }
}

impl Drop for ReadUnderWay {
    fn drop(&mut self) {
        // The state may still be borrowed after a panic.
        if !std::thread::panicking() {
            let mut state = self.core.state.borrow_mut();
            state.array.members[self.column.index()].pace.under_way.remove(&self.number);
        }
    }
}

/// A reset in flight.
pub(in crate::log) struct ResetUnderWay<'a>(&'a Core, Column);

impl<'a> ResetUnderWay<'a> {
    /// Records the start of a reset.
    #[must_use]
    pub(in crate::log) fn begin(core: &'a Core, column: Column) -> Self {
        core.state.borrow_mut().array.members[column.index()].pace.resets += 1;
        Self(core, column)
    }
}

impl Drop for ResetUnderWay<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let mut state = self.0.state.borrow_mut();
            let resets = &mut state.array.members[self.1.index()].pace.resets;
            // The drive may have been replaced meanwhile.
            *resets = resets.saturating_sub(1);
        }
    }
}
