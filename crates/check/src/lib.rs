//! An offline checker of log-structured and zoned volumes, and of file stores, that shares no code
//! with the engine.
//!
//! It reads raw drives with its own parser, written from docs/format.md, so that the document alone
//! is the contract between engine and checker. It verifies:
//!
//! - the checksums of every block and the parity of every stripe, of data and of identities,
//! - every index entry against its block, the replicas of headers, and the seals,
//! - that two versions of a block with the same sequence are equal.
//!
//! After a check the contents of the volume are known, and a simulation compares them with the
//! reads of the engine.
//!
//! The checker never writes. The array must not be in use meanwhile. Reads of all columns of a
//! group are in flight together. Memory holds one group of every column (at most 64 MiB each) and
//! twenty bytes for each block of the volume.
//!
//! Fault model: drives may return anything. No media content makes the checker panic, loop, or
//! allocate more than the zones of the drives could hold.
//!
//! In the order in which data meets them: `drive` reads blocks, `format` parses them, `array` finds
//! members and segments. `verify` checks the stripes of a segment, and `volume` collects the newest
//! version of each block; `zoned` checks the zones of a zoned volume. `report` lists the findings.

mod array;
mod drive;
mod format;
mod report;
mod store;
mod verify;
mod volume;
mod zoned;

use std::rc::Rc;

use zoneweave_zoned::ZonedDevice;

pub use report::{ArrayReport, Counts, Finding, Location, Problem, Report, Severity, Tally};
pub use store::{StoreCounts, StoreFinding, StoreProblem, StoreReport, check_store};
pub use volume::contents::{Contents, Newest, Unavailable};
pub use zoned::ZoneContents;

use array::catalogue::read_segments;
use array::membership::{Membership, read_membership};
use drive::Drive;
use format::fields::uuid_text;
use format::parity::Codes;
use report::Findings;
use verify::walk::Walk;
use volume::versions::Versions;

/// Options of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// UUID of the array to check. Default: the array on most drives.
    pub array: Option<[u8; 16]>,
    /// Findings to list in full; more are only counted.
    pub findings_max: usize,
    /// Compare every two versions of a block with one sequence, not only the newest ones. Takes
    /// memory for every version on media.
    pub every_version: bool,
    /// Keep the blocks of zoned volumes in memory, for comparisons.
    pub zone_blocks: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { array: None, findings_max: 1000, every_version: false, zone_blocks: false }
    }
}

/// The result of a check.
pub struct Checked {
    /// The findings.
    pub report: Report,
    /// The contents of the volume; `None` if there is no array.
    pub contents: Option<Contents>,
    /// The zones of a zoned volume.
    pub zones: Vec<ZoneContents>,
}

/// Checks the array on the given drives, in any order; `None` stands for a missing drive.
pub async fn check(devices: Vec<Option<Rc<dyn ZonedDevice>>>, options: Options) -> Checked {
    let mut findings = Findings::new(options.findings_max);
    let mut drives = Vec::new();
    for (number, device) in devices.into_iter().enumerate() {
        let Some(device) = device else { continue };
        match Drive::open(device, number).await {
            Ok(drive) => drives.push(drive),
            Err(status) => {
                let problem = Problem::DriveUnusable { status: status.to_string() };
                findings.add(Location::drive(number), problem);
            }
        }
    }
    match read_membership(drives, options.array, &mut findings).await {
        None => Checked { report: findings.finish(), contents: None, zones: Vec::new() },
        Some(membership) => check_array(membership, options, findings).await,
    }
}

async fn check_array(membership: Membership, options: Options, mut findings: Findings) -> Checked {
    findings.report.array = Some(describe(&membership));
    count_recorded(&membership, &mut findings.report.counts);
    if let Some(zoned) = membership.config.zoned {
        let keep = options.zone_blocks;
        let zones = zoned::check_zones(&membership, zoned, keep, &mut findings).await;
        return Checked { report: findings.finish(), contents: None, zones };
    }
    let segments = read_segments(&membership, &mut findings).await;
    let codes = Codes::new(segments.values().map(|segment| segment.header.shape.scheme));
    let mut versions = Versions::new(options.every_version);
    for (ordinal, segment) in (0..).zip(segments.values()) {
        let walk = Walk {
            membership: &membership,
            code: codes.of(&segment.header.shape.scheme),
            segment,
            ordinal,
            versions: &mut versions,
            findings: &mut findings,
        };
        walk.run().await;
    }
    versions.settle();
    count(&versions, &mut findings);
    let segments = segments.into_values().collect();
    let contents = Contents::new(membership, codes, segments, versions);
    Checked { report: findings.finish(), contents: Some(contents), zones: Vec::new() }
}

/// Counts the faults and scrubs on record.
fn count_recorded(membership: &Membership, counts: &mut Counts) {
    (counts.recorded_repaired, counts.recorded_unrepairable, counts.recorded_lost_ranges) =
        membership.faults();
    counts.recorded_scrubs = membership.scrubs.1;
}

fn describe(membership: &Membership) -> ArrayReport {
    let config = &membership.config;
    ArrayReport {
        uuid: uuid_text(&membership.array.0),
        name: config.name.clone(),
        data_chunks: config.shape.scheme.data_chunks,
        parity_chunks: config.shape.scheme.parity_chunks,
        fixed: config.shape.scheme.fixed,
        mirrored: config.shape.scheme.mirrored,
        epoch: membership.epoch.number,
        volume_blocks: config.volume_blocks,
        sequence_ceiling: membership.sequence_ceiling,
        segment_ceiling: membership.segment_ceiling,
    }
}

/// Counts the blocks of the volume and reports lost ones.
fn count(versions: &Versions, findings: &mut Findings) {
    let mut hidden = 0;
    for (lba, _, spot) in versions.iter() {
        hidden += u64::from(versions.trimmed(lba).is_some());
        if spot.lost {
            findings.report.counts.lost_blocks += 1;
            findings.add(Location::default(), Problem::RecordedAsLost { lba });
        } else {
            findings.report.counts.mapped_blocks += 1;
        }
    }
    let trimmed: u64 = versions.trims().map(|(start, end, _)| end - start).sum();
    findings.report.counts.trimmed_blocks = trimmed - hidden;
}
