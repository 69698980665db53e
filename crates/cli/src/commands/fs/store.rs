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
use zoneweave_store::{Client, Code, Place, PlaceError, Store, Target};

use crate::commands::serve::tell_report;
use crate::control::{self, socket_of, store_socket_of_array, store_socket_of_drive};
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
        open(session, &drives, output)?
            .map_err(|error| served(session, &drives, error.into()).unwrap_or_else(|error| error))
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
        let place = match open(&session, &drives, output)? {
            Ok(place) => place,
            Err(in_use) => match server_of(&session, &drives)? {
                Some(client) => return run_at(&session, client, output, work),
                None => return Err(served(&session, &drives, in_use.into())?),
            },
        };
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

/// Opens drives; the inner error is that of drives in use.
fn open(
    session: &Session,
    drives: &[PathBuf],
    output: &Output,
) -> Result<Result<Place, PlaceError>, CliError> {
    match session.executor.run(Place::open(&session.ring, &session.handle, drives)) {
        Err(error) if error.is_in_use() => Ok(Err(error)),
        Err(error) => Err(error.into()),
        Ok(place) => {
            if let Place::Volume { relocated_blocks, .. } = place {
                relocated(relocated_blocks, output);
            }
            Ok(Ok(place))
        }
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
fn server_of(session: &Session, drives: &[PathBuf]) -> Result<Option<Client>, CliError> {
    let socket = match find(session, drives)? {
        Some(found) => Some(store_socket_of_array(found.membership.config.array)),
        None => drives.first().and_then(|drive| store_socket_of_drive(drive)),
    };
    match socket.map(|socket| connect(session, &socket)).transpose() {
        Err(CliError::Store(failure)) if failure.code == Code::NotFound => Ok(None),
        connected => connected,
    }
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
