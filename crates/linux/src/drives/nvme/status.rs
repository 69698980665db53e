//! Errors of the kernel and of the drive, translated into our statuses.

use std::io;

use zoneweave_zoned::Status;

/// The status of a completion, if it is not success.
///
/// A drive may return many more than the engine distinguishes; the others become the nearest.
pub(super) fn of_nvme(value: u16) -> Result<(), Status> {
    if value == 0 {
        return Ok(());
    }
    if let Some(status) = Status::ALL.iter().find(|status| status.value() == value) {
        return Err(*status);
    }
    Err(match value {
        // Invalid opcode, identifier conflict, PRP and SGL errors: commands that make no sense to
        // it.
        0x001 | 0x003 | 0x00D..=0x013 => Status::InvalidField,
        // Aborted: by power loss, by request, with its queue, as part of a fused pair.
        0x005 | 0x007..=0x00A => Status::Aborted,
        // Invalid namespace: it was detached or deleted.
        0x00B => Status::DeviceGone,
        // End-to-end guard, application tag and reference tag check errors, compare failures.
        0x282..=0x285 => Status::UnrecoveredRead,
        // The controller has lost its access to the namespace permanently.
        0x301 => Status::DeviceGone,
        // Other errors on the way to the drive, access states among them, are told apart before.
        0x300..=0x37F => Status::Aborted,
        _ => Status::InternalError,
    })
}

pub(super) fn of_kernel(error: &io::Error) -> Status {
    match error.raw_os_error() {
        Some(libc::ENODEV | libc::ENXIO | libc::ESHUTDOWN | libc::EBADF) => Status::DeviceGone,
        // A time limit, or a controller that was reset.
        Some(libc::EINTR | libc::ECANCELED | libc::ETIMEDOUT | libc::ETIME) => Status::Aborted,
        Some(libc::EINVAL | libc::EOPNOTSUPP) => Status::InvalidField,
        _ => Status::InternalError,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_keep_their_values() {
        for status in Status::ALL {
            assert_eq!(of_nvme(status.value()), Err(*status));
        }
        assert_eq!(of_nvme(0), Ok(()));
        assert!((1..0x800).all(|value| of_nvme(value).is_err()));
        assert_eq!(of_nvme(0x284), Err(Status::UnrecoveredRead));
        assert_eq!(of_nvme(0x00B), Err(Status::DeviceGone));
        assert_eq!(of_nvme(0x7FF), Err(Status::InternalError));
    }

    #[test]
    fn errors_of_the_kernel_tell_whether_the_drive_is_lost() {
        let of = |code| of_kernel(&io::Error::from_raw_os_error(code));
        assert_eq!(of(libc::ENODEV), Status::DeviceGone);
        assert_eq!(of(libc::EINTR), Status::Aborted);
        assert_eq!(of(libc::EIO), Status::InternalError);
        assert_eq!(of(libc::EINVAL), Status::InvalidField);
    }
}
