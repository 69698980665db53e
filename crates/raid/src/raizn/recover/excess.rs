//! Zones that a start finishes, as a drive does, because they would take more resources than there
//! are.

use std::collections::BTreeSet;

use crate::array::format::record::BODY_BYTES;
use crate::instrument::marks::{Mark, mark};
use crate::raizn::core::Core;
use crate::raizn::format::zone_record::ZoneRecord;
use crate::raizn::parity_log::relocated_most;
use crate::raizn::zone::LogicalZone;
use crate::scheme::{Column, MAX_COLUMNS};

/// Junk ranges of a zone beyond which no damaged block of it is relocated, and a start finishes it.
/// The next start adds at most one to each column, and the zone's record has to fit
/// a block.
pub(crate) const JUNK_RANGES_MOST: usize = 128;
const _: () = assert!(ZoneRecord::bytes_with(JUNK_RANGES_MOST + MAX_COLUMNS) <= BODY_BYTES);

impl Core {
    /// Finishes zones that would take more resources than there are, as a drive does then (NVMe
    /// zone attribute ZFC), and returns them.
    ///
    /// * Blocks that may yet be relocated have to fit the parity log of each member.
    /// * The junk ranges of a zone have to fit its record after the next crash as well.
    /// * A power failure may have taken the last blocks of full zones, so that more zones are
    ///   partly written than the drives allow.
    pub(crate) fn finish_excess(&self) -> BTreeSet<u32> {
        let mut state = self.state.borrow_mut();
        let most = relocated_most(state.array.config.zone_capacity.0);
        let mut finished = BTreeSet::new();
        for column in self.layout.scheme().iter() {
            while let Some(zone) = excess_junk(&state.logical, column, most) {
                mark(Mark::ZonedFinishedForJunk);
                finish(&mut state.logical[zone as usize]);
                finished.insert(zone);
            }
        }
        let zone_blocks = self.layout.zone_blocks();
        let goes_on = |zone: &&mut LogicalZone| {
            zone.completed < zone_blocks && zone.record.finished.is_none() && !zone.record.resetting
        };
        let many = |zone: &&mut LogicalZone| zone.record.junk.len() > JUNK_RANGES_MOST;
        for zone in state.logical.iter_mut().filter(goes_on).filter(many) {
            mark(Mark::ZonedFinishedForRanges);
            finish(zone);
            finished.insert(zone.record.zone);
        }
        let allowed = state.zones.geometry().max_active.unwrap_or(u32::MAX);
        // A zone whose reset is repeated is empty before users are served.
        let active = state
            .logical
            .iter_mut()
            .filter(|zone| zone.is_active(zone_blocks) && !zone.record.resetting);
        for zone in active.skip(allowed as usize) {
            mark(Mark::ZonedFinishedForActive);
            finish(zone);
            finished.insert(zone.record.zone);
        }
        finished
    }
}

/// Finishes a zone where it ends.
fn finish(zone: &mut LogicalZone) {
    assert!(zone.record.finished.is_none(), "a zone is finished once");
    assert!(!zone.record.resetting, "a zone that is reset is not finished");
    zone.record.finished = Some(zone.completed);
    zone.record.by_volume = true;
}

/// The zone with the most junk in a column that its next blocks would meet, if so much might be
/// relocated that the parity log has no room.
fn excess_junk(zones: &[LogicalZone], column: Column, most: u32) -> Option<u32> {
    let to_come = |zone: &&LogicalZone| relocations_to_come(zone, column);
    let largest = zones.iter().max_by_key(to_come).filter(|zone| to_come(zone) > 0);
    largest.filter(|_| relocations(zones, column) > most).map(|zone| zone.record.zone)
}

/// Blocks of a column that go to the parity log if a zone is written to its end.
fn relocations_to_come(zone: &LogicalZone, column: Column) -> u32 {
    let next = zone.columns[column.index()].next;
    let behind = zone.junk_of(column).map(|junk| junk.end - junk.start.max(next).min(junk.end));
    if zone.record.finished.is_some() { 0 } else { behind.sum() }
}

/// Blocks of a member that are in its parity log, or may yet go there.
pub(crate) fn relocations(zones: &[LogicalZone], column: Column) -> u32 {
    let there = zones.iter().map(|zone| zone.columns[column.index()].relocated.len());
    let there = u32::try_from(there.sum::<usize>()).expect("columns have fewer blocks");
    there + zones.iter().map(|zone| relocations_to_come(zone, column)).sum::<u32>()
}
