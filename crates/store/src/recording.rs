//! A recording: the events of a store, written to a file by a thread.
//!
//! ```text
//!   thread of the store                    thread of the file
//!   FileStore ─► Recording ─► frames ────► write
//! ```
//!
//! Invariants:
//! - A store that serves never waits for the file. A frame that finds [`FRAMES_WAITING`] others is
//!   given up, and the next one tells how many events are missing.
//! - A file that cannot be written ends the recording, not the store. This is said once, and so is
//!   at the end that events are missing.
//! - The file takes at most the bytes that it may have.

use std::cell::RefCell;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use zoneweave_filestore::trace::{Encoder, Event, Frame, Recorder, TraceHeader};
use zoneweave_linux::entropy;
use zoneweave_runtime::Nanos;
use zoneweave_zoned::{BlockCount, Geometry};

use crate::failure::{Code, Failure};

/// Frames that may wait for the file: 4 MiB.
const FRAMES_WAITING: usize = 64;

/// The most bytes of a trace file: some billion events.
const FILE_BYTES_MAX: u64 = 16 << 30;

/// Bytes that are kept for the frame of the end.
const END_BYTES: u64 = 128;

/// How long events wait for others to fill a frame, if more follow.
const FRAME_TIME: Nanos = Nanos::from_secs(1);

/// How long the end of a store waits for the file.
const LAST_TIME: Duration = Duration::from_secs(10);

/// Takes the message about a trace that is not whole.
pub type Complaint = Box<dyn FnOnce(String) + Send>;

/// A complaint that nobody has made yet.
type Unsaid = Arc<Mutex<Option<Complaint>>>;

/// The recording of a store. It ends with [`Recording::finish`].
pub struct Recording {
    has_reads: bool,
    tape: RefCell<Tape>,
}

struct Tape {
    encoder: Encoder,
    /// The time of the first event.
    begun: Option<Nanos>,
    /// Disconnected once the thread has given up; `None` once the recording has ended.
    frames: Option<SyncSender<Vec<u8>>>,
    /// Disconnected when the thread ends.
    ended: Receiver<()>,
    /// Bytes that the file still takes.
    bytes_left: u64,
    /// Takes one value, before `frames` is dropped.
    last: SyncSender<Last>,
    /// The file.
    path: Option<PathBuf>,
    unsaid: Unsaid,
    /// Events that frames say are missing.
    lost: u64,
}

/// What follows the frames.
enum Last {
    /// The frame with the end, which waits for no room.
    Frame(Vec<u8>),
    /// Nothing: the file has as many bytes as it may have.
    Full,
}

impl Recording {
    /// Begins a recording in a new file. `complain` is called at most once, in any thread.
    ///
    /// # Errors
    /// If there is such a file, or it cannot be made.
    pub fn start(
        path: &Path,
        has_reads: bool,
        geometry: &Geometry,
        buffer: BlockCount,
        complain: Complaint,
    ) -> Result<Rc<Self>, Failure> {
        let failed = |error: io::Error| {
            let (code, advice) = match error.kind() {
                ErrorKind::AlreadyExists => (Code::Exists, ": remove it, or choose another name"),
                ErrorKind::NotFound => (Code::NotFound, ""),
                _ => (Code::Io, ""),
            };
            let path = path.display();
            Failure::new(code, format!("cannot record to {path}: {error}{advice}"))
        };
        let id = entropy().map_err(failed)?;
        let header = TraceHeader::new(id, has_reads, geometry, buffer);
        let mut file =
            OpenOptions::new().write(true).create_new(true).open(path).map_err(failed)?;
        let name = path.display().to_string();
        let complain = Box::new(move |why: String| {
            complain(format!("the trace {name} is not whole: {why}"));
        });
        let begun = file.write_all(&header.encode());
        let begun = begun.and_then(|()| Self::begin(&header, file, FILE_BYTES_MAX, complain));
        let mut recording = begun.map_err(|error| {
            // It would be in the way of the next attempt.
            let _ = fs::remove_file(path);
            failed(error)
        })?;
        recording.tape.get_mut().path = Some(path.to_owned());
        Ok(Rc::new(recording))
    }

    /// Begins a recording behind a header that was written.
    fn begin(
        header: &TraceHeader,
        writer: impl Write + Send + 'static,
        bytes_most: u64,
        complain: Complaint,
    ) -> io::Result<Self> {
        let (frames, waiting) = sync_channel(FRAMES_WAITING);
        let (last, lasts) = sync_channel(1);
        let (ends, ended) = sync_channel::<()>(1);
        let unsaid: Unsaid = Arc::new(Mutex::new(Some(complain)));
        let complaints = unsaid.clone();
        thread::Builder::new().name("zoneweave-trace".to_owned()).spawn(move || {
            if let Err(why) = write_all(writer, &waiting, &lasts) {
                // From here on frames are refused.
                drop(waiting);
                say(&complaints, format!("{why}; its store goes on"));
            }
            drop(ends);
        })?;
        let tape = Tape {
            encoder: Encoder::new(header),
            begun: None,
            frames: Some(frames),
            ended,
            bytes_left: bytes_most.saturating_sub(TraceHeader::BYTES as u64 + END_BYTES),
            last,
            path: None,
            unsaid,
            lost: 0,
        };
        Ok(Self { has_reads: header.has_reads, tape: RefCell::new(tape) })
    }

    /// Ends the recording of a store that was closed, and waits for the file, if it does not take
    /// too long.
    pub fn finish(&self) {
        let mut tape = self.tape.borrow_mut();
        if tape.frames.is_none() {
            return;
        }
        tape.begun.get_or_insert(Nanos::ZERO);
        tape.send_waiting(false);
        // In a frame of its own, which tells whether the one before was given up. It follows the
        // last event at once.
        let full = tape.encoder.push(Nanos::ZERO, &Event::End);
        assert!(full.is_none(), "a frame of one event is not full");
        tape.end();
        tape.wait();
        if tape.lost > 0 {
            say(&tape.unsaid, format!("{} events are missing, its file is too slow", tape.lost));
        }
    }

    fn take(&self, at: Nanos, event: &Event, waits: bool) {
        let mut tape = self.tape.borrow_mut();
        if tape.frames.is_none() {
            return;
        }
        let begun = *tape.begun.get_or_insert(at);
        let at = at.since(begun);
        let since = tape.encoder.waiting_since();
        if since.is_some_and(|since| at.since(since) > FRAME_TIME) {
            tape.send_waiting(waits);
        }
        if let Some(frame) = tape.encoder.push(at, event) {
            tape.send(frame, waits);
        }
    }
}

/// Makes a complaint, unless one was made before.
fn say(unsaid: &Unsaid, why: String) {
    let complain = unsaid.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(complain) = complain {
        complain(why);
    }
}

/// Writes frames until there are no more.
///
/// # Errors
/// Why the trace ends early.
fn write_all(
    mut writer: impl Write,
    frames: &Receiver<Vec<u8>>,
    last: &Receiver<Last>,
) -> Result<(), String> {
    for frame in frames {
        writer.write_all(&frame).map_err(|error| error.to_string())?;
    }
    match last.try_recv() {
        Ok(Last::Frame(frame)) => writer.write_all(&frame).map_err(|error| error.to_string()),
        Ok(Last::Full) => Err("the file has the most bytes that a trace may have".to_owned()),
        Err(_) => Ok(()),
    }
}

impl Tape {
    fn send_waiting(&mut self, waits: bool) {
        if let Some(frame) = self.encoder.take() {
            self.send(frame, waits);
        }
    }

    /// Makes the events that wait the last frame.
    fn end(&mut self) {
        let Some(frame) = self.encoder.take().filter(|_| self.frames.is_some()) else { return };
        self.lost += u64::from(frame.lost());
        self.finish_with(Last::Frame(frame.bytes));
    }

    /// Waits until the thread has written all frames, if it does not take too long.
    fn wait(&mut self) {
        assert!(self.frames.is_none(), "the thread waits for more frames");
        if self.ended.recv_timeout(LAST_TIME) == Err(RecvTimeoutError::Timeout) {
            let seconds = LAST_TIME.as_secs();
            say(&self.unsaid, format!("its last part could not be written within {seconds} s"));
        }
    }

    /// Sends no more frames.
    fn finish_with(&mut self, last: Last) {
        // There is room for one, and the thread may be gone.
        let _ = self.last.try_send(last);
        self.frames = None;
    }

    fn send(&mut self, mut frame: Frame, waits: bool) {
        let Some(frames) = &self.frames else { return };
        let bytes = frame.bytes.len() as u64;
        if bytes > self.bytes_left {
            return self.finish_with(Last::Full);
        }
        let data = std::mem::take(&mut frame.bytes);
        let sent = match waits {
            true => frames.send(data).map_err(|refused| TrySendError::Disconnected(refused.0)),
            false => frames.try_send(data),
        };
        match sent {
            Ok(()) => {
                self.bytes_left -= bytes;
                self.lost += u64::from(frame.lost());
            }
            Err(TrySendError::Full(_)) => self.encoder.give_up(&frame),
            Err(TrySendError::Disconnected(_)) => self.frames = None,
        }
    }
}

impl Recorder for Recording {
    fn record(&self, at: Nanos, event: &Event) {
        self.take(at, event, false);
    }

    fn record_existing(&self, at: Nanos, event: &Event) {
        self.take(at, event, true);
    }

    fn takes_reads(&self) -> bool {
        self.has_reads
    }
}

impl Drop for Recording {
    /// A recording of no store, as of one that could not be opened, leaves nothing. One that did
    /// not finish has all events, but no end.
    fn drop(&mut self) {
        let tape = self.tape.get_mut();
        if tape.frames.is_some() {
            tape.end();
            tape.frames = None;
            tape.wait();
        }
        if let (None, Some(path)) = (tape.begun, &tape.path) {
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::sync::{Arc, Mutex};

    use super::*;
    use zoneweave_filestore::FileId;
    use zoneweave_filestore::trace::{Ending, TraceReader};

    const APPEND: Event = Event::Append { file: FileId(2), bytes: 100 };

    fn header() -> TraceHeader {
        TraceHeader::new([4; 16], false, &Geometry::new(16, BlockCount(64)), BlockCount(16))
    }

    /// A file that can fail or wait.
    struct Slow {
        written: Arc<Mutex<Vec<u8>>>,
        goes_on: Receiver<io::Result<()>>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Without a sender it never waits.
            self.goes_on.recv().unwrap_or(Ok(()))?;
            self.written.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Begun {
        recording: Recording,
        written: Arc<Mutex<Vec<u8>>>,
        go: Sender<io::Result<()>>,
        complaints: Receiver<String>,
    }

    fn begin(bytes_most: u64) -> Begun {
        let written = Arc::new(Mutex::new(header().encode().to_vec()));
        let (go, goes_on) = channel();
        let (tell, complaints) = channel();
        let slow = Slow { written: written.clone(), goes_on };
        let complain = Box::new(move |why: String| tell.send(why).unwrap());
        let recording = Recording::begin(&header(), slow, bytes_most, complain).unwrap();
        Begun { recording, written, go, complaints }
    }

    /// Events of a trace, those that it says are missing, and its end.
    fn read(written: &Mutex<Vec<u8>>) -> (u64, u64, Option<Ending>) {
        let written = written.lock().unwrap();
        let mut reader = TraceReader::open(&written[..]).unwrap();
        let (mut events, mut lost) = (0, 0);
        while let Some(timed) = reader.read_event().unwrap() {
            match timed.event {
                Event::Lost { events } => lost += events,
                _ => events += 1,
            }
        }
        (events, lost, reader.ending())
    }

    #[test]
    fn a_file_that_does_not_keep_up_costs_events_and_no_waiting() {
        let begun = begin(1 << 40);
        // Events of four bytes, in more frames than wait.
        let count = (FRAMES_WAITING as u64 + 9) * (64 << 10) / 4;
        for at in 0..count {
            begun.recording.record(Nanos(at), &APPEND);
        }
        drop(begun.go);
        begun.recording.finish();
        let (events, lost, ending) = read(&begun.written);
        assert!(lost > 0, "all of {events} events were kept");
        assert_eq!((events + lost, ending), (count, Some(Ending::Closed)));
        assert!(begun.complaints.recv().unwrap().contains(&format!("{lost} events")));
    }

    /// The frame behind one that was given up has begun by then: it did not tell what is missing,
    /// and a trace that ended there looked whole.
    #[test]
    fn events_that_are_missing_are_told_by_the_very_next_frame() {
        let begun = begin(1 << 40);
        // The thread has one frame, and the queue is full.
        let per_frame = (64 << 10) / 4;
        let full = (FRAMES_WAITING as u64 + 2) * per_frame;
        for at in 0..full + per_frame / 2 {
            begun.recording.record(Nanos(at), &APPEND);
        }
        // Some was given up, and the frame behind it is the last.
        drop(begun.go);
        drop(begun.recording);
        let (events, lost, ending) = read(&begun.written);
        assert!(lost > 0, "all of {events} events were kept");
        assert_eq!((events + lost, ending), (full + per_frame / 2, Some(Ending::Open)));
    }

    #[test]
    fn the_files_of_a_large_store_are_waited_for() {
        let begun = begin(1 << 40);
        drop(begun.go);
        let count = 3 * FRAMES_WAITING as u64 * (64 << 10) / 4;
        for at in 0..count {
            begun.recording.record_existing(Nanos(at), &APPEND);
        }
        begun.recording.finish();
        assert_eq!(read(&begun.written), (count, 0, Some(Ending::Closed)));
        assert!(begun.complaints.try_recv().is_err());
    }

    #[test]
    fn a_file_that_fails_ends_the_recording_and_is_told_once() {
        let begun = begin(1 << 40);
        begun.go.send(Err(ErrorKind::StorageFull.into())).unwrap();
        for second in 0..9 {
            begun.recording.record(Nanos::from_secs(2 * second), &APPEND);
        }
        assert!(!begun.complaints.recv().unwrap().is_empty());
        for second in 9..99 {
            begun.recording.record(Nanos::from_secs(2 * second), &APPEND);
        }
        begun.recording.finish();
        assert!(begun.complaints.recv().is_err(), "it is told twice");
        assert_eq!(read(&begun.written), (0, 0, Some(Ending::Open)));
    }

    #[test]
    fn a_file_has_no_more_bytes_than_it_may_have() {
        let begun = begin(1000);
        drop(begun.go);
        for second in 0..99 {
            begun.recording.record(Nanos::from_secs(2 * second), &APPEND);
        }
        begun.recording.finish();
        assert!(begun.complaints.recv().unwrap().contains("most bytes"));
        let (events, lost, ending) = read(&begun.written);
        assert!(events > 10 && events < 99, "{events}");
        assert_eq!((lost, ending), (0, Some(Ending::Open)));
        assert!(begun.written.lock().unwrap().len() <= 1000);
    }

    #[test]
    fn a_file_is_never_overwritten_and_a_recording_of_nothing_leaves_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        let start = || {
            let geometry = Geometry::new(16, BlockCount(64));
            Recording::start(
                &path,
                true,
                &geometry,
                BlockCount(16),
                Box::new(|why| panic!("{why}")),
            )
        };
        let first = start().unwrap();
        assert!(first.takes_reads());
        assert_eq!(start().err().unwrap().code, Code::Exists);
        drop(first);
        assert!(!path.exists());
        let killed = start().unwrap();
        killed.record(Nanos(7), &APPEND);
        drop(killed);
        let written = Mutex::new(fs::read(&path).unwrap());
        assert_eq!(read(&written), (1, 0, Some(Ending::Open)));
        fs::remove_file(&path).unwrap();
        let second = start().unwrap();
        second.record(Nanos(7), &APPEND);
        second.finish();
        second.finish();
        drop(second);
        let written = Mutex::new(fs::read(&path).unwrap());
        assert_eq!(read(&written), (1, 0, Some(Ending::Closed)));
    }
}
