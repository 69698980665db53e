//! Commands in flight: the locks they wait for, the operations sent, and the diagnosis of errors.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;

use bytes::Bytes;
use zoneweave_emulator::DriveCounters;
use zoneweave_runtime::{Handle, Nanos, Semaphore};
use zoneweave_zoned::{
    AlignedBuffer, BlockCount, Command, Completion, Geometry, Outcome, Payload, Reply,
    ReportOptions, Status, ZoneAction, ZoneAddress, ZoneFilter, ZoneId, ZoneInfo, ZoneOffset,
    ZoneReport, ZoneState, zero_blocks,
};

use super::check::{change_of, check, is_chosen, is_for, refusal_of_write};
use super::open::{Opened, REPORTED_AT_ONCE};
use super::pieces::aligned;
use super::report::Layout;
use super::status::{Tried, is_of_host, of_kernel};
use crate::drives::access::Access;
use crate::drives::inflight::{DriveLoss, InFlight, Watched, watch};
use crate::drives::media::{ReadError, Repeats, Verdict, verdict_of};
use crate::host::worker::Worker;
use crate::ring::{Descriptor, Ring};
use crate::sys::blkzoned::{ReportedZone, ZoneRange};
use crate::sys::block::{ZoneChange, change_zones, device_bytes, report_zones};

/// The delays before an operation for which this machine had no memory is repeated.
const DELAYS: [Nanos; 3] =
    [Nanos::from_millis(10), Nanos::from_millis(100), Nanos::from_millis(1000)];

/// Calls that the kernel answers only after the drive has.
enum Call {
    Report { first_sector: u64, count: u32 },
    Change(ZoneChange, ZoneRange),
}

struct Zone {
    /// Held by the writer of a zone or a change of its state.
    turn: Semaphore,
    /// Where it takes the next write, if that is known.
    place: Cell<Option<ZoneOffset>>,
    /// Blocks from here on were never written; there may be more of them.
    unwritten: Cell<ZoneOffset>,
}

/// An open drive.
pub(super) struct Core {
    ring: Ring,
    handle: Handle,
    file: Descriptor,
    /// The size that the disk had.
    bytes: u64,
    layout: Layout,
    geometry: Geometry,
    zones: Vec<Zone>,
    worker: Worker<Call, io::Result<Vec<ReportedZone>>>,
    inflight: InFlight,
    repeats: Repeats,
}

impl Core {
    /// # Errors
    /// If no thread can be had.
    pub(super) fn start(ring: &Ring, handle: &Handle, opened: Opened) -> io::Result<Rc<Self>> {
        let zone_count = opened.geometry.zones as usize;
        assert_eq!(opened.zones.len(), zone_count, "every zone was reported at opening");
        let calls = opened.file.try_clone()?;
        let worker = Worker::start(ring, "zones", move |call| carry_out(&calls, &call))?;
        let shared = opened.access == Access::ReadOnly;
        let zone = |info: &ZoneInfo| Zone {
            turn: Semaphore::new(1),
            place: Cell::new(place_of(info)),
            // Where another process may be writing, it is the drive that knows.
            unwritten: Cell::new(if shared { end_of(info) } else { info.write_pointer }),
        };
        let core = Rc::new(Self {
            ring: ring.clone(),
            handle: handle.clone(),
            file: Rc::new(opened.file.into()),
            bytes: opened.bytes,
            layout: opened.layout,
            geometry: opened.geometry,
            zones: opened.zones.iter().map(zone).collect(),
            worker,
            inflight: InFlight::new(handle),
            repeats: Repeats::default(),
        });
        handle.spawn("drive watch", watch(handle.clone(), Rc::downgrade(&core)));
        Ok(core)
    }

    pub(super) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    pub(super) fn counters(&self) -> DriveCounters {
        self.inflight.counters()
    }

    pub(super) fn loss(&self) -> Option<DriveLoss> {
        self.inflight.loss()
    }

    pub(super) fn pull_out(&self) {
        self.inflight.die(DriveLoss::PulledOut);
    }

    pub(super) fn submit(self: Rc<Self>, command: Command) -> Completion {
        if self.loss().is_some() {
            return Completion::ready(Err(Status::DeviceGone));
        }
        self.inflight.count(&command);
        if let Err(status) = check(&self.geometry, &command) {
            return self.inflight.refuse(status);
        }
        let (serial, completion) = self.inflight.begin();
        let handle = self.handle.clone();
        handle.spawn("block device command", async move {
            let outcome = self.perform(command).await;
            self.inflight.answer(serial, outcome);
        });
        completion
    }

    async fn perform(&self, command: Command) -> Outcome {
        match command {
            Command::Read { at, blocks } => self.read(at, blocks).await.map(Reply::Read),
            Command::Write { at, payload, fua } => {
                self.write(at, payload, fua).await.map(|()| Reply::Written(at))
            }
            Command::Manage { zone, action } => {
                self.manage(zone, action).await.map(|()| Reply::Done)
            }
            Command::ManageAll { action } => self.manage_all(action).await.map(|()| Reply::Done),
            Command::Report { first, count, options } => {
                self.report(first, count, options).await.map(Reply::Zones)
            }
            Command::Flush => {
                let synced = self.inflight.asked(self.ring.sync_data(&self.file)).await;
                synced.map(|()| Reply::Done).map_err(|error| self.failed(Tried::Write, &error))
            }
            Command::Append { .. } | Command::SetExtension { .. } | Command::ChangedZones => {
                Err(Status::InvalidField)
            }
        }
    }

    /// The status for an error, after a check that the disk is still there: a removed disk returns
    /// the same error as a disk without blocks.
    fn failed(&self, tried: Tried, error: &io::Error) -> Status {
        if self.is_there() { of_kernel(tried, error) } else { Status::DeviceGone }
    }

    /// Whether the disk has its size, which the kernel takes away when the drive is gone. Its name
    /// may go without that.
    fn is_there(&self) -> bool {
        device_bytes(self.file.as_fd()).is_ok_and(|bytes| bytes >= self.bytes)
    }

    async fn load(&self, at: ZoneAddress, blocks: BlockCount) -> io::Result<Bytes> {
        let (length, position) = (blocks.data_bytes(), self.layout.position(at));
        let mut delays = DELAYS.iter();
        loop {
            let buffer = AlignedBuffer::unfilled(blocks);
            let reading = self.ring.read_exact_at(&self.file, buffer, length, position);
            let error = match self.inflight.asked(reading).await {
                Ok(buffer) => return Ok(buffer.freeze()),
                Err(error) => error,
            };
            match delays.next().filter(|_| is_of_host(&error) && self.in_service().is_ok()) {
                Some(delay) => self.handle.sleep(*delay).await,
                None => return Err(error),
            }
        }
    }

    /// Blocks above the write pointer are not read from the disk: they are zeros here, but some
    /// drives return other data, and shingled disks may fail.
    async fn read(&self, at: ZoneAddress, blocks: BlockCount) -> Result<Payload, Status> {
        let unwritten = self.zones[at.zone.index()].unwritten.get();
        let asked = BlockCount(unwritten.0.saturating_sub(at.offset.0).min(blocks.0));
        let zeros = BlockCount(blocks.0 - asked.0);
        let mut data = Vec::new();
        if asked.0 > 0 {
            data = self.read_written(at, asked).await?;
        }
        if zeros.0 > 0 {
            data.push(zero_blocks(zeros));
        }
        Ok(Payload { data, oob: Bytes::new() })
    }

    async fn read_written(
        &self,
        at: ZoneAddress,
        blocks: BlockCount,
    ) -> Result<Vec<Bytes>, Status> {
        let error = match self.load(at, blocks).await {
            Ok(data) => return Ok(vec![data]),
            Err(error) => error,
        };
        let status = self.failed(Tried::Read, &error);
        if status == Status::DeviceGone {
            return Err(status);
        }
        let info = self.look(at.zone).await?;
        if info.state == ZoneState::Offline {
            return Err(Status::ZoneOffline);
        }
        // A write that failed, or is under way, may not have come as far.
        let written = BlockCount(info.write_pointer.0.saturating_sub(at.offset.0));
        if written >= blocks {
            return match verdict_of(&error) {
                Verdict::Unclear => Ok(vec![self.load_again(at, blocks, error).await?]),
                Verdict::Damaged | Verdict::Nothing => Err(status),
            };
        }
        let mut data = Vec::new();
        if written.0 > 0 {
            data.push(match self.load(at, written).await {
                Ok(read) => read,
                Err(error) => self.load_again(at, written, error).await?,
            });
        }
        data.push(zero_blocks(BlockCount(blocks.0 - written.0)));
        Ok(data)
    }

    /// Repeats a read that has failed, if the error is unclear. Zone reports tell whether the way
    /// to the drive is there.
    async fn load_again(
        &self,
        at: ZoneAddress,
        blocks: BlockCount,
        error: io::Error,
    ) -> Result<Bytes, Status> {
        let again = async || self.load(at, blocks).await;
        let answers = async || self.look(at.zone).await.is_ok();
        let judged = self.repeats.judge(&self.handle, error, again, answers).await;
        judged.map_err(|error| match error {
            _ if !self.is_there() => Status::DeviceGone,
            ReadError::Damaged => Status::UnrecoveredRead,
            ReadError::Unanswered(error) => of_kernel(Tried::Read, &error),
        })
    }

    async fn write(&self, at: ZoneAddress, payload: Payload, fua: bool) -> Result<(), Status> {
        let zone = &self.zones[at.zone.index()];
        let blocks = payload.blocks();
        let _turn = zone.turn.acquire().await;
        self.in_service()?;
        let end = u64::from(at.offset.0) + u64::from(blocks.0);
        let capacity = u64::from(self.geometry.zone_capacity.0);
        // A write elsewhere than at the write pointer is never sent: the kernel would not report
        // the reason.
        if zone.place.get() != Some(at.offset) || end > capacity {
            let info = self.look(at.zone).await?;
            if let Some(status) = refusal_of_write(&info, at, blocks) {
                return Err(status);
            }
        }
        assert!(end <= capacity, "a write beyond the zone was refused");
        let data = aligned(payload.data);
        let mut delays = DELAYS.iter();
        loop {
            zone.place.set(None);
            zone.unwritten.set(zone.unwritten.get().max(at.offset.plus(blocks)));
            let Err(error) = self.store(data.clone(), at, fua).await else {
                zone.place.set((end < capacity).then_some(at.offset.plus(blocks)));
                return Ok(());
            };
            let status = self.write_failed(at.zone, &error).await;
            // Nothing of it was written if the zone still ends where it begins.
            let again = is_of_host(&error) && zone.place.get() == Some(at.offset);
            match delays.next().filter(|_| again) {
                Some(delay) => self.handle.sleep(*delay).await,
                None => return Err(status),
            }
            self.in_service()?;
        }
    }

    async fn store(&self, data: Vec<Bytes>, at: ZoneAddress, fua: bool) -> io::Result<()> {
        let position = self.layout.position(at);
        if fua {
            let writing = self.ring.write_all_durably_at(&self.file, data, position);
            self.inflight.asked(writing).await
        } else {
            let writing = self.ring.write_all_at(&self.file, data, position);
            self.inflight.asked(writing).await
        }
    }

    /// Finds out where the zone ends now, which also the kernel has to know before it takes another
    /// write.
    async fn write_failed(&self, zone: ZoneId, error: &io::Error) -> Status {
        let status = self.failed(Tried::Write, error);
        if status == Status::DeviceGone {
            return status;
        }
        match self.look(zone).await {
            Ok(info) => {
                let known = &self.zones[zone.index()];
                known.place.set(place_of(&info));
                if place_of(&info).is_some() {
                    known.unwritten.set(info.write_pointer);
                }
                match info.state {
                    ZoneState::ReadOnly => Status::ZoneReadOnly,
                    ZoneState::Offline => Status::ZoneOffline,
                    _ => status,
                }
            }
            Err(Status::DeviceGone) => Status::DeviceGone,
            Err(_) => status,
        }
    }

    async fn manage(&self, zone: ZoneId, action: ZoneAction) -> Result<(), Status> {
        let state = &self.zones[zone.index()];
        let _turn = state.turn.acquire().await;
        self.in_service()?;
        let changed = match change_of(action) {
            Some(change) => {
                let call = Call::Change(change, self.layout.range(zone));
                self.call(call).await.map(drop)
            }
            None => Err(Status::InternalError),
        };
        match (action, changed) {
            (ZoneAction::Reset, Ok(())) => {
                state.place.set(Some(ZoneOffset(0)));
                state.unwritten.set(ZoneOffset(0));
            }
            (ZoneAction::Open | ZoneAction::Close, Ok(())) => {}
            _ => state.place.set(None),
        }
        match changed {
            Ok(()) => Ok(()),
            Err(status @ (Status::DeviceGone | Status::TooManyActive | Status::TooManyOpen)) => {
                Err(status)
            }
            Err(status) => {
                let info = self.look(zone).await?;
                state.place.set(place_of(&info));
                match is_for(action, info.state) {
                    // Zones that are offline are so already.
                    true if action == ZoneAction::Offline => Ok(()),
                    true => Err(status),
                    false => Err(Status::InvalidTransition),
                }
            }
        }
    }

    /// One zone after the other, as the kernel has nothing for some of them; the first that fails
    /// ends it.
    async fn manage_all(&self, action: ZoneAction) -> Result<(), Status> {
        let zones = self.zones_from(ZoneId(0), self.geometry.zones).await?;
        for info in zones.iter().filter(|info| is_chosen(action, info.state)) {
            self.manage(info.zone, action).await?;
        }
        Ok(())
    }

    async fn report(
        &self,
        first: ZoneId,
        count: u32,
        options: ReportOptions,
    ) -> Result<ZoneReport, Status> {
        let behind = self.geometry.zones - first.0;
        let listed_only = options.filter == ZoneFilter::All;
        let asked = if listed_only { count.min(behind) } else { behind };
        let mut zones = self.zones_from(first, asked).await?;
        zones.retain(|info| options.filter.admits(info.state));
        let admitted = if listed_only { behind as usize } else { zones.len() };
        zones.truncate(count as usize);
        let matching = if options.partial { zones.len() } else { admitted };
        Ok(ZoneReport { matching: matching as u64, zones, extensions: Vec::new() })
    }

    async fn zones_from(&self, first: ZoneId, count: u32) -> Result<Vec<ZoneInfo>, Status> {
        let mut zones: Vec<ZoneInfo> = Vec::new();
        while zones.len() < count as usize {
            let told = u32::try_from(zones.len()).expect("below a count of 32 bits");
            let next = ZoneId(first.0 + told);
            let count = (count - told).min(REPORTED_AT_ONCE);
            let first_sector = self.layout.first_sector(next);
            let reported = self.call(Call::Report { first_sector, count }).await?;
            let part = self.layout.decode(&reported, &self.geometry, next);
            let part = part.map_err(|_| Status::InternalError)?;
            if part.is_empty() {
                return Err(Status::InternalError);
            }
            zones.extend(part);
        }
        Ok(zones)
    }

    async fn look(&self, zone: ZoneId) -> Result<ZoneInfo, Status> {
        let zones = self.zones_from(zone, 1).await?;
        zones.first().copied().ok_or(Status::InternalError)
    }

    async fn call(&self, call: Call) -> Result<Vec<ReportedZone>, Status> {
        let turn = self.worker.turn().await;
        self.in_service()?;
        let answer = self.inflight.asked(turn.call(call)).await;
        answer.flatten().map_err(|error| self.failed(Tried::Manage, &error))
    }

    fn in_service(&self) -> Result<(), Status> {
        if self.loss().is_some() { Err(Status::DeviceGone) } else { Ok(()) }
    }
}

impl Watched for Core {
    fn examine(&self) -> bool {
        if !self.inflight.answers() {
            return false;
        }
        let there = self.is_there();
        if !there {
            self.inflight.die(DriveLoss::Gone);
        }
        there
    }
}

fn carry_out(file: &File, call: &Call) -> io::Result<Vec<ReportedZone>> {
    match *call {
        Call::Report { first_sector, count } => report_zones(file.as_fd(), first_sector, count),
        Call::Change(change, range) => {
            change_zones(file.as_fd(), change, range).map(|()| Vec::new())
        }
    }
}

fn end_of(info: &ZoneInfo) -> ZoneOffset {
    ZoneOffset(info.capacity.0)
}

/// Where a zone takes the next write.
fn place_of(info: &ZoneInfo) -> Option<ZoneOffset> {
    let takes_writes = info.state.is_active() || info.state == ZoneState::Empty;
    takes_writes.then_some(info.write_pointer)
}
