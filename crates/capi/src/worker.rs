//! What the store's thread owns: the store, and its open files by number.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use slab::Slab;
use zoneweave_filestore::{FileReader, FileStore, FileWriter};
use zoneweave_runtime::{Gate, Handle};

use crate::failure::Failure;

/// The store and its open files.
pub(crate) struct Worker {
    pub(crate) handle: Handle,
    pub(crate) store: FileStore,
    pub(crate) writers: Table<FileWriter>,
    pub(crate) readers: Table<FileReader>,
    /// Calls that have not ended.
    running: Cell<u64>,
    ended: Gate,
}

/// Open files. A number is used again, but only after its handle was freed.
pub(crate) struct Table<T>(RefCell<Slab<Rc<T>>>);

impl<T> Table<T> {
    pub(crate) fn add(&self, file: T) -> usize {
        self.0.borrow_mut().insert(Rc::new(file))
    }

    pub(crate) fn get(&self, key: usize) -> Result<Rc<T>, Failure> {
        self.0.borrow().get(key).cloned().ok_or_else(Failure::closed)
    }

    pub(crate) fn remove(&self, key: usize) -> Result<Rc<T>, Failure> {
        self.0.borrow_mut().try_remove(key).ok_or_else(Failure::closed)
    }
}

impl Worker {
    pub(crate) fn new(handle: Handle, store: FileStore) -> Rc<Self> {
        Rc::new(Self {
            handle,
            store,
            writers: Table(RefCell::default()),
            readers: Table(RefCell::default()),
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
}
