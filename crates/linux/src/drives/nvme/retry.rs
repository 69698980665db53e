//! Which failed commands are sent again.
//!
//! The kernel repeats commands of file systems, but not commands of the character device: a
//! controller reset or a path failover fails all commands in flight. This file repeats:
//! - reads and reports, unless the drive says that a retry will fail too;
//! - a flush that the kernel aborted before the drive answered: the drive's cache outlives a
//!   controller reset;
//! - any command that the kernel never sent to the drive.
//!
//! A write, an append or a reset is not repeated: it may have happened, or may happen later if a
//! path holds it back. Nor is a flush that the drive failed: data may be lost, and a second flush
//! would not notice. The engine handles these errors, and media errors, with its other drives.
//!
//! A drive that keeps failing transiently costs the delays once: no command is repeated until one
//! succeeds. A drive with nothing but path errors is lost after a while.

use std::cell::Cell;
use std::io;
use std::slice;

use zoneweave_runtime::Nanos;

use super::encode::{FLUSH, READ, ZONE_RECEIVE};
use crate::ring::{CommandDone, Lent, Opcode};

const DELAYS: [Nanos; 3] =
    [Nanos::from_millis(50), Nanos::from_millis(200), Nanos::from_millis(800)];

/// A command that failed later than this is not sent again, as it may have hit its own limit. A
/// path that was missing for so long does not return.
pub(super) const PATIENCE: Nanos = Nanos::from_secs(20);

/// After which a command of which the drive has heard nothing is sent again.
const UNSENT_PAUSE: Nanos = Nanos::from_millis(50);

/// The longest time in which the kernel finds that it cannot send a command. A command held longer
/// was waiting for something.
const AT_ONCE: Nanos = Nanos::from_secs(1);

/// How often a command is sent again that makes no sense to the kernel.
const REFUSALS: u32 = 3;

/// Whether a command changes nothing, however often it is sent.
fn is_repeatable(opcode: Opcode) -> bool {
    matches!(opcode, READ | FLUSH | ZONE_RECEIVE)
}

/// How a drive has answered lately.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// A command failed as often as it is sent, and none has succeeded since.
    gave_up: Cell<bool>,
    /// Since when nothing was heard but that the path is lost.
    cut_off: Cell<Option<Nanos>>,
}

impl Record {
    pub(super) fn tries(&self, opcode: Opcode, now: Nanos) -> Tries {
        Tries { since: now, unsent: None, refusals: REFUSALS, delays: self.delays(opcode).iter() }
    }

    /// The delays before the first repetition and before the second.
    fn delays(&self, opcode: Opcode) -> &'static [Nanos] {
        if is_repeatable(opcode) && !self.gave_up.get() { &DELAYS } else { &[] }
    }

    /// The delay before a transiently failed command is repeated; `None` if it is not.
    pub(super) fn failed(&self, tries: &mut Tries, now: Nanos) -> Option<Nanos> {
        tries.unsent = None;
        let delay = tries.delays.next().filter(|_| now.since(tries.since) < PATIENCE).copied();
        if delay.is_none() {
            self.gave_up.set(true);
        }
        delay
    }

    /// Records the outcome of a command.
    pub(super) fn note(&self, done: &CommandDone, now: Nanos) {
        match done.status {
            Ok(value) if is_of_path(value) => {
                self.cut_off.set(Some(self.cut_off.get().unwrap_or(now)));
            }
            Ok(value) => {
                self.cut_off.set(None);
                self.gave_up.set(self.gave_up.get() && value != 0);
            }
            Err(_) => {}
        }
    }

    /// Whether nothing was heard of the drive for long but that its path is lost.
    pub(super) fn is_cut_off(&self, now: Nanos) -> bool {
        self.cut_off.get().is_some_and(|since| now.since(since) >= PATIENCE)
    }
}

/// How often a command may be sent yet.
pub(super) struct Tries {
    since: Nanos,
    /// Since when the drive has heard nothing of it, and when that was last seen.
    unsent: Option<(Nanos, Nanos)>,
    /// How often the kernel may refuse a command although there is a path.
    refusals: u32,
    delays: slice::Iter<'static, Nanos>,
}

impl Tries {
    /// The delay before a command that the drive never saw is sent again; `None` if it is not. The
    /// limit applies to one period without a path, not to all failures of the command.
    pub(super) fn unsent(&mut self, now: Nanos) -> Option<Nanos> {
        let known = self.unsent.filter(|(_, seen)| now.since(*seen) < UNSENT_PAUSE + AT_ONCE);
        let since = known.map_or(now, |(since, _)| since);
        self.unsent = Some((since, now));
        (now.since(since) < PATIENCE).then_some(UNSENT_PAUSE)
    }

    /// As above, for a command that the kernel refuses: the path may have returned since.
    pub(super) fn refused(&mut self, now: Nanos) -> Option<Nanos> {
        self.refusals = self.refusals.checked_sub(1)?;
        self.unsent(now)
    }
}

/// Whether the kernel has told the drive nothing of a command, and may well do so later: it had no
/// memory for it, or did not find the command's.
///
/// The latter happens to commands that waited for a controller to be reset: see
/// [`low_memory`](super::low_memory).
pub(super) fn is_unsent(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EFAULT | libc::ENOMEM | libc::EAGAIN))
}

/// Whether the kernel finds that a command makes no sense, or has no way to the drive.
pub(super) fn is_refused(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EINVAL)
}

/// Whether a command may be repeated and may then succeed, by its outcome.
pub(super) fn may_pass(opcode: Opcode, done: &CommandDone) -> bool {
    is_repeatable(opcode) && passes(done) && (opcode != FLUSH || done.status.is_err())
}

fn passes(done: &CommandDone) -> bool {
    match &done.status {
        Ok(value) => !done.is_final && (is_passing(*value) || is_of_path(*value)),
        // Ended by the kernel, as when a controller is reset.
        Err(error) => {
            matches!(error.raw_os_error(), Some(libc::EINTR | libc::ECANCELED))
        }
    }
}

/// The same of a query, of which not all is known.
pub(super) fn may_pass_asked(answer: &io::Result<u16>) -> bool {
    match answer {
        Ok(value) => is_passing(*value) || is_of_path(*value),
        Err(error) => is_given_up(error) || error.kind() == io::ErrorKind::WouldBlock,
    }
}

/// Whether the kernel has given a command up, as when a controller is reset or a time limit is
/// over.
pub(super) fn is_given_up(error: &io::Error) -> bool {
    let codes = [libc::EINTR, libc::ECANCELED, libc::ETIMEDOUT, libc::ETIME];
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

/// Transient statuses: data transfer error, internal error, aborted by request or with its queue,
/// interrupted, transient transport error, namespace not ready.
fn is_passing(value: u16) -> bool {
    matches!(value, 0x004 | 0x006..=0x008 | 0x021 | 0x022 | 0x082)
}

/// Whether a status is about the path rather than the drive: internal path error, asymmetric access
/// transitions, controller and host path errors, aborted by the host. Persistent loss of access is
/// not among them.
pub(super) fn is_of_path(value: u16) -> bool {
    (0x300..=0x37F).contains(&value) && value != 0x301
}

/// The memory of a command to be sent again, without the part that the drive filled before it
/// failed.
pub(super) fn lend(memory: Lent) -> Lent {
    match memory {
        Lent::In(mut buffer, bytes) => {
            buffer.as_mut().fill(0);
            Lent::In(buffer, bytes)
        }
        Lent::Nothing | Lent::Out(_) => memory,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(status: io::Result<u16>, is_final: bool) -> CommandDone {
        let (data, metadata) = (Lent::Nothing, Lent::Nothing);
        CommandDone { status, is_final, result: 0, data, metadata }
    }

    #[test]
    fn what_changes_something_is_not_repeated() {
        assert!(is_repeatable(READ) && is_repeatable(ZONE_RECEIVE));
        // Write, zone management, append.
        for opcode in [0x01, 0x79, 0x7D] {
            assert!(!is_repeatable(Opcode(opcode)));
        }
    }

    #[test]
    fn a_drive_that_goes_on_failing_costs_the_delays_once() {
        let record = Record::default();
        assert_eq!(record.delays(READ), DELAYS);
        assert!(record.delays(Opcode(1)).is_empty());
        let mut tries = record.tries(READ, Nanos(0));
        let delays: Vec<_> = std::iter::from_fn(|| record.failed(&mut tries, Nanos(1))).collect();
        assert_eq!(delays, DELAYS);
        record.note(&done(Ok(0x006), false), Nanos(1));
        assert!(record.delays(READ).is_empty());
        record.note(&done(Ok(0), false), Nanos(2));
        assert_eq!(record.delays(READ), DELAYS);
    }

    #[test]
    fn a_path_that_does_not_come_back_is_a_lost_drive() {
        let record = Record::default();
        let lost = done(Ok(0x371), false);
        record.note(&lost, Nanos(5));
        record.note(&lost, PATIENCE);
        assert!(!record.is_cut_off(PATIENCE) && record.is_cut_off(PATIENCE + Nanos(5)));
        record.note(&done(Ok(0x281), true), PATIENCE);
        record.note(&lost, PATIENCE);
        assert!(!record.is_cut_off(PATIENCE + Nanos(5)));
    }

    #[test]
    fn what_the_drive_has_not_heard_of_is_sent_again_for_a_while() {
        let record = Record::default();
        let mut tries = record.tries(Opcode(1), Nanos(0));
        let refused = std::iter::from_fn(|| tries.refused(Nanos(7)));
        assert_eq!(refused.count(), 3);
        let mut now = Nanos(7);
        while let Some(pause) = tries.unsent(now) {
            now += pause;
        }
        assert_eq!(now, PATIENCE + Nanos(7));
        // The kernel had it for a while, and another time begins.
        assert!(tries.unsent(now + AT_ONCE + AT_ONCE).is_some());
        let of = |code| is_unsent(&io::Error::from_raw_os_error(code));
        assert!(of(libc::EFAULT) && of(libc::ENOMEM) && of(libc::EAGAIN));
        assert!(!of(libc::EINTR) && !of(libc::EIO) && !of(libc::EINVAL));
    }

    #[test]
    fn what_was_sent_between_two_times_begins_the_second() {
        let record = Record::default();
        let mut tries = record.tries(READ, Nanos(0));
        let mut now = Nanos(0);
        while now < Nanos::from_secs(15) {
            now += tries.unsent(now).expect("patience");
        }
        now += record.failed(&mut tries, now).expect("a delay");
        for _ in 0..300 {
            now += tries.unsent(now).expect("patience");
        }
    }

    #[test]
    fn memory_that_is_lent_again_is_empty() {
        let mut buffer = zoneweave_zoned::AlignedBuffer::zeroed(zoneweave_zoned::BlockCount(1));
        buffer.as_mut()[100] = 7;
        let Lent::In(buffer, 64) = lend(Lent::In(buffer, 64)) else { panic!("memory") };
        assert!(buffer.as_ref().iter().all(|byte| *byte == 0));
    }

    #[test]
    fn only_what_may_pass_is_repeated() {
        for value in [0x006, 0x007, 0x022, 0x082, 0x302, 0x303, 0x360, 0x370, 0x371] {
            assert!(may_pass(READ, &done(Ok(value), false)), "{value:#x}");
            assert!(!may_pass(READ, &done(Ok(value), true)), "{value:#x} with Do Not Retry");
            assert!(!may_pass(FLUSH, &done(Ok(value), false)), "{value:#x} of a flush");
        }
        for value in [0, 0x002, 0x1B8, 0x1BC, 0x280, 0x281, 0x301] {
            assert!(!may_pass(READ, &done(Ok(value), false)), "{value:#x}");
        }
        let given_up = |code| done(Err(io::Error::from_raw_os_error(code)), false);
        let of = |code| may_pass(READ, &given_up(code));
        assert!(of(libc::EINTR) && may_pass(FLUSH, &given_up(libc::EINTR)));
        assert!(!may_pass(Opcode(1), &given_up(libc::EINTR)));
        assert!(!of(libc::ENODEV));
        assert!(!of(libc::EINVAL));
    }

    #[test]
    fn access_that_is_lost_for_good_is_no_path() {
        assert!(is_of_path(0x302) && is_of_path(0x370));
        assert!(!is_of_path(0x301) && !is_of_path(0x281) && !is_of_path(0x380));
    }
}
