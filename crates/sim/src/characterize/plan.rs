//! How long and how finely to measure.

use zoneweave_runtime::Nanos;

use crate::workload::Length;

/// The sizes of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Of each job.
    pub length: Length,
    /// Pause between two measurements, for the drive's background work.
    pub pause: Nanos,
    /// Between filling a zone and measuring its reset or finish.
    pub settle: Nanos,
    /// Of jobs that saturate the drive.
    pub saturation: Length,
    /// Zones for each point of resets and finishes.
    pub repeats: u32,
    /// Zones for the costs of opening and closing.
    pub opens: u32,
    /// Request sizes, in KiB.
    pub request_kib: Vec<u32>,
    /// Queue depths.
    pub depths: Vec<u32>,
    /// Numbers of zones; those above the drive's limit become the limit.
    pub zones: Vec<u32>,
    /// Occupancies between empty and full, in hundredths of a percent.
    pub occupancies: Vec<u32>,
    /// Rates of writes during reads, in MiB/s.
    pub rates_mib: Vec<u32>,
    /// Seed of random choices.
    pub seed: u64,
}

impl Plan {
    /// The paper's programme for a drive in virtual time.
    #[must_use]
    pub fn full() -> Self {
        Self {
            // The warm-up fills a write buffer of some 40 MiB even if it drains nearly as fast as
            // it fills.
            length: Length {
                warm_up: Nanos::from_millis(200),
                duration: Nanos::from_millis(500),
                operations: 200_000,
            },
            pause: Nanos::from_millis(100),
            settle: Nanos::from_secs(1),
            saturation: saturating(2_000, 60_000),
            repeats: 20,
            opens: 100,
            request_kib: vec![4, 8, 16, 32, 64, 128],
            depths: vec![1, 2, 4, 8, 16, 32, 64, 128, 256],
            zones: vec![1, 2, 4, 8, 14],
            occupancies: vec![625, 1250, 2500, 5000],
            rates_mib: vec![0, 10, 50, 100, 250, 500, 1000],
            seed: 1,
        }
    }

    /// A coarse run: every table, fewer points, each of them short.
    #[must_use]
    pub fn quick() -> Self {
        Self {
            length: Length {
                warm_up: Nanos::from_millis(100),
                duration: Nanos::from_millis(100),
                operations: 10_000,
            },
            pause: Nanos::from_millis(5),
            // A full write buffer of 40 MiB is written out in 35 ms.
            settle: Nanos::from_millis(60),
            saturation: saturating(100, 3_000),
            repeats: 3,
            opens: 8,
            request_kib: vec![4, 8, 32, 128],
            depths: vec![1, 4, 32, 128],
            zones: vec![1, 2, 4, 8],
            occupancies: vec![2500, 5000],
            rates_mib: vec![0, 100, 500],
            ..Self::full()
        }
    }

    /// The programme for a drive in real time: as [`Plan::full`], in a quarter of an hour.
    #[must_use]
    pub fn real_time() -> Self {
        Self {
            pause: Nanos::from_millis(20),
            settle: Nanos::from_millis(100),
            saturation: saturating(1_000, 20_000),
            ..Self::full()
        }
    }
}

/// A million writes are enough for a drive without latencies; a drive with latencies takes longer.
fn saturating(warm_up_ms: u64, duration_ms: u64) -> Length {
    Length {
        warm_up: Nanos::from_millis(warm_up_ms),
        duration: Nanos::from_millis(duration_ms),
        operations: 1_000_000,
    }
}
