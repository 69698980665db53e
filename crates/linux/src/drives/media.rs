//! What errors of reads tell of media.
//!
//! A volume gives up the place of a damaged block for good, and a start decides by what drives say.
//! The block layer has names of its own for medium errors and failed checks of the protection of a
//! block (`blk_errors` in the kernel's `block/blk-core.c`). `EIO` is any other failure. It is also
//! the medium error of virtio disks, loop devices, some SCSI sense codes and file systems, which
//! have no better name.
//!
//! An unclear error is therefore repeated for about a second, so that a path may come back. It is
//! damage if the last repetition fails too, and the drive has answered another question both
//! before and after it. Otherwise the drive has given no answer about the block.
//!
//! The second is paid once for a damaged area: for some time after a verdict of damage, reads with
//! an unclear error are repeated once, after the shortest delay. A scrub of many damaged blocks
//! would take days otherwise.

use std::cell::Cell;
use std::io;

use zoneweave_runtime::{Handle, Nanos};

/// The delays before the repetitions of a read with an unclear error, as those of NVMe commands.
const DELAYS: [Nanos; 3] =
    [Nanos::from_millis(50), Nanos::from_millis(200), Nanos::from_millis(800)];

/// The time after a verdict of damage in which another takes the first delay alone.
const KNOWN: Nanos = Nanos::from_secs(10);

/// What an error of a read tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The blocks are damaged.
    Damaged,
    /// They may be, or the way to them has failed.
    Unclear,
    /// Nothing of the blocks.
    Nothing,
}

/// What an error of a read tells of its blocks.
pub(super) fn verdict_of(error: &io::Error) -> Verdict {
    match error.raw_os_error() {
        Some(libc::ENODATA | libc::EILSEQ) => Verdict::Damaged,
        // Any failure, one of the target, an answer that does not fit, a damaged file system.
        Some(libc::EIO | libc::EREMOTEIO | libc::EBADMSG | libc::EUCLEAN) => Verdict::Unclear,
        _ => Verdict::Nothing,
    }
}

/// Why a read has failed.
#[derive(Debug)]
pub(super) enum ReadError {
    /// Its blocks are damaged.
    Damaged,
    /// The drive has not answered about them.
    Unanswered(io::Error),
}

/// Repeats the reads of one drive that failed for an unclear reason.
#[derive(Default)]
pub(super) struct Repeats {
    /// When blocks were found damaged last.
    damaged: Cell<Option<Nanos>>,
}

impl Repeats {
    /// Judges the `error` of a read: `read` repeats it, and `answers` is whether the drive
    /// answers another question.
    ///
    /// # Errors
    /// If no repetition succeeds.
    pub(super) async fn judge<T>(
        &self,
        handle: &Handle,
        mut error: io::Error,
        read: impl AsyncFn() -> io::Result<T>,
        answers: impl AsyncFn() -> bool,
    ) -> Result<T, ReadError> {
        let mut there = false;
        for delay in self.delays(handle.now()) {
            match verdict_of(&error) {
                Verdict::Damaged => return Err(ReadError::Damaged),
                Verdict::Nothing => return Err(ReadError::Unanswered(error)),
                Verdict::Unclear => handle.sleep(*delay).await,
            }
            there = answers().await;
            error = match read().await {
                Ok(data) => return Ok(data),
                Err(error) => error,
            };
        }
        let is_damage = match verdict_of(&error) {
            Verdict::Damaged => true,
            Verdict::Unclear => there && answers().await,
            Verdict::Nothing => false,
        };
        if !is_damage {
            self.damaged.set(None);
            return Err(ReadError::Unanswered(error));
        }
        self.damaged.set(Some(self.damaged.get().unwrap_or(handle.now())));
        Err(ReadError::Damaged)
    }

    /// A verdict of the short delay prolongs nothing: the whole second is paid again after
    /// [`KNOWN`].
    fn delays(&self, now: Nanos) -> &'static [Nanos] {
        let known = self.damaged.get().filter(|damaged| now.since(*damaged) < KNOWN);
        self.damaged.set(known);
        if known.is_some() { &DELAYS[..1] } else { &DELAYS }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use zoneweave_runtime::{Executor, VirtualTime};

    use super::*;

    /// A drive whose path is down for a time, with a block that may be damaged.
    struct Faulty {
        executor: Executor,
        down: std::ops::Range<Nanos>,
        damaged: bool,
        repeats: Repeats,
    }

    impl Faulty {
        fn new(down_ms: std::ops::Range<u64>, damaged: bool) -> Self {
            let down = Nanos::from_millis(down_ms.start)..Nanos::from_millis(down_ms.end);
            let executor = Executor::new(Rc::new(VirtualTime::new()));
            Self { executor, down, damaged, repeats: Repeats::default() }
        }

        /// The outcome of a read with `EIO`, and the time that it took.
        fn read(&self) -> (Result<(), ReadError>, Nanos) {
            let handle = self.executor.handle();
            let begun = handle.now();
            let is_up = || !self.down.contains(&handle.now());
            let eio = || io::Error::from_raw_os_error(libc::EIO);
            let read = async || if is_up() && !self.damaged { Ok(()) } else { Err(eio()) };
            let judging = self.repeats.judge(&handle, eio(), read, async || is_up());
            let outcome = self.executor.run(judging);
            (outcome, handle.now().since(begun))
        }
    }

    #[test]
    fn only_errors_of_media_are_damage_at_once() {
        let of = |code| verdict_of(&io::Error::from_raw_os_error(code));
        assert!([libc::ENODATA, libc::EILSEQ].map(of) == [Verdict::Damaged; 2]);
        let unclear = [libc::EIO, libc::EREMOTEIO, libc::EBADMSG, libc::EUCLEAN];
        assert!(unclear.map(of) == [Verdict::Unclear; 4]);
        let others = [libc::ENOLINK, libc::ETIMEDOUT, libc::ENOMEM, libc::EAGAIN, libc::EINTR];
        assert!(others.map(of) == [Verdict::Nothing; 5]);
        let short = io::Error::from(io::ErrorKind::UnexpectedEof);
        assert_eq!(verdict_of(&short), Verdict::Nothing);
    }

    /// An unclear error was repeated at once: a path that was down for a millisecond made damage.
    #[test]
    fn a_path_that_comes_back_is_no_damage() {
        for down_ms in [1, 49, 249, 1049] {
            assert!(matches!(Faulty::new(0..down_ms, false).read().0, Ok(())), "{down_ms} ms");
        }
        // It is not back in time, with and without damage behind it.
        for damaged in [false, true] {
            let (outcome, _) = Faulty::new(0..2000, damaged).read();
            assert!(matches!(outcome, Err(ReadError::Unanswered(_))));
        }
    }

    #[test]
    fn a_block_that_no_repetition_reads_is_damaged_if_the_drive_answers() {
        let (outcome, took) = Faulty::new(0..900, true).read();
        assert!(matches!(outcome, Err(ReadError::Damaged)));
        assert_eq!(took, Nanos::from_millis(1050));
    }

    #[test]
    fn a_damaged_area_costs_the_whole_delay_once_in_a_while() {
        let drive = Faulty::new(100_000..100_001, true);
        let reads = std::iter::repeat_with(|| {
            let (outcome, took) = drive.read();
            assert!(matches!(outcome, Err(ReadError::Damaged)));
            took
        });
        let took: Vec<_> = reads.take(300).collect();
        let whole = took.iter().filter(|took| **took == Nanos::from_millis(1050)).count();
        assert!(took.iter().all(|took| took.0 == 50_000_000 || took.0 == 1_050_000_000));
        assert_eq!(whole, 2);
    }

    #[test]
    fn errors_that_say_more_end_the_repetition() {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let judged = |code| {
            let again = async || Err::<(), _>(io::Error::from_raw_os_error(code));
            let first = io::Error::from_raw_os_error(libc::EIO);
            let (handle, repeats) = (executor.handle(), Repeats::default());
            executor.run(repeats.judge(&handle, first, again, async || true))
        };
        assert!(matches!(judged(libc::ENODATA), Err(ReadError::Damaged)));
        assert!(matches!(judged(libc::ENODEV), Err(ReadError::Unanswered(_))));
        assert_eq!(executor.handle().now(), Nanos::from_millis(100));
    }
}
