//! Advice for the status of a command to a zone of a volume.

use zoneweave_zoned::Status;

use crate::format::word;

/// Drives that cannot be used, and what a start without them would be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeftOut {
    /// Labels of the drives.
    pub(crate) drives: Vec<String>,
    /// Whether the others are enough to start.
    pub(crate) others_start: bool,
}

/// Further problems, behind the first.
pub(super) fn also(others: &[String]) -> String {
    others.iter().map(|other| format!("; {other}")).collect()
}

/// The options that leave drives out of a start.
pub(super) fn without(drives: &[String]) -> String {
    let options = drives.iter().map(|drive| format!("--without {}", word(drive)));
    options.collect::<Vec<_>>().join(" ")
}

/// Advice for drives that cannot be used.
pub(super) fn make_usable(left_out: &LeftOut) -> String {
    let LeftOut { drives, others_start } = left_out;
    assert!(!drives.is_empty(), "a drive cannot be used");
    let (the, them) = if drives.len() == 1 { ("the drive", "it") } else { ("the drives", "them") };
    match others_start {
        true => format!(
            "make {the} usable, or serve the array without {them}, and the first write takes {them} out \
             of service: `zoneweave serve` with {}",
            without(drives)
        ),
        false => format!("make {the} usable: the others are not enough to start"),
    }
}

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
