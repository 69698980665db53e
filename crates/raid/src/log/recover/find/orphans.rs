//! Segments without any readable header.
//!
//! A zone without a header is assigned to the segment whose other headers list it, so one intact
//! header is enough. If no drive has one, the segment would be missing silently, and older contents
//! would be read for its blocks. Such a segment has a zone on every member in full service, except
//! on members that have lost zones.
//!
//! Fault model: drives may have kept zones whose reset they acknowledged, and zones may be
//! unreadable from the start. As many of these as redundancy tolerates do not make a segment.

use std::collections::{BTreeMap, BTreeSet};

use zoneweave_zoned::ZoneId;

use crate::log::engine::state::State;
use crate::log::format::Generation;
use crate::log::recover::find::header_votes::Witnesses;
use crate::scheme::{Column, ColumnSet};

/// Zones of such segments, by generation.
type Hidden = BTreeMap<Generation, Vec<(Column, ZoneId)>>;

/// The segments that may own zones without a header, apart from segments of known generations.
pub(super) fn find<'a>(
    state: &State,
    zones: impl Iterator<Item = (Column, ZoneId, &'a Witnesses)>,
    known: &BTreeSet<Generation>,
) -> Hidden {
    let mut named: BTreeMap<Generation, (ColumnSet, Vec<(Column, ZoneId)>)> = BTreeMap::new();
    let mut unread = ColumnSet::default();
    for (column, zone, witnesses) in zones {
        match witnesses.told() {
            Some((generation, absent))
                if known.contains(&generation)
                    || state.registry.is_told_dead(generation, absent) => {}
            Some((generation, absent)) => {
                let (_, zones) = named.entry(generation).or_insert((absent, Vec::new()));
                zones.push((column, zone));
            }
            None if witnesses.unread => unread = unread.with(column),
            None => {}
        }
    }
    named.retain(|_, (absent, zones)| {
        let named: ColumnSet = zones.iter().map(|(column, _)| *column).collect();
        is_segment(state, *absent, named.union(unread))
    });
    named.into_iter().map(|(generation, (_, zones))| (generation, zones)).collect()
}

/// Whether a segment that is not on the `absent` columns may have its zones on `columns`. It has
/// one on every column that has lost no zones, and not all drives can be wrong.
fn is_segment(state: &State, absent: ColumnSet, columns: ColumnSet) -> bool {
    let of_array = state.array.scheme();
    let scheme = of_array.on(of_array.iter().collect::<ColumnSet>().without(absent));
    let scheme = scheme.unwrap_or(of_array);
    let in_service = |column: &Column| state.array.members[column.index()].is_in_full_service();
    let lost_none = |column: &Column| state.array.members[column.index()].lost_zones == 0;
    // A zone that this member lost may have been the segment's.
    let may_lack = |column: &Column| !lost_none(column) && !columns.contains(*column);
    let out = scheme.iter().filter(|column| !in_service(column) || may_lack(column));
    let out: ColumnSet = out.collect();
    let mut needed = scheme.iter().filter(in_service).filter(lost_none);
    !scheme.survives(columns.union(out)) && needed.all(|column| columns.contains(column))
}
