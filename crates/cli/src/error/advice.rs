//! Advice for the status of a command to a zone of a volume.

use zoneweave_zoned::Status;

/// Advice for the status of a command to a zone.
pub(super) fn zone_advice(status: Status) -> &'static str {
    match status {
        Status::ZoneFull => ": reset it to write it again",
        Status::ZoneInvalidWrite => ": writes begin at the write pointer, see `zoned report`",
        Status::TooManyOpen | Status::TooManyActive => ": finish or reset another zone",
        Status::LbaOutOfRange => ": the volume ends before it",
        _ => "",
    }
}

/// Advice for the rest of the data that a zone has not taken.
pub(super) fn rest_advice(status: Status) -> &'static str {
    match status {
        Status::ZoneFull | Status::ZoneBoundary => {
            ": write the rest to another zone; a reset would erase what was written"
        }
        other => match zone_advice(other) {
            "" => "; more may have been: see `zoned report` before you repeat the rest",
            advice => advice,
        },
    }
}
