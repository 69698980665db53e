//! The host's time per request.
//!
//! The defaults are those of the calibration data. SPDK takes 0.5 us for a submission, which counts
//! as latency, and 0.45 us from a completion to the next one. `io_uring` adds 1.3 us to a request,
//! and the mq-deadline scheduler another 1.9 us. Where it merges the writes of a zone, that is 5.9
//! us for each merged write and 0.85 us for each request in it. On real drives the host's time is
//! part of the measurement: use [`Host::NONE`].

use zoneweave_runtime::Nanos;
use zoneweave_zoned::BlockCount;

/// A storage stack between a job and the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Processor time before each submission, excluded from the latency.
    pub submission_gap: Nanos,
    /// Processor time for each submission, included in the latency.
    pub submission: Nanos,
    /// Part of each request's latency.
    pub overhead: Nanos,
    /// Whether writes waiting for their zone are merged; then a zone has one write in flight.
    pub merging: Option<Merging>,
}

/// A scheduler that holds back writes to a zone while one is in flight, and merges them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merging {
    /// Time for a write passed on alone.
    pub single: Nanos,
    /// Time for a merged write.
    pub merged: Nanos,
    /// Time for each request of a merged write.
    pub each: Nanos,
    /// The largest merged write.
    pub largest: BlockCount,
}

impl Host {
    /// Nothing added.
    pub const NONE: Self = Self {
        submission_gap: Nanos::ZERO,
        submission: Nanos::ZERO,
        overhead: Nanos::ZERO,
        merging: None,
    };

    /// A polling driver in the process.
    pub const SPDK: Self =
        Self { submission_gap: Nanos(450), submission: Nanos(500), ..Self::NONE };

    /// The kernel without a scheduler.
    pub const IO_URING: Self = Self { overhead: Nanos(1_300), ..Self::SPDK };

    /// The kernel with a scheduler that merges writes, up to 512 KiB.
    pub const MQ_DEADLINE: Self = Self {
        merging: Some(Merging {
            single: Nanos(1_900),
            merged: Nanos(5_900),
            each: Nanos(850),
            largest: BlockCount(128),
        }),
        ..Self::IO_URING
    };
}
