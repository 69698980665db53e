//! An array of in-memory drives behind our own server, in its own thread.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use zoneweave_linux::nbd::{Endpoint, Listener, NbdExport, NbdLimits, NbdServer};

use crate::commands::bench::volume::{Array, Bench as Drives};
use crate::commands::bench::workload::{USED_PERCENT, scheme};
use crate::error::CliError;

/// An order to the thread: serve a new array until the other end of the socket is closed.
struct Order {
    /// Whether to write every block first.
    fill: bool,
    until: OwnedFd,
}

/// Facts about the thread: the files of its times, and the size of its arrays.
struct Facts {
    schedstat: PathBuf,
    volume_bytes: u64,
    physical_blocks: u64,
}

/// The thread with the drives.
pub(super) struct Host {
    socket: PathBuf,
    facts: Facts,
    orders: Option<Sender<Order>>,
    /// Two per order: once it can be used, and once it has ended.
    answers: Receiver<Result<(), CliError>>,
    thread: Option<JoinHandle<()>>,
}

/// A running server; clients must disconnect before it is stopped.
pub(super) struct Serving<'a> {
    host: &'a Host,
    _until: UnixStream,
}

impl Host {
    pub(super) fn start(zones: u32, socket: PathBuf) -> Result<Self, CliError> {
        let ((orders, ordered), (answering, answers)) = (channel(), channel());
        let (telling, told) = channel();
        let place = socket.clone();
        let thread = std::thread::Builder::new().name("bench server".to_owned()).spawn(move || {
            let drives = Drives::new(scheme().columns(), zones);
            let facts = drives.and_then(|drives| Ok((facts(&drives)?, drives)));
            match facts {
                Err(error) => drop(telling.send(Err(error))),
                Ok((facts, drives)) => {
                    // The starter waits for these.
                    let _ = telling.send(Ok(facts));
                    work(&drives, &place, &ordered, &answering);
                }
            }
        });
        let thread =
            thread.map_err(|error| CliError::System { action: "start a thread", error })?;
        let facts = told.recv().expect("the thread tells before it ends")?;
        Ok(Self { socket, facts, orders: Some(orders), answers, thread: Some(thread) })
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    pub(super) fn volume_bytes(&self) -> u64 {
        self.facts.volume_bytes
    }

    pub(super) fn physical_blocks(&self) -> u64 {
        self.facts.physical_blocks
    }

    pub(super) fn processor_time(&self) -> Result<u64, CliError> {
        let path = &self.facts.schedstat;
        let broken = |error| CliError::File { path: path.clone(), action: "read", error };
        let text = std::fs::read_to_string(path).map_err(broken)?;
        Ok(text.split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or(0))
    }

    /// Serves a new array.
    pub(super) fn serve(&self, fill: bool) -> Result<Serving<'_>, CliError> {
        let pair = UnixStream::pair();
        let (ours, until) =
            pair.map_err(|error| CliError::System { action: "make a pair of sockets", error })?;
        let order = Order { fill, until: until.into() };
        let orders = self.orders.as_ref().expect("there until this is dropped");
        orders.send(order).expect("the thread takes orders until there are no more");
        self.answer()?;
        Ok(Serving { host: self, _until: ours })
    }

    fn answer(&self) -> Result<(), CliError> {
        self.answers.recv().expect("the thread answers every order")
    }
}

impl Serving<'_> {
    pub(super) fn stop(self) -> Result<(), CliError> {
        let Self { host, _until } = self;
        drop(_until);
        host.answer()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported already.
            let _ = thread.join();
        }
    }
}

fn facts(drives: &Drives) -> Result<Facts, CliError> {
    let link = Path::new("/proc/thread-self");
    let own = std::fs::read_link(link).map_err(|error| CliError::File {
        path: link.to_owned(),
        action: "read",
        error,
    })?;
    let array = drives.array(scheme(), USED_PERCENT)?;
    let volume_bytes = array.blocks * 4096;
    array.close()?;
    Ok(Facts {
        schedstat: Path::new("/proc").join(own).join("schedstat"),
        volume_bytes,
        physical_blocks: drives.physical_blocks(scheme()),
    })
}

fn work(
    drives: &Drives,
    socket: &Path,
    orders: &Receiver<Order>,
    answers: &Sender<Result<(), CliError>>,
) {
    while let Ok(order) = orders.recv() {
        let ready = || drop(answers.send(Ok(())));
        if answers.send(carry_out(drives, socket, order, ready)).is_err() {
            return;
        }
    }
}

fn carry_out(
    drives: &Drives,
    socket: &Path,
    order: Order,
    ready: impl FnOnce(),
) -> Result<(), CliError> {
    let array = drives.array(scheme(), USED_PERCENT)?;
    if order.fill {
        array.fill()?;
    }
    serve(drives, &array, socket, order.until, ready)?;
    array.close()
}

fn serve(
    drives: &Drives,
    array: &Array<'_>,
    socket: &Path,
    until: OwnedFd,
    ready: impl FnOnce(),
) -> Result<(), CliError> {
    let session = &drives.session;
    let export = NbdExport {
        name: "bench".to_owned(),
        description: String::new(),
        device: Rc::new(array.volume.clone()),
    };
    let listeners = vec![Listener::start(&Endpoint::Unix(socket.to_owned()))?];
    let limits = NbdLimits::default();
    let server = NbdServer::start(&session.ring, &session.handle, vec![export], listeners, limits)?;
    ready();
    let until = Rc::new(until);
    session.executor.run(async {
        let ended = session.ring.readable(&until).await;
        server.shutdown().await;
        ended.map_err(|error| CliError::System { action: "wait for the end of a load", error })
    })
}
