//! Serves a file store: `zoneweave fs serve`.
//!
//! The server listens in the runtime directory, where `zoneweave fs` looks for the server of drives
//! in use, and at the sockets that were asked for. It listens before it opens the store, so that a
//! start that cannot serve changes nothing.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde::Serialize;
use zoneweave_filestore::trace::Recorder;
use zoneweave_filestore::{FileStore, OpenReport};
use zoneweave_linux::Drive;
use zoneweave_linux::nbd::{Endpoint, Listener};
use zoneweave_raid::log::format::ArrayUuid;
use zoneweave_store::{PlaceError, Recording, StoreServer};
use zoneweave_zoned::ZonedDevice;

use super::descriptors;
use super::fronts::{STORE, look, unix_path};
use super::options::Served;
use super::place::StorePlace;
use super::stop::Stop;
use crate::control::{listen, store_socket_of_array, store_socket_of_drive};
use crate::error::{CliError, usage};
use crate::exit::Exit;
use crate::format::word;
use crate::output::Output;
use crate::session::Session;

/// The sockets of a store that is about to be opened: clients can connect, and wait.
pub(super) struct StoreSockets<'a> {
    place: &'a StorePlace,
    listeners: Vec<Listener>,
    /// The first is in the runtime directory.
    paths: Vec<PathBuf>,
}

/// A store in service.
pub(super) struct ServedStore {
    store: FileStore,
    server: StoreServer,
    recording: Option<Rc<Recording>>,
    uris: Vec<String>,
}

impl StorePlace {
    /// Listens for the clients of the store of an array.
    pub(super) fn listen_for(&self, array: ArrayUuid) -> Result<StoreSockets<'_>, CliError> {
        self.listen(store_socket_of_array(array))
    }

    fn listen(&self, own: PathBuf) -> Result<StoreSockets<'_>, CliError> {
        let mut listeners = vec![listen(own.clone())?];
        let mut paths = vec![own];
        for address in &self.sockets {
            let path = unix_path(address)?;
            listeners.push(Listener::start(&Endpoint::Unix(path.clone()))?);
            paths.push(path);
        }
        assert_eq!(listeners.len(), paths.len(), "a path for each socket");
        Ok(StoreSockets { place: self, listeners, paths })
    }
}

impl StoreSockets<'_> {
    /// Opens the store of a device, and answers its clients.
    pub(super) async fn start(
        self,
        session: &Session,
        device: Rc<dyn ZonedDevice>,
        drives: &[PathBuf],
        output: &Output,
    ) -> Result<ServedStore, CliError> {
        assert!(!self.listeners.is_empty(), "a store is served at its own socket");
        let mut options = self.place.options()?;
        let (geometry, buffer) = (device.geometry(), options.buffer);
        let recording = self.place.start_recording(geometry, buffer, output)?;
        options.recorder = recording.clone().map(|recording| recording as Rc<dyn Recorder>);
        let (store, report) = FileStore::open(session.handle.clone(), device, options).await?;
        tell_report(&report, output);
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let drives = drives.iter().map(|path| absolute(path).display().to_string()).collect();
        let warning = report.warning().unwrap_or_default();
        let uri = |path: &Path| format!("{STORE}unix:{}", encoded(path));
        let uris = self.paths.iter().map(|path| uri(&absolute(path))).collect();
        let (ring, handle) = (&session.ring, &session.handle);
        let server =
            StoreServer::start(ring, handle, store.clone(), drives, warning, self.listeners);
        Ok(ServedStore { store, server, recording, uris })
    }
}

/// A path in a URI of a store.
fn encoded(path: &Path) -> String {
    let path = path.display().to_string();
    path.replace('%', "%25").replace('?', "%3F").replace(',', "%2C")
}

impl ServedStore {
    /// Where clients reach it, the socket in the runtime directory first.
    pub(super) fn uris(&self) -> &[String] {
        &self.uris
    }

    /// The number of its clients, for as long as it is served.
    pub(super) fn clients(&self) -> impl Fn() -> usize + 'static {
        self.server.connections()
    }

    /// Answers the requests that were read, and closes the store.
    pub(super) async fn stop(self) {
        self.server.shutdown().await;
        self.store.close();
        if let Some(recording) = self.recording {
            recording.finish();
        }
    }

    /// How RocksDB uses it.
    pub(super) fn hints(&self) -> Vec<String> {
        let hint = |uri: &String| format!("RocksDB: --fs_uri={}", word(uri));
        self.uris.iter().take(1).map(hint).collect()
    }
}

/// Tells what the start of a store has found.
pub(crate) fn tell_report(report: &OpenReport, output: &Output) {
    if report.damaged_records > 0 {
        output.detail(format_args!(
            "{} torn or damaged metadata records were ignored",
            report.damaged_records
        ));
    }
    if let Some(warning) = report.warning() {
        output.warning(warning);
    }
}

#[derive(Serialize)]
struct Serving<'a> {
    uris: &'a [String],
    label: String,
}

/// The store of a drive, in service.
pub(super) struct Running(ServedStore);

/// Starts the store of a drive.
pub(super) fn start(
    stop: &Stop<'_>,
    (request, place): (&Served, &StorePlace),
    drives: &[PathBuf],
    output: &Output,
) -> Result<Running, CliError> {
    let session = stop.session;
    let [path] = drives else { return Err(PlaceError::NoVolume.into()) };
    if request.force || request.rebuild_limit.is_some() {
        let problem = "is for zoned volumes, and this is a store on one drive: leave it out";
        let option = if request.force { "force" } else { "rebuild-limit" };
        return Err(usage(option)(problem.to_owned()));
    }
    let drive = Rc::new(Drive::open(&session.ring, &session.handle, path)?);
    let own = store_socket_of_drive(path).ok_or(CliError::NoArray)?;
    let sockets = place.listen(own)?;
    stop.check()?;
    descriptors::check()?;
    // A start that a signal ends in the middle is a crash, to the store.
    let store = stop.run(sockets.start(session, drive, drives, output))??;
    Ok(Running(store))
}

impl Running {
    /// Serves until a signal, then closes the store.
    pub(super) fn serve(self, stop: &Stop<'_>, output: &Output) -> Result<Exit, CliError> {
        let Stop { session, signals, lifecycle } = stop;
        let Self(store) = self;
        let serving = Serving { uris: store.uris(), label: store.store.label() };
        output.result("fs-serving", &serving, |output| {
            store.hints().iter().for_each(|hint| output.line(hint));
            store.uris().iter().for_each(|uri| output.line(look(uri)));
            output.line("ready; stop with Ctrl-C");
        });
        lifecycle.serving(&format!("file store {}", serving.label));
        let signal = session.executor.run(signals.next());
        signals.stopping();
        lifecycle.stopping();
        output.note("stopping: finishing requests in flight");
        session.executor.run(store.stop());
        signal.map_err(|error| CliError::System { action: "wait for a signal", error })?;
        output.note("stopped; all synced bytes are on the drive");
        Ok(Exit::Done)
    }
}
