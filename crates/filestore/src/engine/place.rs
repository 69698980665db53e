//! Finding blocks for a write: the policy's choice, opened zones, finished zones, and waiting.
//!
//! Users leave [`Limits::reserve`] empty zones to relocation, so that it can always go on. A zone
//! that relocation opens from the reserve is its own until as many zones are empty again. A write
//! fails with `NoSpace` only if nothing can be reclaimed and nothing is on its way.
//!
//! [`Limits::reserve`]: super::core::Limits

use std::rc::Rc;

use zoneweave_zoned::{BlockCount, ZoneAction, ZoneAddress, ZoneId, ZonedDeviceExt};

use super::core::{Core, State};
use crate::error::StoreError;
use crate::format::{Entry, StoredPhase, StoredZone};
use crate::instrument::marks::{Mark, mark};
use crate::instrument::mutants::{Mutant, mutant};
use crate::policy::{Choice, EmptyZone, Need, OpenZone, View};
use crate::state::{Phase, Zone};

/// Blocks that were taken for a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) at: ZoneAddress,
    pub(crate) blocks: BlockCount,
}

/// The next step towards blocks.
enum Step {
    Taken(Place),
    Open(ZoneId),
    Finish(ZoneId),
    Wait,
    NoSpace,
}

/// Counts a write that waits for space.
struct Waiting(Rc<Core>);

impl Waiting {
    fn begin(core: &Rc<Core>) -> Self {
        mark(Mark::WaitsForSpace);
        core.state_mut().reclaim.waiting += 1;
        core.run_reclaim();
        Self(core.clone())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.state_mut().reclaim.waiting -= 1;
    }
}

impl Core {
    /// Takes up to `want` blocks for a write, in the zone that the file appends to if it has room.
    /// The caller submits the write before it awaits anything.
    ///
    /// # Errors
    /// [`StoreError::NoSpace`], or if the store stopped.
    pub(crate) async fn place(
        self: &Rc<Self>,
        need: Need,
        current: Option<ZoneId>,
        want: BlockCount,
    ) -> Result<Place, StoreError> {
        assert!(want.0 > 0, "a write of nothing");
        let mut waiting = None;
        loop {
            let step = {
                let mut state = self.state_mut();
                state.check_running()?;
                state.next_step(need, current, want, &self.limits)
            };
            match step {
                Step::Taken(place) => return Ok(place),
                Step::Open(zone) => self.start_opening(zone, need),
                Step::Finish(zone) => self.start_finishing(zone),
                Step::NoSpace => {
                    mark(Mark::NoSpace);
                    return Err(StoreError::NoSpace);
                }
                Step::Wait if !need.is_relocation && waiting.is_none() => {
                    // Relocation may begin now: look again before the wait.
                    waiting = Some(Waiting::begin(self));
                    continue;
                }
                // Something to relocate may have come since the wait began.
                Step::Wait if !need.is_relocation => self.run_reclaim(),
                Step::Wait => {}
            }
            self.space_changed.wait().await;
        }
    }

    /// Puts on record that a zone is open, then opens it.
    fn start_opening(self: &Rc<Self>, zone: ZoneId, need: Need) {
        let ticket = {
            let mut state = self.state_mut();
            let empty = state.empty_zones();
            let incarnation = state.next_incarnation;
            state.next_incarnation = incarnation.next();
            let entry = state.zones.get_mut(zone);
            assert!(entry.phase == Phase::Empty, "{zone} is {:?}", entry.phase);
            entry.phase = Phase::Opening;
            entry.incarnation = incarnation;
            entry.lifetime = need.hints.lifetime;
            entry.is_reserved = need.is_relocation && empty <= self.limits.reserve;
            if entry.is_reserved {
                mark(Mark::ReserveOpened);
            }
            let (phase, lifetime) = (StoredPhase::Open, entry.lifetime);
            let stored = StoredZone { zone, phase, incarnation, known: 0, lifetime };
            state.record(Some(Entry::Zone(stored)), Vec::new())
        };
        let core = self.clone();
        self.handle.spawn_alone("zone opening", async move {
            let recorded = match mutant(Mutant::ZoneOpenNotRecorded) {
                true => Ok(()),
                false => core.until_durable(ticket).await,
            };
            if recorded.is_ok() {
                core.state_mut().zones.get_mut(zone).phase = Phase::Open;
            }
            core.space_changed.open();
        });
        if mutant(Mutant::ZoneOpenNotRecorded) {
            self.run_journal();
        }
    }

    /// Finishes a zone that nobody writes, and then seals it.
    pub(crate) fn start_finishing(self: &Rc<Self>, zone: ZoneId) {
        {
            let mut state = self.state_mut();
            let entry = state.zones.get_mut(zone);
            assert!(entry.phase == Phase::Open, "{zone} is {:?}", entry.phase);
            assert!(entry.in_flight == 0, "{zone} is being written");
            entry.phase = Phase::Sealing;
        }
        mark(Mark::ZoneFinished);
        self.start_sealing(zone);
    }

    /// Makes a zone full for the drive, so that it is active no more. A zone that cannot be
    /// finished is none that can be written either.
    pub(crate) async fn finish(&self, zone: ZoneId) {
        self.state_mut().zones.get_mut(zone).is_finishing = true;
        let _failed = self.device.manage(zone, ZoneAction::Finish).await;
        let mut state = self.state_mut();
        state.zones.get_mut(zone).is_finishing = false;
        state.counters.finished += 1;
        drop(state);
        self.space_changed.open();
    }
}

impl State {
    fn next_step(
        &mut self,
        need: Need,
        current: Option<ZoneId>,
        want: BlockCount,
        limits: &super::core::Limits,
    ) -> Step {
        if let Some(zone) = current
            && self.zones.room(zone).0 > 0
            && self.may_use(zone, need, limits)
        {
            return Step::Taken(self.take(zone, want));
        }
        if need.is_relocation
            && self.empty_zones() <= limits.reserve
            && let Some(zone) = self.roomiest()
        {
            return Step::Taken(self.take(zone, want));
        }
        let (open, empty) = (self.open_zones(need, limits), self.openable_zones(need, limits));
        let view = View {
            open: &open,
            empty: &empty,
            wear: self.wear(),
            may_open: self.zones.active() < limits.active,
            capacity: self.zones.capacity(),
            finish_percent: self.superblock.finish_percent,
        };
        match self.policy.place(&need, &view) {
            Choice::Append(zone) => {
                let entry = self.zones.get_mut(zone);
                if entry.live == 0 && entry.writers == 0 && entry.in_flight == 0 {
                    entry.lifetime = need.hints.lifetime;
                }
                Step::Taken(self.take(zone, want))
            }
            Choice::Open(zone) => Step::Open(zone),
            Choice::Finish(zone) => Step::Finish(zone),
            Choice::Wait if self.is_hopeless(need.is_relocation) => Step::NoSpace,
            Choice::Wait => Step::Wait,
        }
    }

    /// The open zone with the most room. Relocation fills open zones before it opens one from the
    /// reserve, so that what is live in a zone always fits.
    fn roomiest(&self) -> Option<ZoneId> {
        let zones = self.zones.iter().map(|(zone, _)| zone);
        zones.filter(|zone| self.zones.room(*zone).0 > 0).max_by_key(|zone| self.zones.room(*zone))
    }

    fn take(&mut self, zone: ZoneId, want: BlockCount) -> Place {
        let blocks = want.min(self.zones.room(zone));
        Place { at: self.zones.take(zone, blocks), blocks }
    }

    /// Whether a zone that relocation opened from the reserve is free for all, because the reserve
    /// is whole again.
    fn may_use(&mut self, zone: ZoneId, need: Need, limits: &super::core::Limits) -> bool {
        if self.zones.get(zone).is_reserved && self.empty_zones() >= limits.reserve {
            self.zones.get_mut(zone).is_reserved = false;
        }
        need.is_relocation || !self.zones.get(zone).is_reserved
    }

    fn open_zones(&mut self, need: Need, limits: &super::core::Limits) -> Vec<OpenZone> {
        let zones: Vec<ZoneId> = self.zones.iter().map(|(zone, _)| zone).collect();
        let mut open = Vec::new();
        for zone in zones {
            let room = self.zones.room(zone);
            if room.0 == 0 || !self.may_use(zone, need, limits) {
                continue;
            }
            let entry = self.zones.get(zone);
            open.push(OpenZone {
                zone,
                lifetime: entry.lifetime,
                room,
                live: entry.live,
                is_busy: entry.writers > 0 || entry.in_flight > 0,
                resets: entry.resets,
            });
        }
        open
    }

    fn openable_zones(&self, need: Need, limits: &super::core::Limits) -> Vec<EmptyZone> {
        let reserve = if mutant(Mutant::ReserveIgnored) { 0 } else { limits.reserve };
        if !need.is_relocation && self.empty_zones() <= reserve {
            return Vec::new();
        }
        let empty = self.zones.iter().filter(|(_, entry)| entry.phase == Phase::Empty);
        empty.map(|(zone, entry)| EmptyZone { zone, resets: entry.resets }).collect()
    }

    /// Whether waiting for space is in vain: nothing is on its way, and nothing can be reclaimed.
    fn is_hopeless(&self, is_relocation: bool) -> bool {
        // A zone may wait for a failed write that is being placed here. If no other write is in
        // flight, they would wait for each other.
        let is_idle = self.zones.iter().all(|(_, entry)| entry.in_flight == 0);
        let is_coming = |entry: &Zone| match entry.phase {
            Phase::Opening | Phase::Resetting => true,
            Phase::Sealing => !(is_idle && entry.waits_for_files),
            _ => false,
        };
        let nothing_comes = !self.zones.iter().any(|(_, entry)| is_coming(entry))
            && self.journal.items.iter().all(|item| item.freed.is_empty());
        // What cannot be relocated before a write ends can be then.
        let is_retried = !is_idle && self.reclaim.has_stuck();
        let reclaims = self.reclaim.is_running || is_retried || self.victim(true).is_some();
        nothing_comes && (is_relocation || !reclaims)
    }
}
