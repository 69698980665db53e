//! Interprets drives that hold nothing of a segment that other drives hold.

use std::collections::{BTreeMap, BTreeSet};

use crate::array::health::Members;
use crate::log::engine::core::Core;
use crate::log::engine::state::State;
use crate::log::format::SegmentHeader;
use crate::log::recover::find::claims::{Claim, Told};
use crate::scheme::{Column, ColumnSet};

/// Conclusion from members in service that hold nothing of a segment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MissingColumns {
    /// No member reports that it has nothing of the segment.
    Nowhere,
    /// The segment may be dead, or they have lost it.
    Doubtful,
    /// Enough members report it: the segment is dead.
    LeftBehind,
}

/// Whether a member in service has certainly nothing of a segment on its column.
pub(super) fn has_none(
    state: &State,
    header: &SegmentHeader,
    column: Column,
    told: &Told,
    unaccounted: &BTreeSet<Column>,
) -> bool {
    let member = &state.array.members[column.index()];
    if !member.is_in_full_service() {
        return false;
    }
    if member.entry.since_epoch > header.epoch {
        // The column was rebuilt since, into an unknown zone.
        return member.lost_zones == 0 && !unaccounted.contains(&column);
    }
    header.zone(column).is_some_and(|zone| told.contains(&(column, zone)))
}

/// Whether a segment is dead although its death is no longer recorded, as every drive acknowledged
/// the resets. The condition: more members in service than may be wrong hold nothing of it, and no
/// more than may be wrong hold something. A segment on the narrow list is not dead. With one data
/// drive the condition never holds, as any copy may be the last.
pub(super) fn missing_columns(
    core: &Core,
    columns: &BTreeMap<Column, Vec<Claim>>,
    told: &Told,
    unaccounted: &BTreeSet<Column>,
) -> MissingColumns {
    let unit = core.state.borrow().array.config.write_unit;
    let mut claims = columns.values().flatten();
    // If only headers were written, a crash may have kept the other headers from being written.
    let whole = claims.all(|claim| claim.header.is_some() && claim.info.write_pointer.0 > unit.0);
    let mut headers = columns.values().flatten().filter_map(|claim| claim.header.as_ref());
    let Some(header) = headers.next().filter(|_| whole) else { return MissingColumns::Nowhere };
    let state = core.state.borrow();
    if state.registry.narrow.lists(header.generation) {
        return MissingColumns::Nowhere;
    }
    let none = ColumnSet::default();
    let (mut have, mut have_none, mut out) = (none, none, none);
    let scheme = header.geometry.scheme();
    for column in scheme.iter() {
        let member = &state.array.members[column.index()];
        if columns.contains_key(&column) {
            have = have.with(column);
        } else if !member.is_in_full_service() {
            out = out.with(column);
        } else if has_none(&state, header, column, told, unaccounted) {
            have_none = have_none.with(column);
        }
    }
    let may_be_wrong = |columns: ColumnSet| scheme.survives(columns.union(out));
    match () {
        () if have_none.is_empty() => MissingColumns::Nowhere,
        () if !may_be_wrong(have_none) && may_be_wrong(have) => MissingColumns::LeftBehind,
        () => MissingColumns::Doubtful,
    }
}

/// Whether some of the zones that a segment's headers list on members in service are reset.
pub(super) fn partly_reset(core: &Core, columns: &BTreeMap<Column, Vec<Claim>>) -> bool {
    let mut headers = columns.values().flatten().filter_map(|claim| claim.header.as_ref());
    headers.any(|header| {
        let lists = |column: &Column| header.zone(*column).is_some();
        let mut listed = header.geometry.scheme().iter().filter(lists);
        listed.any(|column| core.device(column).is_some() && !columns.contains_key(&column))
    })
}
