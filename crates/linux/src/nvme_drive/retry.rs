//! Which commands are sent again after they failed.
//!
//! The kernel repeats what file systems ask of a drive, but not what came through its character device: a controller
//! that is reset, or a path that changes hands, fails whatever was under way. What changes nothing is repeated, unless
//! the drive says that it will fail again; and a flush that the kernel gave up, of which the drive has said nothing: its cache
//! outlives the reset of a controller. Nothing else is: a write, an append or a reset may have happened, or may happen
//! yet where a path holds it up, and a flush that the drive has failed may have lost what the next one would find nothing of. The
//! engine knows what to do about those. Neither is what media answer: the engine has the other drives for that.
//!
//! A drive that goes on failing in passing costs the delays once: until a command succeeds none is repeated any more. One of
//! which nothing is heard but that its path is lost is gone after a while.

use std::cell::Cell;
use std::io;

use zoneweave_runtime::Nanos;
use zoneweave_zoned::AlignedBuffer;

use super::encode::{FLUSH, READ};
use super::open::ZONE_RECEIVE;
use crate::ring::{CommandDone, Lent, Opcode};

const DELAYS: [Nanos; 3] =
    [Nanos::from_millis(50), Nanos::from_millis(200), Nanos::from_millis(800)];

/// After this time a command that failed is not sent again, as it may have run into its own limit; and a path does not
/// come back.
pub(super) const PATIENCE: Nanos = Nanos::from_secs(20);

/// Whether a command changes nothing, however often it is sent.
fn is_repeatable(opcode: Opcode) -> bool {
    matches!(opcode, READ | FLUSH | Opcode(ZONE_RECEIVE))
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
    /// What is waited before a command is sent again, and again.
    pub(super) fn delays(&self, opcode: Opcode) -> &'static [Nanos] {
        if is_repeatable(opcode) && !self.gave_up.get() { &DELAYS } else { &[] }
    }

    /// Notes what became of a command.
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

    /// Notes that a command failed as often as it is sent.
    pub(super) fn give_up(&self) {
        self.gave_up.set(true);
    }

    /// Whether nothing was heard of the drive for long but that its path is lost.
    pub(super) fn is_cut_off(&self, now: Nanos) -> bool {
        self.cut_off.get().is_some_and(|since| now.since(since) >= PATIENCE)
    }
}

/// Whether a command may be sent again, and succeed then, by what became of it.
pub(super) fn may_pass(opcode: Opcode, done: &CommandDone) -> bool {
    is_repeatable(opcode) && passes(done) && (opcode != FLUSH || done.status.is_err())
}

fn passes(done: &CommandDone) -> bool {
    match &done.status {
        Ok(value) => !done.is_final && (is_passing(*value) || is_of_path(*value)),
        // Ended by the kernel, as when a controller is reset.
        Err(error) => {
            matches!(error.raw_os_error(), Some(libc::EINTR | libc::ECANCELED | libc::EAGAIN))
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

/// Whether the kernel has given a command up, as when a controller is reset or a time limit is over.
pub(super) fn is_given_up(error: &io::Error) -> bool {
    let codes = [libc::EINTR, libc::ECANCELED, libc::ETIMEDOUT, libc::ETIME];
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

/// Statuses of what goes by: data transfer error, internal error, aborted by request or with its queue, interrupted,
/// transient transport error, namespace not ready.
fn is_passing(value: u16) -> bool {
    matches!(value, 0x004 | 0x006..=0x008 | 0x021 | 0x022 | 0x082)
}

/// Whether a status tells of a way to the drive, rather than of the drive: internal path error, access states that
/// change, controller and host path errors, aborted by the host. That access is lost for good is not among them.
pub(super) fn is_of_path(value: u16) -> bool {
    (0x300..=0x37F).contains(&value) && value != 0x301
}

/// How many bytes a command has for the drive to fill.
pub(super) fn lent_bytes(lent: &Lent) -> usize {
    match lent {
        Lent::In(_, bytes) => *bytes,
        Lent::Nothing | Lent::Out(_) => 0,
    }
}

/// The memory of a command that is sent again, without what the drive filled before it failed. Such a command has nothing for
/// the drive to read.
pub(super) fn lend(buffer: Option<AlignedBuffer>, bytes: usize) -> Lent {
    buffer.map_or(Lent::Nothing, |mut buffer| {
        buffer.as_mut().fill(0);
        Lent::In(buffer, bytes)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(status: io::Result<u16>, is_final: bool) -> CommandDone {
        CommandDone { status, is_final, result: 0, data: None, metadata: None }
    }

    #[test]
    fn what_changes_something_is_not_repeated() {
        assert!(is_repeatable(READ) && is_repeatable(Opcode(ZONE_RECEIVE)));
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
        record.give_up();
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
    fn memory_that_is_lent_again_is_empty() {
        let mut buffer = AlignedBuffer::zeroed(zoneweave_zoned::BlockCount(1));
        buffer.as_mut()[100] = 7;
        let Lent::In(buffer, 64) = lend(Some(buffer), 64) else { panic!("memory") };
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
