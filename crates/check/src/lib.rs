//! An offline checker of log-structured volumes that shares no code with the engine.
//!
//! It reads raw drives with its own parser, written from docs/format.md: what the engine and the
//! checker agree on, the document says. It verifies every block's checksums, every stripe's
//! parity (of data and of identities), every index entry against its block, the replicas of
//! headers, the seals, and that no two versions of a block with one sequence differ; then it knows
//! what the volume holds, and a simulation can compare that with what the volume returns.
//!
//! It only reads. The array must not be in use meanwhile. Reads of all columns of a group are in
//! flight together; memory holds one group of every column (at most 64 MiB each) and twenty bytes
//! for each block of the volume.
//!
//! Fault model: drives may return anything. Nothing on media makes the checker panic, loop or
//! allocate beyond what the drives' own zones could hold.

mod blocks;
mod catalogue;
mod contents;
mod drive;
mod fields;
mod frames;
mod galois;
mod group;
mod index_run;
mod membership;
mod record;
mod report;
mod roster;
mod shape;
mod stripes;
mod versions;
mod walk;

use std::rc::Rc;

use zoneweave_zoned::ZonedDevice;

pub use contents::{Contents, Newest, Unavailable};
pub use report::{ArrayReport, Counts, Finding, Location, Problem, Report, Severity, Tally};

use drive::Drive;
use fields::uuid_text;
use galois::Codes;
use membership::Membership;
use report::Findings;
use versions::Versions;
use walk::Walk;

/// How to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The array to check; the one on most drives otherwise.
    pub array: Option<[u8; 16]>,
    /// Findings listed in full; others are only counted.
    pub findings_max: usize,
    /// Compare every two versions of a block with one sequence, not only the newest ones. Takes
    /// memory for every version on media.
    pub every_version: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { array: None, findings_max: 1000, every_version: false }
    }
}

/// What a check brings.
pub struct Checked {
    /// What was found.
    pub report: Report,
    /// What the volume holds; `None` if there is no array.
    pub contents: Option<Contents>,
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
    match membership::read_membership(drives, options.array, &mut findings).await {
        None => Checked { report: findings.finish(), contents: None },
        Some(membership) => check_array(membership, options, findings).await,
    }
}

async fn check_array(membership: Membership, options: Options, mut findings: Findings) -> Checked {
    findings.report.array = Some(describe(&membership));
    let segments = catalogue::read_segments(&membership, &mut findings).await;
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
    Checked { report: findings.finish(), contents: Some(contents) }
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

/// Counts what the volume holds and reports lost blocks.
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
