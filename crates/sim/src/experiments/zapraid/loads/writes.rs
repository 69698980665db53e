//! A run of random writes to an array, the basis of most experiments of the paper.

use std::rc::Rc;

use zoneweave_emulator::Preset;
use zoneweave_raid::log::{Auto, Lanes, SegmentStatus, Volume, WriteChoice, WritePolicy};
use zoneweave_raid::scheme::Scheme;
use zoneweave_runtime::Nanos;
use zoneweave_zoned::{BLOCK_BYTES, BlockDevice};

use crate::characterize::write_profile_of;
use crate::experiments::suite::Metric;
use crate::experiments::zapraid::baselines::raizn_spdk::RaiznSpdk;
use crate::experiments::zapraid::loads::random_writes::{Mix, RandomWrites};
use crate::experiments::{ExperimentError, Values};
use crate::testbed::host::ChargedWrites;
use crate::testbed::{Bench, Testbed};
use crate::workload::{Figures, Host};

/// Bytes that the paper writes in a run.
const WRITTEN_BYTES: f64 = 64.0 * 1_073_741_824.0;

/// Warm-up. A drive accepts 1,780 MiB/s until its write buffer of 40 MiB is full, and 1,050
/// afterwards. So the buffer is full after 98 MiB, and those of four drives after some 400 MiB, if
/// ever. After that the engine learns the drain rate of the drives for about a second.
pub(crate) const WARM_UP_BYTES: u64 = 4 << 30;

/// Upper bound of a drive's throughput, from its data path.
pub(crate) const PATH_MIB: f64 = 1780.0;

/// Spare zones of an array, beyond those that a run fills.
const SPARE_ZONES: u32 = 12;

pub(crate) const THROUGHPUT: Metric = Metric { name: "throughput", unit: "MiB/s" };
pub(crate) const P50: Metric = Metric { name: "p50 latency", unit: "us" };
pub(crate) const P95: Metric = Metric { name: "p95 latency", unit: "us" };
pub(crate) const P99: Metric = Metric { name: "p99 latency", unit: "us" };
/// Size of the stripe tables per GiB written.
pub(crate) const TABLE: Metric = Metric { name: "stripe table", unit: "KiB per GiB" };
/// Load of the thread that serves the drives.
pub(crate) const HOST: Metric = Metric { name: "host thread busy", unit: "%" };

/// Padding: blocks beyond those of users, mostly to fill stripes.
pub(crate) const PADDED: Metric = Metric { name: "padding", unit: "% of users' blocks" };

/// Metrics of a run of writes.
pub(crate) const WRITE_METRICS: &[Metric] = &[THROUGHPUT, P50, P95, P99, TABLE, PADDED, HOST];

/// The array's write mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    ZoneWrite,
    ZoneAppend,
    /// Groups of so many rows.
    Zapraid(u32),
    /// The engine's own policy for the drives: Zone Write of a zone's whole backlog, or Zone
    /// Append.
    Adaptive,
    /// The baseline instead of the engine.
    RaiznSpdk,
}

impl Mode {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::ZoneWrite => "zone-write",
            Self::ZoneAppend => "zone-append",
            Self::Zapraid(_) => "zapraid",
            Self::Adaptive => "adaptive",
            Self::RaiznSpdk => "raizn-spdk",
        }
    }

    /// The engine's write choice for drives of a preset.
    pub(crate) fn choice(
        self,
        small: Lanes,
        large: Lanes,
        preset: &Preset,
    ) -> Result<WriteChoice, ExperimentError> {
        let policy = match self {
            Self::ZoneWrite => WritePolicy::zone_write(small, large),
            Self::ZoneAppend => WritePolicy::zone_append(small, large),
            Self::Zapraid(rows) => WritePolicy::zapraid(small, large, rows),
            Self::Adaptive => {
                let (small, large) = (Some(small), Some(large));
                let profile = write_profile_of(preset)?;
                return Ok(WriteChoice::Auto(Auto { small, large, profile, ..Auto::default() }));
            }
            Self::RaiznSpdk => unreachable!("what is not the engine has no volume"),
        };
        Ok(WriteChoice::Policy(policy))
    }
}

/// A run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writes {
    pub(crate) preset: &'static str,
    pub(crate) scheme: Scheme,
    pub(crate) mode: Mode,
    pub(crate) small: Lanes,
    pub(crate) large: Lanes,
    pub(crate) mix: Mix,
    pub(crate) queue_depth: u32,
    /// Engine time on the host's thread for each block, in addition to drive commands.
    pub(crate) engine: Nanos,
}

impl Writes {
    /// The paper's default: 3 + 1 drives, one segment, 64 requests as large as a chunk.
    pub(crate) fn one_segment(mode: Mode, chunk_blocks: u32) -> Self {
        Self {
            preset: "zn540-4tb",
            scheme: three_and_one(),
            mode,
            small: Lanes { count: 1, chunk_blocks },
            large: Lanes { count: 0, chunk_blocks },
            mix: Mix::Uniform(chunk_blocks),
            queue_depth: 64,
            engine: Nanos::ZERO,
        }
    }

    /// Writes a part of the paper's data, and measures.
    pub(crate) fn run(&self, scale: f64, seed: u64) -> Result<Values, ExperimentError> {
        if self.mode != Mode::RaiznSpdk {
            return self.run_then(scale, seed, async |_, _, _| Ok(()));
        }
        let load = self.load(scale, seed)?;
        self.testbed(load.range, seed)?.run_drives(Host::SPDK, async |drives, bench| {
            let handle = bench.handle.clone();
            let array = RaiznSpdk::new(&handle, drives, self.small, self.large, load.range);
            measure(load, Rc::new(array), &bench).await
        })
    }

    /// The same with the engine, followed by `then`.
    pub(crate) fn run_then(
        &self,
        scale: f64,
        seed: u64,
        then: impl AsyncFnOnce(&Volume, &Bench, &mut Values) -> Result<(), ExperimentError>,
    ) -> Result<Values, ExperimentError> {
        let load = self.load(scale, seed)?;
        let choice = self.mode.choice(self.small, self.large, &Preset::by_name(self.preset)?)?;
        let chunk = if self.large.count > 0 { self.large } else { self.small }.chunk_blocks;
        self.testbed(load.range, seed)?.run_as(choice, chunk, Host::SPDK, async |volume, bench| {
            let own: Rc<dyn BlockDevice> = Rc::new(volume.clone());
            let thread = bench.thread.clone();
            let device = match self.engine {
                Nanos::ZERO => own,
                each => Rc::new(ChargedWrites { thread, volume: own, each }),
            };
            let mut values = measure(load, device, &bench).await?;
            values.put(TABLE.name, table_kib_per_gib(&volume, load.range));
            values.put(PADDED.name, 100.0 * (volume.status().write_amplification - 1.0));
            then(&volume, &bench, &mut values).await?;
            Ok(values)
        })
    }

    /// Blocks that requests choose from: as many as are written. The paper's volume has three times
    /// as many. Neither collects garbage.
    pub(crate) fn range(&self, scale: f64) -> Result<u64, ExperimentError> {
        self.load(scale, 0).map(|load| load.range)
    }

    /// The measured blocks fill whole segments. Where the flash of a zone is the bound, the first
    /// blocks of a segment are faster, because they fill the room that the previous one left in the
    /// drives' write buffers.
    fn load(&self, scale: f64, seed: u64) -> Result<RandomWrites, ExperimentError> {
        let (mix, queue_depth) = (self.mix, self.queue_depth);
        let segment = self.zone_blocks()? * self.columns();
        let blocks = written_blocks(scale).max(1).div_ceil(segment) * segment;
        let warm_up = WARM_UP_BYTES / BLOCK_BYTES as u64;
        assert_eq!(blocks % segment, 0, "the measured blocks fill whole segments");
        Ok(RandomWrites { mix, queue_depth, range: warm_up + blocks, warm_up, blocks, seed })
    }

    fn columns(&self) -> u64 {
        u64::try_from(self.scheme.data()).unwrap_or(u64::MAX)
    }

    /// User blocks of a zone: headers and summaries take less than a hundredth.
    fn zone_blocks(&self) -> Result<u64, ExperimentError> {
        let capacity = Preset::by_name(self.preset)?.geometry().zone_capacity;
        Ok(u64::from(capacity.0) * 99 / 100)
    }

    fn testbed(&self, blocks: u64, seed: u64) -> Result<Testbed, ExperimentError> {
        let testbed = Testbed::new(self.preset, self.scheme, self.zones(blocks)?, seed)?;
        Ok(testbed.allowing_segments(self.small.count + self.large.count))
    }

    /// Zones of each drive for so many blocks without garbage collection, as if each stripe held no
    /// more than the requests in flight.
    fn zones(&self, blocks: u64) -> Result<u32, ExperimentError> {
        let filled = self.columns().min(self.queue_depth.into());
        let zones = blocks.div_ceil(self.zone_blocks()? * filled);
        Ok(u32::try_from(zones).unwrap_or(u32::MAX / 2) + SPARE_ZONES)
    }
}

/// Writes, and measures the host's load as well.
async fn measure(
    writes: RandomWrites,
    device: Rc<dyn BlockDevice>,
    bench: &Bench,
) -> Result<Values, ExperimentError> {
    let (begun, busy) = (bench.handle.now(), bench.thread.busy());
    let figures = writes.run(&bench.handle, device).await?;
    assert!(figures.operations > 0, "a run measures something");
    let mut values = figures_of(&figures);
    let busy = bench.thread.busy().since(busy).as_secs_f64();
    values.put(HOST.name, 100.0 * busy / bench.handle.now().since(begun).as_secs_f64());
    Ok(values)
}

pub(crate) fn three_and_one() -> Scheme {
    Scheme::new(3, 1).expect("3 + 1 is a scheme")
}

/// A part of the paper's writes in a run.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some GiB")]
pub(crate) fn written_blocks(scale: f64) -> u64 {
    (WRITTEN_BYTES * scale) as u64 / BLOCK_BYTES as u64
}

/// Rates and latencies.
pub(crate) fn figures_of(figures: &Figures) -> Values {
    let mut values = Values::default();
    values.put(THROUGHPUT.name, figures.mib_per_second);
    values.put(P50.name, figures.p50_us);
    values.put(P95.name, figures.p95_us);
    values.put(P99.name, figures.p99_us);
    values
}

/// Memory of stripe tables, of written rows only, per GiB of user data.
#[expect(clippy::cast_precision_loss, reason = "some GiB")]
fn table_kib_per_gib(volume: &Volume, blocks: u64) -> f64 {
    let of_rows_written = |segment: &SegmentStatus| {
        let part = f64::from(segment.rows_started) / f64::from(segment.rows);
        segment.stripe_table_bytes as f64 * part
    };
    let bytes: f64 = volume.segments().iter().map(of_rows_written).sum();
    bytes / 1024.0 / (blocks as f64 * BLOCK_BYTES as f64 / 1_073_741_824.0)
}
