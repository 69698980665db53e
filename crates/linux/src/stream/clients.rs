//! Clients: their admission, their connections, and the end of all.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::Shutdown;
use slab::Slab;
use zoneweave_runtime::{Gate, Handle, JoinHandle, Nanos, Permit, Semaphore};

use crate::host::timeout::{timeout, unless};
use crate::ring::{Descriptor, Ring};
use crate::socket::Listener;

/// How long accepting rests after the kernel refused it, usually for lack of descriptors.
const ACCEPT_PAUSE: Nanos = Nanos::from_millis(100);

/// Limits for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// Connected clients.
    pub connections: u64,
    /// Clients in their handshake.
    pub handshakes: u64,
    /// How long clients may take to accept their last replies at shutdown.
    pub shutdown_time: Nanos,
}

/// How old a handshake must be to end for that of another client: a client that means it needs a
/// few turns of the network.
const HANDSHAKE_LEAST: Nanos = Nanos::from_secs(1);

/// A client in its handshake. Dropped after it.
pub struct HandshakePlace {
    clients: Rc<Clients>,
    number: u64,
    _permit: Permit,
}

impl Drop for HandshakePlace {
    fn drop(&mut self) {
        self.clients.shaking.borrow_mut().remove(&self.number);
    }
}

/// The clients of a server.
pub struct Clients {
    ring: Ring,
    handle: Handle,
    limits: ClientLimits,
    connections: Semaphore,
    handshakes: Semaphore,
    open: RefCell<Slab<Descriptor>>,
    /// Sockets of clients in their handshake, with the times when these began, oldest first.
    shaking: RefCell<BTreeMap<u64, (Nanos, Descriptor)>>,
    is_closing: Cell<bool>,
    /// Opened when a connection ends and when the server closes.
    changed: Gate,
    misbehaved: Cell<u64>,
    /// Handshakes since the start.
    handshakes_begun: Cell<u64>,
}

impl Clients {
    /// A server without clients.
    #[must_use]
    pub fn new(ring: &Ring, handle: &Handle, limits: ClientLimits) -> Rc<Self> {
        assert!(limits.connections > 0 && limits.handshakes > 0, "a server without clients");
        Rc::new(Self {
            ring: ring.clone(),
            handle: handle.clone(),
            limits,
            connections: Semaphore::new(limits.connections),
            handshakes: Semaphore::new(limits.handshakes),
            open: RefCell::default(),
            shaking: RefCell::default(),
            is_closing: Cell::new(false),
            changed: Gate::new(),
            misbehaved: Cell::new(0),
            handshakes_begun: Cell::new(0),
        })
    }

    /// The ring of the connections.
    #[must_use]
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// The handle to start tasks with.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Clients connected, including those in their handshake.
    #[must_use]
    pub fn count(&self) -> usize {
        self.open.borrow().len()
    }

    /// Whether the server has begun to close.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.is_closing.get()
    }

    /// Connections refused or ended because the client broke a rule or a limit.
    #[must_use]
    pub fn misbehaved(&self) -> u64 {
        self.misbehaved.get()
    }

    /// Counts a client that broke a rule.
    pub fn count_misbehaviour(&self) {
        self.misbehaved.set(self.misbehaved.get() + 1);
    }

    /// Accepts clients until [`Clients::shutdown`], and runs a task for each: with its socket, and
    /// its handshake, which the task drops after that. If too many clients are in theirs, the
    /// oldest ends: clients that say nothing must not keep others out.
    pub fn listen<F: Future<Output = ()> + 'static>(
        self: &Rc<Self>,
        listener: Listener,
        run: impl Fn(Descriptor, HandshakePlace) -> F + 'static,
    ) -> JoinHandle<()> {
        let clients = self.clone();
        self.handle.spawn("listener", async move { clients.accept(&listener, run).await })
    }

    async fn accept<F: Future<Output = ()> + 'static>(
        self: &Rc<Self>,
        listener: &Listener,
        run: impl Fn(Descriptor, HandshakePlace) -> F,
    ) {
        while !self.is_closing() {
            let accepting = self.ring.accept(listener.socket());
            let Some(accepted) = unless(self.closed(), accepting).await else { return };
            let Ok(socket) = accepted else {
                self.handle.sleep(ACCEPT_PAUSE).await;
                continue;
            };
            if listener.prepare(&socket).is_err() {
                self.count_misbehaviour();
                continue;
            }
            let socket = Rc::new(socket);
            let permits = async {
                let connection = self.connections.acquire().await;
                (connection, self.begin_handshake(&socket).await)
            };
            let Some((connection, handshake)) = unless(self.closed(), permits).await else {
                return;
            };
            if self.is_closing() {
                return;
            }
            let key = self.open.borrow_mut().insert(socket.clone());
            let clients = self.clone();
            let running = run(socket, handshake);
            self.handle.spawn("connection", async move {
                running.await;
                clients.open.borrow_mut().remove(key);
                drop(connection);
                clients.changed.open();
            });
        }
    }

    async fn begin_handshake(self: &Rc<Self>, socket: &Descriptor) -> HandshakePlace {
        let permit = match self.handshakes.try_acquire() {
            Some(permit) => permit,
            None => {
                let oldest = self.shaking.borrow().first_key_value().map(|(_, (at, _))| *at);
                let age = oldest.map_or(Nanos(0), |began| self.handle.now().since(began));
                let rest = Nanos(HANDSHAKE_LEAST.0.saturating_sub(age.0));
                match timeout(&self.handle, rest, self.handshakes.acquire()).await {
                    Some(permit) => permit,
                    None => {
                        self.end_oldest_handshake();
                        self.handshakes.acquire().await
                    }
                }
            }
        };
        let number = self.handshakes_begun.get();
        self.handshakes_begun.set(number + 1);
        let shaking = (self.handle.now(), socket.clone());
        let before = self.shaking.borrow_mut().insert(number, shaking);
        assert!(before.is_none(), "handshakes are numbered in turn");
        HandshakePlace { clients: self.clone(), number, _permit: permit }
    }

    /// Its reader sees the end of the stream.
    fn end_oldest_handshake(&self) {
        if let Some((_, (_, socket))) = self.shaking.borrow().first_key_value() {
            self.count_misbehaviour();
            // It fails if the client is gone; that is harmless.
            let _ = rustix::net::shutdown(socket, Shutdown::Both);
        }
    }

    async fn closed(&self) {
        while !self.is_closing() {
            self.changed.wait().await;
        }
    }

    /// Waits until the connections of clients that have left are over, but no longer than a
    /// shutdown waits. Their files are free then. A killed process has left once its parent knows
    /// of its end.
    pub async fn leavers_gone(&self) {
        let gone = async {
            while self.open.borrow().iter().any(|(_, socket)| has_left(socket)) {
                self.changed.wait().await;
            }
        };
        // The requests of two leavers may wait for each other here: hence the limit.
        timeout(&self.handle, self.limits.shutdown_time, gone).await;
    }

    async fn all_gone(&self) {
        while !self.open.borrow().is_empty() {
            self.changed.wait().await;
        }
    }

    fn shut_all(&self, how: Shutdown) {
        for (_, socket) in self.open.borrow().iter() {
            // Shutting a socket fails if its peer is gone; that is harmless.
            let _ = rustix::net::shutdown(socket, how);
        }
    }

    /// Stops accepting, lets every connection answer the requests that it has read, and closes it.
    pub async fn shutdown(&self, listeners: Vec<JoinHandle<()>>) {
        self.is_closing.set(true);
        self.changed.open();
        for listener in listeners {
            listener.await;
        }
        // Readers see the end of their stream and wait for the requests in flight.
        self.shut_all(Shutdown::Read);
        for _ in 0..2 {
            let closed = timeout(&self.handle, self.limits.shutdown_time, self.all_gone());
            if closed.await.is_some() {
                return;
            }
            // Clients that do not listen lose their replies. A connection that is still there
            // after that waits for a device that does not answer: it is left behind.
            self.shut_all(Shutdown::Both);
        }
    }
}

/// Whether the other end of a socket is closed, even if requests of it are still to be read.
fn has_left(socket: &Descriptor) -> bool {
    let mut polled = [PollFd::new(socket, PollFlags::empty())];
    // Interrupted, it counts as connected: a request is refused as if it came a moment earlier.
    let left = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok();
    left && polled[0].revents().contains(PollFlags::HUP)
}
