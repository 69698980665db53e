//! Jobs on zoned drives.
//!
//! Each stream writes one zone from its write pointer to its capacity, then takes the next zone of
//! the job. Requests are shorter at the end of a zone, so that zones become full and release their
//! resources. A zone is entered only after the previous one is full, so that a job has no more
//! active zones than streams. Zones of a writing job must be empty. Writes with a queue depth above
//! one rely on the drive applying them in submission order.
//!
//! Reads are limited to the part that the job declares as written. With [`Refill::Reset`] full
//! zones are reset and written again, as by a host that collects garbage. The newest full zone is
//! spared until the next one is full, since its last commands are still in flight.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use zoneweave_runtime::{Handle, Random, Receiver, Sender, oneshot};
use zoneweave_zoned::{
    AlignedBuffer, BlockCount, Command, Completion, Payload, ZoneAction, ZoneAddress, ZoneId,
    ZoneOffset, ZonedDevice, ZonedDeviceExt,
};

use super::lane::{Running, launch};
use super::run::{Next, Run, Started, Stream};
use super::{Measurement, Pace, WorkloadError};

/// Contents of every block: eight bytes repeated, which emulated drives store as such.
const PATTERN: [u8; 8] = *b"zoneweav";

/// The operation of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Reads at random places.
    RandomRead,
    /// Reads front to back.
    SequentialRead,
    /// Writes at the write pointer.
    Write,
    /// Appends.
    Append,
}

impl Operation {
    /// The name for error messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RandomRead | Self::SequentialRead => "a read",
            Self::Write => "a write",
            Self::Append => "an append",
        }
    }
}

/// The end of the zones of a writing job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refill {
    /// Ends the job.
    Stop,
    /// Resets the oldest full zone and writes it again.
    Reset,
}

/// A job on a zoned drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The operation.
    pub operation: Operation,
    /// Size of a request.
    pub request: BlockCount,
    /// Zones in use at once, each by a thread of its own.
    pub streams: u32,
    /// The zones, used in order: empty ones to write, written ones to read.
    pub zones: Vec<ZoneId>,
    /// Written blocks of each zone, for reads.
    pub written: BlockCount,
    /// The action when all zones are full.
    pub refill: Refill,
    /// Rate and duration.
    pub pace: Pace,
}

impl Job {
    /// Starts the job in the background.
    ///
    /// # Errors
    ///
    /// If the drive cannot run it.
    pub fn start(
        self,
        handle: &Handle,
        device: &Rc<dyn ZonedDevice>,
    ) -> Result<Running, WorkloadError> {
        self.check(device)?;
        let request_bytes = self.request.data_bytes() as u64;
        let run = Run::new(handle, self.pace.clone(), request_bytes);
        let streams = self.streams(&run, device);
        Ok(launch(run, streams))
    }

    /// Runs the job to its end.
    ///
    /// # Errors
    /// If the drive cannot do this, or fails a command.
    pub async fn run(
        self,
        handle: &Handle,
        device: &Rc<dyn ZonedDevice>,
    ) -> Result<Measurement, WorkloadError> {
        self.start(handle, device)?.finish().await
    }

    fn check(&self, device: &Rc<dyn ZonedDevice>) -> Result<(), WorkloadError> {
        let geometry = device.geometry();
        let largest = match self.operation {
            Operation::Append => geometry.append_limit.min(geometry.max_transfer),
            _ => geometry.max_transfer,
        };
        let is_read = matches!(self.operation, Operation::RandomRead | Operation::SequentialRead);
        let problems = [
            (self.request.0 == 0, "a request has at least one block"),
            (self.request > largest, "the request is larger than the drive takes"),
            (self.pace.queue_depth == 0 || self.streams == 0, "nothing would be in flight"),
            (self.zones.len() < self.streams as usize, "there are fewer zones than streams"),
            (is_read && self.written < self.request, "less is written than a request reads"),
            (self.written > geometry.zone_capacity, "more is to be read than a zone holds"),
            (is_read && self.pace.host.merging.is_some(), "only writes are merged"),
            (
                !is_read
                    && self.refill == Refill::Reset
                    && self.zones.len() < 3 * self.streams as usize,
                "writing zones again takes three zones for each stream",
            ),
        ];
        match problems.iter().find(|(found, _)| *found) {
            Some((_, problem)) => Err(WorkloadError::Impossible(problem)),
            None => Ok(()),
        }
    }

    fn streams(&self, run: &Rc<Run>, device: &Rc<dyn ZonedDevice>) -> Vec<ZonedStream> {
        let supply = Rc::new(RefCell::new(Supply { free: self.zones.iter().copied().collect() }));
        let mut random = Random::new(self.pace.seed);
        let source = pattern(device.geometry().max_transfer);
        let stream = |_| ZonedStream {
            run: run.clone(),
            device: device.clone(),
            operation: self.operation,
            request: self.request,
            written: self.written,
            refill: self.refill,
            supply: supply.clone(),
            full: VecDeque::new(),
            at: supply.borrow_mut().free.pop_front().map(|zone| ZoneAddress::new(zone, 0)),
            source: source.clone(),
            random: random.fork(),
            in_flight: Rc::default(),
        };
        (0..self.streams).map(stream).collect()
    }
}

/// Memory that every write of a job is a slice of.
pub(super) fn pattern(blocks: BlockCount) -> Bytes {
    let mut buffer = AlignedBuffer::zeroed(blocks);
    for word in buffer.as_mut().chunks_exact_mut(PATTERN.len()) {
        word.copy_from_slice(&PATTERN);
    }
    buffer.freeze()
}

/// Zones that are not in use by a stream.
struct Supply {
    free: VecDeque<ZoneId>,
}

struct ZonedStream {
    run: Rc<Run>,
    device: Rc<dyn ZonedDevice>,
    operation: Operation,
    request: BlockCount,
    written: BlockCount,
    refill: Refill,
    supply: Rc<RefCell<Supply>>,
    /// Full zones of this stream that are not reset, oldest first.
    full: VecDeque<ZoneId>,
    /// The next block; `None` if no zone is left.
    at: Option<ZoneAddress>,
    source: Bytes,
    random: Random,
    in_flight: Rc<InFlight>,
}

impl Stream for ZonedStream {
    type Reply = DriveReply;

    fn start(&mut self, requests: u32) -> Next<DriveReply> {
        let Some(at) = self.at else { return Next::Nothing };
        let enters_zone = self.is_writing() && at.offset == ZoneOffset(0);
        if enters_zone && self.in_flight.count.get() > 0 {
            return Next::Wait(self.in_flight.emptied());
        }
        let (command, blocks) = match self.operation {
            Operation::RandomRead | Operation::SequentialRead => self.read(at),
            Operation::Write => self.write(at, requests),
            Operation::Append => self.append(at, requests),
        };
        let reply = DriveReply {
            answer: self.device.submit(command),
            operation: self.operation,
            zone: at.zone,
            in_flight: self.in_flight.clone(),
        };
        self.in_flight.count.set(self.in_flight.count.get() + 1);
        Next::Started(Started { reply, bytes: blocks.data_bytes() as u64 })
    }
}

impl ZonedStream {
    fn is_writing(&self) -> bool {
        matches!(self.operation, Operation::Write | Operation::Append)
    }

    fn read(&mut self, at: ZoneAddress) -> (Command, BlockCount) {
        let slots = self.written.0 / self.request.0;
        let slot = match self.operation {
            Operation::RandomRead => {
                let slot = self.random.below(u64::from(slots));
                u32::try_from(slot).expect("below a number of 32 bits")
            }
            _ => at.offset.0 / self.request.0 % slots,
        };
        let offset = slot * self.request.0;
        self.at = Some(ZoneAddress::new(at.zone, offset + self.request.0));
        let at = ZoneAddress::new(at.zone, offset);
        (Command::Read { at, blocks: self.request }, self.request)
    }

    fn write(&mut self, at: ZoneAddress, requests: u32) -> (Command, BlockCount) {
        let (payload, blocks) = self.claim(at, requests);
        (Command::Write { at, payload, fua: false }, blocks)
    }

    fn append(&mut self, at: ZoneAddress, requests: u32) -> (Command, BlockCount) {
        let (payload, blocks) = self.claim(at, requests);
        (Command::Append { zone: at.zone, payload, fua: false }, blocks)
    }

    /// The next blocks to write: so many requests, or the rest of the zone.
    fn claim(&mut self, at: ZoneAddress, requests: u32) -> (Payload, BlockCount) {
        let geometry = self.device.geometry();
        assert!(at.offset.0 < geometry.zone_capacity.0, "a full zone is left at once");
        let left = geometry.zone_capacity.0 - at.offset.0;
        let blocks = (self.request.0 * requests).min(left).min(geometry.max_transfer.0);
        let blocks = BlockCount(blocks);
        let offset = at.offset.plus(blocks);
        if offset == ZoneOffset(geometry.zone_capacity.0) {
            self.turn_page(at.zone);
        } else {
            self.at = Some(ZoneAddress { zone: at.zone, offset });
        }
        let data = self.source.slice(..blocks.data_bytes());
        (Payload { data: vec![data], oob: Bytes::new() }, blocks)
    }

    /// Moves on to the next zone, after the last block of this one was claimed.
    fn turn_page(&mut self, zone: ZoneId) {
        self.full.push_back(zone);
        if self.refill == Refill::Reset && self.full.len() > 1 {
            let oldest = self.full.pop_front().expect("there are two");
            self.reset(oldest);
        }
        let next = self.supply.borrow_mut().free.pop_front();
        self.at = next.map(|zone| ZoneAddress::new(zone, 0));
    }

    fn reset(&self, zone: ZoneId) {
        let answer = self.device.manage(zone, ZoneAction::Reset);
        let (run, supply) = (self.run.clone(), self.supply.clone());
        let task = async move {
            match answer.await {
                Ok(()) => supply.borrow_mut().free.push_back(zone),
                Err(status) => {
                    run.fail(WorkloadError::Drive { operation: "a reset", zone, status });
                }
            }
        };
        // At most one for each zone of the job.
        drop(self.run.handle.spawn("workload reset", task));
    }
}

/// Commands of a stream without an answer.
#[derive(Default)]
struct InFlight {
    count: Cell<u32>,
    waiting: RefCell<Vec<Sender<()>>>,
}

impl InFlight {
    fn emptied(&self) -> Receiver<()> {
        let (sender, receiver) = oneshot();
        self.waiting.borrow_mut().push(sender);
        receiver
    }

    fn answered(&self) {
        assert!(self.count.get() > 0, "an answer belongs to a command");
        self.count.set(self.count.get() - 1);
        if self.count.get() == 0 {
            for waiting in self.waiting.take() {
                waiting.send(());
            }
        }
    }
}

/// A command in flight.
pub(super) struct DriveReply {
    answer: Completion,
    operation: Operation,
    zone: ZoneId,
    in_flight: Rc<InFlight>,
}

impl Future for DriveReply {
    type Output = Result<(), WorkloadError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = ready!(Pin::new(&mut self.answer).poll(context));
        self.in_flight.answered();
        let (operation, zone) = (self.operation.name(), self.zone);
        let failed = |status| WorkloadError::Drive { operation, zone, status };
        Poll::Ready(outcome.map(drop).map_err(failed))
    }
}
