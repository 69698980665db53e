//! The server side: connections as tasks on the ring that also runs the drives.

use std::cell::OnceCell;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::rc::Rc;

use bytes::Bytes;
use zoneweave_linux::nbd::Listener;
use zoneweave_linux::{Descriptor, Ring};
use zoneweave_raid::log::format::ArrayUuid;
use zoneweave_runtime::{Gate, Handle, Nanos, Permit, Semaphore};
use zoneweave_zoned::{AlignedBuffer, BLOCK_BYTES, BlockCount};

use self::silent::Silent;
use super::service::remote_result;
use super::stop::{Stopping, ask_to_stop};
use super::zones::DATA_BLOCKS;
use super::{
    Answered, PROTOCOL_VERSION, REQUEST_BYTES, Request, Response, ServedArray, ServedDrive,
    directory, socket_of,
};
use crate::error::CliError;
use crate::exit::Exit;
use crate::job::Job;
use crate::status::ArrayStatus;
use crate::wait::until;

mod silent;

/// Clients served at once; more wait in the kernel, or take the places of silent ones.
const CONNECTIONS: u64 = 32;

/// Commands to zones at once. Their work goes on if a client disconnects, so these count as well:
/// drives that hang must not fill the memory.
const ZONE_COMMANDS: u64 = 16;

/// Jobs of hours at once, most of which wait for another one.
const JOBS: u64 = 8;

/// Other requests at once, such as the one to fail a drive that hangs.
const OTHER_REQUESTS: u64 = 64;

const _: () = assert!(ZONE_COMMANDS + JOBS < CONNECTIONS, "places for other requests");

/// Time limit for a client to send its request.
const REQUEST_TIME: Nanos = Nanos::from_secs(10);

/// Time limit for a client to receive an answer.
const RESPONSE_TIME: Nanos = Nanos::from_secs(10);

/// Period of progress messages.
const PROGRESS_PERIOD: Nanos = Nanos::from_millis(200);

/// Pause after the kernel refused to accept a connection.
const ACCEPT_PAUSE: Nanos = Nanos::from_millis(100);

/// The control socket of a server that prepares to start: clients can connect, and wait for their
/// greeting. It is removed with this.
pub(crate) struct ControlSocket {
    listener: Listener,
}

/// The control socket of a running server; it is removed with this.
pub(crate) struct ControlServer {
    closing: Gate,
    service: Rc<OnceCell<Rc<dyn ServedArray>>>,
}

/// What a server knows while its array is assembled.
pub(crate) struct Starting {
    /// The drives that it has open.
    pub(crate) drives: Vec<ServedDrive>,
    pub(crate) status: ArrayStatus,
}

impl Starting {
    /// The answer to a request.
    fn answer(&self, request: &Request) -> Response {
        let result = match request {
            Request::Status => remote_result(&self.status),
            _ => Err(CliError::Starting),
        };
        Response::of(result)
    }
}

impl ControlSocket {
    /// Listens for requests about an array.
    ///
    /// # Errors
    /// If the socket cannot be made, for example because another server has it.
    pub(crate) fn listen(array: ArrayUuid) -> Result<Self, CliError> {
        Ok(Self { listener: directory::listen(socket_of(array))? })
    }

    /// Answers requests: until [`ControlServer::started`] with the status of a start.
    pub(crate) fn serve(self, ring: &Ring, handle: &Handle, starting: Starting) -> ControlServer {
        let closing = Gate::new();
        let service = Rc::new(OnceCell::new());
        let connections = Connections {
            ring: ring.clone(),
            handle: handle.clone(),
            starting: Rc::new(starting),
            service: service.clone(),
            places: Semaphore::new(CONNECTIONS),
            silent: Silent::default(),
            work: Work::new(),
        };
        let closed = closing.clone();
        handle.spawn("control listener", async move {
            until(closed.wait(), connections.listen(self.listener)).await;
        });
        ControlServer { closing, service }
    }
}

impl ControlServer {
    /// The array is in service: answers all requests from now on.
    pub(crate) fn started(&self, service: Rc<dyn ServedArray>) {
        assert!(self.service.set(service).is_ok(), "an array starts once");
    }

    /// Stops listening and removes the socket.
    pub(crate) fn close(&self) {
        self.closing.open();
    }
}

struct Connections {
    ring: Ring,
    handle: Handle,
    starting: Rc<Starting>,
    service: Rc<OnceCell<Rc<dyn ServedArray>>>,
    places: Semaphore,
    silent: Silent,
    work: Work,
}

/// Limits of the work for clients.
#[derive(Clone)]
struct Work {
    zones: Semaphore,
    jobs: Semaphore,
    others: Semaphore,
}

impl Work {
    fn new() -> Self {
        Self {
            zones: Semaphore::new(ZONE_COMMANDS),
            jobs: Semaphore::new(JOBS),
            others: Semaphore::new(OTHER_REQUESTS),
        }
    }

    /// Admits a request until the result is dropped; `None` if there are too many.
    fn admit(&self, request: &Request) -> Option<Permit> {
        match request {
            Request::Zones { .. } => self.zones.try_acquire(),
            Request::Scrub | Request::Replace { .. } | Request::Online { .. } => {
                self.jobs.try_acquire()
            }
            _ => self.others.try_acquire(),
        }
    }
}

impl Connections {
    async fn listen(self, listener: Listener) {
        loop {
            let accepted = self.ring.accept(listener.socket()).await;
            let admitted = accepted.and_then(|socket| {
                listener.prepare(&socket)?;
                Ok(socket)
            });
            match admitted {
                Ok(socket) => {
                    let place = self.place().await;
                    let connection = Connection::new(&self, socket);
                    self.handle.spawn("control connection", async move {
                        // If the client disconnects, its request still completes.
                        let _ = connection.run().await;
                        drop(place);
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                Err(_) => self.handle.sleep(ACCEPT_PAUSE).await,
            }
        }
    }

    /// A place for a new client: a free one, or that of the oldest silent connection.
    async fn place(&self) -> Permit {
        if let Some(place) = self.places.try_acquire() {
            return place;
        }
        self.silent.end_oldest();
        self.places.acquire().await
    }
}

struct Connection {
    ring: Ring,
    handle: Handle,
    starting: Rc<Starting>,
    service: Rc<OnceCell<Rc<dyn ServedArray>>>,
    socket: Descriptor,
    silent: Silent,
    work: Work,
}

impl Connection {
    fn new(connections: &Connections, socket: OwnedFd) -> Self {
        Self {
            ring: connections.ring.clone(),
            handle: connections.handle.clone(),
            starting: connections.starting.clone(),
            service: connections.service.clone(),
            socket: Rc::new(socket),
            silent: connections.silent.clone(),
            work: connections.work.clone(),
        }
    }

    async fn run(self) -> io::Result<()> {
        let service = self.service.get();
        let drives = service.map_or_else(|| self.starting.drives.clone(), |it| it.drives());
        self.send(&Response::Hello { version: PROTOCOL_VERSION, drives }).await?;
        let receiving = until(self.handle.sleep(REQUEST_TIME), self.receive());
        let received = self.silent.request(receiving).await.flatten();
        let Some((line, begun)) = received.transpose()?.flatten() else { return Ok(()) };
        let request: Request = match serde_json::from_slice(&line) {
            Ok(request) => request,
            Err(error) => {
                let message = format!("invalid request: {error}");
                return self.send(&Response::Failed { exit: Exit::Usage.code(), message }).await;
            }
        };
        let blocks = request.sent_blocks();
        if blocks > DATA_BLOCKS {
            let message = format!("invalid request: {blocks} blocks at once");
            return self.send(&Response::Failed { exit: Exit::Usage.code(), message }).await;
        }
        let received = until(self.handle.sleep(REQUEST_TIME), self.receive_data(blocks, &begun));
        let Some(data) = received.await.transpose()?.flatten() else { return Ok(()) };
        if request == Request::Stop {
            return self.stop().await;
        }
        let Some(service) = self.service.get().cloned() else {
            return self.send(&self.starting.answer(&request)).await;
        };
        let Some(admitted) = self.work.admit(&request) else {
            return self.send(&Response::of(Err(CliError::Busy))).await;
        };
        // The work is a task of its own: it continues if the client disconnects.
        let rebuild = matches!(request, Request::Replace { .. } | Request::Online { .. });
        let of_service = service.clone();
        let responding = of_service.respond(request, data);
        let mut work = pin!(self.handle.spawn("control request", async move {
            let outcome = responding.await;
            drop(admitted);
            outcome
        }));
        let outcome = loop {
            match until(self.handle.sleep(PROGRESS_PERIOD), work.as_mut()).await {
                Some(outcome) => break outcome,
                None => {
                    let job = service.progress(rebuild).unwrap_or(Job { done: 0, total: 1 });
                    self.send(&Response::Progress { job }).await?;
                }
            }
        };
        match outcome {
            Ok(Answered { result, data }) => self.send_with(&Response::Done { result }, data).await,
            Err(error) => self.send(&Response::of(Err(error))).await,
        }
    }

    /// Ends the process in order. The answer comes first: a server that starts ends at once.
    async fn stop(&self) -> io::Result<()> {
        let answered = self.send(&Response::of(remote_result(&Stopping::of_process()))).await;
        ask_to_stop()?;
        answered
    }

    /// Receives the first line, and what has come behind it; `None` if it is missing or too long.
    async fn receive(&self) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
        let blocks = u32::try_from(REQUEST_BYTES / BLOCK_BYTES).unwrap_or(1);
        let mut buffer = AlignedBuffer::zeroed(BlockCount(blocks));
        let mut filled = 0;
        while filled < REQUEST_BYTES {
            let (returned, count) =
                self.ring.receive(&self.socket, buffer, filled..REQUEST_BYTES).await?;
            buffer = returned;
            if count == 0 {
                return Ok(None);
            }
            filled += count;
            assert!(filled <= REQUEST_BYTES, "the kernel received {filled} bytes");
            let received = &buffer.as_ref()[..filled];
            if let Some(end) = received.iter().position(|byte| *byte == b'\n') {
                return Ok(Some((received[..end].to_vec(), received[end + 1..].to_vec())));
            }
        }
        Ok(None)
    }

    /// Receives the data of a request, which has begun to come with its line; `None` if it ends
    /// early, or does not end with the data.
    async fn receive_data(&self, blocks: u32, begun: &[u8]) -> io::Result<Option<Bytes>> {
        assert!(blocks <= DATA_BLOCKS, "{blocks} blocks were admitted");
        let length = blocks as usize * BLOCK_BYTES;
        if length == 0 {
            return Ok(Some(Bytes::new()));
        }
        if begun.len() > length {
            return Ok(None);
        }
        let mut buffer = AlignedBuffer::zeroed(BlockCount(blocks));
        buffer.as_mut()[..begun.len()].copy_from_slice(begun);
        let mut filled = begun.len();
        while filled < length {
            let (returned, count) = self.ring.receive(&self.socket, buffer, filled..length).await?;
            buffer = returned;
            if count == 0 {
                return Ok(None);
            }
            filled += count;
        }
        assert_eq!(filled, length, "nothing is received behind the data");
        Ok(Some(buffer.freeze()))
    }

    async fn send(&self, response: &Response) -> io::Result<()> {
        self.send_with(response, Vec::new()).await
    }

    /// Sends a response and the data behind it.
    async fn send_with(&self, response: &Response, data: Vec<Bytes>) -> io::Result<()> {
        let mut line = serde_json::to_vec(response)?;
        line.push(b'\n');
        let parts = std::iter::once(Bytes::from(line)).chain(data).collect();
        let sending = self.ring.send_all(&self.socket, parts);
        let sent = until(self.handle.sleep(RESPONSE_TIME), sending).await;
        sent.unwrap_or(Err(io::ErrorKind::TimedOut.into()))
    }
}

#[cfg(test)]
mod tests;
