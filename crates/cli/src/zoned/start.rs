//! Starts a zoned volume in this process.

use std::path::PathBuf;

use zoneweave_raid::log::format::Lineage;
use zoneweave_raid::raizn::{OpenOptions, OpenReport, Volume, open};

use super::found::{Found, offer};
use crate::control::{Client, socket_of};
use crate::error::CliError;
use crate::output::Output;
use crate::session::{Access, Session, random_number};
use crate::start::{refuse_full_disk, refuse_unopened};

/// Starts the volume for a command. Every member in service but `but` must be there.
///
/// # Errors
/// If a server has the volume, one is missing, the drives are in use, or the volume cannot be
/// started.
pub(crate) fn start_whole(
    session: &Session,
    paths: &[PathBuf],
    found: &Found,
    but: Option<usize>,
    output: &Output,
) -> Result<Volume, CliError> {
    let socket = socket_of(found.membership.config.array);
    if Client::connect(&socket)?.is_some() {
        return Err(CliError::ZonedServed { socket });
    }
    found.refuse_missing(but)?;
    let mut drives = session.open_some(paths, Access::Exclusive).map_err(|error| match error {
        CliError::Drive(error) | CliError::NoDrives { first: error } if error.is_in_use() => {
            CliError::NoServer { problem: error.to_string(), socket }
        }
        other => other,
    })?;
    refuse_unopened(session, &mut drives)?;
    refuse_full_disk(&found.drives.opened, &found.survey.drives)?;
    let options = OpenOptions { lineage: Lineage(random_number()?), ..OpenOptions::default() };
    let opening = open(&session.handle, offer(&drives.opened), options);
    let (volume, OpenReport { relocated_blocks, .. }) = session.executor.run(opening)?;
    relocated(relocated_blocks, output);
    Ok(volume)
}

/// Reports blocks in parity logs.
pub(crate) fn relocated(blocks: u64, output: &Output) {
    if blocks > 0 {
        output.detail(format_args!(
            "{blocks} blocks are in parity logs, because an interruption left something in their \
             places"
        ));
    }
}
