//! `zoneweave array scrub`: verify all data and parity, and repair damage.

use std::path::PathBuf;

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::control::Request;
use crate::error::CliError;
use crate::exit::Exit;
use crate::format;
use crate::output::Output;
use crate::output::progress::Progress;
use crate::session::Session;
use crate::start::{locate_one, run_job, start_whole};

#[derive(Args)]
pub(crate) struct Scrub {
    /// Drives of the array (any one of them if it is served)
    #[arg(value_name = "DRIVE", required = true)]
    drives: Vec<PathBuf>,
}

/// The result, as servers send it and `--json` prints it.
#[derive(Debug, Serialize, Deserialize)]
struct Scrubbed {
    segments: u64,
    blocks: u64,
    damaged: u64,
    parity_mismatches: u64,
    unrepairable: u64,
    lost_before: u64,
}

impl From<zoneweave_raid::log::ScrubReport> for Scrubbed {
    fn from(report: zoneweave_raid::log::ScrubReport) -> Self {
        Self {
            segments: report.segments,
            blocks: report.blocks,
            damaged: report.damaged,
            parity_mismatches: report.parity_mismatches,
            unrepairable: report.unrepairable,
            lost_before: report.lost_before,
        }
    }
}

pub(crate) fn run(request: &Scrub, output: &Output) -> Result<Exit, CliError> {
    let session = Session::new()?;
    let mut located = locate_one(&session, &request.drives)?;
    let progress = Progress::new(output, "scrub");
    let found: Scrubbed = match located.client.take() {
        Some(client) => {
            let found = client.ask(&Request::Scrub, |job| progress.update(job))?;
            serde_json::from_value(found).map_err(|error| CliError::System {
                action: "read the server's answer",
                error: error.into(),
            })?
        }
        None => {
            let started = start_whole(&session, &request.drives, &located, None, &[], output)?;
            let volume = started.volume.clone();
            let job = async move {
                let report = volume.scrub().await?;
                volume.close().await?;
                Ok::<_, CliError>(report)
            };
            let how_far = || started.volume.status().scrub.map(Into::into);
            run_job(&session, job, how_far, &progress)?.into()
        }
    };
    progress.finish();
    output.result("array-scrub", &found, |output| tell(&found, output));
    Ok(match (found.unrepairable + found.lost_before, found.parity_mismatches) {
        (0, 0) => Exit::Done,
        (0, _) => Exit::Failed,
        _ => Exit::DataLost,
    })
}

fn tell(found: &Scrubbed, output: &Output) {
    output.line(format_args!(
        "read and verified {} in {} segments",
        format::bytes(found.blocks * zoneweave_zoned::BLOCK_BYTES as u64),
        found.segments
    ));
    match found.damaged {
        0 if found.parity_mismatches == 0 => output.line("no damage"),
        damaged => output.line(format_args!(
            "{damaged} blocks were damaged: {} repaired, {} lost",
            damaged.saturating_sub(found.unrepairable),
            found.unrepairable
        )),
    }
    if found.lost_before > 0 {
        output.line(format_args!(
            "{} blocks were already lost: reading them fails until they are written again",
            found.lost_before
        ));
    }
    if found.parity_mismatches > 0 {
        output.line(format_args!(
            "{} stripes pass their checksums but do not match their parity: this is a bug in \
             zoneweave; keep the drives unchanged and report it",
            found.parity_mismatches
        ));
    }
}
