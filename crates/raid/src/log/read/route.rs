//! Routing of reads: directly to the drive, or around it.

use zoneweave_runtime::Nanos;

use crate::array::latency::hedge::{LEFT_BEHIND, PRICE, PROBE, size_of};
use crate::instrument::marks::{Mark, mark};
use crate::log::engine::address::BlockPlace;
use crate::log::engine::state::State;
use crate::scheme::{Column, ColumnSet, Scheme};

/// The way in which a read is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// On its drives, without a time limit.
    Direct,
    /// On its drives; late from this time on.
    Until(Nanos),
    /// Reconstruct without the chunks of these columns.
    Around(ColumnSet),
}

impl State {
    /// Chooses the route of blocks. The clock is read only if it matters.
    pub(super) fn route(&mut self, places: &[BlockPlace], clock: impl Fn() -> Nanos) -> Route {
        if !self.array.is_hedging() || places.is_empty() {
            return Route::Direct;
        }
        self.array.hedge.earn();
        let mut now = None;
        let mut latest = 0;
        let mut held_up = ColumnSet::default();
        for (column, size) in columns_of(places) {
            let Some(bound) = self.array.usual_bound(size) else { continue };
            latest = latest.max(bound);
            let now = *now.get_or_insert_with(&clock);
            if self.array.is_held_up(column, size, bound, now) {
                held_up = held_up.with(column);
            }
        }
        if latest == 0 {
            return Route::Direct;
        }
        let now = now.unwrap_or_else(clock);
        let until = Route::Until(now + Nanos(latest));
        if held_up.is_empty() || !self.can_go_around(held_up, places, now) {
            return until;
        }
        let mut probe = false;
        for column in self.array.scheme().iter().filter(|column| held_up.contains(*column)) {
            let pace = &mut self.array.members[column.index()].pace;
            pace.spared += 1;
            probe |= pace.spared.is_multiple_of(PROBE) && !pace.owes(now);
        }
        if probe {
            mark(Mark::HeldUpDriveProbed);
            return until;
        }
        if self.array.hedge.around < PRICE {
            mark(Mark::HedgeBeyondShare);
            return until;
        }
        mark(Mark::ReadAround);
        self.array.hedge.around -= PRICE;
        self.counters.reads_around += 1;
        Route::Around(held_up)
    }

    /// Decides whether a late read is also reconstructed, and without which drives.
    pub(super) fn hedge_late(&mut self, places: &[BlockPlace], now: Nanos) -> Option<ColumnSet> {
        let mut late = ColumnSet::default();
        for (column, _) in columns_of(places) {
            if self.array.members[column.index()].pace.owes_any(now) {
                late = late.with(column);
            }
        }
        if late.is_empty() || !self.can_go_around(late, places, now) {
            return None;
        }
        if self.array.hedge.late < PRICE || self.array.hedge.left_behind >= LEFT_BEHIND {
            mark(Mark::HedgeBeyondShare);
            return None;
        }
        mark(Mark::ReadHedged);
        self.array.hedge.late -= PRICE;
        self.array.hedge.left_behind += 1;
        self.counters.reads_hedged += 1;
        Some(late)
    }

    /// Whether the other drives are present, and not held up themselves.
    fn can_go_around(&self, held_up: ColumnSet, places: &[BlockPlace], now: Nanos) -> bool {
        let enough = |scheme: Scheme, column: Column, size: usize| {
            let bound = self.array.usual_bound(size).unwrap_or(u64::MAX);
            let ready = |source: &Column| {
                self.array.members[source.index()].device.is_some()
                    && !held_up.contains(*source)
                    && !self.array.is_held_up(*source, size, bound, now)
            };
            scheme.sources_of(column).filter(ready).count() >= scheme.sources_needed()
        };
        let mut columns = columns_of(places).filter(|(column, _)| held_up.contains(*column));
        columns.all(|(column, size)| {
            let of_column = places.iter().filter(|place| place.column == column);
            let segments = of_column.filter_map(|place| self.segments.get(place.slot));
            let mut schemes = segments.map(|segment| segment.geometry.scheme());
            schemes.all(|scheme| enough(scheme, column, size))
        })
    }
}

/// The columns of places, in order, with the size class of the read on each.
fn columns_of(places: &[BlockPlace]) -> impl Iterator<Item = (Column, usize)> {
    let all = places.iter().fold(ColumnSet::default(), |all, place| all.with(place.column));
    all.iter().map(|column| {
        let blocks = places.iter().filter(|place| place.column == column).count();
        (column, size_of(u32::try_from(blocks).unwrap_or(u32::MAX)))
    })
}
