//! The store of a command.
//!
//! The store is opened in this process for one command, or reached at its server: at a socket that
//! is named, or at the one that the server of a drive in use has in the runtime directory.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use clap::Args;
use zoneweave_filestore::{FileStore, OpenOptions};
use zoneweave_linux::unix_seconds;
use zoneweave_runtime::Nanos;
use zoneweave_store::{Client, Code, Place, Store, Target};

use crate::commands::serve::tell_report;
use crate::control::{
    self, has_store_sockets, socket_of, store_socket_of_array, store_socket_of_drive,
};
use crate::drives::paths::same_file;
use crate::error::CliError;
use crate::output::Output;
use crate::session::Session;
use crate::zoned::{find, relocated};

/// The place of a store.
#[derive(Args, Clone, Debug)]
pub(super) struct OfStore {
    /// Drive with a file store, or all drives of a zoned volume with one: DRIVE,DRIVE... Or a
    /// store that is served: unix:SOCKET
    #[arg(value_name = "STORE")]
    pub(super) store: PathBuf,
}

/// The help of a store for commands that no server does.
pub(super) const DRIVES_HELP: &str = "Drive, or all drives of a zoned volume: DRIVE,DRIVE...";

/// Time limit for each answer of the server of a store. Only a server that hangs needs more: it
/// relocates garbage before a write waits for long.
const PATIENCE: Nanos = Nanos::from_secs(30);

impl OfStore {
    /// The drives.
    ///
    /// # Errors
    /// If a server is named instead.
    pub(super) fn drives(&self) -> Result<Vec<PathBuf>, CliError> {
        match Target::of(self.store.as_os_str()) {
            Target::Drives(drives) => Ok(drives),
            Target::Socket(_) => {
                let problem = "name the drives: this needs a store that is not served".to_owned();
                Err(CliError::Usage { option: "<STORE>", problem })
            }
        }
    }

    /// Opens the device.
    pub(super) fn place(&self, session: &Session, output: &Output) -> Result<Place, CliError> {
        let drives = self.drives()?;
        refuse_copies(session, &drives)?;
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
    pub(super) fn run<T>(
        &self,
        output: &Output,
        work: impl AsyncFnOnce(&Store) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        let session = Session::new()?;
        let drives = match Target::of(self.store.as_os_str()) {
            Target::Drives(drives) => drives,
            Target::Socket(socket) => {
                let client = connect(&session, &socket)?;
                return run_at(&session, client, output, work);
            }
        };
        // Before the drives are opened: a lock is waited for, in case its holder was just killed.
        if let Some(client) = server_of(&session, &drives)? {
            return run_at(&session, client, output, work);
        }
        let place = self.place(&session, output)?;
        let options = OpenOptions { clock: Rc::new(unix_seconds), ..OpenOptions::default() };
        session.executor.run(async {
            let opened = FileStore::open(session.handle.clone(), place.device(), options).await;
            let done = match opened {
                Ok((store, report)) => {
                    tell_report(&report, output);
                    let store = Store::Own(store);
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

fn connect(session: &Session, socket: &Path) -> Result<Client, CliError> {
    let Session { executor, ring, handle } = session;
    Ok(executor.run(Client::connect(ring, handle, socket, Some(PATIENCE)))?)
}

/// Runs work on a store that is served.
fn run_at<T>(
    session: &Session,
    client: Client,
    output: &Output,
    work: impl AsyncFnOnce(&Store) -> Result<T, CliError>,
) -> Result<T, CliError> {
    if !client.warning().is_empty() {
        output.warning(client.warning());
    }
    let store = Store::Served(client);
    session.executor.run(work(&store))
}

/// The server of the store of drives that are in use, if there is one.
///
/// # Errors
/// If it does not answer, or serves other drives: copies have the same UUIDs.
fn server_of(session: &Session, drives: &[PathBuf]) -> Result<Option<Client>, CliError> {
    // The common case, in which the drives need not be surveyed twice.
    if !has_store_sockets() {
        return Ok(None);
    }
    let socket = match (find(session, drives)?, drives) {
        (Some(found), _) => Some(store_socket_of_array(found.membership.config.array)),
        (None, [drive]) => store_socket_of_drive(drive),
        (None, _) => None,
    };
    let Some(socket) = socket else { return Ok(None) };
    let client = match connect(session, &socket) {
        Err(CliError::Store(failure)) if failure.code == Code::NotFound => return Ok(None),
        connected => connected?,
    };
    let is_served =
        |drive: &PathBuf| client.drives().iter().any(|served| same_file(Path::new(served), drive));
    match drives.iter().any(is_served) {
        true => Ok(Some(client)),
        false => {
            let label = drives.first().map(|drive| drive.display().to_string());
            let original = client.drives().first().map(PathBuf::from);
            let (label, original) = (label.unwrap_or_default(), original.unwrap_or_default());
            Err(CliError::CopyOfServed { label, original, socket })
        }
    }
}

/// # Errors
/// If the drives are copies of those of a volume that is served, or former members of it.
fn refuse_copies(session: &Session, drives: &[PathBuf]) -> Result<(), CliError> {
    // The common case, in which the drives need not be surveyed twice.
    if control::sockets().is_empty() {
        return Ok(());
    }
    // The caller opens the drives next: that finds their faults, and whether they are in use.
    let Ok(Some(found)) = find(session, drives) else { return Ok(()) };
    found.client().map(drop)
}

/// The error of drives in use: they may be those of a volume that is served.
///
/// # Errors
/// If this cannot be found out.
fn served(session: &Session, drives: &[PathBuf], error: CliError) -> Result<CliError, CliError> {
    let Some(found) = find(session, drives)? else { return Ok(error) };
    let socket = socket_of(found.membership.config.array);
    Ok(match control::Client::connect(&socket)? {
        Some(_) => CliError::ZonedServed { socket },
        None => CliError::NoServer { problem: error.to_string(), socket },
    })
}
