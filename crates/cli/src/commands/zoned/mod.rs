//! `zoneweave zoned`: commands to the zones of a zoned volume.
//!
//! The server of the volume runs them. A volume that is not served is started in this process for
//! one command.

mod data;
mod manage;
mod report;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use zoneweave_zoned::{Geometry, Status, ZoneAction, ZoneId, ZonedDevice};

use crate::control::{refuse_locked, socket_of};
use crate::drives::space::no_room;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::session::Session;
use crate::zoned::{RemoteVolume, find, start_whole};

/// A command to zones.
#[derive(Subcommand)]
pub(crate) enum Verb {
    /// List zones with their states and write pointers
    Report(report::Report),
    /// Write zone contents to standard output
    Read(data::Read),
    /// Write standard input to a zone, at its write pointer
    Write(data::Write),
    /// Append standard input to a zone, and print the address of each append
    Append(data::Append),
    /// Open zones: they stay open until they are full, closed, finished or reset
    Open(manage::Zones),
    /// Close open zones
    Close(manage::Zones),
    /// Reset zones: they are empty again
    Reset(manage::Zones),
    /// Finish zones: they are full, and take no more writes before a reset
    Finish(manage::Zones),
}

/// A zoned volume.
#[derive(Args, Clone, Debug)]
pub(super) struct Target {
    /// Drives of the array (any one of them if it is served)
    #[arg(value_name = "DRIVE", required = true)]
    drives: Vec<PathBuf>,
}

pub(crate) fn run(verb: Verb, output: &Output) -> Result<Exit, CliError> {
    match verb {
        Verb::Report(report) => report::run(&report, output),
        Verb::Read(read) => data::read(&read, output),
        Verb::Write(write) => data::write(&write, output),
        Verb::Append(append) => data::append(&append, output),
        Verb::Open(zones) => manage::run(&zones, ZoneAction::Open, output),
        Verb::Close(zones) => manage::run(&zones, ZoneAction::Close, output),
        Verb::Reset(zones) => manage::run(&zones, ZoneAction::Reset, output),
        Verb::Finish(zones) => manage::run(&zones, ZoneAction::Finish, output),
    }
}

impl Target {
    /// Runs work on these zones of the volume: of its server, or started for this.
    ///
    /// # Errors
    /// If the drives have no zoned volume, or it has no such zone, the server does not answer,
    /// members are missing, or the work fails.
    fn run<T>(
        &self,
        zones: &[u32],
        output: &Output,
        work: impl AsyncFnOnce(&dyn ZonedDevice) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        let session = Session::new()?;
        let found = find(&session, &self.drives)?.ok_or(CliError::NotZoned)?;
        if let Some(client) = found.client()? {
            let volume = RemoteVolume::new(client)?;
            return volume.outcome(session.executor.run(work(&volume)));
        }
        // A start writes to the drives, which a mistake is not worth.
        let geometry = found.geometry()?;
        zones.iter().try_for_each(|zone| zone_of(&geometry, *zone).map(drop))?;
        let volume = start_whole(&session, &self.drives, &found, None, output)?;
        let done = session.executor.run(async {
            let done = work(&volume).await;
            volume.close().await;
            done
        });
        // To the volume a drive in a file without room has failed.
        done.map_err(|error| match error {
            CliError::Zone { .. } | CliError::ZoneRest { .. } => {
                error.because_of(no_room(&found.drives.opened))
            }
            other => other,
        })
    }

    /// As [`Self::run`], if the volume is served.
    ///
    /// # Errors
    /// Also if it is not.
    fn run_served<T>(
        &self,
        work: impl AsyncFnOnce(&dyn ZonedDevice) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        let session = Session::new()?;
        let found = find(&session, &self.drives)?.ok_or(CliError::NotZoned)?;
        let client = found.client()?;
        if client.is_none() {
            refuse_locked(&self.drives, &socket_of(found.membership.config.array))?;
        }
        let volume = RemoteVolume::new(client.ok_or(CliError::ZonesNotServed)?)?;
        volume.outcome(session.executor.run(work(&volume)))
    }
}

/// Checks that the volume has a zone.
fn known(volume: &dyn ZonedDevice, zone: u32) -> Result<ZoneId, CliError> {
    zone_of(volume.geometry(), zone)
}

fn zone_of(geometry: &Geometry, zone: u32) -> Result<ZoneId, CliError> {
    match zone < geometry.zones {
        true => Ok(ZoneId(zone)),
        false => Err(CliError::Zone { zone: ZoneId(zone), status: Status::LbaOutOfRange }),
    }
}
