//! Pins: a segment is not reset while a pin on it lives.

use std::rc::Rc;

use crate::log::engine::address::{BlockPlace, SegmentSlot};
use crate::log::engine::core::Core;
use crate::log::segment::table::Phase;

/// Keeps a segment's zones from being reset.
pub(in crate::log) struct Pin {
    core: Rc<Core>,
    slot: SegmentSlot,
}

impl Pin {
    #[must_use]
    pub(in crate::log) fn new(core: &Rc<Core>, slot: SegmentSlot) -> Self {
        core.state.borrow_mut().segments[slot].begin_read();
        Self { core: core.clone(), slot }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        // The state may be inconsistent after a panic, and a second panic would abort.
        if std::thread::panicking() {
            return;
        }
        let awaited = {
            let mut state = self.core.state.borrow_mut();
            let segment = &mut state.segments[self.slot];
            segment.end_read();
            // Only the task that frees the segment waits for its last reader.
            segment.readers() == 0 && segment.phase() == Phase::Dead
        };
        if awaited {
            self.core.unread.open();
        }
    }
}

/// Pins every segment that holds one of the places.
#[must_use]
pub(in crate::log) fn pin_all(core: &Rc<Core>, places: &[BlockPlace]) -> Vec<Pin> {
    let mut slots: Vec<_> = places.iter().map(|place| place.slot).collect();
    slots.sort_unstable();
    slots.dedup();
    slots.into_iter().map(|slot| Pin::new(core, slot)).collect()
}

/// Keeps a segment from being reclaimed while its header or summary is written.
pub(in crate::log) struct Hold {
    core: Rc<Core>,
    slot: crate::log::engine::address::SegmentSlot,
}

impl Hold {
    pub(in crate::log) fn new(
        core: &Rc<Core>,
        slot: crate::log::engine::address::SegmentSlot,
    ) -> Self {
        core.state.borrow_mut().segments[slot].begin_write();
        Self { core: core.clone(), slot }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // The state may be inconsistent after a panic, and a second panic would abort.
        if std::thread::panicking() {
            return;
        }
        self.core.state.borrow_mut().segments[self.slot].end_write();
        self.core.changed.open();
    }
}
