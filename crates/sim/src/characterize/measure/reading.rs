//! Reads of 4 KiB during rate-limited writes: one writer with one request in flight.

use zoneweave_zoned::BlockCount;

use super::{action_of, takes};
use crate::characterize::bench::{Bench, endless, sample_of};
use crate::characterize::{Action, Beside, CharacterizeError, Sample, Table};
use crate::workload::{Length, Operation};

/// Reads in flight.
const DEPTHS: [u32; 2] = [1, 16];

/// Writes are this large: 128 KiB, or the drive's largest transfer.
const WRITE: BlockCount = BlockCount(32);

pub(super) async fn read_under_write(bench: &mut Bench<'_>) -> Result<(), CharacterizeError> {
    bench.drive.prepare_reads(1).await?;
    bench.tidy_up().await?;
    if !takes(bench, Operation::RandomRead, BlockCount(1)) {
        return Ok(());
    }
    for depth in DEPTHS {
        for rate in bench.plan.rates_mib.clone() {
            point(bench, depth, rate).await?;
        }
    }
    Ok(())
}

async fn point(bench: &mut Bench<'_>, depth: u32, rate: u32) -> Result<(), CharacterizeError> {
    let direct = bench.subject.stacks.direct;
    let writer = if rate > 0 {
        let mut pace = endless(bench.pace(1, direct));
        pace.rate_bytes_per_second = Some(u64::from(rate) << 20);
        pace.length = Length { warm_up: bench.plan.length.warm_up, ..pace.length };
        let request = WRITE.min(bench.drive.device.geometry().max_transfer);
        let job = bench.drive.job(Operation::Write, request, 1, pace)?;
        Some(job.start(&bench.handle, &bench.drive.device)?)
    } else {
        None
    };
    let pace = bench.pace(depth, direct);
    let job = bench.drive.job(Operation::RandomRead, BlockCount(1), 1, pace)?;
    let read = job.run(&bench.handle, &bench.drive.device).await?;
    let written = match writer {
        Some(writer) => {
            writer.stop();
            writer.finish().await?.figures.mib_per_second
        }
        None => 0.0,
    };
    let job = (BlockCount(1), 1, depth);
    let sample = sample_of(Table::ReadUnderWrite, action_of(Operation::RandomRead), job, &read);
    let beside = Beside {
        action: Action::Write,
        asked_mib_per_second: Some(f64::from(rate)),
        mib_per_second: Some(written),
    };
    bench.add(Sample { beside: Some(beside), ..sample });
    bench.tidy_up().await
}
