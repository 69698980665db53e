//! Requests on their way from the thread that reads them to the engine's.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

use super::request::Request;

/// Requests that may wait; the reading thread blocks while the mailbox is full.
pub(super) const LETTERS_MAX: usize = 32;

/// A bounded queue between two threads, with an event counter to wake the receiver.
pub(super) struct Mailbox {
    inside: Mutex<Inside>,
    room: Condvar,
    event: OwnedFd,
    /// Open handles of the file.
    handles: AtomicUsize,
}

#[derive(Default)]
struct Inside {
    letters: VecDeque<Request>,
    closed: bool,
}

/// An event counter.
pub(super) fn event() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// Counts an event.
pub(super) fn tell(event: &OwnedFd) {
    // A counter that is full has not been looked at.
    let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
}

impl Mailbox {
    /// An empty mailbox, and a descriptor that is readable when the mailbox has a request or is
    /// closed.
    pub(super) fn new() -> io::Result<(Self, OwnedFd)> {
        let event = event()?;
        let told = event.try_clone()?;
        let (inside, room, handles) = Default::default();
        Ok((Self { inside, room, event, handles }, told))
    }

    /// Counts a handle that was opened.
    pub(super) fn opened(&self) {
        self.handles.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a handle that was released. One that nobody has opened counts for nothing: the
    /// thread that reads requests must not end.
    pub(super) fn released(&self) {
        let fewer = |handles: usize| handles.checked_sub(1);
        let _ = self.handles.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
    }

    /// Open handles of the file: processes that have it open, or map it, and loop devices.
    pub(super) fn handles(&self) -> usize {
        self.handles.load(Ordering::Relaxed)
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        // A thread that panics leaves whole requests only.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a request in, and waits for room. Once the mailbox is closed it is dropped, which
    /// answers it with an error.
    pub(super) fn put(&self, request: Request) {
        let full = |inside: &mut Inside| inside.letters.len() >= LETTERS_MAX && !inside.closed;
        let waited = self.room.wait_while(self.inside(), full);
        let mut inside = waited.unwrap_or_else(PoisonError::into_inner);
        if !inside.closed {
            inside.letters.push_back(request);
            drop(inside);
            tell(&self.event);
        }
    }

    pub(super) fn take(&self) -> Option<Request> {
        let letter = self.inside().letters.pop_front();
        if letter.is_some() {
            self.room.notify_one();
        }
        letter
    }

    /// Lets nothing more in.
    pub(super) fn close(&self) {
        self.inside().closed = true;
        self.room.notify_all();
        tell(&self.event);
    }

    /// Whether nothing will ever be taken out again.
    pub(super) fn is_closed(&self) -> bool {
        let inside = self.inside();
        inside.closed && inside.letters.is_empty()
    }
}
