//! A drive of queueing stations, calibrated against measured ones.
//!
//! Commands are fetched in order ([`super::buffer`]). At that moment a command takes effect, and is
//! planned through all its stations: the read core, the dies and their channels, or the write core
//! and then the programs of its blocks. Zone management takes effect when it completes.

use std::collections::VecDeque;

use zoneweave_runtime::{Nanos, Random};
use zoneweave_zoned::{
    BlockCount, Geometry, ZoneAction, ZoneAddress, ZoneId, ZoneOffset, ZoneSet, ZoneState,
};

use super::buffer::{Buffer, Waiting, is_write};
use super::layout::Layout;
use super::management::Management;
use super::model::{CommandId, Schedule, Timing};
use super::parameters::{StationParameters, spread};
use super::read_path::ReadPath;
use super::write_core::{Kind, WriteCore};
use crate::flash::{Flash, FlashConfig};
use crate::{Picos, Request, Spread};

/// The calibrated model of one drive.
#[derive(Clone, Debug)]
pub struct Stations {
    layout: Layout,
    flash: Flash,
    buffer: Buffer,
    writes: WriteCore,
    reads: ReadPath,
    management: Management,
    /// Kept commands that have been planned since.
    decided: VecDeque<(CommandId, Schedule)>,
    random: Random,
    program: Picos,
}

impl Stations {
    /// An idle drive; the seed decides how durations vary.
    #[must_use]
    pub fn new(parameters: &StationParameters, geometry: &Geometry, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let StationParameters { flash, buffer, write, append, read, management } = parameters;
        let zones = geometry.zones as usize;
        let layout = Layout::new(flash);
        let config = FlashConfig {
            dies: layout.dies().get(),
            channels: flash.channels.get() * flash.groups.get(),
            sense: flash.sense_us.iter().map(|mean| spread(*mean, flash.sense_jitter)).collect(),
            transfer: flash.transfer_us.picos(),
            program: spread(flash.program_us, flash.program_jitter),
            erase: spread(flash.erase_us, flash.program_jitter),
            suspend: Spread::up_to(flash.suspend_us.get()),
            resume: flash.resume_us.picos(),
            suspends: flash.suspends,
        };
        let buffer_blocks = u64::from(buffer.size_mib.get()) * 256;
        Self {
            layout,
            flash: Flash::new(config, random.fork()),
            buffer: Buffer::new(buffer_blocks, buffer.fetched_writes.get() as usize, zones),
            writes: WriteCore::new(write.clone(), append.clone(), zones),
            reads: ReadPath::new(read.clone(), zones),
            management: Management::new(management.clone(), flash.padding_us.picos()),
            decided: VecDeque::new(),
            random,
            program: flash.program_us.picos(),
        }
    }

    /// Programs that have ended give their room back, and go on padding zones.
    fn collect(&mut self, now: Picos) {
        while let Some(ended) = self.flash.finished(now) {
            let Self { management, layout, flash, decided, .. } = self;
            match management.padded(ended.tag, ended.at, layout, flash) {
                None => self.buffer.leave(ended.tag),
                Some(None) => {}
                Some(Some((id, done))) => {
                    let done = done.max(now).to_nanos();
                    decided.push_back((id, Schedule { applied: done, completed: done }));
                }
            }
        }
    }

    /// Whether a command at the head of the queue can be fetched.
    fn can_fetch(&mut self, request: &Request, zones: &ZoneSet, now: Picos) -> bool {
        let Some((_, _, _, blocks)) = target(request, zones) else { return true };
        if self.buffer.has_room(blocks.0) {
            return true;
        }
        self.collect(now);
        // If no program will ever end, waiting would be for ever.
        self.buffer.has_room(blocks.0) || self.flash.next_finished().is_none()
    }

    /// Plans a command that is fetched; a finish that has to pad its zone is kept.
    fn plan(
        &mut self,
        id: CommandId,
        request: &Request,
        zones: &ZoneSet,
        now: Picos,
    ) -> Option<Schedule> {
        let refused = now + self.management.parameters.refused_us.picos();
        let completed = match *request {
            _ if !is_possible(request, zones.geometry()) => refused,
            Request::Read { at, blocks } => self.plan_read(at, blocks, zones, now),
            Request::Manage { zone, action } => {
                let done = self.plan_management(id, zone, action, zones, now)?.to_nanos();
                return Some(Schedule { applied: done, completed: done });
            }
            Request::ManageAll { action } => {
                let done = self.plan_all(action, zones, now).to_nanos();
                return Some(Schedule { applied: done, completed: done });
            }
            Request::SetExtension { .. } => now + self.management.parameters.open_us.picos(),
            Request::Report { .. } | Request::ChangedZones => {
                now + self.management.parameters.report_us.picos()
            }
            Request::Flush => self.plan_flush(zones, now),
            Request::Write { .. } | Request::Append { .. } => match target(request, zones) {
                Some((kind, zone, at, blocks)) => {
                    self.plan_write(kind, zone, at, blocks, zones, now)
                }
                None => refused,
            },
        };
        assert!(completed >= now, "no command completes before it takes effect");
        Some(Schedule { applied: now.to_nanos(), completed: completed.to_nanos() })
    }

    fn plan_read(
        &mut self,
        at: ZoneAddress,
        blocks: BlockCount,
        zones: &ZoneSet,
        now: Picos,
    ) -> Picos {
        self.management.count(now);
        let written = zones.record(at.zone).write_pointer;
        self.reads.plan(at, blocks, written, now, &self.layout, &mut self.flash)
    }

    fn plan_write(
        &mut self,
        kind: Kind,
        zone: ZoneId,
        at: ZoneOffset,
        blocks: BlockCount,
        zones: &ZoneSet,
        now: Picos,
    ) -> Picos {
        self.management.count(now);
        self.buffer.enter(zone, blocks.0);
        let opening = self.management.opening(kind, zones.record(zone).state);
        let Self { writes, buffer, random, .. } = self;
        let done = writes.plan(kind, zone, blocks, now, buffer, random) + opening;
        self.buffer.fly(zone, done);
        let end = at.plus(blocks);
        let (first, last) = (self.layout.chunk_of(at), self.layout.chunk_of(end));
        for chunk in first..last {
            self.program(zone, chunk, self.layout.chunk_blocks(), done);
        }
        if end.0 == zones.geometry().zone_capacity.0 && self.buffer.gathered(zone) > 0 {
            self.program(zone, last, u32::MAX, done);
        }
        if first < last {
            self.collect(now);
        }
        done
    }

    fn program(&mut self, zone: ZoneId, chunk: u32, blocks: u32, arrival: Picos) {
        let taken = self.buffer.gather(zone, blocks);
        self.flash.program(self.layout.die_of(zone, chunk), arrival, taken);
        for die in self.layout.parity_after(zone, chunk) {
            self.flash.program(die, arrival, 0);
        }
    }

    fn plan_management(
        &mut self,
        id: CommandId,
        zone: ZoneId,
        action: ZoneAction,
        zones: &ZoneSet,
        now: Picos,
    ) -> Option<Picos> {
        let record = zones.record(zone);
        let capacity = zones.geometry().zone_capacity;
        match action {
            ZoneAction::Open => Some(now + self.management.parameters.open_us.picos()),
            ZoneAction::Reset => {
                let held = self.buffer.gather(zone, u32::MAX);
                self.buffer.leave(held);
                let Self { management, layout, random, .. } = self;
                Some(management.reset(record, capacity.0, layout, now, random))
            }
            // Without anything to pad no program would ever end the finish. That goes for zones
            // that refuse it, too: a read-only one may be written to its end.
            ZoneAction::Finish if !record.state.is_active() || record.write_pointer.0 == 0 => {
                Some(now + self.management.parameters.finish_empty_us.picos())
            }
            ZoneAction::Finish => {
                let held = self.buffer.gather(zone, u32::MAX);
                self.buffer.leave(held);
                let first = self.layout.chunk_of(record.write_pointer);
                let end = capacity.0.div_ceil(self.layout.chunk_blocks());
                let Self { management, layout, flash, .. } = self;
                management.finish(id, zone, first..end, layout, flash, now);
                None
            }
            _ => Some(now + self.management.parameters.close_us.picos()),
        }
    }

    /// Resets queue behind each other; finishes pad all zones in parallel; other actions take fixed
    /// times.
    fn plan_all(&mut self, action: ZoneAction, zones: &ZoneSet, now: Picos) -> Picos {
        let capacity = zones.geometry().zone_capacity;
        let mut done = now + self.management.parameters.close_us.picos();
        if !matches!(action, ZoneAction::Reset | ZoneAction::Finish) {
            return done;
        }
        for (zone, record) in (0..).map(ZoneId).zip(zones.export()) {
            let (finish, full) = (action == ZoneAction::Finish, record.state == ZoneState::Full);
            if !(record.state.is_active() || full && !finish) {
                continue;
            }
            let held = self.buffer.gather(zone, u32::MAX);
            self.buffer.leave(held);
            let Self { management, layout, random, flash, .. } = self;
            if finish {
                let end = capacity.0.div_ceil(layout.chunk_blocks());
                for chunk in layout.chunk_of(record.write_pointer)..end {
                    flash.program(layout.die_of(zone, chunk), now, 0);
                }
                done = done.max(flash.drained());
            } else {
                done = management.reset(record, capacity.0, layout, done, random);
            }
        }
        assert!(done >= now, "no command completes before it takes effect");
        done
    }

    /// A volatile cache is written back; a protected one need not be.
    fn plan_flush(&self, zones: &ZoneSet, now: Picos) -> Picos {
        let least = now + self.management.parameters.flush_us.picos();
        if !zones.geometry().volatile_cache {
            return least;
        }
        let partial =
            (0..zones.geometry().zones).any(|zone| self.buffer.gathered(ZoneId(zone)) > 0);
        let drained = self.flash.drained().max(now);
        least.max(if partial { drained + self.program } else { drained })
    }
}

impl Timing for Stations {
    fn schedule(
        &mut self,
        id: CommandId,
        request: &Request,
        zones: &ZoneSet,
        now: Nanos,
    ) -> Option<Schedule> {
        let now = Picos::from(now);
        self.buffer.refill(now);
        let slot = !is_write(request) || self.buffer.has_fetch_slot();
        if self.buffer.is_blocked() || !slot || !self.can_fetch(request, zones, now) {
            self.buffer.wait(Waiting { id, request: *request });
            return None;
        }
        self.plan(id, request, zones, now)
    }

    fn next_decision(&mut self) -> Option<Nanos> {
        if !self.decided.is_empty() {
            return Some(Nanos::ZERO);
        }
        let waits = self.buffer.is_blocked() || self.management.is_padding();
        let ended = if waits { self.flash.next_finished() } else { None };
        let refilled = self.buffer.next_refill();
        ended.into_iter().chain(refilled).min().map(Picos::to_nanos)
    }

    fn decide(&mut self, zones: &ZoneSet, now: Nanos) -> Option<(CommandId, Schedule)> {
        let now = Picos::from(now);
        self.collect(now);
        self.buffer.refill(now);
        loop {
            if let Some(decided) = self.decided.pop_front() {
                return Some(decided);
            }
            let Waiting { id, request } = *self.buffer.fetched.front()?;
            if !self.can_fetch(&request, zones, now) {
                return None;
            }
            self.buffer.take_fetched();
            if let Some(schedule) = self.plan(id, &request, zones, now) {
                return Some((id, schedule));
            }
        }
    }

    fn clear(&mut self) {
        self.flash.clear();
        self.buffer.clear();
        self.writes.clear();
        self.reads.clear();
        self.management.clear();
        self.decided.clear();
    }
}

/// The start and length of a write or append that the drive may accept.
fn target(request: &Request, zones: &ZoneSet) -> Option<(Kind, ZoneId, ZoneOffset, BlockCount)> {
    let zone = request.zone()?;
    if !is_possible(request, zones.geometry()) {
        return None;
    }
    let record = zones.record(zone);
    let writable = record.state == ZoneState::Empty || record.state.is_active();
    match *request {
        Request::Write { at, blocks, .. } if writable => {
            Some((Kind::Write, zone, at.offset, blocks))
        }
        Request::Append { blocks, .. } if writable => {
            Some((Kind::Append, zone, record.write_pointer, blocks))
        }
        _ => None,
    }
}

/// Whether the drive has the zone and the blocks of a request, so that it can be planned.
pub(super) fn is_possible(request: &Request, geometry: &Geometry) -> bool {
    let within = |at: ZoneOffset, blocks: BlockCount, end: BlockCount| {
        u64::from(at.0) + u64::from(blocks.0) <= u64::from(end.0)
    };
    request.zone().is_none_or(|zone| zone.0 < geometry.zones)
        && match *request {
            Request::Read { at, blocks } => within(at.offset, blocks, geometry.zone_size),
            Request::Write { at, blocks, .. } => within(at.offset, blocks, geometry.zone_capacity),
            Request::Append { blocks, .. } => blocks <= geometry.append_limit,
            _ => true,
        }
}
