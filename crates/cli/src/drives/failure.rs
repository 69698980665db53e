//! Why a drive failed, in the words of the array and of the system.

use zoneweave_zoned::Status;

/// The reason why a drive failed, with the system's error of its last write if that one failed so.
pub(crate) fn with_error(reason: &str, error: Option<String>) -> String {
    let no_room = Status::CapacityExceeded.name();
    match error.filter(|_| is_of_write(reason)) {
        // The rest of the status speaks of space, and the limit of a process leaves some.
        Some(error) if reason.starts_with(no_room) => format!("{no_room}: {error}"),
        Some(error) => format!("{reason}: {error}"),
        None => reason.to_owned(),
    }
}

/// Whether the reason of a member is the status of a write that its drive's file did not take. The
/// last error may be months old.
fn is_of_write(reason: &str) -> bool {
    // A zone with a media error becomes read-only.
    let statuses = [Status::WriteFault, Status::CapacityExceeded, Status::ZoneReadOnly];
    statuses.iter().any(|status| reason.starts_with(status.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An operator took the drive out, and an error of months before was given as the reason.
    #[test]
    fn the_error_of_a_write_is_the_reason_of_what_follows_from_it_alone() {
        for status in [Status::WriteFault, Status::CapacityExceeded] {
            assert!(is_of_write(&status.to_string()), "{status}");
        }
        for reason in ["taken out of service by the administrator", "replaced by the administrator"]
        {
            assert!(!is_of_write(reason), "{reason}");
        }
        assert!(!is_of_write(&Status::DeviceGone.to_string()));
    }

    /// "There is no space left where its data is kept: File too large", it said.
    #[test]
    fn a_limit_of_file_sizes_is_no_lack_of_space() {
        let full = Status::CapacityExceeded.to_string();
        let limited = with_error(&full, Some("File too large".to_owned()));
        assert_eq!(limited, "Capacity Exceeded: File too large");
        assert_eq!(with_error(&full, None), full);
    }
}
