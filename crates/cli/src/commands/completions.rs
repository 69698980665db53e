//! `zoneweave completions`: a completion script for a shell.

use clap::{Args, Command};
use clap_complete::Shell;

use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;

#[derive(Args)]
pub(crate) struct Completions {
    /// Shell to complete in
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(
    completions: &Completions,
    mut command: Command,
    output: &Output,
) -> Result<Exit, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(completions.shell, &mut command, "zoneweave", &mut script);
    output.raw(&script);
    Ok(Exit::Done)
}
