//! A connection as its reader and its requests see it: the protocol's state, and shares of memory.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;

use bytes::Bytes;
use zoneweave_nvmf::{Connection, Shutdown, Tag};
use zoneweave_runtime::{Receiver, Semaphore, Sender, oneshot};

use crate::stream::Output;

/// Bytes of answers under way that no request has a share for: to commands that need no device, and
/// calls for data. A host that takes none of them is not read from.
const ANSWERS_BYTES_MAX: u64 = 1 << 20;

/// A connection.
pub(super) struct Link {
    pub(super) connection: RefCell<Connection>,
    pub(super) output: Rc<Output>,
    pub(super) budget: Semaphore,
    answers: Semaphore,
    /// Requests that wait for data of the host.
    arrivals: RefCell<BTreeMap<Tag, Sender<Option<Bytes>>>>,
    over: Cell<bool>,
    /// A task makes everything durable for shutdowns.
    flushes: Cell<bool>,
    /// The last shutdown that it has not begun to work for.
    shutdown: Cell<Option<Shutdown>>,
}

impl Link {
    pub(super) fn new(local: SocketAddr, in_flight_bytes: u64) -> Self {
        Self {
            connection: RefCell::new(Connection::new(local)),
            output: Rc::default(),
            budget: Semaphore::new(in_flight_bytes),
            answers: Semaphore::new(ANSWERS_BYTES_MAX),
            arrivals: RefCell::default(),
            over: Cell::new(false),
            flushes: Cell::new(false),
            shutdown: Cell::new(None),
        }
    }

    /// Nothing is received any more, and requests whose data will not come end without a reply.
    pub(super) fn end(&self) {
        self.over.set(true);
        self.arrivals.take();
    }

    /// Whether nothing is received any more, so that nothing may start.
    pub(super) fn is_over(&self) -> bool {
        self.over.get()
    }

    /// Adds a shutdown, which replaces one that no flush has begun for: a host that resets its
    /// controller and shuts it down again and again keeps one flush busy. Whether the caller has to
    /// start a task for it.
    pub(super) fn begin_flush(&self, shutdown: Shutdown) -> bool {
        self.shutdown.set(Some(shutdown));
        !self.flushes.replace(true)
    }

    /// The next shutdown for the task; without one the task ends.
    pub(super) fn next_shutdown(&self) -> Option<Shutdown> {
        assert!(self.flushes.get(), "only the task takes shutdowns");
        let next = self.shutdown.take();
        self.flushes.set(next.is_some());
        next
    }

    /// Sends what the connection has to say, once there is room for it. Until then it stays there,
    /// in its order; the reply of a request takes it along.
    pub(super) async fn send_answers(&self) {
        let bytes = self.connection.borrow().output_bytes();
        if bytes == 0 {
            return;
        }
        let permit = self.answers.acquire_many(bytes as u64).await;
        self.output.push(self.connection.borrow_mut().take_output(), permit);
    }

    /// The data of this request, which is about to be fetched.
    pub(super) fn expect(&self, tag: Tag) -> Receiver<Option<Bytes>> {
        let (sender, receiver) = oneshot();
        let replaced = self.arrivals.borrow_mut().insert(tag, sender);
        assert!(replaced.is_none(), "a request fetches its data once");
        receiver
    }

    /// Gives the data of a request to it; `None` if it was damaged.
    pub(super) fn arrived(&self, tag: Tag, data: Option<Bytes>) {
        let waiting = self.arrivals.borrow_mut().remove(&tag);
        waiting.expect("data was asked for by a request").send(data);
    }
}
