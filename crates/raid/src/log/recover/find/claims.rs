//! Zones that headers claim for segments, before the segments are accepted.

use std::collections::{BTreeMap, BTreeSet};

use zoneweave_zoned::{ZoneId, ZoneInfo};

use crate::log::format::{SegmentHeader, SegmentId};
use crate::log::recover::find::header_votes::Witnesses;
use crate::scheme::Column;

/// A zone that may be of a segment.
pub(super) struct Claim {
    pub(in crate::log) info: ZoneInfo,
    pub(in crate::log) header: Option<SegmentHeader>,
}

type Claims = BTreeMap<SegmentId, BTreeMap<Column, Vec<Claim>>>;

/// Zones sorted by how they are treated.
#[derive(Default)]
pub(super) struct Sorted {
    pub(in crate::log) claims: Claims,
    /// Zones without a valid header, with the votes of the blocks behind it.
    pub(in crate::log) unclaimed: Vec<(Column, ZoneInfo, Witnesses)>,
    /// Zones whose content is known from themselves.
    pub(in crate::log) told: Told,
    /// Zones assigned by the headers of other columns, as their own content does not identify them.
    /// These headers may refer to a drive that was replaced since.
    pub(in crate::log) by_header: Vec<(Column, ZoneId)>,
}

impl Sorted {
    /// Members with zones that may hold a part of any segment.
    pub(super) fn unaccounted(&self) -> BTreeSet<Column> {
        let zones = self.unclaimed.iter().filter(|(_, info, _)| !is_untouched(info));
        zones.map(|(column, ..)| *column).collect()
    }
}

/// Whether a zone is open, and nothing was written to it: a power loss took all of its first write.
pub(super) fn is_untouched(info: &ZoneInfo) -> bool {
    info.state.is_active() && info.write_pointer.0 == 0
}

/// Zones whose own content shows that they are empty, or which segment they belong to.
pub(super) type Told = BTreeSet<(Column, ZoneId)>;
