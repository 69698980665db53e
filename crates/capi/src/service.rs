//! An open store in a thread of its own, for calls from any thread.
//!
//! A call leaves a letter with its work, and waits for the answer. The store's thread begins works
//! in the order of their letters. If the thread ends, or panics, it drops all works: their callers
//! notice that no answer can come.

use std::cell::Cell;
use std::ffi::CString;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use zoneweave_filestore::FileStore;
use zoneweave_filestore::trace::Recorder;
use zoneweave_linux::{Mailbox, Ring, unix_seconds};
use zoneweave_runtime::Executor;
use zoneweave_store::{Client, Code, Failure, Place, Recording, Store, Target};
use zoneweave_zoned::{BlockCount, Geometry};

use crate::uri::StoreUri;
use crate::worker::Worker;

/// Calls under way on one store; further ones wait for their turn. Far above the threads of a
/// database.
const REQUESTS_MAX: usize = 256;

/// The work of a call, to be begun in the store's thread.
type Letter = Box<dyn FnOnce(&Rc<Worker>) + Send>;

type Letters = Arc<Mailbox<Letter>>;

thread_local! {
    /// Whether this is the thread of a store. It has no destructor, so that static objects of C++
    /// can still make calls.
    static OF_A_STORE: Cell<bool> = const { Cell::new(false) };
}

/// An open store.
pub(crate) struct Service {
    letters: Letters,
    /// Damage that the start of the store found; empty if none.
    pub(crate) warning: CString,
    turns: Turns,
    /// Whether a call panicked, in whichever thread.
    is_broken: AtomicBool,
    is_closed: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Service {
    /// Opens a store in a new thread.
    pub(crate) fn open(uri: StoreUri) -> Result<Self, Failure> {
        let (opened, result) = sync_channel(1);
        let thread = thread::Builder::new().name("zoneweave-fs".to_owned());
        let thread = thread.spawn(move || run(uri, &opened)).map_err(system)?;
        // Without a result the thread has panicked.
        let Opened { letters, warning } =
            match result.recv().unwrap_or_else(|_| Err(Failure::bug())) {
                Ok(opened) => opened,
                Err(failure) => {
                    // It has the drives until it ends. It catches panics.
                    let _ = thread.join();
                    return Err(failure);
                }
            };
        Ok(Self {
            letters,
            warning: CString::new(warning).unwrap_or_default(),
            turns: Turns::new(REQUESTS_MAX),
            is_broken: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Runs work in the store's thread, and waits for it to end.
    pub(crate) fn call<T: Send + 'static, F>(
        &self,
        work: impl FnOnce(Rc<Worker>) -> F + Send + 'static,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>> + 'static,
    {
        if self.is_broken.load(Ordering::Acquire) {
            return Err(Failure::bug());
        }
        // It would wait for itself.
        assert!(!OF_A_STORE.get(), "the thread of a store calls one");
        let _turn = self.turns.take();
        let (answer, answered) = sync_channel(1);
        let letter: Letter = Box::new(move |worker: &Rc<Worker>| {
            let work = work(worker.clone());
            worker.spawn(async move {
                // The caller waits, unless this thread is about to end.
                let _ = answer.send(work.await);
            });
        });
        // A letter that is refused is dropped here, and the answer with it.
        drop(self.letters.post(letter));
        answered.recv().unwrap_or_else(|_| Err(self.ended()))
    }

    /// Why there is no answer.
    fn ended(&self) -> Failure {
        // An open store has a thread, unless that has panicked.
        if self.is_closed.load(Ordering::Acquire) {
            return Failure::closed();
        }
        self.record_panic();
        Failure::bug()
    }

    /// A call has panicked in its caller's thread.
    pub(crate) fn record_panic(&self) {
        self.is_broken.store(true, Ordering::Release);
    }

    /// Waits for calls under way, and closes the store.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.letters.close();
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread {
            // The thread catches panics.
            let _ = thread.join();
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.close();
    }
}

fn system(error: io::Error) -> Failure {
    Failure::new(Code::Io, format!("the system refused a resource: {error}"))
}

/// A store that was opened in its thread.
struct Opened {
    letters: Letters,
    warning: String,
}

/// The store's thread.
fn run(uri: StoreUri, opened: &SyncSender<Result<Opened, Failure>>) {
    OF_A_STORE.set(true);
    let (ring, letters) = match prepare() {
        Ok(prepared) => prepared,
        Err(failure) => {
            // The opener waits.
            let _ = opened.send(Err(failure));
            return;
        }
    };
    let executor = Executor::new(Rc::new(ring.clone()));
    // Outside of the futures: a panic must not drop a store while it unwinds.
    let mut place = None;
    let mut worker = None;
    // A caller without an answer reports the panic.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        match executor.run(open(&ring, &executor, uri, &mut place)) {
            Ok((store, warning, recording)) => {
                let handle = executor.handle();
                let worker = worker.insert(Worker::new(handle, store, recording));
                let _ = opened.send(Ok(Opened { letters: letters.clone(), warning }));
                executor.run(serve(worker, &letters));
            }
            Err(failure) => {
                let _ = opened.send(Err(failure));
            }
        }
        if let Some(place) = place.take() {
            executor.run(place.close());
        }
    }));
    letters.abandon();
    // Each of them may find what the panic has left behind, and panic again. The worker first:
    // handles that end start tasks, which only a living executor drops again. Such a task would
    // keep its store, and the lock of its drive, for ever.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(worker)));
    let _ = catch_unwind(AssertUnwindSafe(|| drop(executor)));
    let _ = catch_unwind(AssertUnwindSafe(|| drop(place)));
}

fn prepare() -> Result<(Ring, Letters), Failure> {
    let ring = Ring::new().map_err(|error| Failure::new(Code::Io, error.to_string()))?;
    let letters = Mailbox::of(&ring).map_err(system)?;
    Ok((ring, letters))
}

/// Opens the store, or connects to its server; with the damage that the start of the store found.
async fn open(
    ring: &Ring,
    executor: &Executor,
    uri: StoreUri,
    kept: &mut Option<Place>,
) -> Result<(Store, String, Option<Rc<Recording>>), Failure> {
    let handle = executor.handle();
    let drives = match &uri.target {
        Target::Drives(drives) => drives,
        // A database waits for its storage as long as it takes.
        Target::Socket(path) => {
            let client = Client::connect(ring, &handle, path, None).await?;
            let warning = client.warning().to_owned();
            return Ok((Store::Served(client), warning, None));
        }
    };
    let place = kept.insert(Place::open(ring, &handle, drives).await?);
    let mut options = uri.options()?;
    options.clock = Rc::new(unix_seconds);
    let recording = start_recording(&uri, place.device().geometry(), options.buffer)?;
    options.recorder = recording.clone().map(|recording| recording as Rc<dyn Recorder>);
    let (store, report) = FileStore::open(handle, place.device(), options).await?;
    Ok((Store::Own(store), report.warning().unwrap_or_default(), recording))
}

/// The recording that a URI asks for.
fn start_recording(
    uri: &StoreUri,
    geometry: &Geometry,
    buffer: BlockCount,
) -> Result<Option<Rc<Recording>>, Failure> {
    let Some(path) = &uri.trace else { return Ok(None) };
    // There is no log that it could go to; the store goes on.
    let complain = Box::new(|why: String| {
        let _ = writeln!(io::stderr(), "zoneweave: {why}");
    });
    Recording::start(path, uri.has_reads, geometry, buffer, complain).map(Some)
}

/// Begins works until the store is closed, and waits for them.
async fn serve(worker: &Rc<Worker>, letters: &Letters) {
    let mut batch = Vec::new();
    while letters.take(&mut batch).await {
        for letter in batch.drain(..) {
            letter(worker);
        }
    }
    worker.finish().await;
    worker.close();
}

/// Bounds the calls under way.
struct Turns {
    most: usize,
    left: Mutex<usize>,
    returned: Condvar,
}

struct Turn<'a>(&'a Turns);

impl Turns {
    fn new(most: usize) -> Self {
        Self { most, left: Mutex::new(most), returned: Condvar::new() }
    }

    fn take(&self) -> Turn<'_> {
        let mut left = lock(&self.left);
        while *left == 0 {
            left = self.returned.wait(left).unwrap_or_else(PoisonError::into_inner);
        }
        *left -= 1;
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut left = lock(&self.0.left);
        *left += 1;
        assert!(*left <= self.0.most, "a turn was returned twice");
        drop(left);
        self.0.returned.notify_one();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use zoneweave_filestore::trace::{Ending, TraceReader};
    use zoneweave_filestore::{FormatOptions, Hints};
    use zoneweave_linux::FileDrive;
    use zoneweave_linux::nbd::{Endpoint, Listener};
    use zoneweave_runtime::{Handle, Nanos};
    use zoneweave_store::StoreServer;
    use zoneweave_zoned::{BlockCount, Geometry};

    use super::*;

    fn with_store(folder: &Path) -> PathBuf {
        let path = folder.join("drive");
        FileDrive::create(&path, Geometry::new(16, BlockCount(64)), [7; 16]).unwrap();
        let ring = Ring::new().unwrap();
        let executor = Executor::new(Rc::new(ring.clone()));
        let drive = FileDrive::open(&ring, &executor.handle(), &path).unwrap();
        let options = FormatOptions::new([5; 16]);
        executor.run(FileStore::format(&drive, &options)).unwrap();
        path
    }

    fn open(path: &Path) -> Result<Service, Failure> {
        Service::open(StoreUri::parse(&format!("zoneweave://{}", path.display())).unwrap())
    }

    #[test]
    fn a_panic_makes_the_store_unusable_until_it_is_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = with_store(folder.path());
        let service = Arc::new(open(&path).unwrap());
        let hints = Hints::default();
        let key = service.call(async move |worker| {
            let writer = worker.store.create("/kept", hints, false).await?;
            writer.append(b"bytes").await?;
            writer.sync().await?;
            Ok(worker.writers.add(writer))
        });
        // A call that waits when another one panics.
        let waiting = service.clone();
        let waiting = thread::Builder::new().spawn(move || {
            waiting.call(async |worker| {
                let handle: Handle = worker.handle.clone();
                handle.sleep(Nanos(u64::MAX / 2)).await;
                Ok(())
            })
        });
        let broken: Result<(), _> = service.call(async |_| panic!("as this test wants"));
        assert_eq!(broken.unwrap_err().code, Code::Bug);
        assert_eq!(waiting.unwrap().join().unwrap().unwrap_err().code, Code::Bug);
        let later = service.call(async move |worker| worker.writers.get(key?)?.length().await);
        assert_eq!(later.unwrap_err().code, Code::Bug);
        service.close();
        let again = open(&path).unwrap();
        let length = again.call(async |worker| Ok(worker.store.metadata("/kept").await?.length));
        assert_eq!(length.unwrap(), 5);
    }

    #[test]
    fn calls_from_many_threads_each_get_their_answer() {
        let folder = tempfile::tempdir().unwrap();
        let service = open(&with_store(folder.path())).unwrap();
        thread::scope(|scope| {
            for number in 0..8 {
                let service = &service;
                scope.spawn(move || {
                    let path = format!("/file{number}");
                    for round in 1..=20_u64 {
                        let path = path.clone();
                        let length = service.call(async move |worker| {
                            let writer = match worker.store.append_to(&path).await {
                                Err(failure) if failure.code == Code::NotFound => {
                                    worker.store.create(&path, Hints::default(), false).await?
                                }
                                other => other?,
                            };
                            writer.append(b"1234567").await?;
                            writer.sync().await?;
                            writer.length().await
                        });
                        assert_eq!(length.unwrap(), 7 * round);
                    }
                });
            }
        });
        service.close();
        let closed = service.call(async |worker| worker.store.list("/").await);
        assert_eq!(closed.unwrap_err().code, Code::Stopped);
    }

    /// Serves the store of a drive at a socket, in a thread, until something is sent.
    fn serve_at(path: &Path, socket: &Path) -> (SyncSender<()>, JoinHandle<()>) {
        let (stop, stopped) = sync_channel(0);
        let (path, socket) = (path.to_owned(), socket.to_owned());
        let (ready, is_ready) = sync_channel(0);
        let server = thread::Builder::new().spawn(move || {
            let ring = Ring::new().unwrap();
            let executor = Executor::new(Rc::new(ring.clone()));
            let handle = executor.handle();
            let drive = Rc::new(FileDrive::open(&ring, &handle, &path).unwrap());
            let options = zoneweave_filestore::OpenOptions::default();
            let (store, _) = executor.run(FileStore::open(handle.clone(), drive, options)).unwrap();
            let listener = Listener::start(&Endpoint::Unix(socket)).unwrap();
            let (drives, warning) = (Vec::new(), String::new());
            let _server =
                StoreServer::start(&ring, &handle, store, drives, warning, vec![listener]);
            ready.send(()).unwrap();
            executor.run(async {
                while stopped.try_recv().is_err() {
                    handle.sleep(Nanos::from_millis(1)).await;
                }
            });
        });
        is_ready.recv().unwrap();
        (stop, server.unwrap())
    }

    /// More handles than requests fit a connection: the last ones would start tasks.
    #[test]
    fn a_client_that_is_closed_with_many_handles_gives_back_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let (stop, server) = serve_at(&with_store(folder.path()), &socket);
        let uri = format!("zoneweave://unix:{}", socket.display());
        let open = || Service::open(StoreUri::parse(&uri).unwrap()).unwrap();
        let first = open();
        let opened = first.call(async |worker| {
            let lock = worker.store.create("/LOCK", Hints::default(), true).await?;
            worker.writers.add(lock);
            for _ in 0..700 {
                worker.readers.add(worker.store.open_file("/LOCK").await?);
            }
            Ok(())
        });
        opened.unwrap();
        let second = open();
        let lock = || second.call(async |worker| worker.store.append_to("/LOCK").await.map(drop));
        assert_eq!(lock().unwrap_err().code, Code::Busy);
        drop(first);
        // The server finds the end of the connection soon, or this test never ends.
        while let Err(failure) = lock() {
            assert_eq!(failure.code, Code::Busy);
        }
        drop(second);
        stop.send(()).unwrap();
        server.join().unwrap();
    }

    #[test]
    fn a_store_records_its_files_until_it_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let path = with_store(folder.path());
        let trace = folder.path().join("trace");
        let uri = format!("zoneweave://{}?trace={}", path.display(), trace.display());
        let open = || Service::open(StoreUri::parse(&uri).unwrap());
        let service = open().unwrap();
        let written = service.call(async |worker| {
            let file = worker.store.create("/1.log", Hints::default(), false).await?;
            file.append(&[7; 5000]).await?;
            file.sync().await?;
            file.close().await?;
            worker.store.rename("/1.log", "/1.sst").await
        });
        written.unwrap();
        service.close();
        let mut reader = TraceReader::open(std::fs::File::open(&trace).unwrap()).unwrap();
        let mut names = Vec::new();
        while let Some(timed) = reader.read_event().unwrap() {
            names.push(timed.event.name());
        }
        assert_eq!(names, ["create", "append", "sync", "flush", "close", "rename"]);
        assert_eq!(reader.ending(), Some(Ending::Closed));
        // A trace is never overwritten.
        assert_eq!(open().err().unwrap().code, Code::Exists);
    }

    #[test]
    fn a_second_opener_and_a_drive_without_store_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = with_store(folder.path());
        let service = open(&path).unwrap();
        assert_eq!(open(&path).err().unwrap().code, Code::Busy);
        drop(service);
        let blank = folder.path().join("blank");
        FileDrive::create(&blank, Geometry::new(16, BlockCount(64)), [8; 16]).unwrap();
        assert_eq!(open(&blank).err().unwrap().code, Code::NotFound);
        assert_eq!(open(&folder.path().join("gone")).err().unwrap().code, Code::NotFound);
        let small = folder.path().join("small");
        FileDrive::create(&small, Geometry::new(2, BlockCount(64)), [9; 16]).unwrap();
        let refused = open(&small).err().unwrap();
        assert!(matches!(refused.code, Code::NotFound | Code::Invalid), "{refused:?}");
    }
}
