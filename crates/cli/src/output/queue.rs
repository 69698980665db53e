//! A thread that works off a bounded queue, so that a server never waits for it.
//!
//! Items that find the queue full are dropped, and the next one that is queued says how many were.
//!
//! Fault model: the work may take for ever. Then items are dropped, and the end of the process
//! waits for a limited time.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// A bounded queue, and its thread.
pub(crate) struct Queue<T> {
    /// `None` once it has ended.
    items: Mutex<Option<SyncSender<Queued<T>>>>,
    /// Disconnected when the thread ends.
    ended: Mutex<Receiver<()>>,
    dropped: AtomicU64,
}

struct Queued<T> {
    item: T,
    /// Items before it that were dropped.
    dropped: u64,
}

impl<T: Send + 'static> Queue<T> {
    /// Starts a thread that calls `work` for each item, with the number of items that were dropped
    /// before it. At most `waiting` items wait.
    ///
    /// # Errors
    /// If there is no thread for it.
    pub(crate) fn start(
        name: &str,
        waiting: usize,
        mut work: impl FnMut(T, u64) + Send + 'static,
    ) -> io::Result<Self> {
        let (items, queued) = sync_channel::<Queued<T>>(waiting);
        let (ends, ended) = sync_channel::<()>(1);
        let run = move || {
            for Queued { item, dropped } in queued {
                work(item, dropped);
            }
            drop(ends);
        };
        thread::Builder::new().name(name.to_owned()).spawn(run)?;
        let (items, ended) = (Mutex::new(Some(items)), Mutex::new(ended));
        Ok(Self { items, ended, dropped: AtomicU64::new(0) })
    }

    /// Queues an item, without waiting for the thread.
    pub(crate) fn put(&self, item: T) {
        let dropped = self.dropped.swap(0, Ordering::Relaxed);
        let items = lock(&self.items);
        let queued = items.as_ref().map(|items| items.try_send(Queued { item, dropped }));
        if !matches!(queued, Some(Ok(()))) {
            self.dropped.fetch_add(dropped + 1, Ordering::Relaxed);
        }
    }

    /// Items that were dropped since one was queued.
    #[cfg(test)]
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Takes no more items, and waits until those that wait are worked off, for `limit` at most.
    /// Returns whether they are.
    pub(crate) fn end(&self, limit: Duration) -> bool {
        drop(lock(&self.items).take());
        lock(&self.ended).recv_timeout(limit) != Err(RecvTimeoutError::Timeout)
    }
}

/// A lock of a value that is always whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn items_that_find_the_queue_full_are_dropped_and_counted() {
        let (go, going) = channel::<()>();
        let (tell, told) = channel();
        let work = move |item: u32, dropped| {
            going.recv().unwrap();
            tell.send((item, dropped)).unwrap();
        };
        let queue = Queue::start("test", 2, work).unwrap();
        // The thread may have taken one already.
        (0..10).for_each(|item| queue.put(item));
        let dropped = queue.dropped();
        assert!((7..=8).contains(&dropped), "{dropped}");
        assert!(!queue.end(Duration::ZERO));
        queue.put(10);
        assert_eq!(queue.dropped(), dropped + 1);
        drop(queue);
        (0..10 - dropped).for_each(|_| go.send(()).unwrap());
        assert_eq!(told.iter().count() as u64, 10 - dropped);
    }

    #[test]
    fn the_end_waits_for_what_is_queued() {
        let (tell, told) = channel();
        let work = move |item: u32, dropped: u64| tell.send((item, dropped)).unwrap();
        let queue = Queue::start("test", 100, work).unwrap();
        (0..100).for_each(|item| queue.put(item));
        assert!(queue.end(Duration::MAX));
        assert!(told.iter().eq((0..100).map(|item| (item, 0))));
        assert!(queue.end(Duration::ZERO), "it has ended");
    }
}
