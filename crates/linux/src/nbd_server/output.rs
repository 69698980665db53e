//! The sending half of a connection: one writer, fed by the tasks of its requests.
//!
//! The queue needs no bound of its own: each reply carries the budget of its request.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use bytes::Bytes;
use rustix::net::Shutdown;
use zoneweave_runtime::{Gate, Permit};

use crate::{Descriptor, Ring};

/// Pieces sent in one system call; the kernel takes 1,024.
const PIECES_MAX: usize = 512;

/// A reply and the budget it gives back once it is sent.
struct Reply {
    pieces: Vec<Bytes>,
    budget: Permit,
}

/// Replies on their way to a client.
#[derive(Default)]
pub(super) struct Output {
    queue: RefCell<VecDeque<Reply>>,
    closed: Cell<bool>,
    changed: Gate,
}

impl Output {
    /// Queues a reply.
    pub(super) fn push(&self, pieces: Vec<Bytes>, budget: Permit) {
        self.queue.borrow_mut().push_back(Reply { pieces, budget });
        self.changed.open();
    }

    /// Lets the writer end when the queue is empty.
    pub(super) fn close(&self) {
        self.closed.set(true);
        self.changed.open();
    }

    /// Sends replies until the output is closed. When the client takes no more the connection is
    /// shut, so that its reader ends too, and later replies are dropped.
    pub(super) async fn run(&self, ring: &Ring, socket: &Descriptor) {
        let mut broken = false;
        while let Some((pieces, budgets)) = self.next().await {
            if !broken && ring.send_all(socket, pieces).await.is_err() {
                broken = true;
                let _ = rustix::net::shutdown(socket, Shutdown::Both);
            }
            drop(budgets);
        }
    }

    /// As many queued replies as fit one call, at least one; `None` after the last.
    async fn next(&self) -> Option<(Vec<Bytes>, Vec<Permit>)> {
        loop {
            let (mut pieces, mut budgets) = (Vec::new(), Vec::new());
            while pieces.len() < PIECES_MAX
                && let Some(reply) = self.queue.borrow_mut().pop_front()
            {
                pieces.extend(reply.pieces);
                budgets.push(reply.budget);
            }
            if !budgets.is_empty() {
                return Some((pieces, budgets));
            }
            if self.closed.get() {
                return None;
            }
            self.changed.wait().await;
        }
    }
}
