//! `zoneweave drive`: drives by themselves.

mod wipe;

use clap::Subcommand;

use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Reset all zones of a drive: all that it holds is lost
    Wipe(wipe::Wipe),
}

pub(crate) fn run(verb: Verb, output: &Output) -> Result<Exit, CliError> {
    match verb {
        Verb::Wipe(wipe) => wipe::run(&wipe, output),
    }
}
