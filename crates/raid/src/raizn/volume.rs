//! The volume as a zoned drive.
//!
//! [`ZoneSet`](zoneweave_zoned::ZoneSet) decides about each command as a drive does, in the order
//! of submission; admitted commands then change media in that order, zone by zone.

use std::num::NonZeroU64;
use std::rc::Rc;

use zoneweave_zoned::{
    BlockCount, Command, Completion, Geometry, Histogram, Operation, Outcome, Payload, Reply,
    Responder, Status, Timed, ZoneAction, ZoneAddress, ZoneId, ZoneReport, ZoneState, ZonedDevice,
    completion, zero_blocks,
};

use crate::array::error::{AdminError, RebuildError};
use crate::array::format::faults::Faults;
use crate::array::format::record::MemberUuid;
use crate::array::format::scrubs::ScrubRun;
use crate::array::health::Members;
use crate::array::repair::faults;
use crate::array::repair::scrub::ScrubOrder;
use crate::array::stop::StopReason;
use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::raizn::core::Core;
use crate::raizn::create::NAME_BYTES;
use crate::raizn::read::Reader;
use crate::raizn::replace::ReplaceError;
use crate::raizn::scrub::findings::ScrubReport;
use crate::raizn::status::VolumeStatus;
use crate::raizn::zone::{Pending, PendingWrite};
use crate::scheme::Column;

/// A started zoned volume. Clones share it.
#[derive(Clone)]
pub struct Volume {
    pub(crate) core: Rc<Core>,
    geometry: Rc<Geometry>,
}

impl Volume {
    #[must_use]
    pub(crate) fn new(core: Rc<Core>) -> Self {
        let geometry = Rc::new(core.state.borrow().zones.geometry().clone());
        Self { core, geometry }
    }

    /// The state of the volume, its zones and its members.
    #[must_use]
    pub fn status(&self) -> VolumeStatus {
        VolumeStatus::of(&self.core)
    }

    /// Users' commands that succeeded since the start, by operation, with their times.
    #[must_use]
    pub fn latencies(&self) -> Vec<(Operation, Histogram)> {
        self.core.latencies.counted()
    }

    /// Takes a member out of service. On return that is durable.
    ///
    /// # Errors
    /// If the volume cannot do without it.
    pub async fn fail(&self, slot: Column) -> Result<(), AdminError> {
        let columns = self.core.layout.scheme().columns();
        if slot.index() >= columns {
            return Err(AdminError::NoSuchSlot { slot: slot.index(), columns });
        }
        // An order that is refused evicts nobody else either.
        self.core.state.borrow().array.check_spared(slot)?;
        self.core.published().await.map_err(AdminError::Stopped)?;
        let was_in_service = {
            let array = &self.core.state.borrow().array;
            array.check_spared(slot)?;
            array.members[slot.index()].writable().is_some()
        };
        self.core.fail_member(slot, Status::Aborted);
        if was_in_service {
            let member = &mut self.core.state.borrow_mut().array.members[slot.index()];
            member.failure = Some("taken out of service by the administrator".to_owned());
        }
        self.core.membership_settled().await;
        self.core.state.borrow().array.stopped.map_or(Ok(()), |why| Err(AdminError::Stopped(why)))
    }

    /// Takes a member out whose drive is known to be gone, before a command fails on it. The
    /// remaining redundancy makes no difference: the drive is lost either way.
    pub fn drive_lost(&self, slot: Column, reason: &str) {
        let is_in_service = {
            let members = &self.core.state.borrow().array.members;
            members.get(slot.index()).is_some_and(|member| member.writable().is_some())
        };
        if is_in_service {
            self.core.fail_member(slot, Status::DeviceGone);
            let member = &mut self.core.state.borrow_mut().array.members[slot.index()];
            member.failure = Some(reason.to_owned());
        }
    }

    /// Limits the writes of a rebuild per second, from the next batch on.
    pub fn limit_rebuild(&self, bytes_per_second: Option<NonZeroU64>) {
        self.core.rebuild.limit.set(bytes_per_second);
    }

    /// Puts a drive into a slot and rebuilds it. The drive's contents are destroyed.
    ///
    /// # Errors
    /// A [`ReplaceError`] with the reason.
    pub async fn replace(
        &self,
        slot: Column,
        device: Rc<dyn ZonedDevice>,
        uuid: MemberUuid,
    ) -> Result<(), ReplaceError> {
        self.core.replace(slot, device, uuid).await
    }

    /// Continues rebuilds that a restart interrupted.
    ///
    /// # Errors
    /// A [`RebuildError`] with the reason.
    pub async fn resume_rebuilds(&self) -> Result<(), RebuildError> {
        self.core.resume_rebuilds().await
    }

    /// Verifies all blocks and parity while the volume is in use, and moves damaged blocks to the
    /// parity log.
    ///
    /// # Errors
    /// If the volume stops, or is closed.
    pub async fn scrub(&self) -> Result<ScrubReport, AdminError> {
        self.core.published().await.map_err(AdminError::Stopped)?;
        self.core.scrub().await.map_err(AdminError::Stopped)
    }

    /// Gives an order to the scrub; returns whether there is one.
    #[must_use]
    pub fn order_scrub(&self, order: ScrubOrder) -> bool {
        self.core.scrub.order(&*self.core, order)
    }

    /// The faults on media, if there ever were any.
    #[must_use]
    pub fn recorded_faults(&self) -> Option<Faults> {
        self.core.state.borrow().array.recorded_faults.clone()
    }

    /// Forgets the errors of all members and the lost ranges, durably. Then it looks at the first
    /// 16 MiB of these, for ten seconds, and lists the ones still lost; of the rest, a read or a
    /// scrub lists it again.
    ///
    /// # Errors
    /// If too few members are left, one of them does not take the record, or the volume is closing.
    /// Nothing is forgotten.
    pub async fn clear_faults(&self) -> Result<(), AdminError> {
        self.check_open()?;
        self.core.published().await.map_err(AdminError::Stopped)?;
        Ok(self.core.clear_faults().await?)
    }

    /// Records a scrub, or the end of the one that began last, durably. A volume has no clock:
    /// the caller, which ordered it, knows its times.
    ///
    /// # Errors
    /// If too few members are left, none takes the record, or the volume is closing.
    pub async fn record_scrub(&self, run: ScrubRun) -> Result<(), AdminError> {
        self.check_open()?;
        self.core.published().await.map_err(AdminError::Stopped)?;
        self.core.state.borrow_mut().array.scrubs.note(run);
        Ok(faults::record_scrubs(&self.core).await?)
    }

    fn check_open(&self) -> Result<(), AdminError> {
        let closing = self.core.closing.get();
        if closing { Err(AdminError::Stopped(StopReason::ShuttingDown)) } else { Ok(()) }
    }

    /// Gives the array another name, durably. After a crash in between, members may have either.
    ///
    /// # Errors
    /// If too few members are left.
    ///
    /// # Panics
    /// If the name is longer than a record takes.
    pub async fn rename(&self, name: String) -> Result<(), AdminError> {
        assert!(name.len() <= NAME_BYTES, "a name of {} bytes", name.len());
        self.core.published().await.map_err(AdminError::Stopped)?;
        self.core.superblock.rename(&self.core, name).await.map_err(AdminError::Stopped)
    }

    /// Ends all commands and background tasks, and makes everything durable. Commands submitted
    /// later are aborted.
    pub async fn close(self) {
        self.core.close().await;
    }

    fn decide(&self, command: Command, responder: Responder) {
        match command {
            Command::Read { at, blocks } => self.read(at, blocks, responder),
            Command::Write { at, payload, fua } => {
                payload.assert_whole();
                let admitted = self.core.state.borrow_mut().zones.write(at, payload.blocks());
                self.write(admitted.map(|()| at), payload, fua, responder);
            }
            Command::Append { zone, payload, fua } => {
                payload.assert_whole();
                let admitted = self.core.state.borrow_mut().zones.append(zone, payload.blocks());
                let at = admitted.map(|offset| ZoneAddress { zone, offset });
                self.write(at, payload, fua, responder);
            }
            Command::Manage { zone, action } => self.manage(zone, action, responder),
            Command::ManageAll { action } => self.manage_all(action, responder),
            Command::SetExtension { zone, extension } => {
                let extended = self.core.state.borrow_mut().zones.extend(zone, extension.len());
                responder.complete(extended.map(|()| Reply::Done));
            }
            Command::Report { first, count, options } => {
                let report = self.core.state.borrow().zones.report(first, count, options);
                self.report(report, responder);
            }
            Command::ChangedZones => {
                let changed = self.core.state.borrow_mut().zones.take_changed();
                responder.complete(Ok(Reply::Changed(changed)));
            }
            Command::Flush => {
                let core = self.core.clone();
                self.core.handle.spawn_alone("flush", async move {
                    // Of a start that is not published, everything is durable.
                    let stopped = core.state.borrow().array.stopped;
                    let flushed = match core.is_unpublished() {
                        true => stopped.map_or(Ok(()), Err),
                        false => core.flush_members().await,
                    };
                    responder.complete(flushed.map(|()| Reply::Done).map_err(|_| Core::STOPPED));
                });
            }
        }
    }

    /// Answers a report once the commands that it shows have ended: a crash takes back none of it.
    fn report(&self, report: Result<ZoneReport, Status>, responder: Responder) {
        let report = match report {
            Ok(report) => report,
            Err(status) => return responder.complete(Err(status)),
        };
        let shown: Vec<_> = {
            let state = self.core.state.borrow();
            let zones =
                report.zones.iter().map(|info| (info.zone, &state.logical[info.zone.index()]));
            let changing = zones.filter(|(_, zone)| zone.ended < zone.admitted);
            changing.map(|(zone, logical)| (zone, logical.admitted)).collect()
        };
        if shown.is_empty() || mutant(Mutant::ZonedReportEarly) {
            return responder.complete(Ok(Reply::Zones(report)));
        }
        mark(Mark::ZonedReportAwaited);
        let core = self.core.clone();
        self.core.handle.spawn_alone("report", async move {
            for (zone, admitted) in shown {
                loop {
                    let changed = {
                        let state = core.state.borrow();
                        let logical = &state.logical[zone.index()];
                        if logical.ended >= admitted {
                            break;
                        }
                        logical.changed.clone()
                    };
                    changed.wait().await;
                }
            }
            responder.complete(Ok(Reply::Zones(report)));
        });
    }

    fn read(&self, at: ZoneAddress, blocks: BlockCount, responder: Responder) {
        let written = {
            let state = self.core.state.borrow();
            state.zones.read(at, blocks).map(|()| state.zones.written_of(at, blocks))
        };
        let written = match written {
            Ok(written) if written.0 > 0 => written,
            Ok(_) => {
                let zeros = Payload::new(zero_blocks(blocks), bytes::Bytes::new());
                return responder.complete(Ok(Reply::Read(zeros)));
            }
            Err(status) => return responder.complete(Err(status)),
        };
        assert!(written <= blocks, "{written} of {blocks} are written");
        self.core.state.borrow_mut().reads += 1;
        let reader = Reader::begin(&self.core, at.zone.0);
        self.core.handle.spawn_alone("read", async move {
            let core = reader.core.clone();
            let data = core.read_written(&reader, at.offset.0, written.0).await;
            responder.complete(data.map(|mut data| {
                if written < blocks {
                    data.push(zero_blocks(BlockCount(blocks.0 - written.0)));
                }
                Reply::Read(Payload { data, oob: bytes::Bytes::new() })
            }));
        });
    }

    fn write(
        &self,
        admitted: Result<ZoneAddress, Status>,
        payload: Payload,
        fua: bool,
        responder: Responder,
    ) {
        let at = match admitted {
            Ok(at) => at,
            Err(status) => return responder.complete(Err(status)),
        };
        assert!(at.zone.0 < self.geometry.zones, "a write to {at} was admitted");
        let payload = Payload { oob: bytes::Bytes::new(), ..payload };
        let write = PendingWrite { start: at.offset.0, payload, fua, responder };
        self.core.admit(at.zone.0, Pending::Write(write));
    }

    /// Whether a command fails because writes have stopped. An earlier reset or finish may have
    /// failed then, so that a zone only seems to be empty or full.
    fn is_refused(&self, action: ZoneAction) -> bool {
        matches!(action, ZoneAction::Reset | ZoneAction::Finish) && self.core.is_stopped()
    }

    fn manage(&self, zone: ZoneId, action: ZoneAction, responder: Responder) {
        if self.is_refused(action) {
            return responder.complete(Err(Core::STOPPED));
        }
        let (before, managed) = {
            let mut state = self.core.state.borrow_mut();
            let known = zone.0 < state.zones.geometry().zones;
            let before = known.then(|| state.zones.info(zone).state);
            (before, state.zones.manage(zone, action))
        };
        // A zone that is empty or full already is so durably only once its own commands have ended.
        let is_busy = |zone: ZoneId| {
            let busy = self.core.state.borrow().logical[zone.index()].is_busy();
            mark_if(Mark::ZonedResetAwaited, || busy && action == ZoneAction::Reset);
            busy && !mutant(Mutant::ZonedResetNotAwaited)
        };
        // Until a start is published, everything is durable.
        let is_volatile = self.core.state.borrow().array.volatile && !self.core.is_unpublished();
        let may_be_lost = |zone| is_volatile || is_busy(zone);
        let pending = match (managed, action, before) {
            (Err(status), ..) => return responder.complete(Err(status)),
            (_, ZoneAction::Reset, Some(before)) if before != ZoneState::Empty || is_busy(zone) => {
                Pending::Reset
            }
            (_, ZoneAction::Finish, Some(before))
                if before != ZoneState::Full || may_be_lost(zone) =>
            {
                Pending::Finish
            }
            _ => return responder.complete(Ok(Reply::Done)),
        };
        self.core.admit(zone.0, pending(responder));
    }

    fn manage_all(&self, action: ZoneAction, responder: Responder) {
        if self.is_refused(action) {
            return responder.complete(Err(Core::STOPPED));
        }
        let managed = self.core.state.borrow_mut().zones.manage_all(action);
        let pending = match action {
            ZoneAction::Reset => Pending::Reset,
            ZoneAction::Finish => Pending::Finish,
            _ => return responder.complete(managed.map(|_| Reply::Done)),
        };
        let mut zones = match managed {
            Ok(zones) => zones,
            Err(status) => return responder.complete(Err(status)),
        };
        zones.extend(self.zones_in(action));
        zones.sort_unstable();
        zones.dedup();
        let mut answers = Vec::new();
        for zone in zones {
            let (answer, completion) = completion();
            self.core.admit(zone.0, pending(answer));
            answers.push(completion);
        }
        self.core.handle.spawn_alone("management of all zones", async move {
            let mut outcome: Outcome = Ok(Reply::Done);
            for answer in answers {
                outcome = outcome.and(answer.await);
            }
            responder.complete(outcome);
        });
    }

    /// The zones that are already as a command wants them, but whose own commands have not ended.
    fn zones_in(&self, action: ZoneAction) -> Vec<ZoneId> {
        let state = self.core.state.borrow();
        let wanted = match action {
            ZoneAction::Reset => ZoneState::Empty,
            _ => ZoneState::Full,
        };
        let busy = (0..).map(ZoneId).zip(&state.logical).filter(|(_, zone)| zone.is_busy());
        let busy = busy.map(|(zone, _)| zone);
        busy.filter(|zone| state.zones.info(*zone).state == wanted).collect()
    }
}

impl ZonedDevice for Volume {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&self, command: Command) -> Completion {
        let (responder, completion) = completion();
        if self.core.closing.get() {
            responder.complete(Err(Status::Aborted));
            return completion;
        }
        let Core { handle, latencies, .. } = &*self.core;
        let operation = Operation::of(&command);
        let timed = operation.map(|one| Timed::new(latencies, one, handle.recent()));
        self.decide(command, responder);
        match timed {
            Some(timed) => completion.timed(timed),
            None => completion,
        }
    }
}
