//! Users and administrators: each performs its actions one after the other.

use std::rc::Rc;

use futures_util::FutureExt;
use zoneweave_raid::raizn::Volume;
use zoneweave_raid::scheme::Column;
use zoneweave_runtime::{Handle, Nanos};
use zoneweave_zoned::{
    Command, Completion, Outcome, Payload, Reply, Status, ZoneAction, ZoneAddress, ZoneId,
    ZonedDevice, ZonedDeviceExt,
};

use super::harness::ZonedHarness;
use super::oracle::Submitted;
use super::verify::{count, found_in, versions};
use crate::pattern::contents;
use crate::simulate::drives::attach::attach_to;
use crate::simulate::run::inject::{inject, pull};
use crate::simulate::scenario::{Action, ZoneVerb};

/// Blocks behind the last written one that are read as well.
const BEHIND: usize = 3;

/// One user or administrator.
pub(super) struct Actor {
    pub harness: Rc<ZonedHarness>,
    pub volume: Volume,
    pub handle: Handle,
}

/// A submitted command, or its answer if it was refused or complete at once.
enum Begun {
    Waiting(Completion),
    Answered(Outcome),
}

impl Begun {
    async fn answer(self) -> Outcome {
        match self {
            Self::Waiting(completion) => completion.await,
            Self::Answered(outcome) => outcome,
        }
    }

    /// Whether the limits of zones allow no more.
    fn is_refused(&self) -> bool {
        let limits = [Status::TooManyActive, Status::TooManyOpen];
        matches!(self, Self::Answered(Err(status)) if limits.contains(status))
    }
}

impl Actor {
    /// Performs all actions of a list.
    pub(super) async fn run(self, actions: Vec<Action>) {
        for action in actions {
            self.act(action).await;
        }
    }

    async fn act(&self, action: Action) {
        let base = &self.harness.base;
        match action {
            Action::Zone { zone, verb } => {
                let zones = self.volume.geometry().zones;
                self.zone(ZoneId(zone % zones), verb).await;
                base.count(|tally| tally.requests += 1);
            }
            Action::Flush => {
                self.flush().await;
                base.count(|tally| tally.requests += 1);
            }
            Action::Sleep { us } => self.handle.sleep(Nanos::from_micros(us)).await,
            Action::Fail { slot } => self.fail(slot).await,
            Action::Replace { slot } => self.replace(slot).await,
            Action::Resume => {
                let resumed = self.volume.resume_rebuilds().await;
                self.rebuilt(resumed.is_ok());
            }
            Action::Scrub => self.scrub().await,
            Action::Clear => base.orders.clear(&self.volume).await,
            Action::RecordScrub => base.orders.record_scrub(&self.volume).await,
            Action::Pull { slot, too_many, forgetting } => {
                self.harness.observe(&self.volume);
                let rebuilding = self.volume.status().rebuild.is_some();
                pull(base, slot, too_many, forgetting, rebuilding);
            }
            Action::Fault { slot, fault } => {
                self.harness.observe(&self.volume);
                inject(base, slot, fault);
            }
            _ => {}
        }
    }

    async fn zone(&self, zone: ZoneId, verb: ZoneVerb) {
        match verb {
            ZoneVerb::Write { blocks, fua } => self.write(zone, blocks, fua, false).await,
            ZoneVerb::Append { blocks, fua } => self.write(zone, blocks, fua, true).await,
            ZoneVerb::Read { offset, blocks } => self.read(zone, offset, blocks).await,
            ZoneVerb::Open => self.open_or_close(zone, ZoneAction::Open).await,
            ZoneVerb::Close => self.open_or_close(zone, ZoneAction::Close).await,
            ZoneVerb::Finish => self.finish(zone).await,
            ZoneVerb::Reset => self.reset(zone).await,
            ZoneVerb::Report => self.report().await,
        }
    }

    fn submit(&self, command: Command) -> Begun {
        let mut completion = self.volume.submit(command);
        match (&mut completion).now_or_never() {
            Some(outcome) => Begun::Answered(outcome),
            None => Begun::Waiting(completion),
        }
    }

    async fn write(&self, zone: ZoneId, blocks: u32, fua: bool, append: bool) {
        let room = self.harness.oracle.borrow().room(zone.index());
        if room == 0 {
            return self.reset(zone).await;
        }
        let most = match append {
            true => self.volume.geometry().append_limit.index(),
            false => self.volume.geometry().max_transfer.index(),
        };
        let blocks = (blocks.max(1) as usize).min(room).min(most);
        let (command, at) = {
            let oracle = self.harness.oracle.borrow();
            let data = oracle.next_versions(blocks).into_iter();
            let data = data.map(|version| contents(zone.0.into(), version)).collect();
            let payload = Payload { data, oob: bytes::Bytes::new() };
            let at = ZoneAddress::new(zone, count(oracle.zones[zone.index()].submitted()).0);
            let command = match append {
                true => Command::Append { zone, payload, fua },
                false => Command::Write { at, payload, fua },
            };
            (command, at)
        };
        let begun = self.submit(command);
        if begun.is_refused() {
            return;
        }
        let write = self.harness.oracle.borrow_mut().submit(zone.index(), blocks);
        self.written(write, at, begun.answer().await, fua);
    }

    fn written(&self, write: Submitted, at: ZoneAddress, outcome: Outcome, fua: bool) {
        let reply = self.harness.expect("a write", outcome);
        let Some(reply) = reply else { return };
        assert!(reply == Reply::Written(at), "a write of {write:?} returns {reply:?}");
        let durable = fua || self.harness.base.writethrough();
        self.harness.oracle.borrow_mut().acknowledge(write, durable);
    }

    async fn read(&self, zone: ZoneId, offset: u32, blocks: u32) {
        let (at, length, before) = {
            let oracle = self.harness.oracle.borrow();
            let end = (oracle.zones[zone.index()].submitted() + BEHIND).min(oracle.capacity);
            let offset = offset as usize % end;
            let most = self.volume.geometry().max_transfer.index().min(end - offset);
            (offset, (blocks.max(1) as usize).min(most), oracle.begin_read(zone.index()))
        };
        let read = self.volume.read(ZoneAddress::new(zone, count(at).0), count(length)).await;
        let Some(payload) = self.harness.expect("a read", read) else { return };
        self.harness.base.count(|tally| tally.blocks_read += length as u64);
        let found = versions(zone.0, &payload);
        let mut oracle = self.harness.oracle.borrow_mut();
        let allowed = oracle.zones[zone.index()].read(before, at, &found);
        allowed.unwrap_or_else(|why| panic!("a read of {zone} is wrong: {why}"));
    }

    async fn open_or_close(&self, zone: ZoneId, action: ZoneAction) {
        let begun = self.submit(Command::Manage { zone, action });
        let refused = begun.is_refused();
        // Whether the zone is open is known to the volume alone.
        let outcome = begun.answer().await;
        if !refused && outcome != Err(Status::InvalidTransition) {
            self.harness.expect("opening or closing a zone", outcome);
        }
    }

    async fn finish(&self, zone: ZoneId) {
        let is_full = {
            let oracle = self.harness.oracle.borrow();
            oracle.zones[zone.index()].is_full(oracle.capacity)
        };
        let begun = self.submit(Command::Manage { zone, action: ZoneAction::Finish });
        let era = {
            let mut oracle = self.harness.oracle.borrow_mut();
            let history = &mut oracle.zones[zone.index()];
            (!is_full).then(|| history.submit_finish())
        };
        let done = self.harness.expect("a finish", begun.answer().await);
        if let (Some(_), Some(era)) = (done, era) {
            self.harness.oracle.borrow_mut().zones[zone.index()].acknowledge_finish(era);
        }
    }

    async fn reset(&self, zone: ZoneId) {
        let begun = self.submit(Command::Manage { zone, action: ZoneAction::Reset });
        let era = self.harness.oracle.borrow_mut().zones[zone.index()].submit_reset();
        if self.harness.expect("a reset", begun.answer().await).is_some() {
            self.harness.oracle.borrow_mut().zones[zone.index()].acknowledge_reset(era);
        }
    }

    async fn report(&self) {
        // It shows the zones as of its submission, and is answered once that is so.
        let shown: Vec<_> = {
            let oracle = self.harness.oracle.borrow();
            oracle.zones.iter().map(|zone| zone.begin_report(oracle.capacity)).collect()
        };
        let report = self.harness.expect("a report", self.volume.report().await);
        // Once writes have stopped, commands fail that the oracle has as submitted.
        if self.harness.base.may_fail() {
            return;
        }
        let mut oracle = self.harness.oracle.borrow_mut();
        for info in report.unwrap_or_default() {
            let zone = info.zone.index();
            let reported = oracle.zones[zone].reported(shown[zone], &found_in(&info));
            assert!(reported == Ok(()), "a report of {} is wrong: {reported:?}", info.zone);
        }
    }

    async fn flush(&self) {
        let begun = self.harness.oracle.borrow().begin_flush();
        if self.harness.expect("a flush", self.volume.flush().await).is_some() {
            self.harness.oracle.borrow_mut().flushed(&begun);
        }
    }

    /// Scrubs the volume. All data is consistent, so parity never differs.
    async fn scrub(&self) {
        let base = &self.harness.base;
        let before = base.drives.borrow().before_scrub();
        match self.volume.scrub().await {
            Ok(report) => {
                base.count(|tally| tally.scrubs += 1);
                assert!(report.mismatches == 0, "a scrub finds wrong parity: {report:?}");
                if report.left == 0 && report.unrepairable == 0 && report.failed_reads == 0 {
                    base.drives.borrow_mut().after_scrub(&before);
                } else {
                    let is_covered = report.unrepairable == 0 || base.may_fail();
                    assert!(is_covered, "a scrub lost blocks: {report:?}");
                }
            }
            Err(error) => assert!(base.may_fail(), "a scrub failed: {error}"),
        }
    }

    async fn fail(&self, slot: usize) {
        self.harness.observe(&self.volume);
        let base = &self.harness.base;
        if slot >= base.shape.columns() || !base.drives.borrow().may_impair(slot) {
            return;
        }
        base.drives.borrow_mut().suspect(slot);
        // It may be refused, as for the last drive that is left.
        let _refused = self.volume.fail(Column::of(slot)).await;
    }
    /// Puts a blank drive into the first slot without a working member, or else into this one, and
    /// rebuilds it.
    async fn replace(&self, slot: usize) {
        self.harness.observe(&self.volume);
        let base = &self.harness.base;
        let members = self.volume.status().members;
        let failed = members.iter().find(|member| !member.online && !member.rebuilding);
        let slot = failed.map_or(slot, |member| usize::from(member.slot));
        let columns = base.shape.columns();
        if slot >= columns || failed.is_none() && !base.drives.borrow().may_impair(slot) {
            return;
        }
        let (device, old, new) = {
            let mut drives = base.drives.borrow_mut();
            let old = drives.exchange(slot);
            drives.suspect(slot);
            drives.begin_replacing(slot);
            let device = attach_to(&base.shape, &drives.in_slots[slot].ram, &self.handle);
            (device, old, drives.in_slots[slot].number)
        };
        let uuid = base.member(new);
        let result = self.volume.replace(Column::of(slot), device, uuid).await;
        base.drives.borrow_mut().end_replacing(slot);
        let is_member = self.volume.status().members[slot].uuid == uuid.to_string();
        if result.is_err() && !is_member {
            base.drives.borrow_mut().undo_exchange(slot, old, new);
        }
        self.rebuilt(result.is_ok());
    }

    /// A rebuild ended, successfully or not.
    fn rebuilt(&self, done: bool) {
        if done {
            self.harness.base.count(|tally| tally.rebuilds += 1);
            self.harness.confirm(&self.volume);
        }
        self.harness.observe(&self.volume);
    }
}
