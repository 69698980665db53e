//! `zoneweave config`: checks the configuration file.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;

use crate::commands::serve::{ConfigFile, Served, VolumeTable};
use crate::error::CliError;
use crate::exit::Exit;
use crate::format::words;
use crate::output::Output;
use crate::session::Session;

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Print the problems of the configuration file, or what `zoneweave serve named` would serve
    Check(Check),
}

#[derive(Args)]
pub(crate) struct Check {
    #[command(flatten)]
    file: ConfigFile,
}

#[derive(Serialize)]
struct Checked {
    volumes: Vec<Volume>,
}

/// A volume of the file.
#[derive(Serialize)]
struct Volume {
    name: String,
    /// The command of each front end.
    commands: Vec<String>,
    /// Drives that are there now.
    drives: Vec<PathBuf>,
    /// Drives that were named, and are not.
    missing: Vec<PathBuf>,
}

pub(crate) fn run(verb: Verb, output: &Output) -> Result<Exit, CliError> {
    let Verb::Check(Check { file }) = verb;
    let config = file.read()?;
    let session = Session::new()?;
    let (mut volumes, mut problems) = (Vec::new(), Vec::new());
    for table in &config.volumes {
        match table.array() {
            Ok(served) => volumes.push(volume(&session, table, &served)?),
            Err(found) => problems.extend(found),
        }
    }
    if !problems.is_empty() {
        return Err(file.error(&problems));
    }
    let checked = Checked { volumes };
    output.result("config-check", &checked, |output| {
        if checked.volumes.is_empty() {
            output.line("the file describes no volume");
        }
        checked.volumes.iter().for_each(|volume| tell(volume, output));
    });
    Ok(Exit::Done)
}

fn volume(session: &Session, table: &VolumeTable, served: &Served) -> Result<Volume, CliError> {
    let (drives, missing) = match served.by_name.search() {
        Some(mut search) => (search.next(session)?, Vec::new()),
        None => served.drives.iter().cloned().partition(|path| path.exists()),
    };
    Ok(Volume { name: table.name().to_owned(), commands: table.commands(), drives, missing })
}

fn tell(volume: &Volume, output: &Output) {
    output.line(&volume.name);
    volume.commands.iter().for_each(|command| output.line(format_args!("  {command}")));
    match volume.drives.is_empty() {
        true => output.line("  none of its drives is here now"),
        false => output.line(format_args!("  drives: {}", words(&volume.drives))),
    }
    if !volume.missing.is_empty() {
        output.line(format_args!("  missing: {}", words(&volume.missing)));
    }
}
