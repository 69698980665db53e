//! `zoneweave array replace --dry-run`: everything that the replacement would refuse is refused.

use serde::Serialize;

use super::{Replace, checked};
use crate::conditions::slot_health;
use crate::control::{Client, Request};
use crate::drives::consent::{Destroyed, Prospect};
use crate::drives::paths::absolute;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::session::Session;
use crate::start::{Located, locate_one};
use crate::zoned;

#[derive(Serialize)]
struct DryRun {
    slot: usize,
    drive: String,
    destroys: Vec<Destroyed>,
    dry_run: bool,
}

/// Looks at the new drive, which is not used; the array stays as it is.
///
/// # Errors
/// As the replacement, but for consent to overwrite the drive.
pub(super) fn run(request: &Replace, session: &Session, output: &Output) -> Result<Exit, CliError> {
    let Replace { drives, slot, with, .. } = request;
    let prospect = match zoned::find(session, drives)? {
        Some(found) => match found.client()? {
            Some(client) => served(request, client)?,
            None => zoned::prospect(session, &found, &request.replacement())?,
        },
        None => {
            let mut located = locate_one(session, drives)?;
            match located.client.take() {
                Some(client) => served(request, client)?,
                None => inactive(request, session, &located)?,
            }
        }
    };
    let Prospect { name, health, destroys } = prospect;
    let found = DryRun { slot: *slot, drive: with.display().to_string(), destroys, dry_run: true };
    output.result("array-replace", &found, |output| {
        let drive = &found.drive;
        output.line(format_args!("slot {slot} of {name}, which is {health}, would get {drive}"));
        Destroyed::tell(&found.destroys, output);
    });
    Ok(Exit::Done)
}

fn served(request: &Replace, client: Client) -> Result<Prospect, CliError> {
    let (drive, destroy) = (absolute(&request.with)?, request.yes_destroy);
    let answer = client.ask(&Request::TryReplace { slot: request.slot, drive, destroy }, |_| {})?;
    serde_json::from_value(answer)
        .map_err(|error| CliError::System { action: "decode the answer", error: error.into() })
}

fn inactive(request: &Replace, session: &Session, located: &Located) -> Result<Prospect, CliError> {
    let (named, holds) = checked(request, session, located)?;
    let record = located.survey.membership.as_ref().ok_or(CliError::NoArray)?;
    let destroys = holds.iter().map(|holds| Destroyed::new(&named, holds)).collect();
    let health = slot_health(&located.survey, request.slot)?;
    Ok(Prospect { name: record.config.name.clone(), health, destroys })
}
