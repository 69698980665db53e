//! `zoneweave zoned`: commands to the zones of a zoned volume.
//!
//! The volume is started in this process for one command, so it must not be served.

mod data;
mod manage;
mod report;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use zoneweave_raid::raizn::Volume;
use zoneweave_zoned::{Status, ZoneId, ZonedDevice};

use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::session::Session;
use crate::zoned::{find, start_whole};

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
    /// Reset zones: they are empty again
    Reset(manage::Zones),
    /// Finish zones: they are full, and take no more writes before a reset
    Finish(manage::Zones),
}

/// A zoned volume that is not served.
#[derive(Args, Clone, Debug)]
pub(super) struct Offline {
    /// Drives of the array
    #[arg(value_name = "DRIVE", required = true)]
    drives: Vec<PathBuf>,
}

pub(crate) fn run(verb: Verb, output: &Output) -> Result<Exit, CliError> {
    match verb {
        Verb::Report(report) => report::run(&report, output),
        Verb::Read(read) => data::read(&read, output),
        Verb::Write(write) => data::write(&write, output),
        Verb::Append(append) => data::append(&append, output),
        Verb::Reset(zones) => manage::run(&zones, zoneweave_zoned::ZoneAction::Reset, output),
        Verb::Finish(zones) => manage::run(&zones, zoneweave_zoned::ZoneAction::Finish, output),
    }
}

impl Offline {
    /// Runs work on the volume, and closes it.
    ///
    /// # Errors
    /// If the drives have no zoned volume, it is served, members are missing, or the work fails.
    fn run<T>(
        &self,
        output: &Output,
        work: impl AsyncFnOnce(&Volume) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        let session = Session::new()?;
        let found = find(&session, &self.drives)?.ok_or(CliError::NotZoned)?;
        let volume = start_whole(&session, &self.drives, &found, None, output)?;
        session.executor.run(async {
            let done = work(&volume).await;
            volume.close().await;
            done
        })
    }
}

/// Checks that the volume has a zone.
fn known(volume: &Volume, zone: u32) -> Result<ZoneId, CliError> {
    match zone < volume.geometry().zones {
        true => Ok(ZoneId(zone)),
        false => Err(CliError::Zone { zone: ZoneId(zone), status: Status::LbaOutOfRange }),
    }
}
