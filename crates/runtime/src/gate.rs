//! A condition that tasks wait for: "something changed, look again".
//!
//! Waiting is registered before the condition is checked again, so a change between the check and
//! the wait is not missed: `loop { if check() { break } gate.wait().await }` is the whole idiom,
//! sound because nothing else runs between the check and the first poll of the wait.

use std::cell::RefCell;
use std::rc::Rc;

use crate::{Sender, oneshot};

/// Wakes everybody who waits, each time it is opened.
#[derive(Clone, Default)]
pub struct Gate(Rc<RefCell<Vec<Sender<()>>>>);

impl Gate {
    /// A gate that nobody waits at.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Wakes all who wait now; later waiters wait for the next opening.
    pub fn open(&self) {
        let waiters = self.0.take();
        for waiter in waiters {
            waiter.send(());
        }
    }

    /// Waits for the next opening.
    pub async fn wait(&self) {
        let (sender, receiver) = oneshot();
        self.0.borrow_mut().push(sender);
        // `None` means that the gate itself is gone: the caller's check decides what that means.
        receiver.await;
    }
}
