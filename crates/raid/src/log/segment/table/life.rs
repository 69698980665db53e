//! The life of a segment: its phase, what only that phase has, and the task that works on it.
//!
//! ```text
//!         last row written
//!   Open ------------------> Sealed --+
//!     |                               | no valid block is left
//!     +--------------------> Leftover +-------------------------> Dead
//!         crash, failed write
//! ```
//!
//! A task (relocation, reset, rebuild, scrub) claims a closed segment; other tasks leave it alone.

use std::fmt;

use serde::Serialize;

use crate::log::engine::geometry::{Row, SegmentGeometry};

/// The phase of a segment's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// It takes stripes.
    Open,
    /// Complete: every row and every summary is written.
    Sealed,
    /// Incomplete for ever, after a crash or a failed write. Its live blocks are relocated first.
    Leftover,
    /// Without valid blocks; its zones are being reset.
    Dead,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Write position of an open segment.
#[derive(Debug)]
pub(in crate::log) struct Cursor {
    /// The next row to be started, in the current group, in the order of starts.
    pub next_row: u32,
    /// The rows of the current group.
    pub group: std::ops::Range<u32>,
}

impl Cursor {
    fn new(geometry: &SegmentGeometry) -> Self {
        Self { next_row: 0, group: geometry.group_of(Row(0)) }
    }

    /// Whether its group has rows left.
    #[must_use]
    pub(in crate::log) fn has_rows(&self) -> bool {
        self.next_row < self.group.end
    }

    /// Starts the next row of the group.
    pub(in crate::log) fn take_row(&mut self) -> u32 {
        assert!(self.has_rows(), "no row is left of the group {:?}", self.group);
        self.next_row += 1;
        self.next_row - 1
    }
}

/// The task that works on a closed segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) enum Work {
    /// None: any task may claim it.
    Idle,
    /// The collector relocates its blocks.
    Relocation {
        /// Number of valid blocks when it began.
        valid_before: u64,
    },
    /// It has no valid blocks, and is being freed.
    Reset,
    /// A column of it is written again.
    Rebuild,
    /// Its blocks are verified.
    Scrub,
}

/// The zones of an incomplete segment, as they count against the drives' active limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ActiveZones {
    /// Open or closed.
    Held,
    /// They are being finished.
    Finishing,
    /// Full: they count no more.
    Finished,
}

/// What a segment has in its phase.
#[derive(Debug)]
enum State {
    Open(Cursor),
    Sealed { work: Work },
    Leftover { work: Work, zones: ActiveZones },
    // A segment may die while its zones are being finished.
    Dead { is_recorded: bool, zones: ActiveZones },
}

/// The life of a segment.
#[derive(Debug)]
pub(in crate::log) struct Life {
    state: State,
}

impl Life {
    /// A segment about to be filled.
    pub(super) fn open(geometry: &SegmentGeometry) -> Self {
        Self { state: State::Open(Cursor::new(geometry)) }
    }

    /// A complete segment of an earlier start.
    pub(super) fn sealed() -> Self {
        Self { state: State::Sealed { work: Work::Idle } }
    }

    /// An incomplete segment of an earlier start.
    pub(super) fn leftover() -> Self {
        Self { state: State::Leftover { work: Work::Idle, zones: ActiveZones::Held } }
    }

    #[must_use]
    pub(in crate::log) fn phase(&self) -> Phase {
        match self.state {
            State::Open(_) => Phase::Open,
            State::Sealed { .. } => Phase::Sealed,
            State::Leftover { .. } => Phase::Leftover,
            State::Dead { .. } => Phase::Dead,
        }
    }

    /// The write position, while open.
    #[must_use]
    pub(in crate::log) fn cursor(&self) -> Option<&Cursor> {
        match &self.state {
            State::Open(cursor) => Some(cursor),
            _ => None,
        }
    }

    /// The same for changes.
    pub(in crate::log) fn cursor_mut(&mut self) -> Option<&mut Cursor> {
        match &mut self.state {
            State::Open(cursor) => Some(cursor),
            _ => None,
        }
    }

    /// The task that works on it; open and dead segments have none.
    #[must_use]
    pub(in crate::log) fn work(&self) -> Work {
        match self.state {
            State::Sealed { work } | State::Leftover { work, .. } => work,
            State::Open(_) | State::Dead { .. } => Work::Idle,
        }
    }

    /// Whether a task works on it.
    #[must_use]
    pub(in crate::log) fn is_busy(&self) -> bool {
        self.work() != Work::Idle
    }

    /// Claims it for a task. Recovery relocates a segment that it cannot do without, even if the
    /// collector or the sweeper has claimed it.
    ///
    /// # Panics
    /// If it is open or dead, or another task works on it.
    pub(in crate::log) fn claim(&mut self, by: Work) {
        let phase = self.phase();
        let (State::Sealed { work } | State::Leftover { work, .. }) = &mut self.state else {
            panic!("{by:?} of a segment that is {phase:?}");
        };
        let may_take_over = match *work {
            Work::Idle => true,
            Work::Relocation { .. } | Work::Reset => matches!(by, Work::Relocation { .. }),
            Work::Scrub => by == Work::Scrub,
            Work::Rebuild => false,
        };
        assert!(may_take_over, "{by:?} during {work:?}");
        *work = by;
    }

    /// Ends a task's work on it. Nothing changes if it has died or been claimed by another task
    /// meanwhile.
    pub(in crate::log) fn release(&mut self, is_of_task: impl Fn(Work) -> bool) {
        if let State::Sealed { work } | State::Leftover { work, .. } = &mut self.state
            && is_of_task(*work)
        {
            *work = Work::Idle;
        }
    }

    /// The last row and summary are written.
    pub(in crate::log) fn seal(&mut self) {
        let cursor = self.cursor().expect("an open segment is sealed");
        assert!(!cursor.has_rows(), "rows are left");
        self.state = State::Sealed { work: Work::Idle };
    }

    /// It will not be completed.
    pub(in crate::log) fn give_up(&mut self) {
        assert!(self.cursor().is_some(), "a segment that is {:?} is given up", self.phase());
        self.state = State::Leftover { work: Work::Idle, zones: ActiveZones::Held };
    }

    /// Its last valid block is gone; the task that frees it has claimed it.
    pub(in crate::log) fn die(&mut self) {
        assert!(self.work() == Work::Reset, "a segment dies during {:?}", self.work());
        let zones = match self.state {
            State::Leftover { zones, .. } => zones,
            _ => ActiveZones::Finished,
        };
        self.state = State::Dead { is_recorded: false, zones };
    }

    /// Records that no crash can bring it back.
    pub(in crate::log) fn record_death(&mut self) {
        let State::Dead { is_recorded, .. } = &mut self.state else {
            panic!("death of a segment that is {:?}", self.phase());
        };
        *is_recorded = true;
    }

    /// Whether its death is on media.
    #[must_use]
    pub(in crate::log) fn is_recorded_dead(&self) -> bool {
        matches!(self.state, State::Dead { is_recorded: true, .. })
    }

    fn zones_mut(&mut self) -> &mut ActiveZones {
        match &mut self.state {
            State::Leftover { zones, .. } | State::Dead { zones, .. } => zones,
            State::Open(_) | State::Sealed { .. } => panic!("zones of a leftover segment"),
        }
    }

    /// Whether its zones count against the drives' active limit.
    #[must_use]
    pub(in crate::log) fn holds_active_zones(&self) -> bool {
        match self.state {
            State::Open(_) => true,
            State::Sealed { .. } => false,
            State::Leftover { zones, .. } | State::Dead { zones, .. } => {
                zones != ActiveZones::Finished
            }
        }
    }

    /// Whether its zones are being finished.
    #[must_use]
    pub(in crate::log) fn is_finishing(&self) -> bool {
        match self.state {
            State::Leftover { zones, .. } | State::Dead { zones, .. } => {
                zones == ActiveZones::Finishing
            }
            State::Open(_) | State::Sealed { .. } => false,
        }
    }

    /// Begins to finish the zones of a leftover segment.
    pub(in crate::log) fn begin_finish(&mut self) {
        assert!(self.phase() == Phase::Leftover, "zones of a segment that is {:?}", self.phase());
        let zones = self.zones_mut();
        assert!(*zones == ActiveZones::Held, "zones are finished once");
        *zones = ActiveZones::Finishing;
    }

    /// Ends that; `finished`: whether the zones are full.
    pub(in crate::log) fn end_finish(&mut self, finished: bool) {
        let zones = self.zones_mut();
        assert!(*zones == ActiveZones::Finishing, "zones that are {zones:?}");
        *zones = if finished { ActiveZones::Finished } else { ActiveZones::Held };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RELOCATION: Work = Work::Relocation { valid_before: 7 };

    #[test]
    fn a_segment_dies_during_its_reset_and_keeps_its_zones_active() {
        let mut life = Life::leftover();
        life.claim(Work::Reset);
        life.begin_finish();
        life.die();
        assert!(life.phase() == Phase::Dead && life.is_finishing());
        assert!(life.holds_active_zones() && !life.is_recorded_dead());
        life.end_finish(true);
        life.record_death();
        assert!(!life.holds_active_zones() && life.is_recorded_dead());
        life.release(|_| true);
        assert_eq!(life.phase(), Phase::Dead);
    }

    #[test]
    fn recovery_relocates_what_the_sweeper_has_claimed() {
        let mut life = Life::sealed();
        life.claim(Work::Reset);
        life.claim(RELOCATION);
        life.release(|work| work == Work::Reset);
        assert_eq!(life.work(), RELOCATION);
        life.release(|work| work == RELOCATION);
        assert!(!life.is_busy());
    }

    #[test]
    #[should_panic(expected = "Scrub during Rebuild")]
    fn a_claimed_segment_is_left_alone() {
        let mut life = Life::sealed();
        life.claim(Work::Rebuild);
        life.claim(Work::Scrub);
    }

    #[test]
    #[should_panic(expected = "a segment dies during Idle")]
    fn only_the_task_that_frees_a_segment_ends_its_life() {
        Life::sealed().die();
    }
}
