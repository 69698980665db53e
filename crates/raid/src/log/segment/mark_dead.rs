//! Recording members that may hold blocks of dead segments.

use crate::log::segment::registry::Registry;
use crate::scheme::Column;

impl Registry {
    /// Records that a drive has a zone that may belong to any segment older than its membership.
    pub(in crate::log) fn note_unclear(&mut self, column: Column) {
        self.unclear = self.unclear.with(column);
    }
}
