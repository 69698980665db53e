//! Jobs that keep a drive busy, and their measurements.
//!
//! In the order of a request:
//!
//! - [`Job`] (`zoned`) and [`BlockJob`] (`block`) send requests on a number of streams; `run` has
//!   their common part. Each stream is one thread of the host, with a fixed queue depth, and
//!   optionally a rate.
//! - [`Host`] models the host's time per request, and `scheduler` merges writes as the kernel's
//!   block layer does.
//! - A [`Measurement`] has the rates, the latency distribution, and a series by second.
//! - A [`Driver`] (`requests`) sends single requests to a block device, also at given times.
//!
//! Invariants: jobs run on the caller's executor, in virtual or real time, and start no threads.
//! Random choices come from a seed. Each stream has at most `queue_depth` tasks, so memory is
//! bounded. Any failed command ends the job with an error, since figures of a failing drive mean
//! nothing.

mod block;
mod host;
mod lane;
mod measurement;
mod requests;
mod run;
mod scheduler;
mod zoned;

use thiserror::Error;
use zoneweave_runtime::Nanos;
use zoneweave_zoned::{BlockError, Status, ZoneId};

pub use block::{BlockJob, BlockOperation};
pub use host::{Host, Merging};
pub use lane::Running;
pub use measurement::{Figures, Measurement, Recorder, Second};
pub use requests::{BlockRequest, Direction, Driven, Driver};
pub use zoned::{Job, Operation, Refill};

/// End of a job: the first limit that is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// Time after the start in which nothing is counted.
    pub warm_up: Nanos,
    /// Measured time.
    pub duration: Nanos,
    /// Measured requests.
    pub operations: u64,
}

impl Length {
    /// For some time after a warm-up, with any number of requests.
    #[must_use]
    pub const fn lasting(warm_up: Nanos, duration: Nanos) -> Self {
        Self { warm_up, duration, operations: u64::MAX }
    }

    /// For a number of requests, with any duration.
    #[must_use]
    pub const fn counting(operations: u64) -> Self {
        Self { warm_up: Nanos::ZERO, duration: Nanos(u64::MAX), operations }
    }

    /// Until it is stopped.
    #[must_use]
    pub const fn endless() -> Self {
        Self::counting(u64::MAX)
    }
}

/// Intensity of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Requests in flight on each stream.
    pub queue_depth: u32,
    /// The host's time per request.
    pub host: Host,
    /// Limit for all streams together, in bytes per second. Late requests are made up for.
    pub rate_bytes_per_second: Option<u64>,
    /// The end of the job.
    pub length: Length,
    /// Seed of random choices.
    pub seed: u64,
}

/// The reason for an early end of a job.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum WorkloadError {
    /// The drive failed a command.
    #[error("{operation} of {zone} failed: {status}")]
    Drive {
        /// The command.
        operation: &'static str,
        /// The zone.
        zone: ZoneId,
        /// The drive's answer.
        status: Status,
    },
    /// The block device failed a request.
    #[error("a request to the block device failed: {0}")]
    Block(#[from] BlockError),
    /// The job cannot be carried out on this device.
    #[error("the job does not fit the device: {0}")]
    Impossible(&'static str),
}

#[cfg(test)]
mod tests;
