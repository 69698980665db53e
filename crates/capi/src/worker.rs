//! What the store's thread owns: the store, and its open files by number.

use std::cell::Cell;
use std::rc::Rc;

use zoneweave_runtime::{Gate, Handle};
use zoneweave_store::{Reader, Recording, Store, Table, Writer};

/// The store and its open files.
pub(crate) struct Worker {
    pub(crate) handle: Handle,
    pub(crate) store: Store,
    recording: Option<Rc<Recording>>,
    pub(crate) writers: Table<Writer>,
    pub(crate) readers: Table<Reader>,
    /// Calls that have not ended.
    running: Cell<u64>,
    ended: Gate,
}

impl Worker {
    pub(crate) fn new(handle: Handle, store: Store, recording: Option<Rc<Recording>>) -> Rc<Self> {
        Rc::new(Self {
            handle,
            store,
            recording,
            writers: Table::default(),
            readers: Table::default(),
            running: Cell::new(0),
            ended: Gate::new(),
        })
    }

    /// Runs the work of a call as a task.
    pub(crate) fn spawn(self: &Rc<Self>, work: impl Future<Output = ()> + 'static) {
        self.running.set(self.running.get() + 1);
        let worker = self.clone();
        self.handle.spawn_alone("call", async move {
            work.await;
            worker.running.set(worker.running.get() - 1);
            worker.ended.open();
        });
    }

    /// Waits until all calls have ended.
    pub(crate) async fn finish(&self) {
        while self.running.get() > 0 {
            self.ended.wait().await;
        }
    }

    /// Closes the store, and ends its recording.
    pub(crate) fn close(&self) {
        self.store.close();
        if let Some(recording) = &self.recording {
            recording.finish();
        }
    }
}
