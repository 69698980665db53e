//! More requests in flight: in one zone, over several zones, both (Fig. 4).

use zoneweave_zoned::BlockCount;

use super::{action_of, blocks_of_kib, takes};
use crate::characterize::bench::{Bench, sample_of};
use crate::characterize::{CharacterizeError, Sample, Stack, Table};
use crate::workload::{Host, Operation};

/// One zone, 4 KiB, by queue depth. Writes go through the scheduler, which accepts more than one
/// per zone.
pub(super) async fn intra_zone(bench: &mut Bench<'_>) -> Result<(), CharacterizeError> {
    bench.drive.prepare_reads(1).await?;
    bench.tidy_up().await?;
    let direct = bench.subject.stacks.direct;
    let mut series = vec![
        (Operation::RandomRead, Stack::Direct, direct),
        (Operation::Append, Stack::Direct, direct),
    ];
    if let Some(host) = bench.subject.stacks.scheduler {
        series.push((Operation::Write, Stack::Scheduler, host));
    }
    for (operation, stack, host) in series {
        for depth in bench.plan.depths.clone() {
            cell(bench, Table::IntraZone, operation, (BlockCount(1), 1, depth), stack, host)
                .await?;
        }
    }
    Ok(())
}

/// One request in flight in each zone, 4 KiB, by number of zones.
pub(super) async fn inter_zone(bench: &mut Bench<'_>) -> Result<(), CharacterizeError> {
    let counts = bench.zone_counts();
    let most = counts.iter().copied().max().unwrap_or(1);
    let free = u32::try_from(bench.drive.free()).unwrap_or(u32::MAX);
    // Zones filled for reads are lost to writes: a small drive keeps most of them for writes.
    let readable = most.min((free / 4).max(1));
    bench.drive.prepare_reads(readable).await?;
    bench.tidy_up().await?;
    let direct = bench.subject.stacks.direct;
    for operation in [Operation::Write, Operation::Append, Operation::RandomRead] {
        for zones in counts.iter().copied() {
            let limit = match operation {
                Operation::RandomRead => readable,
                _ => bench.drive.streams_max(),
            };
            if zones <= limit {
                let job = (BlockCount(1), zones, 1);
                cell(bench, Table::InterZone, operation, job, Stack::Direct, direct).await?;
            }
        }
    }
    Ok(())
}

/// Appends of 4 KiB, by number of zones and queue depth in each.
pub(super) async fn append_grid(bench: &mut Bench<'_>) -> Result<(), CharacterizeError> {
    let direct = bench.subject.stacks.direct;
    for zones in bench.zone_counts() {
        for depth in bench.plan.depths.clone().into_iter().filter(|depth| *depth <= 32) {
            let job = (BlockCount(1), zones, depth);
            cell(bench, Table::AppendGrid, Operation::Append, job, Stack::Direct, direct).await?;
        }
    }
    Ok(())
}

/// Writes over zones, appends in one zone and over zones, by request size and concurrency.
pub(super) async fn bandwidth(bench: &mut Bench<'_>) -> Result<(), CharacterizeError> {
    let direct = bench.subject.stacks.direct;
    for kib in bench.plan.request_kib.clone() {
        let request = blocks_of_kib(kib);
        for concurrency in bench.zone_counts() {
            let mut kinds =
                vec![(Operation::Write, concurrency, 1), (Operation::Append, 1, concurrency)];
            // With one request in flight the two kinds of appends are the same.
            if concurrency > 1 {
                kinds.push((Operation::Append, concurrency, 1));
            }
            for (operation, zones, depth) in kinds {
                let job = (request, zones, depth);
                cell(bench, Table::Bandwidth, operation, job, Stack::Direct, direct).await?;
            }
        }
    }
    Ok(())
}

async fn cell(
    bench: &mut Bench<'_>,
    table: Table,
    operation: Operation,
    job: (BlockCount, u32, u32),
    stack: Stack,
    host: Host,
) -> Result<(), CharacterizeError> {
    let (request, zones, depth) = job;
    if !takes(bench, operation, request) {
        return Ok(());
    }
    let pace = bench.pace(depth, host);
    let measured = bench.run(operation, request, zones, pace).await?;
    bench.add(Sample { stack, ..sample_of(table, action_of(operation), job, &measured) });
    Ok(())
}
