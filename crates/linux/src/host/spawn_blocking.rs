//! One blocking call in a new thread, so that the engine's thread never blocks.
//!
//! [`Worker`](crate::host::worker::Worker) is for callers with many calls.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::event::{EventfdFlags, eventfd};

use crate::ring::Ring;

/// Signals the ring when it is dropped, so also if the work panics.
struct Tell(OwnedFd);

impl Drop for Tell {
    fn drop(&mut self) {
        // A counter that is full has not been looked at.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

/// Runs blocking work in a new thread. If the future is dropped, the work continues, and its result
/// is dropped in that thread.
///
/// # Errors
/// If there are no descriptors or threads left, or the work panicked.
pub(crate) async fn spawn_blocking<T: Send + 'static>(
    ring: &Ring,
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let tell = Tell(event.try_clone()?);
    let place = Arc::new(Mutex::new(None));
    let result = place.clone();
    thread::Builder::new().name(name.to_owned()).spawn(move || {
        let _tell = tell;
        let output = work();
        *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(output);
    })?;
    ring.readable(&Rc::new(event)).await?;
    let output = place.lock().unwrap_or_else(PoisonError::into_inner).take();
    output.ok_or_else(|| io::Error::other("a thread ended without a result"))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use futures_util::future::join;
    use zoneweave_runtime::Executor;

    use super::*;

    #[test]
    fn others_go_on_while_work_waits_for_them() {
        let ring = Ring::new().unwrap();
        let executor = Executor::new(Rc::new(ring.clone()));
        let (go, wait) = channel();
        let work = move || wait.recv().unwrap();
        let (brought, ()) = executor
            .run(join(spawn_blocking(&ring, "test", work), async { go.send("a result").unwrap() }));
        assert_eq!(brought.unwrap(), "a result");
    }

    #[test]
    fn work_that_panics_is_not_waited_for() {
        let ring = Ring::new().unwrap();
        let executor = Executor::new(Rc::new(ring.clone()));
        let work = || -> u32 { panic!("as this test wants") };
        assert!(executor.run(spawn_blocking(&ring, "test", work)).is_err());
    }
}
