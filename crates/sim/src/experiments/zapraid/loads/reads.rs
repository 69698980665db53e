//! Reads of chunks at random places, one at a time: normal or degraded.

use zoneweave_raid::log::Volume;
use zoneweave_runtime::{Nanos, Random};
use zoneweave_zoned::{BlockCount, BlockDevice, ExtentState, Lba};

use crate::experiments::ExperimentError;
use crate::testbed::Bench;
use crate::workload::{Figures, Recorder, WorkloadError};

/// Reads that count.
const READS: u64 = 4000;

/// Upper bound of reads, including those that do not count.
const TRIES: usize = 400_000;

/// Reads before a drive is taken out, enough of them on that drive.
const NORMAL_READS: usize = 40_000;

/// Polling interval while segments are relocated.
const LOOK: Nanos = Nanos::from_millis(1);

/// Time to look at one row of a stripe table, in ns.
const SEARCH_NS: f64 = 1.3;

/// The same, for the methods of experiments.
pub(crate) const SEARCH_METHOD: &str = "\
No computing time is modelled, except the search of the stripe table: the engine counts the rows \
that it examines, and each read takes 1.3 ns longer per row. That is the time on a core of an AMD \
EPYC (1.25 ns in groups of 256 rows, 1.45 ns in groups of 16,384; release build). The paper \
implies the same (768 entries in around 1 us).";

/// Which reads count. Both kinds read chunks of one drive: after it was taken out, parity has other
/// places on each drive, and latency depends on the place on a die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// Before the drive is taken out.
    Normal,
    /// Afterwards, by reconstruction.
    Degraded,
}

/// The result of a run of reads.
pub(crate) struct Reads {
    pub(crate) figures: Figures,
    /// Rows of stripe tables searched per read.
    pub(crate) rows: f64,
}

/// Reads chunks of the first blocks of a volume.
pub(crate) async fn read_at_random(
    volume: &Volume,
    bench: &Bench,
    which: Which,
    range: u64,
    chunk_blocks: u32,
    seed: u64,
) -> Result<Reads, ExperimentError> {
    let bytes = BlockCount(chunk_blocks).data_bytes() as u64;
    let mut random = Random::new(seed);
    let mut lbas = std::iter::repeat_with(|| {
        Lba(random.below(range / u64::from(chunk_blocks)) * u64::from(chunk_blocks))
    });
    let mut normal = Vec::new();
    if which == Which::Normal {
        for lba in lbas.by_ref().take(NORMAL_READS) {
            if let Some(read) = read_one(volume, bench, lba, chunk_blocks).await? {
                normal.push((lba, read));
            }
        }
    }
    take_drive_out(volume, bench, 0).await;
    let normal = normal.into_iter().map(|(lba, read)| (lba, Some(read)));
    let (mut recorder, mut span, mut searched) = (Recorder::new(), Nanos::ZERO, 0);
    let degraded = lbas.map(|lba| (lba, None)).take(if which == Which::Normal { 0 } else { TRIES });
    for (lba, before) in normal.chain(degraded) {
        let Some(read) = read_one(volume, bench, lba, chunk_blocks).await? else { continue };
        if !read.degraded {
            continue;
        }
        let One { latency, rows, .. } = before.unwrap_or(read);
        searched += rows;
        span += latency;
        recorder.record(latency, bytes);
        if recorder.operations() == READS {
            break;
        }
    }
    let rows = ratio(searched, recorder.operations());
    Ok(Reads { figures: recorder.figures(span), rows })
}

#[derive(Clone, Copy)]
struct One {
    latency: Nanos,
    rows: u64,
    degraded: bool,
}

/// Reads a chunk, if it was ever written.
async fn read_one(
    volume: &Volume,
    bench: &Bench,
    lba: Lba,
    chunk_blocks: u32,
) -> Result<Option<One>, ExperimentError> {
    let written = volume.extents(lba, chunk_blocks.into(), 1).await.map_err(WorkloadError::from)?;
    if written.iter().any(|extent| extent.state == ExtentState::Hole) {
        return Ok(None);
    }
    let before = volume.status().counters;
    let started = bench.handle.now();
    volume.read(lba, chunk_blocks).await.map_err(WorkloadError::from)?;
    let after = volume.status().counters;
    let rows = after.table_rows_searched - before.table_rows_searched;
    let latency = bench.handle.now().since(started) + search_time(rows);
    Ok(Some(One { latency, rows, degraded: after.degraded_reads > before.degraded_reads }))
}

/// Takes a drive out, and waits until open segments are relocated.
pub(crate) async fn take_drive_out(volume: &Volume, bench: &Bench, slot: usize) {
    volume.fail(slot).await.expect("a drive of a healthy array is taken out");
    while volume.status().segments_leftover > 0 {
        bench.handle.sleep(LOOK).await;
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "some us"
)]
fn search_time(rows: u64) -> Nanos {
    Nanos((rows as f64 * SEARCH_NS) as u64)
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}
