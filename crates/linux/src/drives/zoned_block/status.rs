//! Errors of the kernel, translated into our statuses.

use std::io;

use zoneweave_zoned::Status;

use crate::drives::media::{Verdict, verdict_of};

/// The operation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tried {
    Read,
    /// A write, or making written data durable.
    Write,
    /// A change of a zone, or a report.
    Manage,
}

/// The status for an error of the block layer.
pub(super) fn of_kernel(tried: Tried, error: &io::Error) -> Status {
    match error.raw_os_error() {
        Some(libc::ENODEV | libc::ENXIO | libc::ESHUTDOWN | libc::EBADF) => Status::DeviceGone,
        // A time limit, or a controller that was reset.
        Some(libc::EINTR | libc::ECANCELED | libc::ETIMEDOUT | libc::ETIME) => Status::Aborted,
        Some(libc::EOVERFLOW) => Status::TooManyActive,
        Some(libc::ETOOMANYREFS) => Status::TooManyOpen,
        Some(libc::EINVAL | libc::EOPNOTSUPP | libc::ENOTTY) => Status::InvalidField,
        Some(libc::ENOSPC) => Status::CapacityExceeded,
        // A path that may come back.
        Some(libc::ENOLINK) if tried == Tried::Read => Status::Aborted,
        Some(_) if tried == Tried::Read && verdict_of(error) == Verdict::Damaged => {
            Status::UnrecoveredRead
        }
        // I/O error, target error, medium error, protection error, transport error, an answer that
        // does not fit.
        Some(
            libc::EIO
            | libc::EREMOTEIO
            | libc::ENODATA
            | libc::EILSEQ
            | libc::EBADMSG
            | libc::ENOLINK,
        ) if tried == Tried::Write => Status::WriteFault,
        _ => Status::InternalError,
    }
}

/// Whether this machine, not the drive, could not do something for now: no memory, no request,
/// interrupted.
pub(super) fn is_of_host(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOMEM | libc::EBUSY | libc::EINTR))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_machine_has_no_room_for_is_no_error_of_the_drive() {
        let of = |code| is_of_host(&io::Error::from_raw_os_error(code));
        assert!(of(libc::ENOMEM) && of(libc::EAGAIN) && of(libc::EBUSY));
        assert!(!of(libc::EIO) && !of(libc::ENODEV) && !of(libc::EINVAL));
    }

    #[test]
    fn errors_become_statuses() {
        let of = |tried, code| of_kernel(tried, &io::Error::from_raw_os_error(code));
        for tried in [Tried::Read, Tried::Write, Tried::Manage] {
            assert_eq!(of(tried, libc::ENODEV), Status::DeviceGone);
            assert_eq!(of(tried, libc::EOVERFLOW), Status::TooManyActive);
            assert_eq!(of(tried, libc::ETOOMANYREFS), Status::TooManyOpen);
            assert_eq!(of(tried, libc::ETIMEDOUT), Status::Aborted);
            assert_eq!(of(tried, libc::EPERM), Status::InternalError);
        }
        assert_eq!(of(Tried::Read, libc::ENODATA), Status::UnrecoveredRead);
        assert_eq!(of(Tried::Read, libc::EILSEQ), Status::UnrecoveredRead);
        // They say nothing of the media yet.
        assert_eq!(of(Tried::Read, libc::EIO), Status::InternalError);
        assert_eq!(of(Tried::Read, libc::ENOLINK), Status::Aborted);
        assert_eq!(of(Tried::Write, libc::EREMOTEIO), Status::WriteFault);
        assert_eq!(of(Tried::Write, libc::ENOSPC), Status::CapacityExceeded);
        assert_eq!(of(Tried::Manage, libc::EIO), Status::InternalError);
        let short = io::Error::from(io::ErrorKind::UnexpectedEof);
        assert_eq!(of_kernel(Tried::Read, &short), Status::InternalError);
    }
}
