//! Resets and finishes during I/O, and I/O during them (Fig. 7).
//!
//! The I/O has one request in flight, as in the paper. Beyond the paper it is also measured at a
//! depth that keeps the drive busy.

use zoneweave_runtime::Nanos;
use zoneweave_zoned::{BlockCount, ZoneAction, ZoneId};

use super::action_of;
use crate::characterize::bench::{Bench, Latencies, endless, sample_of};
use crate::characterize::{Action, Beside, CharacterizeError, Sample, Table};
use crate::workload::{Figures, Operation, Pace};

/// The I/O: operation, zones, depth.
type Load = (Operation, u32, u32);

/// One request in flight each, then busy: below the drive's limits, so that latencies are not
/// dominated by queues.
const LOADS: [Load; 6] = [
    (Operation::RandomRead, 1, 1),
    (Operation::Write, 1, 1),
    (Operation::Append, 1, 1),
    (Operation::RandomRead, 1, 32),
    (Operation::Write, 4, 1),
    (Operation::Append, 1, 4),
];

/// How long I/O runs before the first reset.
const LEAD: Nanos = Nanos::from_millis(5);

pub(super) async fn interference(bench: &mut Bench<'_>) -> Result<(), CharacterizeError> {
    bench.drive.prepare_reads(1).await?;
    bench.tidy_up().await?;
    let appends = bench.drive.device.geometry().append_limit.0 > 0;
    let most = bench.drive.streams_max();
    let loads = LOADS.into_iter().filter(|(operation, zones, _)| {
        (*operation != Operation::Append || appends) && *zones <= most
    });
    let loads: Vec<Load> = loads.collect();
    for action in [ZoneAction::Reset, ZoneAction::Finish] {
        let alone = manage_zones(bench, action, None).await?;
        bench.add(alone.0);
        for load in loads.iter().copied() {
            if action == ZoneAction::Reset {
                alone_io(bench, load).await?;
            }
            let (managed, io) = manage_zones(bench, action, Some(load)).await?;
            bench.add(managed);
            if let Some(io) = io {
                bench.add(io);
            }
        }
    }
    Ok(())
}

async fn alone_io(bench: &mut Bench<'_>, load: Load) -> Result<(), CharacterizeError> {
    let (operation, zones, depth) = load;
    let pace = bench.pace(depth, bench.subject.stacks.direct);
    let measured = bench.run(operation, BlockCount(1), zones, pace).await?;
    let job = (BlockCount(1), zones, depth);
    bench.add(sample_of(Table::Interference, action_of(operation), job, &measured));
    Ok(())
}

/// Resets full zones, or finishes half-full ones, during a load.
async fn manage_zones(
    bench: &mut Bench<'_>,
    action: ZoneAction,
    load: Option<Load>,
) -> Result<(Sample, Option<Sample>), CharacterizeError> {
    let zones = prepare(bench, action, load).await?;
    bench.handle.sleep(bench.plan.settle).await;
    let running = match load {
        Some((operation, streams, depth)) => {
            let pace: Pace = endless(bench.pace(depth, bench.subject.stacks.direct));
            let job = bench.drive.job(operation, BlockCount(1), streams, pace)?;
            let running = job.start(&bench.handle, &bench.drive.device)?;
            bench.handle.sleep(LEAD).await;
            Some(running)
        }
        None => None,
    };
    let mut latencies = Latencies::new();
    for zone in &zones {
        latencies.add(bench.drive.manage(*zone, action).await?);
    }
    let table = Table::Interference;
    let (name, occupancy) = match action {
        ZoneAction::Reset => (Action::Reset, 100.0),
        _ => (Action::Finish, 50.0),
    };
    let mut managed = latencies.sample(table, name);
    managed.occupancy_percent = Some(occupancy);
    let mut io = None;
    if let (Some(running), Some((operation, streams, depth))) = (running, load) {
        running.stop();
        let measured = running.finish().await?;
        let job = (BlockCount(1), streams, depth);
        let sample = sample_of(table, action_of(operation), job, &measured);
        managed.beside = Some(beside(action_of(operation), Some(&measured.figures)));
        (managed.zones, managed.queue_depth) = (streams, depth);
        io = Some(Sample { beside: Some(beside(name, None)), ..sample });
    }
    for zone in zones {
        bench.drive.put_back(zone);
    }
    bench.tidy_up().await?;
    Ok((managed, io))
}

/// Zones to reset (full) or to finish (half full, therefore active and few).
async fn prepare(
    bench: &mut Bench<'_>,
    action: ZoneAction,
    load: Option<Load>,
) -> Result<Vec<ZoneId>, CharacterizeError> {
    let streams = load.map_or(0, |(_, streams, _)| streams);
    let geometry = bench.drive.device.geometry();
    let capacity = geometry.zone_capacity;
    // The concurrent writes cycle through three zones per stream.
    let spare = u32::try_from(bench.drive.free()).unwrap_or(u32::MAX).saturating_sub(3 * streams);
    let (blocks, limit) = match action {
        ZoneAction::Reset => (capacity, spare / 2),
        _ => {
            let active = geometry.max_active.or(geometry.max_open).unwrap_or(8);
            (BlockCount(capacity.0 / 2), (spare / 2).min(active.saturating_sub(streams)).min(3))
        }
    };
    let mut zones = Vec::new();
    for _ in 0..bench.plan.repeats.min(limit).max(1) {
        let zone = bench.drive.take()?;
        bench.drive.fill(zone, blocks).await?;
        zones.push(zone);
    }
    Ok(zones)
}

fn beside(action: Action, figures: Option<&Figures>) -> Beside {
    let mib_per_second = figures.map(|figures| figures.mib_per_second);
    Beside { action, asked_mib_per_second: None, mib_per_second }
}
