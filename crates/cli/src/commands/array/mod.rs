//! `zoneweave array`: make, look at and look after arrays.

mod check;
pub(crate) mod create;
mod fail;
mod list;
mod replace;
mod scrub;
mod status;

use clap::Subcommand;

use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Make an array of drives
    Create(create::Create),
    /// Show what an array is and how it is, served or not
    Status(status::StatusOf),
    /// Put a new drive into a slot and rebuild it
    Replace(replace::Replace),
    /// Take a drive out of service
    Fail(fail::Fail),
    /// Read and verify everything, and repair what is damaged
    Scrub(scrub::Scrub),
    /// Verify the raw media of an array that is not served, without changing anything
    Check(check::Check),
    /// Tell what each file is
    List(list::List),
}

pub(crate) fn run(verb: Verb, output: &Output) -> Result<Exit, CliError> {
    match verb {
        Verb::Create(create) => create::run(&create, output),
        Verb::Status(status) => status::run(&status, output),
        Verb::Replace(replace) => replace::run(&replace, output),
        Verb::Fail(fail) => fail::run(&fail, output),
        Verb::Scrub(scrub) => scrub::run(&scrub, output),
        Verb::Check(check) => check::run(&check, output),
        Verb::List(list) => list::run(&list, output),
    }
}
