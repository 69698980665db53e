//! The deciding half of an emulated drive: zone states, planned faults, counters.
//!
//! A drive calls [`Controller::admit`] when a command takes effect, does the [`Work`] on its media,
//! and answers with the outcome. The zone states have changed by then, so the work must be done
//! before the next command is admitted, or be invisible until it is done.

use std::collections::BTreeSet;

use zoneweave_runtime::Nanos;
use zoneweave_zoned::{
    BlockCount, Geometry, GeometryError, ReportOptions, Status, ZoneAction, ZoneAddress,
    ZoneAttributes, ZoneId, ZoneOffset, ZoneSet, ZoneState,
};

use super::admission::{Admission, Placement, Work, ZonePart};
use super::counters::DriveCounters;
use super::request::Request;
use crate::{FaultAction, FaultPlan};
use crate::{Wear, WearError, WearSettings, WornZone};

/// The deciding part of one drive.
#[derive(Clone, Debug)]
pub struct Controller {
    zones: ZoneSet,
    plan: FaultPlan,
    /// Blocks that cannot be read until their zone is reset.
    unreadable: BTreeSet<ZoneAddress>,
    /// Where the latest append of each zone landed, for drives that repeat themselves.
    appended: Vec<Option<ZoneOffset>>,
    counters: DriveCounters,
    gone: bool,
    /// How many times as long as usual commands take.
    slowness: u32,
    /// Erase counts, where the drive keeps any.
    wear: Option<Wear>,
}

impl Controller {
    /// A drive fresh from the factory.
    ///
    /// # Errors
    /// If the geometry is impossible.
    pub fn new(geometry: Geometry) -> Result<Self, GeometryError> {
        Ok(Self::with_zones(ZoneSet::new(geometry)?))
    }

    /// A drive whose zones are in given states, such as imported ones.
    #[must_use]
    pub fn with_zones(zones: ZoneSet) -> Self {
        let appended = vec![None; zones.geometry().zones as usize];
        Self {
            zones,
            plan: FaultPlan::default(),
            unreadable: BTreeSet::new(),
            appended,
            counters: DriveCounters::default(),
            gone: false,
            slowness: 1,
            wear: None,
        }
    }

    /// The zones as they are.
    #[must_use]
    pub fn zones(&self) -> &ZoneSet {
        &self.zones
    }

    /// The zones, for events outside of commands: wear, restarts, power failures.
    pub fn zones_mut(&mut self) -> &mut ZoneSet {
        &mut self.zones
    }

    /// The faults to come.
    pub fn plan_mut(&mut self) -> &mut FaultPlan {
        &mut self.plan
    }

    /// Counters since the drive was made.
    #[must_use]
    pub fn counters(&self) -> DriveCounters {
        self.counters
    }

    /// Whether the drive answers nothing but [`Status::DeviceGone`].
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.gone
    }

    /// Pulls the drive out, or puts it back.
    pub fn set_gone(&mut self, gone: bool) {
        self.gone = gone;
    }

    /// How many times as long as usual commands take.
    #[must_use]
    pub fn slowness(&self) -> u32 {
        self.slowness
    }

    /// Makes the drive that many times slower than usual; 1 is as usual.
    pub fn set_slowness(&mut self, factor: u32) {
        self.slowness = factor.max(1);
    }

    /// Takes over the contents of another drive of the same shape. Planned faults and counters
    /// stay.
    ///
    /// # Panics
    /// If the shapes differ.
    pub fn become_copy_of(&mut self, other: &Self) {
        assert_eq!(self.zones.geometry(), other.zones.geometry(), "a drive keeps its shape");
        self.zones = other.zones.clone();
        self.unreadable = other.unreadable.clone();
        self.appended = other.appended.clone();
        self.wear = other.wear.clone();
    }

    /// Another drive of the same shape, fresh from the factory, takes this one's place. Planned
    /// faults and counters stay.
    pub fn make_blank(&mut self) {
        let geometry = self.zones.geometry().clone();
        self.zones = ZoneSet::new(geometry).expect("the geometry was valid before");
        self.unreadable.clear();
        self.appended.fill(None);
        if let Some(wear) = &self.wear {
            let settings = *wear.settings();
            self.set_wear(settings).expect("the settings were valid before");
        }
    }

    /// Makes the drive count its erases from now on, and wear out if there is a limit.
    ///
    /// # Errors
    /// If the settings do not fit the drive's geometry.
    pub fn set_wear(&mut self, settings: WearSettings) -> Result<(), WearError> {
        self.wear = Some(Wear::new(settings, self.zones.geometry())?);
        Ok(())
    }

    /// Takes over the erase counts of an earlier life of the drive.
    ///
    /// # Panics
    /// If they are those of a drive with another number of zones.
    pub fn restore_wear(&mut self, wear: Wear) {
        assert_eq!(wear.zones(), self.zones.geometry().zones, "the wear is that of the drive");
        self.wear = Some(wear);
    }

    /// The erase counts, where the drive keeps any.
    #[must_use]
    pub fn wear(&self) -> Option<&Wear> {
        self.wear.as_ref()
    }

    /// The erase counts, for events outside of commands.
    pub fn wear_mut(&mut self) -> Option<&mut Wear> {
        self.wear.as_mut()
    }

    /// Makes blocks unreadable until their zone is reset.
    pub fn set_unreadable(&mut self, at: ZoneAddress, blocks: BlockCount) {
        let end = at.offset.0.saturating_add(blocks.0);
        let blocks = (at.offset.0..end).map(|offset| ZoneAddress::new(at.zone, offset));
        self.unreadable.extend(blocks);
    }

    /// Blocks that cannot be read until their zone is reset, in order.
    pub fn unreadable(&self) -> impl Iterator<Item = ZoneAddress> + '_ {
        self.unreadable.iter().copied()
    }

    /// Decides about a command at the moment it takes effect.
    pub fn admit(&mut self, request: &Request) -> Admission {
        if self.gone {
            return self.counted(Admission::refused(Status::DeviceGone), Nanos::ZERO);
        }
        let write_pointer = match request.zone() {
            Some(zone) if zone.0 < self.zones.geometry().zones => {
                self.zones.record(zone).write_pointer
            }
            _ => ZoneOffset(0),
        };
        let fired = self.plan.fire(request, write_pointer);
        let admission = self.admit_with(request, fired.action);
        self.counted(admission, fired.delay)
    }

    fn counted(&mut self, mut admission: Admission, delay: Nanos) -> Admission {
        admission.delay = delay;
        self.counters.count(&admission);
        admission
    }

    fn admit_with(&mut self, request: &Request, fault: Option<FaultAction>) -> Admission {
        match fault {
            Some(FaultAction::Fail(status)) => return Admission::refused(status),
            Some(FaultAction::Partial(BlockCount(0))) => {
                return Admission::refused(Status::WriteFault);
            }
            Some(FaultAction::Gone | FaultAction::Torn(BlockCount(0))) => {
                self.gone = true;
                return Admission::refused(Status::DeviceGone);
            }
            Some(FaultAction::ReadOnly) => self.wear_out(request.zone(), ZoneSet::set_read_only),
            Some(FaultAction::Offline) => self.wear_out(request.zone(), ZoneSet::set_offline),
            Some(FaultAction::SlowDrive(factor)) => self.slowness = factor.max(1),
            _ => {}
        }
        let work = match self.execute(request, fault) {
            Ok(work) => work,
            Err(status) => return Admission::refused(status),
        };
        let outcome = match fault {
            Some(FaultAction::FailApplied(status)) => Err(status),
            Some(FaultAction::Partial(_)) => Err(Status::WriteFault),
            Some(FaultAction::Torn(_)) => {
                self.gone = true;
                Err(Status::DeviceGone)
            }
            _ => Ok(()),
        };
        Admission { work, outcome, delay: Nanos::ZERO }
    }

    fn wear_out(&mut self, zone: Option<ZoneId>, how: fn(&mut ZoneSet, ZoneId)) {
        if let Some(zone) = zone.filter(|zone| zone.0 < self.zones.geometry().zones) {
            how(&mut self.zones, zone);
        }
    }

    fn execute(&mut self, request: &Request, fault: Option<FaultAction>) -> Result<Work, Status> {
        match *request {
            Request::Read { at, blocks } => self.read(at, blocks, fault),
            Request::Write { at, blocks, fua } => {
                let blocks = taken(blocks, fault);
                let area = self.has_area(at.zone);
                self.zones.write(at, blocks)?;
                Ok(Work::Write { at, blocks, placement: placement(fault), reply: at, fua, area })
            }
            Request::Append { zone, blocks, fua } => self.append(zone, blocks, fua, fault),
            Request::Manage { zone, .. }
                if fault == Some(FaultAction::Lost) && zone.0 < self.zones.geometry().zones =>
            {
                Ok(Work::ZoneChanged(zone))
            }
            Request::Manage { zone, action } => {
                if action == ZoneAction::Reset {
                    self.erase(zone)?;
                }
                self.zones.manage(zone, action)?;
                if action != ZoneAction::Reset {
                    return Ok(Work::ZoneChanged(zone));
                }
                self.forget(zone);
                Ok(Work::Reset(zone))
            }
            Request::ManageAll { action: ZoneAction::Reset } => self.reset_all(),
            Request::ManageAll { action } => self.zones.manage_all(action).map(Work::ZonesChanged),
            Request::SetExtension { zone, bytes } => {
                self.zones.extend(zone, bytes)?;
                Ok(Work::Extended(zone))
            }
            Request::Report { first, count, options } => self.report(first, count, options, fault),
            Request::ChangedZones => Ok(Work::Changed(self.zones.take_changed())),
            Request::Flush => {
                Ok(Work::Flush { effective: fault != Some(FaultAction::Ineffective) })
            }
        }
    }

    /// Resets every zone that can be. The worn ones are none of these any more when their erases
    /// were counted; the list of changed zones has them.
    fn reset_all(&mut self) -> Result<Work, Status> {
        for zone in (0..self.zones.geometry().zones).map(ZoneId) {
            let _ = self.erase(zone);
        }
        let zones = self.zones.manage_all(ZoneAction::Reset)?;
        zones.iter().for_each(|zone| self.forget(*zone));
        Ok(Work::ResetAll(zones))
    }

    /// Counts the erases of a reset that is about to happen. A worn zone changes its state instead.
    fn erase(&mut self, zone: ZoneId) -> Result<(), Status> {
        let Some(wear) = self.wear.as_mut().filter(|_| zone.0 < self.zones.geometry().zones) else {
            return Ok(());
        };
        let record = self.zones.record(zone);
        if !record.state.is_active() && record.state != ZoneState::Full {
            return Ok(());
        }
        match wear.reset(zone, record) {
            Ok(()) => return Ok(()),
            Err(WornZone::ReadOnly) => self.zones.set_read_only(zone),
            Err(WornZone::Offline) => self.zones.set_offline(zone),
        }
        Err(Status::WriteFault)
    }

    fn read(
        &mut self,
        at: ZoneAddress,
        blocks: BlockCount,
        fault: Option<FaultAction>,
    ) -> Result<Work, Status> {
        self.zones.read(at, blocks)?;
        for (at, blocks) in self.zones.parts(at, blocks) {
            if fault == Some(FaultAction::Unreadable) {
                self.set_unreadable(at, blocks);
            }
            let end = ZoneAddress { zone: at.zone, offset: at.offset.plus(blocks) };
            if self.unreadable.range(at..end).next().is_some() {
                return Err(Status::UnrecoveredRead);
            }
        }
        let (damage, rot) = match fault {
            Some(FaultAction::Garble(damage)) => (Some(damage), None),
            Some(FaultAction::Rot(damage)) => (None, Some(damage)),
            _ => (None, None),
        };
        let end = u64::from(at.offset.0) + u64::from(blocks.0);
        if end <= u64::from(self.zones.geometry().zone_size.0) {
            let written = self.zones.written_of(at, blocks);
            return Ok(Work::Read { at, blocks, written, damage, rot });
        }
        let part =
            |(at, blocks)| ZonePart { at, blocks, written: self.zones.written_of(at, blocks) };
        let parts = self.zones.parts(at, blocks).map(part).collect();
        Ok(Work::ReadAcross { parts, damage, rot })
    }

    fn has_area(&self, zone: ZoneId) -> bool {
        zone.0 < self.zones.geometry().zones
            && self.zones.record(zone).attributes.contains(ZoneAttributes::RANDOM_WRITES)
    }

    /// The zone was reset.
    fn forget(&mut self, zone: ZoneId) {
        self.unreadable.retain(|at| at.zone != zone);
        self.appended[zone.index()] = None;
    }

    fn append(
        &mut self,
        zone: ZoneId,
        blocks: BlockCount,
        fua: bool,
        fault: Option<FaultAction>,
    ) -> Result<Work, Status> {
        let blocks = taken(blocks, fault);
        let offset = self.zones.append(zone, blocks)?;
        let before = self.appended[zone.index()].replace(offset);
        let at = ZoneAddress { zone, offset };
        let (mut placement, mut reply) = (placement(fault), at);
        match fault {
            Some(FaultAction::AppendTwice) if self.zones.append(zone, blocks).is_ok() => {
                placement = Placement::Twice;
            }
            Some(FaultAction::RepeatOffset) => reply.offset = before.unwrap_or(offset),
            _ => {}
        }
        Ok(Work::Write { at, blocks, placement, reply, fua, area: false })
    }

    fn report(
        &self,
        first: ZoneId,
        count: u32,
        options: ReportOptions,
        fault: Option<FaultAction>,
    ) -> Result<Work, Status> {
        let mut report = self.zones.report(first, count, options)?;
        for info in &mut report.zones {
            match fault {
                Some(FaultAction::Misreport(lie)) if info.zone == lie.zone => {
                    info.write_pointer = lie.offset;
                }
                Some(FaultAction::MisreportEmpty(zone)) if info.zone == zone => {
                    info.write_pointer = ZoneOffset(0);
                    info.state = ZoneState::Empty;
                }
                _ => {}
            }
        }
        Ok(Work::Report(report))
    }
}

fn taken(blocks: BlockCount, fault: Option<FaultAction>) -> BlockCount {
    match fault {
        Some(FaultAction::Partial(limit) | FaultAction::Torn(limit)) => blocks.min(limit),
        _ => blocks,
    }
}

fn placement(fault: Option<FaultAction>) -> Placement {
    match fault {
        Some(FaultAction::Lost) => Placement::Lost,
        Some(FaultAction::Misdirect(to)) => Placement::Misdirected(to),
        Some(FaultAction::Garble(damage)) => Placement::Damaged(damage),
        _ => Placement::Stored,
    }
}
