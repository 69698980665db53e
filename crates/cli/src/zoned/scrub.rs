//! Scrubs a zoned volume: at its server, or started in this process.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use zoneweave_raid::raizn::{Mismatch, ScrubReport};
use zoneweave_zoned::BLOCK_BYTES;

use super::found::Found;
use super::start::start_whole;
use crate::control::{Request, Waiting};
use crate::error::CliError;
use crate::exit::Exit;
use crate::job::{Findings, blocks};
use crate::output::Output;
use crate::output::progress::Progress;
use crate::session::Session;
use crate::start::run_job;
use crate::status::scrub_on_record;

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
    /// Blocks that were not read, for a reason other than damage.
    #[serde(default)]
    failed_reads: u64,
    /// Slots that were not read, or not all of them, as their drives were out of service or not
    /// rebuilt.
    #[serde(default)]
    unread_slots: Vec<u8>,
    /// Whether it was stopped before its end.
    #[serde(default)]
    stopped: bool,
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
            failed_reads: report.failed_reads,
            unread_slots: report.unread.iter().map(|column| column.0).collect(),
            stopped: report.stopped,
        }
    }
}

impl Findings for Scrubbed {
    fn unread_slots(&self) -> &[u8] {
        &self.unread_slots
    }

    fn failed_reads(&self) -> u64 {
        self.failed_reads
    }

    fn stopped(&self) -> bool {
        self.stopped
    }

    fn line(&self) -> String {
        let read = blocks(self.blocks);
        let damage = match self.damaged {
            0 if self.incomplete().is_some() => "no damage in what was read".to_owned(),
            0 => "no damage".to_owned(),
            damaged => format!(
                "{} damaged: {} moved to parity logs, {} left, {} LOST",
                blocks(damaged),
                blocks(self.relocated),
                blocks(self.left),
                blocks(self.unrepairable)
            ),
        };
        match self.parity_mismatches {
            0 => format!("ended: {read} verified, {damage}"),
            wrong => format!(
                "ended: {read} verified, {damage}; {wrong} places of stripes do not match their parity"
            ),
        }
    }
}

impl Scrubbed {
    /// The exit of the command.
    fn exit(&self) -> Exit {
        match (self.unrepairable, self.parity_mismatches + self.left) {
            (0, 0) if self.incomplete().is_some() => Exit::Incomplete,
            (0, 0) => Exit::Done,
            (0, _) => Exit::Failed,
            _ => Exit::DataLost,
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
            let stop = ("scrub", "--stop");
            let waiting = Waiting::new(session, output, "scrub", paths, stop)?;
            let answer = client.ask(&Request::Scrub, |job| {
                waiting.check();
                progress.update(job);
            })?;
            serde_json::from_value(answer).map_err(|error| CliError::System {
                action: "read the server's answer",
                error: error.into(),
            })?
        }
        None => {
            let volume = start_whole(session, paths, found, None, output)?;
            let (scrubbed, watched) = (volume.clone(), volume);
            let job = async move {
                let report = scrub_on_record(&scrubbed).await;
                scrubbed.close().await;
                report
            };
            let how_far = || watched.status().scrub.map(Into::into);
            run_job(session, job, how_far, &progress)?.into()
        }
    };
    progress.finish();
    output.result("array-scrub", &scrubbed, |output| tell(&scrubbed, output));
    Ok(scrubbed.exit())
}

fn tell(found: &Scrubbed, output: &Output) {
    let read = blocks(found.blocks);
    output.line(format_args!("read and verified {read} in {} zones", found.zones));
    match found.damaged {
        0 if found.parity_mismatches > 0 => {}
        0 if found.incomplete().is_some() => output.line("no damage in what was read"),
        0 => output.line("no damage"),
        damaged => output.line(format_args!(
            "{damaged} blocks were damaged: {} moved to parity logs, {} left, {} lost",
            found.relocated, found.left, found.unrepairable
        )),
    }
    if found.left > 0 {
        output.line(format_args!(
            "{} blocks stay where they are, and are rebuilt whenever they are read: parity logs, or \
             the records of their zones, have no room for more; replace the drive, see `zoneweave \
             array status`",
            found.left
        ));
    }
    if let Some(why) = found.incomplete() {
        output.line(format_args!("INCOMPLETE: {why}; scrub again"));
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
