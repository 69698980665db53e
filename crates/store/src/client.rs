//! A connection to a served store.
//!
//! ```text
//!   calls ─► requests with tags ─► writer task ──► socket
//!     ▲                                               │
//!     └── each call's answer ◄── reader task ◄────────┘
//! ```
//!
//! Invariants:
//! - At most [`IN_FLIGHT_BYTES`] of requests and replies are under way; further calls wait. A call
//!   that has given up counts until its reply is there.
//! - Each call ends: with its reply, after its time, or with the connection. A connection that has
//!   broken stays so; its handles are closed at the server.
//!
//! Fault model: the server is trusted with the bytes of files, since blocks are verified there, and
//! with nothing else. Its messages are parsed as those of a stranger.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use bytes::Bytes;
use rustix::io::Errno;
use rustix::net::Shutdown;
use zoneweave_linux::stream::{Input, Output};
use zoneweave_linux::{Descriptor, Ring, stranger_at, timeout, try_connect};
use zoneweave_runtime::{Handle, Nanos, Permit, Receiver, Semaphore, Sender, oneshot};

use crate::failure::{Code, Failure};
use crate::wire::{
    DATA_BYTES_MAX, FRAME_HEADER_BYTES, FrameHeader, Greeting, MESSAGE_BYTES_MAX, Reply, Request,
    VERSION, Volume, encode, framed,
};

/// Bytes of requests and replies under way on one connection.
pub(crate) const IN_FLIGHT_BYTES: u64 = 16 << 20;

/// Calls under way on one connection.
const CALLS_MAX: u64 = 256;

/// The least that a call counts for.
const CALL_BYTES_MIN: u64 = IN_FLIGHT_BYTES / CALLS_MAX;

/// Time limit for a server to accept a connection and greet, for clients with a time limit.
const GREETING_TIME: Nanos = Nanos::from_secs(3);

/// Pause before the next attempt to connect to a server whose queue is full.
const CONNECT_PAUSE: Nanos = Nanos::from_millis(50);

/// A connection to a served store. Clones are the same connection.
#[derive(Clone)]
pub struct Client(Rc<Connection>);

struct Connection {
    handle: Handle,
    socket: Descriptor,
    volume: Volume,
    /// Calls that are being sent.
    sending: Semaphore,
    /// Bytes of requests and replies of calls under way.
    budget: Semaphore,
    output: Rc<Output>,
    /// Calls by tag, with their share of the budget: until the reply is there, also if its call has
    /// given up.
    waiting: RefCell<BTreeMap<u64, (Sender<Answer>, Permit)>>,
    next_tag: Cell<u64>,
    /// Why there are no more answers.
    broken: RefCell<Option<Failure>>,
    /// Time limit for an answer, if there is one.
    patience: Option<Nanos>,
}

type Answer = Result<(Reply, Bytes), Failure>;

impl Client {
    /// Connects to the server of a store. With `patience`, each call has this time, and the server
    /// three seconds to greet; without, both wait.
    ///
    /// # Errors
    /// [`Code::NotFound`] if no server is there, [`Code::Unreachable`] if it does not answer in
    /// time or is of another release, or another user's.
    pub async fn connect(
        ring: &Ring,
        handle: &Handle,
        path: &Path,
        patience: Option<Nanos>,
    ) -> Result<Self, Failure> {
        let greeting = greet(ring, handle, path);
        // A server that is starting, or has its most clients, greets later.
        let greeted = match patience {
            None => Some(greeting.await),
            Some(_) => timeout(handle, GREETING_TIME, greeting).await,
        };
        let silent = || unreachable(path, &"it does not answer within 3 s");
        let (socket, input, volume) = greeted.unwrap_or_else(|| Err(silent()))?;
        let connection = Rc::new(Connection {
            handle: handle.clone(),
            socket,
            volume,
            sending: Semaphore::new(CALLS_MAX),
            budget: Semaphore::new(IN_FLIGHT_BYTES),
            output: Rc::new(Output::default()),
            waiting: RefCell::default(),
            next_tag: Cell::new(0),
            broken: RefCell::default(),
            patience,
        });
        let (output, to) = (connection.output.clone(), connection.socket.clone());
        let writing_ring = ring.clone();
        handle.spawn_alone("requests to a store", async move {
            output.run_requests(&writing_ring, &to).await;
        });
        // The reader ends with the socket, which the last client shuts.
        let (reading, path) = (Rc::downgrade(&connection), path.to_owned());
        handle.spawn_alone("replies of a store", async move {
            let mut input = input;
            loop {
                let received = receive(&mut input, &path).await;
                let Some(connection) = reading.upgrade() else { return };
                match received.and_then(|(tag, answer)| connection.answer(tag, answer, &path)) {
                    Ok(()) => {}
                    Err(failure) => return connection.break_off(failure),
                }
            }
        });
        let client = Self(connection);
        match client.call(Request::Greet { version: VERSION }, Bytes::new()).await? {
            (Reply::Done, _) => Ok(client),
            _ => Err(client.nonsense()),
        }
    }

    /// The label of the store.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.0.volume.label
    }

    /// Absolute paths of the drives of the store.
    #[must_use]
    pub fn drives(&self) -> &[String] {
        &self.0.volume.drives
    }

    /// Damage that the start of the store found; empty if none.
    #[must_use]
    pub fn warning(&self) -> &str {
        &self.0.volume.warning
    }

    /// Sends a request, and waits for its reply and the data behind it.
    pub(crate) async fn call(&self, request: Request, data: Bytes) -> Answer {
        let answer = self.begin(request, data).await?;
        let answered = match self.0.patience {
            None => answer.await,
            Some(patience) => match timeout(&self.0.handle, patience, answer).await {
                Some(answered) => answered,
                None => return Err(late(patience)),
            },
        };
        match answered {
            Some(Ok((Reply::Failed(failure), _))) => Err(failure),
            Some(answer) => answer,
            None => Err(self.0.why_broken()),
        }
    }

    /// Sends a request whose reply is of no interest. It is sent soon after.
    pub(crate) fn tell(&self, request: Request) {
        // At once if there is room, so that it comes before later requests.
        let share = request.share(0);
        let permits = self.0.budget.try_acquire_many(share).zip(self.0.sending.try_acquire());
        if let Some((permit, sending)) = permits {
            // A broken connection has ended its files.
            let _ = self.0.send(&encoded(&request), Bytes::new(), permit, sending);
            return;
        }
        let client = self.clone();
        self.0.handle.spawn_alone("request to a store", async move {
            // The connection may have ended, and its files with it.
            let _ = client.call(request, Bytes::new()).await;
        });
    }

    async fn begin(&self, request: Request, data: Bytes) -> Result<Receiver<Answer>, Failure> {
        let connection = &self.0;
        let message = encode(&request).map_err(|bytes| {
            Failure::invalid(format!("a path or two of {bytes} bytes: use shorter ones"))
        })?;
        let permit = connection.budget.acquire_many(request.share(data.len())).await;
        let sending = connection.sending.acquire().await;
        connection.send(&message, data, permit, sending)
    }

    /// An answer that is none to the request.
    pub(crate) fn nonsense(&self) -> Failure {
        let failure = Failure::new(Code::Unreachable, "the server of the store answers nonsense");
        self.0.break_off(failure.clone());
        failure
    }
}

impl Connection {
    fn send(
        &self,
        message: &[u8],
        data: Bytes,
        permit: Permit,
        sending: Permit,
    ) -> Result<Receiver<Answer>, Failure> {
        if let Some(failure) = self.broken.borrow().clone() {
            return Err(failure);
        }
        assert!(!self.output.is_closed(), "only a broken connection closes its output");
        let tag = self.next_tag.replace(self.next_tag.get() + 1);
        let (sender, receiver) = oneshot();
        self.waiting.borrow_mut().insert(tag, (sender, permit));
        self.output.push(framed(tag, message, data), sending);
        Ok(receiver)
    }

    /// Hands a reply to its call. A call that has given up waits no more.
    fn answer(&self, tag: u64, answer: (Reply, Bytes), path: &Path) -> Result<(), Failure> {
        let waiting = self.waiting.borrow_mut().remove(&tag);
        let (waiting, share) = waiting.ok_or_else(|| {
            unreachable(path, &"it answers requests that were not sent, or twice")
        })?;
        drop(share);
        waiting.send(Ok(answer));
        Ok(())
    }

    /// Ends the connection and all calls.
    fn break_off(&self, failure: Failure) {
        self.broken.borrow_mut().get_or_insert(failure);
        self.output.close();
        // Shutting a socket fails if its peer is gone; that is harmless.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
        // Their callers find the failure.
        let waiting = self.waiting.take();
        drop(waiting);
    }

    fn why_broken(&self) -> Failure {
        self.broken.borrow().clone().unwrap_or_else(Failure::closed)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.break_off(Failure::closed());
    }
}

impl Request {
    /// The share of a call in the budget.
    fn share(&self, data_bytes: usize) -> u64 {
        (data_bytes as u64).max(self.answer_bytes()).max(CALL_BYTES_MIN)
    }

    /// Bytes of data that a reply may have.
    pub(crate) fn answer_bytes(&self) -> u64 {
        match self {
            Self::ReadAt { length, .. } => u64::from(*length),
            Self::List { .. } => DATA_BYTES_MAX as u64,
            _ => 0,
        }
    }
}

/// The message of a request that has no path.
fn encoded(request: &Request) -> Vec<u8> {
    encode(request).unwrap_or_else(|bytes| panic!("{bytes} bytes for {request:?}"))
}

/// Connects, and receives the greeting. Until the kernel has ended the last operations of a killed
/// server, its socket accepts connections and drops them: connecting is tried again.
async fn greet(
    ring: &Ring,
    handle: &Handle,
    path: &Path,
) -> Result<(Descriptor, Input, Volume), Failure> {
    let since = handle.now();
    let is_over = || handle.now().since(since) >= GREETING_TIME;
    let (socket, mut input) = loop {
        let socket = connect(handle, path).await?;
        let mut input = Input::new(ring, &socket);
        match input.receive().await {
            Ok(true) => break (socket, input),
            Ok(false) if is_over() => {
                return Err(unreachable(path, &"it closes every connection"));
            }
            Err(error) if is_over() => return Err(unreachable(path, &error)),
            Ok(false) | Err(_) => handle.sleep(CONNECT_PAUSE).await,
        }
    };
    let (_, message, _) = receive_frame(&mut input, path).await?;
    let greeting: Greeting = serde_json::from_slice(&message)
        .map_err(|_| unreachable(path, &"it is no server of a file store"))?;
    match greeting.version {
        VERSION => Ok((socket, input, greeting.volume)),
        other => {
            let problem = format_args!(
                "it speaks protocol version {other}, this program {VERSION}: use its release"
            );
            Err(unreachable(path, &problem))
        }
    }
}

/// Connects to a server of this user.
async fn connect(handle: &Handle, path: &Path) -> Result<Descriptor, Failure> {
    let stream = loop {
        match try_connect(path) {
            Ok(stream) => break stream,
            Err(Errno::AGAIN) => handle.sleep(CONNECT_PAUSE).await,
            Err(error @ (Errno::NOENT | Errno::CONNREFUSED)) => {
                let message = format!(
                    "{}: no server of a file store: start one with `zoneweave fs serve` ({error})",
                    path.display()
                );
                return Err(Failure::new(Code::NotFound, message));
            }
            Err(error) => return Err(unreachable(path, &error)),
        }
    };
    // Before trusting the server: another user, as owner of the folder, can put any socket there.
    match stranger_at(&stream).map_err(|error| unreachable(path, &error))? {
        Some(user) => Err(unreachable(path, &format_args!("it is a process of user {user}"))),
        None => Ok(Rc::new(stream.into())),
    }
}

/// The next frame: its tag, message and data.
async fn receive_frame(input: &mut Input, path: &Path) -> Result<(u64, Bytes, Bytes), Failure> {
    let failed = |error| unreachable(path, &error);
    let header = input.take::<FRAME_HEADER_BYTES>().await.map_err(failed)?;
    let header = header.ok_or_else(|| unreachable(path, &"it closed the connection"))?;
    let header = FrameHeader::parse(header).map_err(|error| unreachable(path, &error))?;
    assert!(header.message_bytes <= MESSAGE_BYTES_MAX, "within the limits");
    let message = input.payload(header.message_bytes).await.map_err(failed)?;
    let data = input.payload(header.data_bytes).await.map_err(failed)?;
    Ok((header.tag, message, data))
}

async fn receive(input: &mut Input, path: &Path) -> Result<(u64, (Reply, Bytes)), Failure> {
    let (tag, message, data) = receive_frame(input, path).await?;
    let reply = serde_json::from_slice(&message).map_err(|error| unreachable(path, &error))?;
    Ok((tag, (reply, data)))
}

fn unreachable(path: &Path, problem: &dyn std::fmt::Display) -> Failure {
    let message = format!("the server of the file store at {}: {problem}", path.display());
    Failure::new(Code::Unreachable, message)
}

fn late(patience: Nanos) -> Failure {
    let seconds = patience.0 / Nanos::from_secs(1).0;
    let message = format!(
        "the server of the file store does not answer within {seconds} s; the change may be made yet"
    );
    Failure::new(Code::Unreachable, message)
}
