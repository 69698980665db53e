//! A queue of messages from one thread to another, in order.
//!
//! It is unbounded: senders limit their requests, as [`super::RemoteDevice`] does, and each has one
//! answer.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use crate::ring::{Doorbell, Ring};

/// A mailbox of a thread with a ring.
pub struct Mailbox<T> {
    state: Mutex<State<T>>,
    /// The doorbell of the receiver's ring.
    doorbell: Arc<Doorbell>,
}

struct State<T> {
    letters: Vec<T>,
    /// The receiver's waker, while it waits.
    taker: Option<Waker>,
    closed: bool,
}

impl<T> Mailbox<T> {
    /// A mailbox of the thread of a ring.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn of(ring: &Ring) -> io::Result<Arc<Self>> {
        ring.doorbell().map(Self::new)
    }

    pub(super) fn new(doorbell: Arc<Doorbell>) -> Arc<Self> {
        let state = State { letters: Vec::new(), taker: None, closed: false };
        Arc::new(Self { state: Mutex::new(state), doorbell })
    }

    /// Leaves a message.
    ///
    /// # Errors
    /// The message, if the receiver is gone.
    pub fn post(&self, letter: T) -> Result<(), T> {
        let mut state = self.lock();
        if state.closed {
            return Err(letter);
        }
        state.letters.push(letter);
        self.wake(state);
        Ok(())
    }

    /// Says that nothing will be left any more.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        self.wake(state);
    }

    /// The receiver is gone: refuses messages from now on, and drops those queued.
    pub fn abandon(&self) {
        let mut state = self.lock();
        state.closed = true;
        let letters = std::mem::take(&mut state.letters);
        drop(state);
        // They may close other mailboxes.
        drop(letters);
    }

    /// Waits until there are letters, and takes them all in exchange for an empty list; `false`
    /// after the last.
    pub async fn take(&self, letters: &mut Vec<T>) -> bool {
        std::future::poll_fn(|context| {
            let mut state = self.lock();
            if !state.letters.is_empty() {
                std::mem::swap(&mut state.letters, letters);
                Poll::Ready(true)
            } else if state.closed {
                Poll::Ready(false)
            } else {
                state.taker = Some(context.waker().clone());
                Poll::Pending
            }
        })
        .await
    }

    fn wake(&self, mut state: MutexGuard<'_, State<T>>) {
        let taker = state.taker.take();
        drop(state);
        if let Some(taker) = taker {
            taker.wake();
            self.doorbell.ring();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
