//! The sending half of a connection: one writer, fed by the tasks of its requests.
//!
//! All queued replies are sent together, by a call that does not block; the ring sends only the
//! part that the socket had no room for. The queue needs no limit of its own: each reply holds the
//! budget of its request.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};

use bytes::{Buf, Bytes};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, Shutdown, sendmsg};
use zoneweave_runtime::{Gate, Permit};

use crate::ring::{Descriptor, Ring};

/// Pieces sent in one system call; the kernel takes 1,024.
const PIECES_MAX: usize = 512;

/// So much is sent without letting others run, at the most and one call more.
const AT_ONCE_BYTES: usize = 512 << 10;

/// The least that a call counts for.
const CALL_BYTES: usize = 32 << 10;

/// Replies on their way to a client, each in one piece or several, and the budgets that they give
/// back once they are sent.
#[derive(Default)]
struct Queue {
    /// Acknowledgements: 16 bytes each.
    acknowledgements: Vec<u8>,
    pieces: Vec<Bytes>,
    budgets: Vec<Permit>,
}

/// Replies on their way to a client.
#[derive(Default)]
pub struct Output {
    queue: RefCell<Queue>,
    closed: Cell<bool>,
    changed: Gate,
}

impl Output {
    /// Queues a reply.
    pub fn push(&self, pieces: Vec<Bytes>, budget: Permit) {
        let mut queue = self.queue.borrow_mut();
        queue.pieces.extend(pieces);
        queue.budgets.push(budget);
        drop(queue);
        self.changed.open();
    }

    /// Queues a reply that is only a header. Headers of many such replies become one piece.
    pub fn push_acknowledgement(&self, header: [u8; 16], budget: Permit) {
        let mut queue = self.queue.borrow_mut();
        queue.acknowledgements.extend_from_slice(&header);
        queue.budgets.push(budget);
        drop(queue);
        self.changed.open();
    }

    /// Lets the writer end when the queue is empty.
    pub fn close(&self) {
        self.closed.set(true);
        self.changed.open();
    }

    /// Whether it was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Sends replies until the output is closed. When the client takes no more the connection is
    /// shut, so that its reader ends too, and later replies are dropped.
    pub async fn run(&self, ring: &Ring, socket: &Descriptor) {
        self.run_until_broken(ring, socket, Shutdown::Both).await;
    }

    /// As [`Output::run`], for a client's requests: replies of a server that takes no more requests
    /// can still be received.
    pub async fn run_requests(&self, ring: &Ring, socket: &Descriptor) {
        self.run_until_broken(ring, socket, Shutdown::Write).await;
    }

    async fn run_until_broken(&self, ring: &Ring, socket: &Descriptor, broken_how: Shutdown) {
        let mut broken = false;
        while let Some(Queue { acknowledgements, mut pieces, budgets }) = self.next().await {
            if !acknowledgements.is_empty() {
                pieces.push(acknowledgements.into());
            }
            if !broken && send(ring, socket, pieces).await.is_err() {
                broken = true;
                let _ = rustix::net::shutdown(socket, broken_how);
            }
            drop(budgets);
        }
    }

    /// All replies that are queued, at least one; `None` after the last.
    async fn next(&self) -> Option<Queue> {
        loop {
            let queue = self.queue.take();
            if !queue.budgets.is_empty() {
                return Some(queue);
            }
            if self.closed.get() {
                return None;
            }
            self.changed.wait().await;
        }
    }
}

/// Sends all pieces: without blocking up to a limit that is fair to other tasks, the rest through
/// the ring.
async fn send(ring: &Ring, socket: &Descriptor, pieces: Vec<Bytes>) -> io::Result<()> {
    let mut rest = pieces;
    rest.reverse();
    let mut at_once_bytes = 0;
    while !rest.is_empty() {
        let sent = match send_now(socket, &mut rest) {
            Ok(sent) => sent,
            Err(Errno::INTR) => 0,
            Err(Errno::AGAIN) => AT_ONCE_BYTES,
            Err(error) => return Err(error.into()),
        };
        // A client may take little at a time, and for ever.
        at_once_bytes += sent.max(CALL_BYTES);
        if at_once_bytes >= AT_ONCE_BYTES && !rest.is_empty() {
            rest.reverse();
            return ring.send_all(socket, rest).await;
        }
    }
    Ok(())
}

/// Sends as much as the socket has room for, and removes it. `rest` is in reverse order: its last
/// piece is sent first.
fn send_now(socket: &Descriptor, rest: &mut Vec<Bytes>) -> rustix::io::Result<usize> {
    let slices: Vec<_> =
        rest.iter().rev().take(PIECES_MAX).map(|piece| IoSlice::new(piece)).collect();
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let all = sendmsg(socket, &slices, &mut SendAncillaryBuffer::default(), flags)?;
    let mut sent = all;
    while let Some(piece) = rest.last_mut() {
        if piece.len() > sent {
            piece.advance(sent);
            break;
        }
        sent -= piece.len();
        rest.pop();
    }
    Ok(all)
}
