//! Finds narrow segments by the narrow list: none of their headers is needed.

use crate::instrument::marks::{Mark, mark, mark_if};
use crate::log::engine::state::State;
use crate::log::format::SegmentHeader;
use crate::log::recover::find::claims::{Claim, Sorted};
use crate::log::recover::find::missing_columns::has_none;

/// Assigns zones without a valid header to the listed segments: by the generation in their blocks,
/// or by the zones listed, on drives that were members then.
pub(super) fn adopt(state: &State, sorted: &mut Sorted) {
    let Sorted { claims, unclaimed, told, .. } = sorted;
    unclaimed.retain(|(column, info, witnesses)| {
        let named = witnesses.majority();
        let since = state.array.members[column.index()].entry.since_epoch;
        let mut newest_first = state.registry.narrow.newest_first();
        let header = match named {
            Some(generation) => state.registry.narrow.header(generation),
            None => newest_first
                .find(|header| header.epoch >= since && header.zone(*column) == Some(info.zone)),
        };
        let is_on = |header: &&SegmentHeader| header.geometry.scheme().contains(*column);
        let Some(header) = header.filter(is_on).filter(|_| info.write_pointer.0 > 0) else {
            return true;
        };
        mark(Mark::ListedWithoutHeader);
        if named.is_some() {
            told.insert((*column, info.zone));
        }
        let columns = claims.entry(header.segment).or_default();
        let claim = Claim { info: *info, header: Some(header.clone()) };
        columns.entry(*column).or_default().push(claim);
        false
    });
}

/// Number of listed segments of which nothing is found, although no drive proves that it never held
/// a part. They are lost with their contents. (For a segment about to be opened, every drive proves
/// it.)
pub(super) fn lost(state: &State, sorted: &Sorted) -> usize {
    let unaccounted = sorted.unaccounted();
    let listed = state.registry.narrow.newest_first();
    let missing = listed.filter(|header| !sorted.claims.contains_key(&header.segment));
    let told = |header: &SegmentHeader| {
        let mut columns = header.geometry.scheme().iter();
        columns.any(|column| has_none(state, header, column, &sorted.told, &unaccounted))
    };
    let lost = missing.filter(|header| !told(header)).count();
    mark_if(Mark::ListedLost, || lost > 0);
    lost
}
