//! `zoneweave array scrub`: verify all data and parity, and repair damage.

use std::path::PathBuf;

use clap::Args;
use zoneweave_raid::log::format::ArrayUuid;

use super::status::parse_status;
use crate::control::{Client, Order, Request, Waiting, only_served};
use crate::error::CliError;
use crate::exit::Exit;
use crate::format;
use crate::job::{Findings, Scrubbed};
use crate::output::Output;
use crate::output::progress::Progress;
use crate::session::Session;
use crate::start::{locate_one, run_job, start_whole};
use crate::status::{render, scrub_on_record};
use crate::zoned;

#[derive(Args)]
pub(crate) struct Scrub {
    /// Drives of the array (any one of them if it is served)
    #[arg(value_name = "DRIVE", required = true)]
    drives: Vec<PathBuf>,
    /// Stop the scrub of a server. What it has found so far is repaired
    #[arg(long, group = "order")]
    stop: bool,
    /// Pause the scrub of a server
    #[arg(long, group = "order")]
    pause: bool,
    /// Let a paused scrub go on
    #[arg(long, group = "order")]
    resume: bool,
}

impl Scrub {
    fn order(&self) -> Option<Order> {
        match (self.stop, self.pause, self.resume) {
            (true, _, _) => Some(Order::Stop),
            (_, true, _) => Some(Order::Pause),
            (_, _, true) => Some(Order::Resume),
            _ => None,
        }
    }
}

pub(crate) fn run(request: &Scrub, output: &Output) -> Result<Exit, CliError> {
    let session = Session::new()?;
    if let Some(found) = zoned::find(&session, &request.drives)? {
        return match request.order() {
            Some(order) => {
                let array = found.membership.config.array;
                give(order, found.client()?, array, request, output)
            }
            None => zoned::scrub(&session, &found, &request.drives, output),
        };
    }
    let mut located = locate_one(&session, &request.drives)?;
    if let Some(order) = request.order() {
        let record = located.survey.membership.ok_or(CliError::NoArray)?;
        return give(order, located.client, record.config.array, request, output);
    }
    let progress = Progress::new(output, "scrub");
    let found: Scrubbed = match located.client.take() {
        Some(client) => {
            let stop = ("scrub", "--stop");
            let waiting = Waiting::new(&session, output, "scrub", &request.drives, stop)?;
            let found = client.ask(&Request::Scrub, |job| {
                waiting.check();
                progress.update(job);
            })?;
            serde_json::from_value(found).map_err(|error| CliError::System {
                action: "read the server's answer",
                error: error.into(),
            })?
        }
        None => {
            let started = start_whole(&session, &request.drives, &located, None, &[], output)?;
            let volume = started.volume.clone();
            let job = async move {
                let report = scrub_on_record(&volume).await?;
                volume.close().await?;
                Ok::<_, CliError>(report)
            };
            let how_far = || started.volume.status().scrub.map(Into::into);
            run_job(&session, job, how_far, &progress)?.into()
        }
    };
    progress.finish();
    output.result("array-scrub", &found, |output| tell(&found, output));
    let unreadable = found.unrepairable + found.lost_before + found.left;
    Ok(match (unreadable, found.parity_mismatches) {
        (0, 0) if found.incomplete().is_some() => Exit::Incomplete,
        (0, 0) => Exit::Done,
        (0, _) => Exit::Failed,
        _ => Exit::DataLost,
    })
}

/// Gives an order to the scrub of a server, and shows the status.
fn give(
    order: Order,
    server: Option<Client>,
    array: ArrayUuid,
    request: &Scrub,
    output: &Output,
) -> Result<Exit, CliError> {
    let client = only_served(server, array, &request.drives, "of a scrub")?;
    let status = parse_status(client.ask(&Request::OrderScrub { order }, |_| {})?)?;
    output.result("array-status", &status, |output| render(&status, output));
    Ok(Exit::Done)
}

fn tell(found: &Scrubbed, output: &Output) {
    output.line(format_args!(
        "read and verified {} in {} segments",
        format::bytes(found.blocks * zoneweave_zoned::BLOCK_BYTES as u64),
        found.segments
    ));
    match found.damaged {
        0 if found.parity_mismatches > 0 => {}
        0 if found.lost_before > 0 => output.line("no new damage"),
        0 if found.incomplete().is_some() => output.line("no damage in what was read"),
        0 => output.line("no damage"),
        damaged => output.line(format_args!(
            "{damaged} blocks were damaged: {} repaired, {} lost",
            damaged.saturating_sub(found.unrepairable + found.left),
            found.unrepairable
        )),
    }
    if let Some(why) = found.incomplete() {
        output.line(format_args!("INCOMPLETE: {why}; scrub again"));
    }
    if found.lost_before > 0 {
        output.line(format_args!(
            "{} blocks are lost since earlier: reading them fails until they are written again",
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
