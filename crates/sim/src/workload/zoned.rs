//! Jobs on zoned drives.
//!
//! Each stream writes one zone from its write pointer to its capacity, then takes the next zone of
//! the job; requests are shorter where a zone ends, so that zones become full and give their
//! resources back. Zones handed to a writing job must be empty. Writes with a queue depth above one
//! rely on the drive applying them in the order of submission.
//!
//! Reads go to what the job is told is written. With [`Refill::Reset`] zones that were filled are
//! reset and written again, as a host that collects garbage does; the zone filled last is
//! spared until the next one is full, since appends to it may still be in flight.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use zoneweave_runtime::{Handle, Random};
use zoneweave_zoned::{
    AlignedBuffer, BlockCount, Command, Completion, Payload, ZoneAction, ZoneAddress, ZoneId,
    ZoneOffset, ZonedDevice, ZonedDeviceExt,
};

use super::run::{Run, Running, Started, Stream};
use super::{Measurement, Pace, WorkloadError};

/// What every block of a job holds: eight bytes repeated, which emulated drives store as such.
const PATTERN: [u8; 8] = *b"zoneweav";

/// What a job does.
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

/// What a writing job does when it has filled every zone it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refill {
    /// Ends.
    Stop,
    /// Resets the zone that was filled longest ago and writes it again.
    Reset,
}

/// A job on a zoned drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// What it does.
    pub operation: Operation,
    /// Size of a request.
    pub request: BlockCount,
    /// Zones in use at once, each by a thread of its own.
    pub streams: u32,
    /// The zones, used in order: empty ones to write, written ones to read.
    pub zones: Vec<ZoneId>,
    /// How much of each zone is written, for reads.
    pub written: BlockCount,
    /// What to do when all zones are full.
    pub refill: Refill,
    /// How fast and how long.
    pub pace: Pace,
}

impl Job {
    /// Starts the job and lets it run beside whatever else happens.
    ///
    /// # Errors
    /// If the drive cannot do this.
    pub fn start(
        self,
        handle: &Handle,
        device: &Rc<dyn ZonedDevice>,
    ) -> Result<Running, WorkloadError> {
        self.check(device)?;
        let request_bytes = self.request.data_bytes() as u64;
        let run = Run::new(handle, self.pace.clone(), request_bytes);
        let streams = self.streams(&run, device);
        Ok(run.launch(streams))
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
                self.refill == Refill::Reset && self.zones.len() < 3 * self.streams as usize,
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

/// Zones that no stream works on.
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
    /// Zones this stream filled and has not reset, oldest first.
    full: VecDeque<ZoneId>,
    /// The next block; nothing if no zone is left.
    at: Option<ZoneAddress>,
    source: Bytes,
    random: Random,
}

impl Stream for ZonedStream {
    type Reply = DriveReply;

    fn start(&mut self, requests: u32) -> Option<Started<DriveReply>> {
        let (command, name) = match self.operation {
            Operation::RandomRead | Operation::SequentialRead => (self.read()?, "a read"),
            Operation::Write => (self.write(requests)?, "a write"),
            Operation::Append => (self.append(requests)?, "an append"),
        };
        let (zone, blocks) = match &command {
            Command::Read { at, blocks } => (at.zone, *blocks),
            Command::Write { at, payload, .. } => (at.zone, payload.blocks()),
            Command::Append { zone, payload, .. } => (*zone, payload.blocks()),
            _ => unreachable!("streams read, write and append"),
        };
        let reply = DriveReply { answer: self.device.submit(command), operation: name, zone };
        Some(Started { reply, bytes: blocks.data_bytes() as u64 })
    }
}

impl ZonedStream {
    fn read(&mut self) -> Option<Command> {
        let at = self.at?;
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
        Some(Command::Read { at: ZoneAddress::new(at.zone, offset), blocks: self.request })
    }

    fn write(&mut self, requests: u32) -> Option<Command> {
        let (at, payload) = self.claim(requests)?;
        Some(Command::Write { at, payload, fua: false })
    }

    fn append(&mut self, requests: u32) -> Option<Command> {
        let (at, payload) = self.claim(requests)?;
        Some(Command::Append { zone: at.zone, payload, fua: false })
    }

    /// The next blocks to write: so many requests, or what the zone has left.
    fn claim(&mut self, requests: u32) -> Option<(ZoneAddress, Payload)> {
        let at = self.at?;
        let geometry = self.device.geometry();
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
        Some((at, Payload { data: vec![data], oob: Bytes::new() }))
    }

    /// The zone's last block was claimed: goes on to the next zone.
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

/// A command on its way.
pub(super) struct DriveReply {
    answer: Completion,
    operation: &'static str,
    zone: ZoneId,
}

impl Future for DriveReply {
    type Output = Result<(), WorkloadError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = ready!(Pin::new(&mut self.answer).poll(context));
        let (operation, zone) = (self.operation, self.zone);
        let failed = |status| WorkloadError::Drive { operation, zone, status };
        Poll::Ready(outcome.map(drop).map_err(failed))
    }
}
