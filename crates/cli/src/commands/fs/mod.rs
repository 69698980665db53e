//! `zoneweave fs`: the file store of a drive, or of a zoned volume.
//!
//! The store is opened in this process for one command, so nothing else may have it open.

mod check;
mod data;
mod list;
mod mkfs;
mod names;
mod space;

use std::path::PathBuf;
use std::rc::Rc;

use clap::{Args, Subcommand};
use zoneweave_filestore::{FileStore, OpenOptions};
use zoneweave_linux::unix_seconds;
use zoneweave_store::{Place, split_drives};

use crate::control::{Client, socket_of};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::session::Session;
use crate::zoned::{find, relocated};

/// A command to a file store.
#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Make a file store on a drive or a zoned volume
    Mkfs(mkfs::Mkfs),
    /// List a directory, or a file
    Ls(list::List),
    /// Show the space of a store, and its zones
    Df(space::Space),
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
}

/// The place of a store.
#[derive(Args, Clone, Debug)]
pub(super) struct OfStore {
    /// Drive with a file store, or all drives of a zoned volume with one: DRIVE,DRIVE...
    #[arg(value_name = "STORE")]
    store: PathBuf,
}

pub(crate) fn run(verb: Verb, output: &Output) -> Result<Exit, CliError> {
    match verb {
        Verb::Mkfs(mkfs) => mkfs::run(&mkfs, output),
        Verb::Ls(list) => list::run(&list, output),
        Verb::Df(space) => space::run(&space, output),
        Verb::Cat(cat) => data::cat(&cat, output),
        Verb::Put(put) => data::put(&put, output),
        Verb::Get(get) => data::get(&get, output),
        Verb::Rm(remove) => names::remove(&remove, output),
        Verb::Mv(rename) => names::rename(&rename, output),
        Verb::Mkdir(make) => names::make_directories(&make, output),
        Verb::Ln(link) => names::link(&link, output),
        Verb::Check(check) => check::run(&check, output),
    }
}

impl OfStore {
    /// Opens the device.
    fn place(&self, session: &Session, output: &Output) -> Result<Place, CliError> {
        let drives = split_drives(self.store.as_os_str());
        let place = session.executor.run(Place::open(&session.ring, &session.handle, &drives));
        match place {
            Err(error) if error.is_in_use() => Err(served(session, &drives, error.into())?),
            Err(error) => Err(error.into()),
            Ok(place) => {
                if let Place::Volume { relocated_blocks, .. } = place {
                    relocated(relocated_blocks, output);
                }
                Ok(place)
            }
        }
    }

    /// Runs work on the store, and closes it.
    ///
    /// # Errors
    /// If the store cannot be opened, or the work fails.
    fn run<T>(
        &self,
        output: &Output,
        work: impl AsyncFnOnce(&FileStore) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        let session = Session::new()?;
        let place = self.place(&session, output)?;
        let options = OpenOptions { clock: Rc::new(unix_seconds), ..OpenOptions::default() };
        session.executor.run(async {
            let opened = FileStore::open(session.handle.clone(), place.device(), options).await;
            let done = match opened {
                Ok((store, report)) => {
                    if report.damaged_records > 0 {
                        output.detail(format_args!(
                            "{} torn or damaged metadata records were ignored",
                            report.damaged_records
                        ));
                    }
                    if let Some(warning) = report.warning() {
                        output.warning(warning);
                    }
                    let done = work(&store).await;
                    store.close();
                    done
                }
                Err(error) => Err(error.into()),
            };
            place.close().await;
            done
        })
    }
}

/// The error of drives in use: they may be those of a volume that is served.
///
/// # Errors
/// If this cannot be found out.
fn served(session: &Session, drives: &[PathBuf], error: CliError) -> Result<CliError, CliError> {
    let Some(found) = find(session, drives)? else { return Ok(error) };
    let socket = socket_of(found.membership.config.array);
    Ok(match Client::connect(&socket)? {
        Some(_) => CliError::ZonedServed { socket },
        None => CliError::NoServer { problem: error.to_string(), socket },
    })
}
