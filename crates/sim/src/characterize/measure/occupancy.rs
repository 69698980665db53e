//! Resets and finishes by zone occupancy (Fig. 5).

use zoneweave_runtime::Nanos;
use zoneweave_zoned::{BlockCount, ZoneAction, ZoneId};

use crate::characterize::bench::{Bench, Latencies};
use crate::characterize::{Action, CharacterizeError, Sample, Table};

/// Blocks written before the zone is reset, with or without a finish in between.
pub(super) async fn resets(bench: &mut Bench<'_>) -> Result<(), CharacterizeError> {
    let capacity = bench.drive.device.geometry().zone_capacity;
    for finished in [false, true] {
        let mut levels = levels(bench, capacity);
        levels.insert(0, BlockCount(0));
        // A full zone is finished already: one block is left out.
        levels.push(if finished { BlockCount(capacity.0 - 1) } else { capacity });
        for blocks in levels {
            let mut latencies = Latencies::new();
            for _ in 0..bench.plan.repeats {
                let zone = fill(bench, blocks).await?;
                if finished {
                    bench.drive.manage(zone, ZoneAction::Finish).await?;
                    bench.handle.sleep(bench.plan.settle).await;
                }
                latencies.add(bench.drive.manage(zone, ZoneAction::Reset).await?);
                bench.drive.put_back(zone);
            }
            let sample = latencies.sample(Table::Reset, Action::Reset);
            let occupancy_percent = Some(percent(blocks, capacity));
            bench.add(Sample { occupancy_percent, finished: Some(finished), ..sample });
        }
    }
    bench.tidy_up().await
}

/// Blocks written before the zone is finished; zero means opened and not written.
pub(super) async fn finishes(bench: &mut Bench<'_>) -> Result<(), CharacterizeError> {
    let capacity = bench.drive.device.geometry().zone_capacity;
    let mut levels = levels(bench, capacity);
    levels.insert(0, BlockCount(0));
    levels.push(BlockCount(capacity.0 - 1));
    for blocks in levels {
        let mut latencies = Latencies::new();
        for _ in 0..bench.plan.repeats {
            let zone = fill(bench, blocks).await?;
            if blocks.0 == 0 {
                bench.drive.manage(zone, ZoneAction::Open).await?;
            }
            latencies.add(bench.drive.manage(zone, ZoneAction::Finish).await?);
            reset(bench, zone).await?;
        }
        let sample = latencies.sample(Table::Finish, Action::Finish);
        bench.add(Sample { occupancy_percent: Some(percent(blocks, capacity)), ..sample });
    }
    bench.tidy_up().await
}

/// One block, and the plan's levels between empty and full.
fn levels(bench: &Bench<'_>, capacity: BlockCount) -> Vec<BlockCount> {
    let part = |level: &u32| {
        let blocks = u64::from(capacity.0) * u64::from(*level) / 10_000;
        BlockCount(u32::try_from(blocks).expect("a part of a zone"))
    };
    let parts = bench.plan.occupancies.iter().map(part);
    let mut levels: Vec<BlockCount> = std::iter::once(BlockCount(1)).chain(parts).collect();
    levels.retain(|blocks| blocks.0 > 0 && *blocks < capacity);
    levels.dedup();
    levels
}

async fn fill(bench: &mut Bench<'_>, blocks: BlockCount) -> Result<ZoneId, CharacterizeError> {
    let zone = bench.drive.take()?;
    bench.drive.fill(zone, blocks).await?;
    let settle = if blocks.0 > 0 { bench.plan.settle } else { Nanos::ZERO };
    bench.handle.sleep(settle).await;
    Ok(zone)
}

async fn reset(bench: &mut Bench<'_>, zone: ZoneId) -> Result<(), CharacterizeError> {
    bench.drive.manage(zone, ZoneAction::Reset).await?;
    bench.drive.put_back(zone);
    Ok(())
}

fn percent(blocks: BlockCount, capacity: BlockCount) -> f64 {
    f64::from(blocks.0) / f64::from(capacity.0) * 100.0
}
