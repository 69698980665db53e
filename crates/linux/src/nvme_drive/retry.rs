//! Which commands are sent again after they failed.
//!
//! The kernel repeats what file systems ask of a drive, but not what came through its character device: a controller
//! that is reset, or a path that changes hands, fails whatever was under way. What changes nothing, or the same as
//! once, is repeated, unless the drive says that it will fail again. Writes and appends never are: they may have
//! happened, and the engine writes elsewhere what it has no answer for. Neither is what media answer: the engine has
//! the other drives for that.

use zoneweave_runtime::Nanos;
use zoneweave_zoned::AlignedBuffer;

use super::encode::{FLUSH, READ, ZONE_SEND};
use super::open::ZONE_RECEIVE;
use crate::ring::{CommandDone, Lent, Opcode};

/// What is waited before a command is sent again, and again.
pub(super) const DELAYS: [Nanos; 3] =
    [Nanos::from_millis(50), Nanos::from_millis(200), Nanos::from_millis(800)];

/// After this time a command that failed is not sent again: it may have run into its own limit.
pub(super) const PATIENCE: Nanos = Nanos::from_secs(20);

/// In dword 13 of zone management: the action that resets a zone.
const RESET: u32 = 4;

/// Whether a command sent twice does what it does once.
pub(super) fn is_repeatable(opcode: Opcode, dwords: &[u32; 6]) -> bool {
    match opcode {
        READ | FLUSH | Opcode(ZONE_RECEIVE) => true,
        ZONE_SEND => dwords[3] & 0xFF == RESET,
        _ => false,
    }
}

/// Whether a command may succeed if it is sent again, by what became of it.
pub(super) fn may_pass(done: &CommandDone) -> bool {
    match &done.status {
        Ok(value) => !done.is_final && (is_passing(*value) || is_of_path(*value)),
        // Ended by the kernel, as when a controller is reset.
        Err(error) => {
            matches!(error.raw_os_error(), Some(libc::EINTR | libc::ECANCELED | libc::EAGAIN))
        }
    }
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

/// The memory of a command that is sent again. Such a command has nothing for the drive to read.
pub(super) fn lend(buffer: Option<AlignedBuffer>, bytes: usize) -> Lent {
    buffer.map_or(Lent::Nothing, |buffer| Lent::In(buffer, bytes))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn done(status: io::Result<u16>, is_final: bool) -> CommandDone {
        CommandDone { status, is_final, result: 0, data: None, metadata: None }
    }

    #[test]
    fn what_changes_something_is_not_repeated() {
        let with = |action| [0, 0, 0, action, 0, 0];
        for opcode in [FLUSH, READ, Opcode(ZONE_RECEIVE)] {
            assert!(is_repeatable(opcode, &with(0)));
        }
        assert!(is_repeatable(ZONE_SEND, &with(RESET)));
        for action in [1, 2, 3, 5, 0x10] {
            assert!(!is_repeatable(ZONE_SEND, &with(action)));
        }
        // Write, and append.
        assert!(!is_repeatable(Opcode(0x01), &with(0)));
        assert!(!is_repeatable(Opcode(0x7D), &with(0)));
    }

    #[test]
    fn only_what_may_pass_is_repeated() {
        for value in [0x006, 0x007, 0x022, 0x082, 0x302, 0x303, 0x360, 0x370, 0x371] {
            assert!(may_pass(&done(Ok(value), false)), "{value:#x}");
            assert!(!may_pass(&done(Ok(value), true)), "{value:#x} with Do Not Retry");
        }
        for value in [0, 0x002, 0x1B8, 0x1BC, 0x280, 0x281, 0x301] {
            assert!(!may_pass(&done(Ok(value), false)), "{value:#x}");
        }
        let of = |code| may_pass(&done(Err(io::Error::from_raw_os_error(code)), false));
        assert!(of(libc::EINTR));
        assert!(!of(libc::ENODEV));
        assert!(!of(libc::EINVAL));
    }

    #[test]
    fn access_that_is_lost_for_good_is_no_path() {
        assert!(is_of_path(0x302) && is_of_path(0x370));
        assert!(!is_of_path(0x301) && !is_of_path(0x281) && !is_of_path(0x380));
    }
}
