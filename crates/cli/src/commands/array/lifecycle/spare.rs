//! `zoneweave array spare`: hot spares of an array in service.
//!
//! Spares are known to their server only; the options of the next start name them again.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::server::find;
use super::target::Target;
use crate::commands::array::status::parse_status;
use crate::control::Request;
use crate::drives::paths::absolute;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::status::render;

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Add a blank drive as a hot spare, until the server ends
    Add(Spare),
    /// Give a hot spare back that was not used: its drive is closed
    Remove(Spare),
}

/// A spare of an array.
#[derive(Args)]
pub(crate) struct Spare {
    #[command(flatten)]
    target: Target,
    /// The spare
    #[arg(value_name = "SPARE")]
    spare: PathBuf,
}

pub(crate) fn run(verb: Verb, output: &Output) -> Result<Exit, CliError> {
    let (Spare { target, spare }, is_added) = match &verb {
        Verb::Add(spare) => (spare, true),
        Verb::Remove(spare) => (spare, false),
    };
    let drive = absolute(spare)?;
    let request = match is_added {
        true => Request::AddSpare { drive },
        false => Request::RemoveSpare { drive },
    };
    let server = find(target)?.ok_or(CliError::NotServed { what: "its spares" })?;
    if is_added {
        server.refuse_of_siblings(spare)?;
    }
    let status = parse_status(server.client()?.ask(&request, |_| {})?)?;
    output.result("array-status", &status, |output| render(&status, output));
    Ok(Exit::Done)
}
