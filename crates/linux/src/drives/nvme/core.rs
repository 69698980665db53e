//! NVMe commands in flight: the locks they wait for, their time limits, and their answers.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;

use zoneweave_emulator::DriveCounters;
use zoneweave_runtime::{Handle, Permit, Semaphore};
use zoneweave_zoned::{
    AlignedBuffer, BlockCount, Command, Completion, Geometry, Outcome, Payload, Reply,
    ReportOptions, Status, ZoneId, ZoneReport,
};

use super::encode::{
    Answer, Encoded, Order, Plan, ZONE_RECEIVE, ZONE_SEND, encode, report_dwords, written_at,
};
use super::open::Opened;
use super::report::{self, zones_in};
use super::retry::{self, Record};
use super::{status, ways};
use crate::drives::inflight::{DriveLoss, InFlight, Watched, watch};
use crate::ring::{CommandDone, DeviceCommand, Lent, Opcode};
use crate::ring::{Descriptor, Ring};

/// After which the kernel aborts a command, as it does for those of file systems.
pub(super) const COMMAND_TIMEOUT_MS: u32 = 30_000;

/// Appends to a zone that may be under way; a drive's queue holds fewer.
const APPENDS: u64 = 1 << 16;

/// An open drive.
pub(super) struct Core {
    ring: Ring,
    handle: Handle,
    file: Descriptor,
    _block_device: Option<File>,
    namespace: u32,
    geometry: Geometry,
    /// One semaphore a zone: a change takes all permits, an append takes one.
    orders: Vec<Semaphore>,
    record: Record,
    /// More than one controller on the bus leads to it: see [`ways::has_ways`].
    has_ways: bool,
    inflight: InFlight,
}

impl Core {
    pub(super) fn start(ring: &Ring, handle: &Handle, opened: Opened) -> Rc<Self> {
        let core = Rc::new(Self {
            ring: ring.clone(),
            handle: handle.clone(),
            file: Rc::new(opened.file.into()),
            _block_device: opened.block_device,
            namespace: opened.namespace,
            orders: (0..opened.geometry.zones).map(|_| Semaphore::new(APPENDS)).collect(),
            geometry: opened.geometry,
            record: Record::default(),
            has_ways: opened.has_ways,
            inflight: InFlight::new(handle),
        });
        handle.spawn("drive watch", watch(handle.clone(), Rc::downgrade(&core)));
        core
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

    pub(super) fn submit(self: Rc<Self>, command: Command) -> Completion {
        if self.loss().is_some() {
            return Completion::ready(Err(Status::DeviceGone));
        }
        self.inflight.count(&command);
        let plan = match encode(&self.geometry, command) {
            Ok(plan) => plan,
            Err(status) => return self.inflight.refuse(status),
        };
        let (serial, completion) = self.inflight.begin();
        let handle = self.handle.clone();
        handle.spawn("NVMe command", async move {
            let outcome = match plan {
                Plan::One(encoded) => self.one(encoded).await,
                Plan::Report { first, count, options } => self.report(first, count, options).await,
            };
            self.inflight.answer(serial, outcome);
        });
        completion
    }

    pub(super) fn pull_out(&self) {
        self.inflight.die(DriveLoss::PulledOut);
    }

    async fn in_order(&self, order: Order) -> Option<Permit> {
        match order {
            Order::Any => None,
            Order::Appends(zone) => Some(self.orders[zone.index()].acquire().await),
            Order::Alone(zone) => Some(self.orders[zone.index()].acquire_many(APPENDS).await),
        }
    }

    async fn one(&self, encoded: Encoded) -> Outcome {
        let Encoded { opcode, dwords, data, metadata, order, answer } = encoded;
        let _turn = self.in_order(order).await;
        if self.loss().is_some() {
            return Err(Status::DeviceGone);
        }
        let done = self.send(opcode, dwords, data, metadata).await?;
        match answer {
            Answer::Done => Ok(Reply::Done),
            Answer::Written(at) => Ok(Reply::Written(at)),
            Answer::Appended(zone, blocks) => written_at(&self.geometry, zone, done.result, blocks)
                .map(Reply::Written)
                .ok_or(Status::InternalError),
            Answer::Read(blocks) => Ok(Reply::Read(payload(done, blocks))),
        }
    }

    /// Sends a command and waits for it; again, if that may be and may help.
    async fn send(
        &self,
        opcode: Opcode,
        dwords: [u32; 6],
        data: Lent,
        metadata: Lent,
    ) -> Result<CommandDone, Status> {
        let (namespace, timeout_ms) = (self.namespace, COMMAND_TIMEOUT_MS);
        let mut tries = self.record.tries(opcode, self.handle.now());
        let mut memory = (data, metadata);
        loop {
            let (data, metadata) = memory;
            let command = DeviceCommand { opcode, namespace, dwords, data, metadata, timeout_ms };
            let done = self.inflight.asked(self.ring.command(&self.file, command)).await;
            let now = self.handle.now();
            self.record.note(&done, now);
            let pause = match &done.status {
                Err(error) if self.was_not_sent(error) => tries.unsent(now),
                Err(error) if retry::is_refused(error) => tries.refused(now),
                _ if retry::may_pass(opcode, &done) => self.record.failed(&mut tries, now),
                _ => None,
            };
            let Some(pause) = pause else { return self.judged(opcode, done) };
            self.handle.sleep(pause).await;
            if self.loss().is_some() {
                return Err(Status::DeviceGone);
            }
            memory = (retry::lend(done.data), retry::lend(done.metadata));
        }
    }

    /// Whether an error is that the drive has heard nothing of a command, and may yet. Where
    /// several ways may lead to it one of them ends without the drive.
    fn was_not_sent(&self, error: &io::Error) -> bool {
        let lost_way = error.raw_os_error() == Some(libc::ENODEV) && self.has_ways;
        retry::is_unsent(error) || self.has_no_way(error) || lost_way && self.is_named()
    }

    /// Whether an error is that no way leads to the drive.
    fn has_no_way(&self, error: &io::Error) -> bool {
        retry::is_refused(error) && ways::is_none_open(self.file.as_fd())
    }

    fn judged(&self, opcode: Opcode, done: CommandDone) -> Result<CommandDone, Status> {
        match &done.status {
            // A path to the drive is lost. The drive is lost too if its device is gone, or if all
            // answers were path errors for long. So it is after a zone change, which the path may
            // hold back and execute after the zone was written again.
            Ok(value) if retry::is_of_path(*value) => {
                let has_way = self.is_named() && !self.record.is_cut_off(self.handle.now());
                let is_lost = !has_way || opcode == ZONE_SEND;
                Err(if is_lost { Status::DeviceGone } else { Status::Aborted })
            }
            Ok(value) => status::of_nvme(*value).map(|()| done),
            Err(error) if opcode == ZONE_SEND && self.has_ways && retry::is_given_up(error) => {
                Err(Status::DeviceGone)
            }
            Err(error) if self.has_no_way(error) => Err(Status::DeviceGone),
            Err(error) => Err(status::of_kernel(error)),
        }
    }

    /// The kernel takes the device's name away when the drive is gone.
    fn is_named(&self) -> bool {
        rustix::fs::fstat(&self.file).is_ok_and(|status| status.st_nlink > 0)
    }

    /// Reports zones until all are known: one answer is at most one transfer.
    async fn report(&self, first: ZoneId, count: u32, options: ReportOptions) -> Outcome {
        let each = if options.extended { self.geometry.descriptor_extension_bytes } else { 0 };
        let most = self.geometry.max_transfer.data_bytes();
        let mut told = ZoneReport::default();
        let mut next = first;
        loop {
            let left = (count as usize).saturating_sub(told.zones.len());
            let bytes = (64 + left.max(1) * (64 + each as usize)).min(most);
            let pages = BlockCount::of_data_bytes(bytes.next_multiple_of(4096));
            // Bytes that the drive did not fill are not zones.
            let data = Lent::In(AlignedBuffer::zeroed(pages), bytes);
            let dwords = report_dwords(&self.geometry, next, options, bytes);
            let done = self.send(ZONE_RECEIVE, dwords, data, Lent::Nothing).await?;
            let Lent::In(filled, _) = done.data else { return Err(Status::InternalError) };
            let answer = &filled.as_ref()[..bytes];
            let part = report::decode(answer, &self.geometry, next, each)?;
            assert!(part.zones.len() <= zones_in(bytes, each), "an answer fits its buffer");
            if next == first {
                told.matching = part.matching;
            }
            let full = part.zones.len() == zones_in(bytes, each);
            let last = part.zones.last().map(|info| info.zone);
            told.zones.extend(part.zones.into_iter().take(left));
            told.extensions.extend(part.extensions.into_iter().take(left));
            match last {
                Some(last) if full && last.0 + 1 < self.geometry.zones => next = ZoneId(last.0 + 1),
                _ => break,
            }
            if told.zones.len() >= count as usize {
                break;
            }
        }
        assert!(told.zones.len() <= count as usize, "a report has at most the zones asked for");
        if options.partial {
            told.matching = told.zones.len() as u64;
        }
        Ok(Reply::Zones(told))
    }
}

impl Watched for Core {
    fn examine(&self) -> bool {
        if !self.inflight.answers() {
            return false;
        }
        let named = self.is_named();
        if !named {
            self.inflight.die(DriveLoss::Gone);
        }
        named
    }
}

fn payload(done: CommandDone, blocks: BlockCount) -> Payload {
    let filled = |lent| match lent {
        Lent::In(buffer, _) => buffer.freeze(),
        Lent::Nothing | Lent::Out(_) => unreachable!("reads lend buffers"),
    };
    Payload::new(filled(done.data), filled(done.metadata).slice(..blocks.oob_bytes()))
}
