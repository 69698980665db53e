//! The kinds of faults that histories draw from.

/// Kinds of faults.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FaultKind {
    Rot,
    Unreadable,
    Copied,
    Slow,
    Error,
    Partial,
    Lost,
    Misdirected,
    Garbled,
    ZoneWorn,
    ZoneFails,
    Sluggish,
    Often,
    FlushIgnored,
    Misreported,
    Append,
}

/// The distribution of faults; repeated kinds are drawn more often.
pub(super) const FAULT_KINDS: [FaultKind; 24] = [
    FaultKind::Rot,
    FaultKind::Rot,
    FaultKind::Unreadable,
    FaultKind::Unreadable,
    FaultKind::Copied,
    FaultKind::Slow,
    FaultKind::Slow,
    FaultKind::Error,
    FaultKind::Error,
    FaultKind::Error,
    FaultKind::Partial,
    FaultKind::Partial,
    FaultKind::Lost,
    FaultKind::Lost,
    FaultKind::Misdirected,
    FaultKind::Garbled,
    FaultKind::Garbled,
    FaultKind::ZoneWorn,
    FaultKind::ZoneFails,
    FaultKind::Sluggish,
    FaultKind::Often,
    FaultKind::FlushIgnored,
    FaultKind::Misreported,
    FaultKind::Append,
];
