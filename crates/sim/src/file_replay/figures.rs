//! How zones and their erase blocks were worn.

use serde::Serialize;
use zoneweave_emulator::{EraseSpread, RamDrive};
use zoneweave_filestore::{FileStore, Phase, ZoneStatus};
use zoneweave_zoned::BLOCK_BYTES;

use super::{FileReplayed, Totals};

/// The part of all erases that [`Erases::busiest_percent`] is about: that of figure 3 of WA-Zone.
const BUSY_PERCENT: u64 = 80;

/// How erases are spread over zones or erase blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Erases {
    /// Zones or erase blocks.
    pub count: u64,
    /// Erases of all.
    pub total: u64,
    /// Of the least erased one.
    pub min: u32,
    /// Of the most erased one.
    pub max: u32,
    /// On average.
    pub mean: f64,
    /// Their standard deviation.
    pub deviation: f64,
    /// Those without an erase, in percent.
    pub never_percent: f64,
    /// The most erased ones that have 80 % of all erases together, in percent.
    pub busiest_percent: f64,
}

impl Erases {
    /// The spread of some counts; all zero if there are none.
    #[must_use]
    pub fn of(counts: &[u32]) -> Self {
        let spread = EraseSpread::of(counts.iter().copied());
        let percent = |part: usize| match counts.len() {
            0 => 0.0,
            all => 100.0 * part as f64 / all as f64,
        };
        Self {
            count: spread.counts,
            total: spread.total,
            min: spread.min,
            max: spread.max,
            mean: spread.mean,
            deviation: spread.deviation,
            never_percent: percent(counts.iter().filter(|count| **count == 0).count()),
            busiest_percent: percent(busiest(counts, spread.total)),
        }
    }
}

/// How many of the largest counts it takes for the part of all.
fn busiest(counts: &[u32], total: u64) -> usize {
    let mut counts = counts.to_vec();
    counts.sort_unstable_by(|one, other| other.cmp(one));
    let mut sum = 0;
    let mut behind = |count: &u32| {
        let is_short = sum * 100 < total * BUSY_PERCENT;
        sum += u64::from(*count);
        is_short
    };
    counts.iter().take_while(|count| behind(count)).count()
}

/// The figures of a store on a drive.
pub(super) fn of(
    store: &FileStore,
    drive: &RamDrive,
    begun: Totals,
    ended: Totals,
    is_whole: bool,
) -> FileReplayed {
    let zones = store.zones();
    let (metadata, data): (Vec<&ZoneStatus>, Vec<&ZoneStatus>) =
        zones.iter().partition(|zone| zone.phase == Phase::Metadata);
    let wear = drive.wear().expect("the drive counts its erases");
    let blocks = data.iter().flat_map(|zone| &wear.zones[zone.zone.index()].erase_counts);
    let blocks: Vec<u32> = blocks.copied().collect();
    let resets = |zones: &[&ZoneStatus]| -> Vec<u64> {
        zones.iter().map(|zone| drive.zone(zone.zone).resets).collect()
    };
    let narrow = |resets: &[u64]| -> Vec<u32> {
        resets.iter().map(|count| u32::try_from(*count).unwrap_or(u32::MAX)).collect()
    };
    let data = resets(&data);
    let bytes = |blocks: u64| blocks * BLOCK_BYTES as u64;
    let by = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
    let host_bytes = ended.host_bytes - begun.host_bytes;
    let drive_bytes = bytes(ended.drive_blocks - begun.drive_blocks);
    let (before, after) = (begun.counters, ended.counters);
    let written = after.written - before.written;
    let relocated = after.relocated - before.relocated;
    let metadata_bytes = bytes(after.metadata - before.metadata);
    FileReplayed {
        events: ended.events - begun.events,
        seconds: ended.time.since(begun.time).as_secs_f64(),
        host_bytes,
        drive_bytes,
        relocated_bytes: bytes(relocated),
        metadata_bytes,
        write_amplification: by(drive_bytes, host_bytes),
        relocation_amplification: by(written + relocated, written),
        finished_zones: after.finished - before.finished,
        zones: Erases::of(&narrow(&data)),
        erase_blocks: Erases::of(&blocks),
        metadata_zones: Erases::of(&narrow(&resets(&metadata))),
        resets: data,
        is_whole,
    }
}
