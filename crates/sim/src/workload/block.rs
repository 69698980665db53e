//! Jobs on block devices: measurements of conventional drives and of volumes.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use zoneweave_runtime::{Handle, Random};
use zoneweave_zoned::{BlockCount, BlockDevice, BlockError, Lba};

use super::lane::{Running, launch};
use super::run::{Next, Run, Started, Stream};
use super::zoned::pattern;
use super::{Measurement, Pace, WorkloadError};

/// The operation of a job on a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BlockOperation {
    /// Reads at random places.
    RandomRead,
    /// Writes at random places.
    RandomWrite,
    /// Reads front to back, over and over.
    SequentialRead,
    /// Writes front to back, once: the job ends at the end of the range.
    SequentialWrite,
}

/// A job on a block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockJob {
    /// The operation.
    pub operation: BlockOperation,
    /// Size of a request; requests lie at multiples of it.
    pub request: BlockCount,
    /// Threads. Sequential ones share the range evenly.
    pub streams: u32,
    /// Number of blocks in use, from the first on.
    pub blocks: u64,
    /// Rate and duration.
    pub pace: Pace,
}

impl BlockJob {
    /// Starts the job in the background.
    ///
    /// # Errors
    ///
    /// If the device is too small for it.
    pub fn start(
        self,
        handle: &Handle,
        device: &Rc<dyn BlockDevice>,
    ) -> Result<Running, WorkloadError> {
        let slots = self.blocks / u64::from(self.request.0.max(1));
        let problems = [
            (self.request.0 == 0, "a request has at least one block"),
            (self.blocks > device.info().blocks, "the range is larger than the device"),
            (slots < u64::from(self.streams), "the range is smaller than a request each stream"),
            (self.pace.queue_depth == 0 || self.streams == 0, "nothing would be in flight"),
            (self.pace.host.merging.is_some(), "only writes to zones are merged"),
        ];
        if let Some((_, problem)) = problems.iter().find(|(found, _)| *found) {
            return Err(WorkloadError::Impossible(problem));
        }
        let mut random = Random::new(self.pace.seed);
        let run = Run::new(handle, self.pace.clone(), self.request.data_bytes() as u64);
        let (source, share) = (pattern(self.request), slots / u64::from(self.streams));
        let is_random =
            matches!(self.operation, BlockOperation::RandomRead | BlockOperation::RandomWrite);
        let stream = |index: u64| {
            let range = if is_random { 0..slots } else { index * share..(index + 1) * share };
            BlockStream {
                device: device.clone(),
                operation: self.operation,
                request: self.request,
                left: range.clone(),
                range,
                source: source.clone(),
                random: random.fork(),
            }
        };
        let streams = (0..u64::from(self.streams)).map(stream).collect();
        Ok(launch(run, streams))
    }

    /// Runs the job to its end.
    ///
    /// # Errors
    /// If the device is too small for it, or fails a request.
    pub async fn run(
        self,
        handle: &Handle,
        device: &Rc<dyn BlockDevice>,
    ) -> Result<Measurement, WorkloadError> {
        self.start(handle, device)?.finish().await
    }
}

struct BlockStream {
    device: Rc<dyn BlockDevice>,
    operation: BlockOperation,
    request: BlockCount,
    /// Places of its requests.
    range: Range<u64>,
    /// Places that a sequential job has left.
    left: Range<u64>,
    source: Bytes,
    random: Random,
}

type Answer<T> = Pin<Box<dyn Future<Output = Result<T, BlockError>>>>;

/// A request in flight.
enum BlockReply {
    Read(Answer<Vec<Bytes>>),
    Write(Answer<()>),
}

impl Stream for BlockStream {
    type Reply = BlockReply;

    fn start(&mut self, _requests: u32) -> Next<BlockReply> {
        let Some(slot) = self.next_slot() else { return Next::Nothing };
        let lba = Lba(slot * u64::from(self.request.0));
        let reply = match self.operation {
            BlockOperation::RandomRead | BlockOperation::SequentialRead => {
                BlockReply::Read(self.device.read(lba, self.request.0))
            }
            BlockOperation::RandomWrite | BlockOperation::SequentialWrite => {
                BlockReply::Write(self.device.write(lba, vec![self.source.clone()], false))
            }
        };
        Next::Started(Started { reply, bytes: self.request.data_bytes() as u64 })
    }
}

impl BlockStream {
    /// The place of the next request; `None` at the end of a job.
    fn next_slot(&mut self) -> Option<u64> {
        match self.operation {
            BlockOperation::RandomRead | BlockOperation::RandomWrite => {
                Some(self.random.below(self.range.end))
            }
            BlockOperation::SequentialWrite => self.left.next(),
            BlockOperation::SequentialRead => {
                if self.left.is_empty() {
                    self.left = self.range.clone();
                }
                self.left.next()
            }
        }
    }
}

impl Future for BlockReply {
    type Output = Result<(), WorkloadError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = match &mut *self {
            Self::Read(answer) => ready!(answer.as_mut().poll(context)).map(drop),
            Self::Write(answer) => ready!(answer.as_mut().poll(context)),
        };
        Poll::Ready(outcome.map_err(WorkloadError::from))
    }
}
