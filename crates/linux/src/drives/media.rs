//! What errors of reads tell of media.
//!
//! A volume gives up the place of a damaged block for good, and a start decides by what drives say.
//! The block layer has names of its own for medium errors and failed checks of the protection of a
//! block (`blk_errors` in the kernel's `block/blk-core.c`). `EIO` is any other failure. It is also
//! the medium error of virtio disks, loop devices, some SCSI sense codes and file systems, which
//! have no better name. So an unclear error counts as damage once the drive has answered another
//! question, and the same read fails again.

use std::io;

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

/// Whether blocks are damaged whose read has failed again, while the drive answers.
pub(super) fn is_damage_again(error: &io::Error) -> bool {
    verdict_of(error) != Verdict::Nothing
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn an_unclear_error_is_damage_the_second_time() {
        let of = |code| is_damage_again(&io::Error::from_raw_os_error(code));
        assert!(of(libc::EIO) && of(libc::ENODATA));
        assert!(!of(libc::ENOLINK) && !of(libc::ENODEV));
    }
}
