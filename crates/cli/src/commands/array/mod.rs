//! `zoneweave array`: create, inspect and maintain arrays.

mod assemble;
mod check;
mod clear;
pub(crate) mod create;
mod fail;
mod jobs;
mod lifecycle;
mod list;
mod online;
mod replace;
mod scrub;
mod status;

use clap::Subcommand;

use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Create an array on drives
    Create(create::Create),
    /// Start the servers of the configuration file's volumes whose drives are all here
    Assemble(assemble::Assemble),
    /// Stop the server of an array, and wait until its drives are free
    Stop(lifecycle::Stop),
    /// Give an array that is not served another name
    Rename(lifecycle::Rename),
    /// Erase all members of an array that is not served: its data are lost
    Destroy(lifecycle::Destroy),
    /// Show the state of an array, served or not
    Status(status::StatusOf),
    /// Replace the drive of a slot and rebuild its contents
    Replace(replace::Replace),
    /// Take a drive out of service
    Fail(fail::Fail),
    /// Take a drive of a served array out of service for a while, to be put back by `online`
    Offline(online::Offline),
    /// Put the former drive of a slot back; only what it missed is copied
    Online(online::Online),
    /// Add or remove hot spares of a served array
    #[command(subcommand)]
    Spare(lifecycle::spare::Verb),
    /// Read and verify all data and parity, and repair damage
    Scrub(scrub::Scrub),
    /// Forget errors and lost ranges, once the data are restored: a damaged array is healthy again
    Clear(clear::Clear),
    /// Show the rebuilds and scrubs of a served array
    Jobs(jobs::Jobs),
    /// Check the raw media of an array that is not served (read-only)
    Check(check::Check),
    /// List drives with the array that each belongs to
    List(list::List),
}

pub(crate) fn run(verb: Verb, output: &Output) -> Result<Exit, CliError> {
    match verb {
        Verb::Create(create) => create::run(&create, output),
        Verb::Assemble(request) => assemble::run(&request, output),
        Verb::Stop(stop) => lifecycle::stop(&stop, output),
        Verb::Rename(rename) => lifecycle::rename(&rename, output),
        Verb::Destroy(destroy) => lifecycle::destroy(&destroy, output),
        Verb::Status(status) => status::run(&status, output),
        Verb::Replace(replace) => replace::run(&replace, output),
        Verb::Fail(fail) => fail::run(&fail, output),
        Verb::Offline(offline) => online::offline(&offline, output),
        Verb::Online(online) => online::online(&online, output),
        Verb::Spare(verb) => lifecycle::spare::run(verb, output),
        Verb::Scrub(scrub) => scrub::run(&scrub, output),
        Verb::Clear(clear) => clear::run(&clear, output),
        Verb::Jobs(jobs) => jobs::run(&jobs, output),
        Verb::Check(check) => check::run(&check, output),
        Verb::List(list) => list::run(&list, output),
    }
}
