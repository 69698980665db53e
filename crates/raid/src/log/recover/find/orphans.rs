//! Segments that no header tells of any more.
//!
//! A zone without a header goes to the segment whose other headers list it, so one header is
//! enough. Where none can be read, or is intact, on any of the drives, the segment would be missing
//! without a word, and older contents be read for what it holds. It has a zone on every member in
//! full service, but for those that have lost zones.
//!
//! Fault model: drives may have kept zones that they acknowledged to have reset, and zones may be
//! unreadable from the start on: as many as redundancy makes up for are no segment.

use std::collections::{BTreeMap, BTreeSet};

use zoneweave_zoned::ZoneId;

use crate::log::engine::state::State;
use crate::log::recover::find::header_votes::Witnesses;
use crate::scheme::{Column, ColumnSet};

/// Zones of such segments, by generation.
pub(in crate::log) type Hidden = BTreeMap<u64, Vec<(Column, ZoneId)>>;

/// The segments of which zones without a header may be, beside those of known generations.
pub(in crate::log) fn find<'a>(
    state: &State,
    zones: impl Iterator<Item = (Column, ZoneId, &'a Witnesses)>,
    known: &BTreeSet<u64>,
) -> Hidden {
    let mut named: BTreeMap<u64, (ColumnSet, Vec<(Column, ZoneId)>)> = BTreeMap::new();
    let mut unread = ColumnSet::default();
    for (column, zone, witnesses) in zones {
        match witnesses.told() {
            Some((generation, absent))
                if known.contains(&generation) || state.is_told_dead(generation, absent) => {}
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

/// Whether a segment that is not on some columns may have its zones in these: it has some in all
/// but those that lost zones, and not all of them can be wrong.
fn is_segment(state: &State, absent: ColumnSet, columns: ColumnSet) -> bool {
    let of_array = state.scheme();
    let scheme = of_array.on(of_array.iter().collect::<ColumnSet>().without(absent));
    let scheme = scheme.unwrap_or(of_array);
    let in_service = |column: &Column| state.members[column.index()].is_in_full_service();
    let lost_none = |column: &Column| state.members[column.index()].lost_zones == 0;
    // The zone of one that lost some may have been of it.
    let may_lack = |column: &Column| !lost_none(column) && !columns.contains(*column);
    let out = scheme.iter().filter(|column| !in_service(column) || may_lack(column));
    let out: ColumnSet = out.collect();
    let mut needed = scheme.iter().filter(in_service).filter(lost_none);
    !scheme.survives(columns.union(out)) && needed.all(|column| columns.contains(column))
}
