//! Scrubs a zoned volume: at its server, or started in this process.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use zoneweave_raid::raizn::{Mismatch, ScrubReport};
use zoneweave_zoned::BLOCK_BYTES;

use super::found::Found;
use super::start::start_whole;
use crate::control::Request;
use crate::error::CliError;
use crate::exit::Exit;
use crate::format::bytes;
use crate::output::Output;
use crate::output::progress::Progress;
use crate::session::Session;
use crate::start::run_job;

/// The result, as servers send it and `--json` prints it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Scrubbed {
    zones: u64,
    blocks: u64,
    damaged: u64,
    relocated: u64,
    left: u64,
    unrepairable: u64,
    parity_mismatches: u64,
    /// The first of them.
    mismatched: Vec<Place>,
}

/// A place of a stripe whose parity is wrong.
#[derive(Debug, Serialize, Deserialize)]
struct Place {
    zone: u32,
    offset_bytes: u64,
}

impl From<Mismatch> for Place {
    fn from(place: Mismatch) -> Self {
        let offset_bytes = u64::from(place.block) * BLOCK_BYTES as u64;
        Self { zone: place.zone, offset_bytes }
    }
}

impl From<ScrubReport> for Scrubbed {
    fn from(report: ScrubReport) -> Self {
        Self {
            zones: report.zones,
            blocks: report.blocks,
            damaged: report.damaged,
            relocated: report.relocated,
            left: report.left,
            unrepairable: report.unrepairable,
            parity_mismatches: report.mismatches,
            mismatched: report.mismatched.into_iter().map(Place::from).collect(),
        }
    }
}

/// Verifies all data and parity, and repairs damage.
///
/// # Errors
/// If the volume is not served and cannot be started, or stops.
pub(crate) fn scrub(
    session: &Session,
    found: &Found,
    paths: &[PathBuf],
    output: &Output,
) -> Result<Exit, CliError> {
    let progress = Progress::of(output, "scrub", "zones");
    let scrubbed: Scrubbed = match found.client()? {
        Some(client) => {
            let answer = client.ask(&Request::Scrub, |job| progress.update(job))?;
            serde_json::from_value(answer).map_err(|error| CliError::System {
                action: "read the server's answer",
                error: error.into(),
            })?
        }
        None => {
            let volume = start_whole(session, paths, found, None, output)?;
            let (scrubbed, watched) = (volume.clone(), volume);
            let job = async move {
                let report = scrubbed.scrub().await;
                scrubbed.close().await;
                report
            };
            let how_far = || watched.status().scrub.map(Into::into);
            run_job(session, job, how_far, &progress)?.into()
        }
    };
    progress.finish();
    output.result("array-scrub", &scrubbed, |output| tell(&scrubbed, output));
    Ok(match (scrubbed.unrepairable, scrubbed.parity_mismatches + scrubbed.left) {
        (0, 0) => Exit::Done,
        (0, _) => Exit::Failed,
        _ => Exit::DataLost,
    })
}

fn tell(found: &Scrubbed, output: &Output) {
    let read = bytes(found.blocks * BLOCK_BYTES as u64);
    output.line(format_args!("read and verified {read} in {} zones", found.zones));
    match found.damaged {
        0 if found.parity_mismatches == 0 => output.line("no damage"),
        0 => {}
        damaged => output.line(format_args!(
            "{damaged} blocks were damaged: {} moved to parity logs, {} left, {} lost",
            found.relocated, found.left, found.unrepairable
        )),
    }
    if found.left > 0 {
        output.line(
            "parity logs have no room for more blocks: replace the drive, see `zoneweave array status`",
        );
    }
    if found.parity_mismatches > 0 {
        output.line(format_args!(
            "{} places of stripes can be read but do not match their parity; nothing was changed:",
            found.parity_mismatches
        ));
        for Place { zone, offset_bytes } in &found.mismatched {
            output.line(format_args!("  zone {zone} byte {offset_bytes}, and the units beside it"));
        }
    }
}
