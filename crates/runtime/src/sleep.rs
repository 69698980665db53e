//! Waiting in a task for a moment in time.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::{Nanos, Reactor, timer};

/// A future that is ready at a deadline; dropping it cancels the timer.
pub struct Sleep {
    reactor: Rc<dyn Reactor>,
    deadline: Nanos,
    key: Option<timer::Key>,
}

impl Sleep {
    pub(crate) fn new(reactor: Rc<dyn Reactor>, deadline: Nanos) -> Self {
        Self { reactor, deadline, key: None }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if let Some(key) = self.key.take() {
            self.reactor.timers().cancel(key);
        }
        if self.reactor.now() >= self.deadline {
            return Poll::Ready(());
        }
        let waker = context.waker().clone();
        self.key = Some(self.reactor.timers().wake_at(self.deadline, waker));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.reactor.timers().cancel(key);
        }
    }
}
