//! The state of a RAM drive and every step it takes, without clocks or waiting.

use bytes::Bytes;
use zoneweave_runtime::Nanos;
use zoneweave_zoned::{
    BlockCount, Command, Geometry, GeometryError, Outcome, Payload, Reply, Responder, Status,
    ZoneAddress, ZoneAttributes, ZoneId, ZoneRecord, zero_blocks,
};

use super::areas::RandomWriteAreas;
use super::cache::{Promise, WriteCache};
use super::numbered::Numbered;
use super::pending::PendingCommand;
use crate::media::{Media, damaged};
use crate::timing::CommandId;
use crate::{Controller, CrashChoices, Damage, Placement, Request, Schedule, Timing, Work};

pub(super) struct Core {
    pub(super) controller: Controller,
    pub(super) media: Media,
    areas: RandomWriteAreas,
    cache: WriteCache,
    timing: Box<dyn Timing>,
    in_flight: Numbered<InFlight>,
    commands: u64,
    incarnation: u64,
    /// The latest write of each zone and when it is applied: later ones must not pass it.
    last_writes: Vec<LastWrite>,
}

#[derive(Clone, Copy, Default)]
struct LastWrite {
    applied: Nanos,
    /// Its command number, if it had to wait at all.
    id: Option<u64>,
}

/// A command that has not changed the drive yet.
#[derive(Clone)]
pub(super) struct Planned {
    pub(super) applied: Nanos,
    completed: Nanos,
    /// Whether an earlier write to the zone has not been applied yet, due or not.
    pub(super) behind: bool,
    /// For flushes: the promises made at completion.
    flushes: Vec<Promise>,
}

impl Planned {
    /// A command that the timing keeps for now.
    const KEPT: Self = Self {
        applied: Nanos(u64::MAX),
        completed: Nanos(u64::MAX),
        behind: false,
        flushes: Vec::new(),
    };

    pub(super) fn is_kept(&self) -> bool {
        self.applied == Self::KEPT.applied
    }
}

/// A command that has changed the drive.
#[derive(Clone)]
pub(super) struct Finished {
    request: Request,
    outcome: Outcome,
    /// For writes: the prefix that is complete with the completion.
    written: Option<Promise>,
    /// For flushes: prefixes that become durable with the completion.
    flushed: Vec<Promise>,
}

#[derive(Clone)]
enum Stage {
    Waiting(Command, Planned),
    Applied(Finished),
}

struct InFlight {
    stage: Stage,
    responder: Option<Responder>,
}

impl Core {
    pub(super) fn new(geometry: Geometry, timing: Box<dyn Timing>) -> Result<Self, GeometryError> {
        Ok(Self::holding(Controller::new(geometry)?, timing))
    }

    /// A drive whose zones are in given states; the caller must [store](Core::hold) their blocks
    /// next.
    pub(super) fn holding(controller: Controller, timing: Box<dyn Timing>) -> Self {
        let geometry = controller.zones().geometry();
        let media = Media::new(geometry);
        let areas = RandomWriteAreas::new(geometry.volatile_cache);
        let cache = WriteCache::new(geometry.zones, geometry.volatile_cache);
        let last_writes = vec![LastWrite::default(); geometry.zones as usize];
        Self {
            controller,
            media,
            areas,
            cache,
            timing,
            in_flight: Numbered::default(),
            commands: 0,
            incarnation: 0,
            last_writes,
        }
    }

    /// Stores the next blocks of a zone below its write pointer; they are durable.
    pub(super) fn hold(&mut self, at: ZoneAddress, payload: &Payload) {
        self.media.append(at, payload, payload.blocks());
        self.cache.survive(at.zone, self.media.len(at.zone));
    }

    pub(super) fn fork(&self, timing: Box<dyn Timing>) -> Self {
        let copy = |(id, one): (u64, &InFlight)| {
            (id, InFlight { stage: one.stage.clone(), responder: None })
        };
        Self {
            controller: self.controller.clone(),
            media: self.media.clone(),
            areas: self.areas.clone(),
            cache: self.cache.clone(),
            timing,
            in_flight: self.in_flight.iter().map(copy).collect(),
            commands: self.commands,
            incarnation: self.incarnation,
            last_writes: self.last_writes.clone(),
        }
    }

    pub(super) fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Plans a command, as far as it can be planned now.
    pub(super) fn plan(&mut self, command: &Command, now: Nanos) -> Planned {
        let request = Request::from(command);
        let flushes = match request {
            Request::Flush => self.cache.to_flush(),
            _ => Vec::new(),
        };
        let id = CommandId(self.commands);
        let schedule = self.timing.schedule(id, &request, self.controller.zones(), now);
        let mut planned = Planned { flushes, ..Planned::KEPT };
        if let Some(schedule) = schedule {
            self.order(&request, self.slowed(schedule, now), &mut planned);
        }
        planned
    }

    /// A drive with a slowness takes that many times as long from `now` on.
    fn slowed(&self, schedule: Schedule, now: Nanos) -> Schedule {
        let slowness = u64::from(self.controller.slowness());
        let stretch = |moment: Nanos| now + Nanos(moment.since(now).0.saturating_mul(slowness));
        Schedule { applied: stretch(schedule.applied), completed: stretch(schedule.completed) }
    }

    /// Enters a schedule into a plan, behind earlier writes to the zone.
    fn order(&mut self, request: &Request, schedule: Schedule, planned: &mut Planned) {
        let Schedule { mut applied, completed } = schedule;
        if let Request::Write { at, .. } = request
            && let Some(last) = self.last_writes.get_mut(at.zone.index())
        {
            applied = applied.max(last.applied);
            last.applied = applied;
            let entry = last.id.and_then(|id| self.in_flight.get(id));
            planned.behind = entry.is_some_and(|entry| matches!(entry.stage, Stage::Waiting(..)));
        }
        (planned.applied, planned.completed) = (applied, completed.max(applied));
    }

    /// When kept commands may be decided about.
    pub(super) fn next_decision(&mut self) -> Option<Nanos> {
        self.timing.next_decision()
    }

    /// The next kept command that has a plan now, and when it takes effect. Commands that a crash
    /// took are passed over.
    pub(super) fn decide_next(&mut self, now: Nanos) -> Option<(u64, Nanos)> {
        loop {
            let (id, schedule) = self.timing.decide(self.controller.zones(), now)?;
            let schedule = self.slowed(schedule, now);
            let Some(InFlight { stage: Stage::Waiting(_, planned), .. }) =
                self.in_flight.get_mut(id.0)
            else {
                continue;
            };
            planned.applied = schedule.applied;
            planned.completed = schedule.completed.max(schedule.applied);
            return Some((id.0, schedule.applied));
        }
    }

    pub(super) fn add(&mut self, command: Command, planned: Planned, responder: Responder) -> u64 {
        if let Command::Write { at, .. } = &command
            && let Some(last) = self.last_writes.get_mut(at.zone.index())
        {
            last.id = Some(self.commands);
        }
        self.insert(Stage::Waiting(command, planned), responder)
    }

    pub(super) fn add_applied(&mut self, finished: Finished, responder: Responder) -> u64 {
        self.insert(Stage::Applied(finished), responder)
    }

    fn insert(&mut self, stage: Stage, responder: Responder) -> u64 {
        let id = self.commands;
        self.commands += 1;
        self.in_flight.insert(id, InFlight { stage, responder: Some(responder) });
        id
    }

    /// The command changes the drive; returns when it completes, or nothing if a crash took it.
    pub(super) fn apply(&mut self, id: u64) -> Option<Nanos> {
        let mut entry = self.in_flight.remove(id)?;
        let Stage::Waiting(command, planned) = entry.stage else {
            panic!("command {id} takes effect once")
        };
        let (finished, completed) = self.apply_now(command, planned);
        entry.stage = Stage::Applied(finished);
        self.in_flight.insert(id, entry);
        Some(completed)
    }

    /// Takes a command out that is due to complete, unless a crash took it.
    pub(super) fn complete(&mut self, id: u64) -> Option<(Option<Responder>, Outcome)> {
        let InFlight { stage, responder } = self.in_flight.remove(id)?;
        let Stage::Applied(finished) = stage else { panic!("command {id} completes after it") };
        Some((responder, self.settle(finished)))
    }

    /// The host learns of the outcome: promises hold from now on.
    pub(super) fn settle(&mut self, finished: Finished) -> Outcome {
        if self.controller.is_gone() {
            return Err(Status::DeviceGone);
        }
        // A command that reports an error promises nothing.
        self.keep_promises(&finished, finished.outcome.is_ok());
        finished.outcome
    }

    fn keep_promises(&mut self, finished: &Finished, durable: bool) {
        if let Some(written) = finished.written {
            let fua = matches!(
                finished.request,
                Request::Write { fua: true, .. } | Request::Append { fua: true, .. }
            );
            self.cache.complete(written, fua && durable);
        }
        for flushed in finished.flushed.iter().filter(|_| durable) {
            self.cache.promise(*flushed);
        }
        if let Request::Write { at, blocks, fua } = finished.request {
            self.areas.complete(at, blocks, fua && durable);
        }
    }

    /// Changes the drive; returns the work left for completion, and its time.
    pub(super) fn apply_now(&mut self, command: Command, planned: Planned) -> (Finished, Nanos) {
        let request = Request::from(&command);
        let admission = self.controller.admit(&request);
        let completed = planned.completed + admission.delay;
        let payload = match command {
            Command::Write { payload, .. } | Command::Append { payload, .. } => payload,
            Command::SetExtension { zone, extension } => {
                if admission.work == Work::Extended(zone) {
                    self.controller.zones_mut().store_extension(zone, extension);
                }
                Payload::default()
            }
            _ => Payload::default(),
        };
        let written = match &admission.work {
            Work::Write { at, blocks, placement, area: true, .. } => {
                self.store_ahead(*at, &payload, *blocks, *placement);
                None
            }
            Work::Write { at, blocks, placement, .. } => {
                Some(self.store(*at, &payload, *blocks, *placement))
            }
            _ => None,
        };
        let flushed = match &admission.work {
            Work::Flush { effective: true } => {
                self.areas.flush();
                planned.flushes
            }
            _ => Vec::new(),
        };
        let reply = self.reply(admission.work);
        let outcome = admission.outcome.map(|()| reply);
        (Finished { request, outcome, written, flushed }, completed)
    }

    fn reply(&mut self, work: Work) -> Reply {
        match work {
            Work::Read { at, blocks, damage, rot, .. } => {
                if let Some(rot) = rot {
                    self.corrupt(at, rot);
                }
                let payload = self.read(at, blocks);
                Reply::Read(match damage {
                    Some(damage) => self.damaged(&payload, damage),
                    None => payload,
                })
            }
            Work::ReadAcross { parts, damage, rot } => {
                if let Some(rot) = rot {
                    self.corrupt(parts[0].at, rot);
                }
                let parts = parts.iter().map(|part| self.read(part.at, part.blocks));
                let payload = Payload::joined(parts);
                Reply::Read(match damage {
                    Some(damage) => self.damaged(&payload, damage),
                    None => payload,
                })
            }
            Work::Write { reply, .. } => Reply::Written(reply),
            Work::Reset(zone) => {
                self.reset(zone);
                Reply::Done
            }
            Work::ResetAll(zones) => {
                zones.into_iter().for_each(|zone| self.reset(zone));
                Reply::Done
            }
            Work::ZoneChanged(zone) => {
                self.commit(zone);
                Reply::Done
            }
            Work::ZonesChanged(zones) => {
                zones.into_iter().for_each(|zone| self.commit(zone));
                Reply::Done
            }
            Work::Report(zones) => Reply::Zones(zones),
            Work::Changed(zones) => Reply::Changed(zones),
            Work::Nothing | Work::Extended(_) | Work::Flush { .. } => Reply::Done,
        }
    }

    /// Blocks as they are stored, zeros where nothing is.
    pub(super) fn read(&self, at: ZoneAddress, blocks: BlockCount) -> Payload {
        self.areas.lay_over(at, self.media.read(at, blocks))
    }

    fn reset(&mut self, zone: ZoneId) {
        self.media.reset(zone);
        self.areas.reset(zone);
        self.cache.reset(zone);
    }

    fn store(
        &mut self,
        at: ZoneAddress,
        payload: &Payload,
        blocks: BlockCount,
        placement: Placement,
    ) -> Promise {
        let mut end = at.offset.plus(blocks);
        match placement {
            Placement::Stored => self.media.append(at, payload, blocks),
            Placement::Twice => {
                self.media.append(at, payload, blocks);
                let second = ZoneAddress { zone: at.zone, offset: end };
                self.media.append(second, payload, blocks);
                end = end.plus(blocks);
            }
            Placement::Lost => self.media.append_zeros(at, blocks),
            Placement::Misdirected(to) => {
                self.media.append_zeros(at, blocks);
                if to.zone.0 < self.controller.zones().geometry().zones {
                    self.media.overwrite(to, payload);
                }
            }
            Placement::Damaged(damage) => {
                let payload = self.damaged(payload, damage);
                self.media.append(at, &payload, blocks);
            }
        }
        self.cache.written(at.zone, end)
    }

    /// Stores blocks in a random write area.
    fn store_ahead(
        &mut self,
        at: ZoneAddress,
        payload: &Payload,
        blocks: BlockCount,
        placement: Placement,
    ) {
        match placement {
            Placement::Stored | Placement::Twice => self.areas.write(at, payload, blocks),
            Placement::Damaged(damage) => {
                let payload = self.damaged(payload, damage);
                self.areas.write(at, &payload, blocks);
            }
            Placement::Lost | Placement::Misdirected(_) => {
                let nothing = Payload::new(zero_blocks(blocks), Bytes::new());
                self.areas.write(at, &nothing, blocks);
                if let Placement::Misdirected(to) = placement
                    && to.zone.0 < self.controller.zones().geometry().zones
                {
                    self.media.overwrite(to, payload);
                }
            }
        }
        self.commit(at.zone);
    }

    /// Commits the blocks that the write pointer of a zone with a random write area has passed.
    /// They survive power failures, so the prefix below an area is always promised.
    pub(super) fn commit(&mut self, zone: ZoneId) {
        let ZoneRecord { write_pointer, attributes, .. } = self.controller.zones().record(zone);
        let stored = self.media.len(zone);
        if stored == write_pointer && !attributes.contains(ZoneAttributes::RANDOM_WRITES) {
            return;
        }
        for offset in stored.0..write_pointer.0 {
            let at = ZoneAddress::new(zone, offset);
            match self.areas.take(at) {
                Some(payload) => self.media.append(at, &payload, BlockCount(1)),
                None => self.media.append_zeros(at, BlockCount(1)),
            }
        }
        self.cache.survive(zone, write_pointer);
    }

    fn damaged(&self, payload: &Payload, damage: Damage) -> Payload {
        damaged(payload, damage, self.controller.zones().geometry().oob)
    }

    pub(super) fn corrupt(&mut self, at: ZoneAddress, damage: Damage) {
        let payload = self.damaged(&self.read(at, BlockCount(1)), damage);
        self.media.overwrite(at, &payload);
        self.areas.overwrite(at, payload);
    }

    /// Commands in flight in the order of their effects.
    fn in_order(&self) -> Vec<u64> {
        let moment = |one: &InFlight| match &one.stage {
            Stage::Waiting(_, planned) => planned.applied,
            Stage::Applied(_) => Nanos::ZERO,
        };
        let mut ids: Vec<_> = self.in_flight.iter().map(|(id, one)| (moment(one), id)).collect();
        ids.sort_unstable();
        ids.into_iter().map(|(_, id)| id).collect()
    }

    pub(super) fn pending(&self) -> Vec<PendingCommand> {
        let in_flight = |id| self.in_flight.get(id).expect("listed as in flight");
        let describe = |id: u64| match &in_flight(id).stage {
            Stage::Waiting(command, _) => {
                PendingCommand { request: Request::from(command), applied: false }
            }
            Stage::Applied(finished) => PendingCommand { request: finished.request, applied: true },
        };
        self.in_order().into_iter().map(describe).collect()
    }

    /// The process is gone: commands in flight that have not changed the drive never will. The
    /// returned values must be dropped when the drive is no longer borrowed.
    pub(super) fn abandon(&mut self) -> Vec<Responder> {
        self.incarnation += 1;
        self.timing.clear();
        self.last_writes.fill(LastWrite::default());
        let mut responders = Vec::new();
        for one in std::mem::take(&mut self.in_flight).into_values() {
            responders.extend(one.responder);
            if let Stage::Applied(finished) = one.stage {
                // The write was not acknowledged, but the next process can read the blocks, so its
                // flushes must cover them.
                self.keep_promises(&finished, false);
            }
        }
        responders
    }

    pub(super) fn process_kill(&mut self, choices: &mut dyn CrashChoices) -> Vec<Responder> {
        self.decide(choices);
        self.abandon()
    }

    pub(super) fn power_loss(&mut self, choices: &mut dyn CrashChoices) -> Vec<Responder> {
        self.decide(choices);
        for at in self.areas.lose(choices) {
            self.controller.zones_mut().lose_ahead(at);
        }
        self.controller.zones_mut().restart();
        for zone in (0..self.controller.zones().geometry().zones).map(ZoneId) {
            self.cut(zone, choices);
        }
        // Promises of commands that never completed were not made: they are dropped, not kept.
        self.in_flight.values_mut().for_each(|one| {
            if let Stage::Applied(finished) = &mut one.stage {
                finished.written = None;
                finished.flushed.clear();
            }
        });
        self.abandon()
    }

    fn cut(&mut self, zone: ZoneId, choices: &mut dyn CrashChoices) {
        let written = self.media.len(zone);
        let promised = self.cache.promised(zone);
        let pointer = self.controller.zones().record(zone).write_pointer;
        assert_eq!(written, pointer, "{zone} holds what its write pointer says");
        assert!(promised <= written, "{zone} promised more than it holds");
        if promised == written {
            return;
        }
        let mut kept = choices.kept(zone, promised, written);
        assert!(kept >= promised, "{zone} must keep what was promised");
        assert!(kept <= written, "{zone} cannot keep what was never written");
        // A drive that cannot make the zone active again has to keep it whole.
        if self.controller.zones_mut().truncate(zone, kept).is_err() {
            kept = written;
        }
        self.media.truncate(zone, kept);
        self.cache.survive(zone, kept);
        if let Some(wear) = self.controller.wear_mut() {
            wear.lost(zone, written);
        }
    }

    /// Lets commands that have not taken effect do so, or not.
    fn decide(&mut self, choices: &mut dyn CrashChoices) {
        for id in self.in_order() {
            let Some(InFlight { stage: Stage::Waiting(command, _), .. }) = self.in_flight.get(id)
            else {
                continue;
            };
            if choices.happens(&Request::from(command)) {
                self.apply(id);
            }
        }
    }

    /// The drive takes over the contents of `other`, or becomes blank.
    pub(super) fn replace(&mut self, other: Option<&Self>) -> Vec<Responder> {
        let dropped = self.abandon();
        match other {
            Some(other) => {
                self.controller.become_copy_of(&other.controller);
                self.media = other.media.clone();
                self.areas = other.areas.clone();
                self.cache = other.cache.clone();
            }
            None => {
                let geometry = self.controller.zones().geometry().clone();
                self.media = Media::new(&geometry);
                self.areas = RandomWriteAreas::new(geometry.volatile_cache);
                self.cache = WriteCache::new(geometry.zones, geometry.volatile_cache);
                self.controller.make_blank();
            }
        }
        dropped
    }

    /// Pulls the drive out, or puts it back with its contents. Commands that took effect were
    /// answered with an error, but the next process can read their blocks, so flushes must cover
    /// them.
    pub(super) fn set_gone(&mut self, gone: bool) {
        if self.controller.is_gone() && !gone {
            self.areas.seen();
            for zone in (0..self.controller.zones().geometry().zones).map(ZoneId) {
                self.cache.seen(zone, self.media.len(zone));
            }
        }
        self.controller.set_gone(gone);
    }

    pub(super) fn restart(&mut self) {
        assert!(self.in_flight.is_empty(), "an orderly restart waits for commands in flight");
        self.controller.zones_mut().restart();
        self.areas.flush();
        for zone in (0..self.controller.zones().geometry().zones).map(ZoneId) {
            self.cache.survive(zone, self.media.len(zone));
        }
        self.abandon();
    }
}
