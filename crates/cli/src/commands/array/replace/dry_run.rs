//! `zoneweave array replace --dry-run`.

use serde::Serialize;
use zoneweave_raid::raizn;
use zoneweave_zoned::{ZonedDevice, ZonedDeviceExt};

use super::Replace;
use crate::conditions::{check_fit, slot_health};
use crate::drives::consent::{Destroyed, holdings};
use crate::drives::space::check_space;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::session::{Access, Session, refuse_worse_way};
use crate::start::locate_one;
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
/// If it does not fit, or is in use, or there is no such slot.
pub(super) fn run(request: &Replace, session: &Session, output: &Output) -> Result<Exit, CliError> {
    let Replace { drives, slot, with, .. } = request;
    let (health, config, geometry) = match zoned::find(session, drives)? {
        Some(found) => {
            let geometry = found.geometry()?;
            (found.health(*slot)?, found.membership.config, Some(geometry))
        }
        None => {
            let found = locate_one(session, drives)?.survey;
            let health = slot_health(&found, *slot)?;
            (health, found.membership.ok_or(CliError::NoArray)?.config, None)
        }
    };
    let named = session.open(with, Access::Exclusive)?;
    refuse_worse_way(&named, &session.ring, &session.handle)?;
    let failed = |status| CliError::DriveFailed { label: named.label.clone(), status };
    let zones = session.executor.run(named.member.report()).map_err(failed)?;
    match geometry {
        None => check_fit(&config, &named, &zones)?,
        Some(volume) => raizn::check_fit(&config, &volume, named.drive.geometry(), &zones)?,
    }
    check_space(&named, &zones)?;
    let holds = session.executor.run(holdings(&named))?;
    let destroys = holds.iter().map(|holds| Destroyed::new(&named, holds)).collect();
    let found = DryRun { slot: *slot, drive: named.label.clone(), destroys, dry_run: true };
    output.result("array-replace", &found, |output| {
        let (name, drive) = (&config.name, &found.drive);
        output.line(format_args!("slot {slot} of {name}, which is {health}, would get {drive}"));
        Destroyed::tell(&found.destroys, output);
    });
    Ok(Exit::Done)
}
