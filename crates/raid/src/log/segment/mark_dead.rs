//! Recording members that may hold blocks of dead segments.

use crate::log::engine::state::State;
use crate::scheme::Column;

impl State {
    /// Records that a drive has a zone that may belong to any segment older than its membership.
    pub(in crate::log) fn note_unclear(&mut self, column: Column) {
        self.unclear = self.unclear.with(column);
    }
}
