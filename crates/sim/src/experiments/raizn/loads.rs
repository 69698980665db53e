//! The workloads of Fig. 7 to 9 and of Fig. 11, on both arrays and on one drive.

use std::rc::Rc;

use zoneweave_raid::scheme::Column;
use zoneweave_runtime::{Executor, Handle, Nanos, VirtualTime};
use zoneweave_zoned::{BLOCK_BYTES, BlockCount, BlockDevice, ZoneId, ZonedDevice};

use crate::experiments::raizn::array::{
    DATA, UNIT, ZonedArray, fill, written_by_users, written_to,
};
use crate::experiments::raizn::md::ConventionalArray;
use crate::experiments::raizn::method::{AMPLIFICATION, figures_of, ratio};
use crate::experiments::{ExperimentError, Values};
use crate::workload::{
    BlockJob, BlockOperation, Host, Job, Length, Measurement, Operation, Pace, Refill,
};

/// Bytes that a point measures at full scale. The paper writes and reads 1 TiB, but drives without
/// garbage collection remember no more than their write buffer.
const MEASURED_BYTES: f64 = 16.0 * 1_073_741_824.0;

/// Blocks of each zone, or of each eighth of the conventional array, that are written before reads.
const PRIMED: u32 = 32_768;

/// Pause behind them: write buffers of 40 MiB are empty after 35 ms.
const SETTLE: Nanos = Nanos::from_millis(100);

/// Zones of the volume. Eight are written at a time.
const ZONES: u32 = 16;

/// The drive that is lost in degraded reads, as in the paper.
const LOST: usize = 0;

/// The largest throughput that an array reaches during the warm-up, for its size.
const WARM_UP_BYTES: u64 = 2 << 30;

/// Paragraphs for the reports.
pub(super) const LOADS: &str = "\
As in the paper, `write` and `read` are sequential: eight jobs with 64 requests each in flight \
write a zone each, or read 128 MiB of it over and over. On `md` they have an eighth of the volume \
each. `random read` is one job with 256 requests in flight in the first 128 MiB of `raizn` and the \
first 1 GiB of `md`. A point measures 16 GiB, times the scale, after a warm-up: 250 ms for writes, \
by when all write buffers are full, and 20 ms for reads. The paper has 1 TiB. `md` starts with \
drives that are not full, so they collect no garbage.";

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Workload {
    Write,
    Read,
    RandomRead,
}

pub(super) const WORKLOADS: [Workload; 3] = [Workload::Write, Workload::Read, Workload::RandomRead];

/// The array under load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum System {
    Raizn,
    Md,
}

pub(super) const SYSTEMS: [System; 2] = [System::Raizn, System::Md];

/// A point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) system: System,
    pub(super) workload: Workload,
    /// Blocks of a request.
    pub(super) request: u32,
    /// Blocks of a stripe unit.
    pub(super) unit: u32,
    /// Whether a drive is missing.
    pub(super) is_degraded: bool,
}

/// How long a load lasts.
#[derive(Clone, Copy, Debug)]
struct Amount {
    warm_up: Nanos,
    bytes: u64,
    /// Blocks of a zone that are written before reads.
    primed: u32,
}

impl Workload {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::RandomRead => "random read",
        }
    }

    const fn streams(self) -> u32 {
        match self {
            Self::Write | Self::Read => 8,
            Self::RandomRead => 1,
        }
    }

    const fn queue_depth(self) -> u32 {
        match self {
            Self::Write | Self::Read => 64,
            Self::RandomRead => 256,
        }
    }

    const fn on_zones(self) -> Operation {
        match self {
            Self::Write => Operation::Write,
            Self::Read => Operation::SequentialRead,
            Self::RandomRead => Operation::RandomRead,
        }
    }

    const fn on_blocks(self) -> BlockOperation {
        match self {
            Self::Write => BlockOperation::SequentialWrite,
            Self::Read => BlockOperation::SequentialRead,
            Self::RandomRead => BlockOperation::RandomRead,
        }
    }

    /// The amount at a scale.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some GiB")]
    fn amount(self, scale: f64) -> Amount {
        let warm_up = match self {
            Self::Write => Nanos::from_millis(250),
            Self::Read | Self::RandomRead => Nanos::from_millis(20),
        };
        Amount { warm_up, bytes: (MEASURED_BYTES * scale) as u64, primed: PRIMED }
    }
}

impl System {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Raizn => "raizn",
            Self::Md => "md",
        }
    }
}

impl Load {
    /// A load on an array with units of 64 KiB.
    pub(super) fn new(system: System, workload: Workload, request: u32) -> Self {
        Self { system, workload, request, unit: UNIT, is_degraded: false }
    }

    /// Measures a part of the amount.
    pub(super) fn run(&self, scale: f64, seed: u64) -> Result<Values, ExperimentError> {
        self.measure(self.workload.amount(scale), seed)
    }

    fn measure(&self, amount: Amount, seed: u64) -> Result<Values, ExperimentError> {
        assert!(self.request > 0 && self.unit > 0, "{self:?}");
        assert!(!self.is_degraded || self.workload != Workload::Write, "only reads are degraded");
        match self.system {
            System::Raizn => self.on_raizn(amount, seed),
            System::Md => self.on_md(amount, seed),
        }
    }

    fn on_raizn(&self, amount: Amount, seed: u64) -> Result<Values, ExperimentError> {
        let array = ZonedArray::new(self.unit, ZONES, seed)?;
        array.run(async |volume, handle, drives| {
            let device: Rc<dyn ZonedDevice> = Rc::new(volume.clone());
            if self.workload != Workload::Write {
                prime(&handle, &device, self.workload, amount).await?;
            }
            if self.is_degraded {
                volume.fail(Column::of(LOST)).await.expect("a drive of a healthy array fails");
            }
            let before = written_to(drives);
            let job = zoned_job(self.workload, self.request, amount, seed);
            let measured = job.run(&handle, &device).await?;
            let mut values = figures_of(&measured.figures);
            if self.workload == Workload::Write {
                // It waits for all commands that it counts.
                let users = written_by_users(&device).await?;
                let written = written_to(drives) - before;
                values.put(AMPLIFICATION.name, ratio(written, users));
            }
            Ok(values)
        })
    }

    fn on_md(&self, amount: Amount, seed: u64) -> Result<Values, ExperimentError> {
        let (unit, is_write) = (self.unit, self.workload == Workload::Write);
        // Jobs begin at whole stripes of any unit size.
        let blocks = match is_write {
            true => of_jobs((WARM_UP_BYTES + amount.bytes) / BLOCK_BYTES as u64),
            false => of_jobs(8 * u64::from(amount.primed)),
        };
        let of_drive = blocks / u64::from(DATA);
        let written = if is_write { 0 } else { of_drive };
        let array = ConventionalArray { unit, blocks: of_drive, written, blank: None, seed };
        array.run(async |md, handle, _| {
            if self.is_degraded {
                md.lose(LOST);
            }
            let device: Rc<dyn BlockDevice> = Rc::new(md);
            let job = BlockJob {
                operation: self.workload.on_blocks(),
                request: BlockCount(self.request),
                streams: self.workload.streams(),
                blocks,
                pace: pace(self.workload, self.request, amount, seed),
            };
            Ok(figures_of(&job.run(&handle, &device).await?.figures))
        })
    }
}

/// The same load on one drive without an array.
pub(super) fn on_one_drive(
    workload: Workload,
    request: u32,
    scale: f64,
    seed: u64,
) -> Result<Values, ExperimentError> {
    one_drive(workload, request, workload.amount(scale), seed)
}

fn one_drive(
    workload: Workload,
    request: u32,
    amount: Amount,
    seed: u64,
) -> Result<Values, ExperimentError> {
    let drive = ZonedArray::new(UNIT, ZONES, seed)?.drive(0)?;
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let handle = executor.handle();
    let device = drive.attach(&handle);
    let measured =
        executor.run(measure_drive(&handle, &device, workload, request, amount, seed))?;
    Ok(figures_of(&measured.figures))
}

async fn measure_drive(
    handle: &Handle,
    device: &Rc<dyn ZonedDevice>,
    workload: Workload,
    request: u32,
    amount: Amount,
    seed: u64,
) -> Result<Measurement, ExperimentError> {
    if workload != Workload::Write {
        prime(handle, device, workload, amount).await?;
    }
    Ok(zoned_job(workload, request, amount, seed).run(handle, device).await?)
}

/// Writes the blocks that a workload reads.
async fn prime(
    handle: &Handle,
    device: &Rc<dyn ZonedDevice>,
    workload: Workload,
    amount: Amount,
) -> Result<(), ExperimentError> {
    for zone in 0..workload.streams() {
        fill(device, ZoneId(zone), BlockCount(amount.primed)).await?;
    }
    handle.sleep(SETTLE).await;
    Ok(())
}

fn zoned_job(workload: Workload, request: u32, amount: Amount, seed: u64) -> Job {
    Job {
        operation: workload.on_zones(),
        request: BlockCount(request),
        streams: workload.streams(),
        zones: (0..ZONES).map(ZoneId).collect(),
        written: BlockCount(if workload == Workload::Write { 0 } else { amount.primed }),
        refill: Refill::Stop,
        pace: pace(workload, request, amount, seed),
    }
}

fn pace(workload: Workload, request: u32, amount: Amount, seed: u64) -> Pace {
    let operations = amount.bytes / BlockCount(request).data_bytes() as u64;
    let warm_up = amount.warm_up;
    let length = Length { warm_up, duration: Nanos(u64::MAX), operations: operations.max(1) };
    let queue_depth = workload.queue_depth();
    Pace { queue_depth, host: Host::NONE, rate_bytes_per_second: None, length, seed }
}

/// At least so many blocks, in eight parts that are whole stripes and requests of any size here.
fn of_jobs(blocks: u64) -> u64 {
    blocks.next_multiple_of(8 * 256)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::raizn::method::{P50, P999, THROUGHPUT};
    use crate::experiments::suite::Metric;

    /// Reads of more than is primed go on at the beginning.
    const TINY: Amount = Amount { warm_up: Nanos::ZERO, bytes: 16 << 20, primed: 256 };

    #[test]
    fn every_workload_is_measured_on_both_arrays() {
        for system in SYSTEMS {
            for workload in WORKLOADS {
                for is_degraded in [false, true] {
                    if is_degraded && workload == Workload::Write {
                        continue;
                    }
                    let load = Load { is_degraded, ..Load::new(system, workload, 16) };
                    let values = load.measure(TINY, 1).unwrap();
                    let of = |metric: Metric| values.get(metric.name).unwrap();
                    assert!(of(THROUGHPUT) > 100.0, "{load:?}: {values:?}");
                    assert!(of(P50) > 0.0 && of(P50) <= of(P999), "{load:?}: {values:?}");
                }
            }
        }
        let drive = one_drive(Workload::Read, 16, TINY, 1).unwrap();
        assert!(drive.get(THROUGHPUT.name).unwrap() > 100.0);
    }

    #[test]
    fn writes_of_whole_stripes_cost_their_parity() {
        let of = |request| {
            let load = Load::new(System::Raizn, Workload::Write, request);
            load.measure(TINY, 1).unwrap().get(AMPLIFICATION.name).unwrap()
        };
        let whole = of(64);
        assert!((1.24..1.27).contains(&whole), "a quarter is parity: {whole}");
        assert!(of(1) > 2.0, "a header and a block of parity for most blocks");
    }
}
