//! Costs of opening and closing zones (Observation 9).
//!
//! Each zone is opened explicitly, by a write, or by an append. Some steady writes or appends
//! follow, a close, and a write that opens the zone again.

use zoneweave_runtime::Nanos;
use zoneweave_zoned::{BlockCount, ZoneAction, ZoneAddress};

use crate::characterize::bench::{Bench, Latencies};
use crate::characterize::{Action, CharacterizeError, Sample, Table};

/// Requests after the first one of a zone, before it is closed.
const STEADY: u32 = 32;

/// How a zone is opened.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Opening {
    Explicit,
    ByWrite,
    ByAppend,
}

/// Latencies by operation.
struct Costs {
    opened: Latencies,
    first: Latencies,
    steady: Latencies,
    closed: Latencies,
    reopened: Latencies,
}

pub(super) async fn open_close(bench: &mut Bench<'_>) -> Result<(), CharacterizeError> {
    let appends = bench.drive.device.geometry().append_limit.0 > 0;
    let room = bench.drive.device.geometry().zone_capacity.0 > STEADY + 2;
    if !room {
        return Ok(());
    }
    for opening in [Opening::Explicit, Opening::ByWrite, Opening::ByAppend] {
        if opening == Opening::ByAppend && !appends {
            continue;
        }
        let new = Latencies::new;
        let mut costs =
            Costs { opened: new(), first: new(), steady: new(), closed: new(), reopened: new() };
        for _ in 0..bench.plan.opens {
            one_zone(bench, opening, &mut costs).await?;
        }
        add(bench, opening, &costs);
    }
    bench.tidy_up().await
}

async fn one_zone(
    bench: &mut Bench<'_>,
    opening: Opening,
    costs: &mut Costs,
) -> Result<(), CharacterizeError> {
    let zone = bench.drive.take()?;
    let drive = &bench.drive;
    if opening == Opening::Explicit {
        costs.opened.add(drive.manage(zone, ZoneAction::Open).await?);
    }
    for offset in 0..=STEADY {
        // A polling thread pauses between two commands; so does this loop.
        bench.handle.sleep(bench.subject.stacks.direct.submission_gap).await;
        let latency: Nanos = match opening {
            Opening::ByAppend => drive.append(zone).await?,
            _ => drive.write(ZoneAddress::new(zone, offset), BlockCount(1)).await?,
        };
        let costs = if offset == 0 { &mut costs.first } else { &mut costs.steady };
        costs.add(latency);
    }
    costs.closed.add(drive.manage(zone, ZoneAction::Close).await?);
    let next = ZoneAddress::new(zone, STEADY + 1);
    costs.reopened.add(drive.write(next, BlockCount(1)).await?);
    drive.manage(zone, ZoneAction::Reset).await?;
    bench.drive.put_back(zone);
    Ok(())
}

fn add(bench: &mut Bench<'_>, opening: Opening, costs: &Costs) {
    let (steady, first) = match opening {
        Opening::Explicit => (Action::Write, None),
        Opening::ByWrite => (Action::Write, Some(Action::FirstWrite)),
        Opening::ByAppend => (Action::Append, Some(Action::FirstAppend)),
    };
    let explicit = Some(opening == Opening::Explicit);
    let mut add = |action, latencies: &Latencies, request_bytes| {
        let sample = latencies.sample(Table::OpenClose, action);
        bench.add(Sample { explicit, request_bytes, ..sample });
    };
    if opening == Opening::Explicit {
        add(Action::Open, &costs.opened, 0);
    }
    if let Some(first) = first {
        add(first, &costs.first, 4096);
    }
    add(steady, &costs.steady, 4096);
    if opening != Opening::ByAppend {
        add(Action::Close, &costs.closed, 0);
        add(Action::WriteToClosed, &costs.reopened, 4096);
    }
}
