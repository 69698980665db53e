//! The signals that ask a server to stop, as something a task can wait for.
//!
//! A server heeds them at any moment. While it serves, its executor does. Before and after, it may
//! wait in a system call (for the owner of a drive, a mount, a drive that does not answer), so a
//! second thread watches the signals then:
//!
//! | phase | a signal |
//! |---|---|
//! | starting | ends the process if the start has not ended by itself after [`GRACE`] |
//! | serving | is for the executor |
//! | stopping | ends the process at once, as a crash would; a hangup does not |
//!
//! A terminal that is closed sends SIGHUP twice, by the kernel and by the shell, so a second one
//! must not end a stop.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use zoneweave_zoned::{AlignedBuffer, BlockCount};

use crate::ring::{Descriptor, Ring};
use crate::sys::signal::{die_of, ignore, is_ignored, signal_descriptor, take_pending};

/// Time for a start to end in order after a signal; the process ends within a second.
const GRACE: Duration = Duration::from_millis(600);

/// Period at which the second thread looks for signals.
const LOOKING: Duration = Duration::from_millis(50);

/// A request to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT: the operator pressed Ctrl-C.
    Interrupt,
    /// SIGTERM: the service manager wants the process to end.
    Terminate,
    /// SIGHUP: the terminal was closed.
    HangUp,
}

impl Signal {
    const fn of(number: libc::c_int) -> Option<Self> {
        match number {
            libc::SIGINT => Some(Self::Interrupt),
            libc::SIGTERM => Some(Self::Terminate),
            libc::SIGHUP => Some(Self::HangUp),
            _ => None,
        }
    }

    const fn number(self) -> libc::c_int {
        match self {
            Self::Interrupt => libc::SIGINT,
            Self::Terminate => libc::SIGTERM,
            Self::HangUp => libc::SIGHUP,
        }
    }

    /// Ends the process as this signal does where it is not received.
    pub fn end_process(self) -> ! {
        die_of(self.number())
    }
}

/// Has a write beyond the limit of file sizes (`ulimit -f`) fail: its signal, SIGXFSZ, would end
/// the process. Some file systems send it to a thread of the kernel, others to this process.
pub fn survive_file_size_limit() {
    ignore(libc::SIGXFSZ);
}

/// Receives SIGINT, SIGTERM and SIGHUP instead of dying from them. A SIGHUP that the process was
/// told to ignore (`nohup`) stays ignored.
pub struct Signals {
    ring: Option<Ring>,
    descriptor: Descriptor,
    watch: Arc<Watch>,
}

/// State shared with the second thread.
struct Watch {
    phase: Mutex<Phase>,
    changed: Condvar,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Starting,
    /// The executor has received a signal while starting.
    Ending(Signal),
    Serving,
    Stopping,
    /// Nobody waits for signals any more.
    Over,
}

impl Watch {
    fn phase(&self) -> MutexGuard<'_, Phase> {
        // A phase is always whole.
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, phase: Phase) {
        *self.phase() = phase;
        self.changed.notify_all();
    }
}

impl Signals {
    /// From now on these signals are delivered here. Call it before any thread is started. The
    /// server is starting.
    ///
    /// # Errors
    /// If the kernel refuses a signal descriptor or a thread (out of descriptors, out of memory).
    pub fn new(ring: &Ring) -> io::Result<Self> {
        Self::with(Some(ring.clone()))
    }

    /// The same without a ring, which a container may refuse: signals are looked for, and taken, as
    /// often as they shall be seen.
    ///
    /// # Errors
    /// As [`Signals::new`].
    pub fn without_ring() -> io::Result<Self> {
        Self::with(None)
    }

    fn with(ring: Option<Ring>) -> io::Result<Self> {
        let mut numbers = vec![libc::SIGINT, libc::SIGTERM];
        if !is_ignored(libc::SIGHUP) {
            numbers.push(libc::SIGHUP);
        }
        let descriptor = signal_descriptor(&numbers)?;
        let copy = descriptor.try_clone()?;
        let watch = Arc::new(Watch { phase: Mutex::new(Phase::Starting), changed: Condvar::new() });
        let watching = watch.clone();
        thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || watching.run(&copy, &numbers))?;
        Ok(Self { ring, descriptor: Rc::new(descriptor), watch })
    }

    /// The server serves: signals are for [`Signals::next`] alone.
    ///
    /// # Panics
    /// If the server was not starting.
    pub fn serving(&self) {
        let starts = matches!(*self.watch.phase(), Phase::Starting | Phase::Ending(_));
        assert!(starts, "a server starts before it serves");
        self.watch.set(Phase::Serving);
    }

    /// The server stops: one more SIGINT or SIGTERM ends the process.
    ///
    /// # Panics
    /// If the server did not serve.
    pub fn stopping(&self) {
        let serves = *self.watch.phase() == Phase::Serving;
        assert!(serves, "a server serves before it stops");
        self.watch.set(Phase::Stopping);
    }

    /// Whether a signal waits to be received.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        is_readable(&self.descriptor, Duration::ZERO)
    }

    /// Takes a signal that waits to be received.
    #[must_use]
    pub fn take(&self) -> Option<Signal> {
        // One that is ignored never waits.
        take_pending(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP]).and_then(Signal::of)
    }

    /// Waits for the next signal.
    ///
    /// # Errors
    /// Without a ring. Of the descriptor, the kernel documents none that can happen here.
    pub async fn next(&self) -> io::Result<Signal> {
        let ring = self.ring.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        loop {
            let buffer = AlignedBuffer::zeroed(BlockCount(1));
            let length = size_of::<libc::signalfd_siginfo>();
            let (buffer, count) = ring.read_some(&self.descriptor, buffer, length).await?;
            if count != length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let number =
                buffer.as_ref().first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
            let Some(signal) = i32::try_from(number).ok().and_then(Signal::of) else { continue };
            let mut phase = self.watch.phase();
            if *phase == Phase::Starting {
                *phase = Phase::Ending(signal);
            }
            return Ok(signal);
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.watch.set(Phase::Over);
    }
}

impl Watch {
    /// The second thread.
    fn run(&self, descriptor: &OwnedFd, numbers: &[libc::c_int]) {
        let mut noticed = None;
        loop {
            let phase = *self.phase();
            match phase {
                Phase::Over => return,
                Phase::Serving => {
                    noticed = None;
                    let serves = |phase: &mut Phase| *phase == Phase::Serving;
                    // A phase is always whole.
                    drop(self.changed.wait_while(self.phase(), serves));
                }
                Phase::Starting | Phase::Ending(_) => {
                    let ending = matches!(phase, Phase::Ending(_));
                    if ending || is_readable(descriptor, LOOKING) {
                        let since = *noticed.get_or_insert_with(Instant::now);
                        if since.elapsed() >= GRACE && *self.phase() == phase {
                            let received = match phase {
                                Phase::Ending(signal) => Some(signal.number()),
                                _ => take_pending(numbers),
                            };
                            die_of(received.unwrap_or(libc::SIGTERM));
                        }
                        thread::sleep(LOOKING);
                    }
                }
                Phase::Stopping => {
                    let deadly: Vec<_> =
                        numbers.iter().copied().filter(|number| *number != libc::SIGHUP).collect();
                    if let Some(number) = take_pending(&deadly) {
                        die_of(number);
                    }
                    thread::sleep(LOOKING);
                }
            }
        }
    }
}

/// Whether a signal is there, after waiting for it for a while.
fn is_readable(descriptor: &OwnedFd, limit: Duration) -> bool {
    let limit = Timespec { tv_sec: 0, tv_nsec: i64::from(limit.subsec_nanos()) };
    let mut descriptors = [PollFd::new(descriptor, PollFlags::IN)];
    poll(&mut descriptors, Some(&limit)).is_ok_and(|ready| ready > 0)
}
