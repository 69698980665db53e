//! One request in flight: by size (Fig. 3), LBA format (Fig. 2a) and host software (Fig. 2a).

use zoneweave_zoned::{BlockCount, ZoneId};

use super::{action_of, blocks_of_kib, takes};
use crate::characterize::bench::{Bench, Zones, sample_of};
use crate::characterize::{CharacterizeError, Sample, Stack, Table};
use crate::workload::Operation;

const OPERATIONS: [Operation; 4] =
    [Operation::Write, Operation::Append, Operation::RandomRead, Operation::SequentialRead];

pub(super) async fn request_sizes(bench: &mut Bench<'_>) -> Result<(), CharacterizeError> {
    bench.drive.prepare_reads(1).await?;
    bench.tidy_up().await?;
    for operation in OPERATIONS {
        for kib in bench.plan.request_kib.clone() {
            let request = blocks_of_kib(kib);
            if !takes(bench, operation, request) {
                continue;
            }
            let pace = bench.pace(1, bench.subject.stacks.direct);
            let measured = bench.run(operation, request, 1, pace).await?;
            bench.add(sample_of(
                Table::RequestSize,
                action_of(operation),
                (request, 1, 1),
                &measured,
            ));
        }
    }
    Ok(())
}

/// The drive in its own format, then in the others.
pub(super) async fn formats(bench: &mut Bench<'_>) -> Result<(), CharacterizeError> {
    let requests = [BlockCount(1), BlockCount(2)];
    for (format_bytes, device) in bench.subject.formats.clone() {
        let zones = (0..device.geometry().zones).map(ZoneId).collect();
        let mut drive = Zones::new(&bench.handle, bench.subject, device, zones).await?;
        for operation in [Operation::Write, Operation::Append] {
            for request in requests {
                if !takes(bench, operation, request) {
                    continue;
                }
                let pace = bench.pace(1, bench.subject.stacks.direct);
                let job = drive.job(operation, request, 1, pace)?;
                let measured = job.run(&bench.handle, &drive.device).await?;
                drive.tidy_up().await?;
                let job = (request, 1, 1);
                let sample = sample_of(Table::Format, action_of(operation), job, &measured);
                bench.add(Sample { format_bytes, ..sample });
            }
        }
    }
    Ok(())
}

pub(super) async fn stacks(bench: &mut Bench<'_>) -> Result<(), CharacterizeError> {
    let stacks = bench.subject.stacks;
    let hosts = [
        (Stack::Direct, Some(stacks.direct)),
        (Stack::Kernel, stacks.kernel),
        (Stack::Scheduler, stacks.scheduler),
    ];
    let request = BlockCount(1);
    for (stack, host) in hosts {
        let Some(host) = host else { continue };
        let measured = bench.run(Operation::Write, request, 1, bench.pace(1, host)).await?;
        let action = action_of(Operation::Write);
        let sample = sample_of(Table::Stack, action, (request, 1, 1), &measured);
        bench.add(Sample { stack, ..sample });
    }
    Ok(())
}
