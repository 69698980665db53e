//! Reads during writes that saturate the drive, on the zoned drive and on its conventional twin
//! (Fig. 6).
//!
//! Four threads keep 128 MiB of writes in flight, as in the data set. On the zoned drive they
//! append, and reset zones when none is empty. On the conventional drive they write at random
//! places after one full overwrite, so that it collects garbage all the time.

use std::rc::Rc;

use zoneweave_zoned::{BlockCount, BlockDevice};

use super::takes;
use crate::characterize::bench::{Bench, endless};
use crate::characterize::{Action, Beside, CharacterizeError, Sample, Series, Subsystem, Table};
use crate::workload::{
    BlockJob, BlockOperation, Length, Measurement, Operation, Pace, Running, Second, WorkloadError,
};

/// Writing threads.
const WRITERS: u32 = 4;

/// Bytes that each of them keeps in flight, in blocks.
const IN_FLIGHT: BlockCount = BlockCount(32 * 256);

/// Reads in flight; none to measure the writes alone.
const READ_DEPTHS: [u32; 3] = [0, 1, 32];

pub(super) async fn saturation(bench: &mut Bench<'_>) -> Result<(), CharacterizeError> {
    bench.drive.prepare_reads(1).await?;
    bench.tidy_up().await?;
    for depth in READ_DEPTHS {
        zoned(bench, depth).await?;
    }
    if let Some(device) = bench.subject.conventional.clone() {
        overwrite(bench, &device).await?;
        for depth in READ_DEPTHS {
            conventional(bench, &device, depth).await?;
        }
    }
    Ok(())
}

async fn zoned(bench: &mut Bench<'_>, read_depth: u32) -> Result<(), CharacterizeError> {
    let geometry = bench.drive.device.geometry();
    let appends = takes(bench, Operation::Append, BlockCount(1));
    let (operation, largest) = if appends {
        (Operation::Append, geometry.append_limit.min(geometry.max_transfer))
    } else {
        (Operation::Write, geometry.max_transfer)
    };
    let request = largest.min(BlockCount(256));
    // At most half a zone: otherwise a stream enters the next zone before its writes are counted.
    let in_flight = IN_FLIGHT.min(BlockCount(geometry.zone_capacity.0 / 2));
    let depth = (in_flight.0 / request.0).max(1);
    assert!(request.0 > 0, "a drive accepts a block");
    let writers = WRITERS.min(bench.drive.streams_max());
    let job = bench.drive.job(operation, request, writers, writer_pace(bench, depth))?;
    let writer = job.start(&bench.handle, &bench.drive.device)?;
    let reader = if read_depth > 0 {
        let job = bench.drive.job(
            Operation::RandomRead,
            BlockCount(1),
            1,
            reader_pace(bench, read_depth),
        )?;
        Some(job.start(&bench.handle, &bench.drive.device)?)
    } else {
        None
    };
    let (written, read) = both(writer, reader).await?;
    let action = if appends { Action::Append } else { Action::Write };
    record(
        bench,
        Subsystem::Zoned,
        (action, request, writers, depth),
        &written,
        (read_depth, read),
    );
    bench.tidy_up().await
}

/// Fills the conventional drive, then writes the same amount at random.
async fn overwrite(
    bench: &Bench<'_>,
    device: &Rc<dyn BlockDevice>,
) -> Result<(), CharacterizeError> {
    let blocks = device.info().blocks;
    let request = BlockCount(32);
    let job = |operation, length| {
        let pace = Pace { length, ..bench.pace(8, bench.subject.stacks.direct) };
        BlockJob { operation, request, streams: WRITERS, blocks, pace }
    };
    let fill = job(BlockOperation::SequentialWrite, Length::endless());
    fill.run(&bench.handle, device).await?;
    let again = Length::counting(blocks / u64::from(request.0));
    job(BlockOperation::RandomWrite, again).run(&bench.handle, device).await?;
    Ok(())
}

async fn conventional(
    bench: &mut Bench<'_>,
    device: &Rc<dyn BlockDevice>,
    read_depth: u32,
) -> Result<(), CharacterizeError> {
    let blocks = device.info().blocks;
    let request = BlockCount(32);
    let depth = IN_FLIGHT.0 / request.0;
    let job =
        |operation, request, streams, pace| BlockJob { operation, request, streams, blocks, pace };
    let write = job(BlockOperation::RandomWrite, request, WRITERS, writer_pace(bench, depth));
    let writer = write.start(&bench.handle, device)?;
    let reader = if read_depth > 0 {
        let pace = reader_pace(bench, read_depth);
        let read = job(BlockOperation::RandomRead, BlockCount(1), 1, pace);
        Some(read.start(&bench.handle, device)?)
    } else {
        None
    };
    let (written, read) = both(writer, reader).await?;
    let writes = (Action::RandomWrite, request, WRITERS, depth);
    record(bench, Subsystem::Conventional, writes, &written, (read_depth, read));
    bench.handle.sleep(bench.plan.pause).await;
    Ok(())
}

fn writer_pace(bench: &Bench<'_>, depth: u32) -> Pace {
    Pace { length: bench.plan.saturation, ..bench.pace(depth, bench.subject.stacks.direct) }
}

/// Reads start with the writes, and stop when those are done.
fn reader_pace(bench: &Bench<'_>, depth: u32) -> Pace {
    let pace = endless(bench.pace(depth, bench.subject.stacks.direct));
    let warm_up = bench.plan.saturation.warm_up;
    Pace { length: Length { warm_up, ..pace.length }, ..pace }
}

/// Waits for the writes, then ends the reads.
async fn both(
    writer: Running,
    reader: Option<Running>,
) -> Result<(Measurement, Option<Measurement>), WorkloadError> {
    let written = writer.finish().await?;
    let Some(reader) = reader else { return Ok((written, None)) };
    reader.stop();
    Ok((written, Some(reader.finish().await?)))
}

fn record(
    bench: &mut Bench<'_>,
    drive: Subsystem,
    writes: (Action, BlockCount, u32, u32),
    written: &Measurement,
    reads: (u32, Option<Measurement>),
) {
    let (action, request, zones, queue_depth) = writes;
    let (read_depth, read) = reads;
    let beside = |action, figures: f64| Beside {
        action,
        asked_mib_per_second: None,
        mib_per_second: Some(figures),
    };
    bench.add(Sample {
        drive,
        request_bytes: request.data_bytes() as u64,
        zones,
        queue_depth,
        beside: read.as_ref().map(|read| beside(Action::RandomRead, read.figures.mib_per_second)),
        ..Sample::new(Table::Saturation, action, written.figures)
    });
    let seconds = whole_seconds(written);
    assert!(read.is_some() == (read_depth > 0), "reads are measured if there are any");
    let line = series(drive, action, read_depth, seconds, written);
    bench.results.series.push(line);
    if let Some(read) = read {
        bench.add(Sample {
            drive,
            request_bytes: 4096,
            queue_depth: read_depth,
            beside: Some(beside(action, written.figures.mib_per_second)),
            ..Sample::new(Table::Saturation, Action::RandomRead, read.figures)
        });
        let line = series(drive, Action::RandomRead, read_depth, seconds, &read);
        bench.results.series.push(line);
    }
}

/// A job's throughput per second.
#[expect(clippy::cast_precision_loss, reason = "bytes of a second")]
fn series(
    drive: Subsystem,
    action: Action,
    read_depth: u32,
    seconds: usize,
    measured: &Measurement,
) -> Series {
    let mut by_second = measured.seconds.clone();
    // The series ends early where nothing completes any more: the missing seconds are zero.
    by_second.resize(seconds, Second::default());
    let rates = by_second.iter().map(|second| second.bytes as f64 / f64::from(1 << 20));
    Series { drive, action, read_depth, mib_per_second: rates.collect() }
}

/// Seconds that were measured completely.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds of a run")]
fn whole_seconds(written: &Measurement) -> usize {
    (written.figures.seconds + 1e-6) as usize
}
