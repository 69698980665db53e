//! `zoneweave fs`: the file store of a drive, or of a zoned volume.

mod backup;
mod check;
mod data;
mod dump;
mod list;
mod mkfs;
mod names;
mod replay;
mod restore;
mod space;
mod stat;
mod store;
mod trace;
mod tree;

use clap::Subcommand;

use crate::commands::serve;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use store::{DRIVES_HELP, OfStore};

/// A command to a file store.
#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Make a file store on a drive or a zoned volume
    Mkfs(mkfs::Mkfs),
    /// List a directory, or a file
    Ls(list::List),
    /// Show the space of a store, and its zones
    Df(space::Space),
    /// Show the size, placement and extents of files
    Stat(stat::Stat),
    /// Print the metadata of a store: files with their extents, and zones
    Dump(dump::Dump),
    /// Copy all files to a new local directory, with checksums and hints for placement
    Backup(backup::Backup),
    /// Copy a backup into a store, once each file of it has been verified
    Restore(restore::Restore),
    /// Write a file of the store to standard output
    Cat(data::Cat),
    /// Store a local file; a file of that name is replaced once all of it is durable
    Put(data::Put),
    /// Copy a file of the store to a local file
    Get(data::Get),
    /// Remove files, or empty directories
    Rm(names::Remove),
    /// Move a file or directory; a file that has the new name is replaced
    Mv(names::Move),
    /// Make directories
    Mkdir(names::MakeDirectories),
    /// Give a file another name
    Ln(names::Link),
    /// Verify every block of a store that is not in use, and its metadata
    Check(check::Check),
    /// Keep a store open for RocksDB and for `zoneweave fs`, until SIGTERM, SIGINT or SIGHUP
    Serve(serve::StoreServer),
    /// Show the figures and events of a recorded trace
    Trace(trace::Trace),
    /// Replay a recorded trace on an emulated drive, and show how its zones are worn
    Replay(replay::Replay),
}

pub(crate) fn run(verb: Verb, output: &Output) -> Result<Exit, CliError> {
    match verb {
        Verb::Mkfs(mkfs) => mkfs::run(&mkfs, output),
        Verb::Ls(list) => list::run(&list, output),
        Verb::Df(space) => space::run(&space, output),
        Verb::Stat(stat) => stat::run(&stat, output),
        Verb::Dump(dump) => dump::run(&dump, output),
        Verb::Backup(backup) => backup::run(&backup, output),
        Verb::Restore(restore) => restore::run(&restore, output),
        Verb::Cat(cat) => data::cat(&cat, output),
        Verb::Put(put) => data::put(&put, output),
        Verb::Get(get) => data::get(&get, output),
        Verb::Rm(remove) => names::remove(&remove, output),
        Verb::Mv(rename) => names::rename(&rename, output),
        Verb::Mkdir(make) => names::make_directories(&make, output),
        Verb::Ln(link) => names::link(&link, output),
        Verb::Check(check) => check::run(&check, output),
        Verb::Serve(request) => serve::serve_store(request, output),
        Verb::Trace(trace) => trace::run(&trace, output),
        Verb::Replay(replay) => replay::run(&replay, output),
    }
}
