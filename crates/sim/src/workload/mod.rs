//! Jobs that keep a drive busy, and what they measure.
//!
//! A [`Job`] runs on a zoned drive, a [`BlockJob`] on a block device: so many requests in flight on so
//! many streams, each stream one thread of the host that is modelled by [`Host`], for some time
//! or at some rate. A stream fills one zone after the other from the zones it is given. What comes
//! back is a [`Measurement`]: rates, the distribution of latencies, and a series by second. A [`Driver`] sends a
//! block device requests that somebody else draws, also at given times.
//!
//! Jobs run on the caller's executor, in virtual or real time, and never start threads. Their
//! random choices come from a seed. Each stream has `queue_depth` tasks at most, so a job is as
//! bounded as its description.
//!
//! Any failed command ends the job with an error: a measurement of a drive that fails is none.

mod block;
mod host;
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
pub use measurement::{Figures, Measurement, Recorder, Second};
pub use requests::{BlockRequest, Direction, Driven, Driver};
pub use run::Running;
pub use zoned::{Job, Operation, Refill};

/// When a job ends: with whatever comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// Nothing is counted before that long after the start.
    pub warm_up: Nanos,
    /// Measured time.
    pub duration: Nanos,
    /// Measured requests.
    pub operations: u64,
}

impl Length {
    /// Some time after some other time, however many requests that makes.
    #[must_use]
    pub const fn lasting(warm_up: Nanos, duration: Nanos) -> Self {
        Self { warm_up, duration, operations: u64::MAX }
    }

    /// So many requests, however long they take.
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

/// How a job presses its requests upon the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Requests in flight on each stream.
    pub queue_depth: u32,
    /// The host's share in each request.
    pub host: Host,
    /// A limit for all streams together, in bytes a second. Requests that are late are made up for.
    pub rate_bytes_per_second: Option<u64>,
    /// When to end.
    pub length: Length,
    /// Random choices.
    pub seed: u64,
}

/// Why a job ended early.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum WorkloadError {
    /// The drive failed a command.
    #[error("{operation} of {zone} failed: {status}")]
    Drive {
        /// What was asked of the drive.
        operation: &'static str,
        /// Where.
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
