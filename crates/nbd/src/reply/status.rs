//! Block-status extents, made fit for the wire.
//!
//! Fault model: nbdkit's CVE-2025-47711 and -47712 were 32-bit sums of extent lengths. Lengths here
//! are 64-bit until they were clamped to the request's 32-bit length.

/// Most extents in one reply: 64 KiB of payload, far below the limits of clients.
pub const STATUS_EXTENTS_MAX: usize = 8192;

/// State of an extent in the `base:allocation` context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusFlags {
    /// Allocated, contents unknown. Always safe to report.
    Data,
    /// Allocated, reads as zeroes.
    Zero,
    /// Not allocated, reads as zeroes.
    HoleZero,
}

impl StatusFlags {
    /// `NBD_STATE_HOLE` is bit 0, `NBD_STATE_ZERO` bit 1.
    #[must_use]
    pub const fn bits(self) -> u32 {
        match self {
            Self::Data => 0,
            Self::Zero => 2,
            Self::HoleZero => 3,
        }
    }
}

/// A run of bytes in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusExtent {
    /// Length of the run; it may reach beyond the request.
    pub length_bytes: u64,
    /// Its state.
    pub flags: StatusFlags,
}

/// Clamps, joins and limits extents. The result has at least one, none of them is empty, and their
/// sum is at most `request_length_bytes`, which is not 0.
pub(super) fn normalize(
    request_length_bytes: u32,
    request_one: bool,
    extents: impl IntoIterator<Item = StatusExtent>,
) -> Vec<(u32, StatusFlags)> {
    assert!(request_length_bytes > 0, "the parser rejects an empty block status");
    let limit = if request_one { 1 } else { STATUS_EXTENTS_MAX };
    let mut remaining = request_length_bytes;
    let mut normalized: Vec<(u32, StatusFlags)> = Vec::new();
    for extent in extents {
        let length = u32::try_from(extent.length_bytes).map_or(remaining, |it| it.min(remaining));
        if length == 0 {
            continue;
        }
        let full = normalized.len() == limit;
        match normalized.last_mut() {
            Some((last, flags)) if *flags == extent.flags => *last += length,
            _ if full => break,
            _ => normalized.push((length, extent.flags)),
        }
        remaining -= length;
        if remaining == 0 {
            break;
        }
    }
    if normalized.is_empty() {
        normalized.push((request_length_bytes, StatusFlags::Data));
    }
    normalized
}
