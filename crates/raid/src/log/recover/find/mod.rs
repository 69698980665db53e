//! Finding segments on the drives after a crash: which zones form which segment.
//!
//! 1. `segments` groups zones by their headers; `claims` are these zones before a segment is
//!    accepted.
//! 2. `header_votes` identifies a zone with a damaged header from the blocks behind it.
//! 3. `missing_columns` finds segments that are missing on a drive; `orphans` counts segments
//!    without any readable header.
//! 4. `narrow` finds narrow segments by the narrow list.
//! 5. `torn_appends` explains rows without a chunk that an interrupted append left.

pub(in crate::log) mod claims;
pub(in crate::log) mod header_votes;
pub(in crate::log) mod missing_columns;
pub(in crate::log) mod narrow;
pub(in crate::log) mod orphans;
pub(in crate::log) mod segments;
pub(in crate::log) mod torn_appends;
