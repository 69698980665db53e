//! Queries of the narrow list by the state: the record that lists it, and the deaths it implies.

use crate::log::engine::state::State;
use crate::log::format::{Generation, RecordBody};
use crate::log::segment::registry::Registry;
use crate::scheme::ColumnSet;

impl Registry {
    /// Whether records prove that a segment absent from some columns is dead.
    #[must_use]
    pub(in crate::log) fn is_told_dead(&self, generation: Generation, absent: ColumnSet) -> bool {
        self.dead.contains(generation) || self.narrow.excludes(generation, absent)
    }
}

impl State {
    /// The record of all narrow segments that are alive.
    #[must_use]
    pub(in crate::log) fn narrow_list_record(&self) -> Option<RecordBody> {
        self.registry.narrow.record(Generation::of(self.writes.next_sequence))
    }

    /// Whether another narrow segment could be listed.
    #[must_use]
    pub(in crate::log) fn may_list_another(&self) -> bool {
        self.registry.narrow.alive.len() < RecordBody::listed_most(self.array.scheme())
    }
}
