//! Segments that no header tells of any more.
//!
//! A zone without a header goes to the segment whose other headers list it, so one header is enough. Where none can be read, or is
//! intact, on any of the drives, the segment would be missing without a word, and older contents be read for what it holds. It
//! has a zone on every member in full service, but for one that has lost zones.
//!
//! Fault model: a drive may have kept a zone that it acknowledged to have reset. One drive makes no segment.

use std::collections::{BTreeMap, BTreeSet};

use crate::layout::{Column, ColumnSet};
use crate::log::deaths::Deaths;
use crate::log::format::MemberState;
use crate::log::recover::witnesses::Witnesses;
use crate::log::state::State;

/// How many segments there may be of which zones without a header are, with the generations of those that are known and the
/// columns that a segment has at least.
pub(super) fn count<'a>(
    zones: impl Iterator<Item = (Column, &'a Witnesses)>,
    known: &BTreeSet<u64>,
    dead: &Deaths,
    needed: ColumnSet,
) -> usize {
    let mut named: BTreeMap<u64, ColumnSet> = BTreeMap::new();
    let mut unread = ColumnSet::default();
    for (column, witnesses) in zones {
        match witnesses.majority() {
            Some(generation) if known.contains(&generation) || dead.contains(generation) => {}
            Some(generation) => {
                let columns = named.entry(generation).or_default();
                *columns = columns.with(column);
            }
            None if witnesses.unread => unread = unread.with(column),
            None => {}
        }
    }
    let may_be = |columns: ColumnSet| {
        !needed.is_empty() && needed.iter().all(|column| columns.contains(column))
    };
    let whole = named.values().filter(|columns| may_be(columns.union(unread))).count();
    whole.max(usize::from(may_be(unread)))
}

/// The columns of members that have a zone of every segment.
pub(super) fn needed(state: &State) -> ColumnSet {
    let has_all = |column: &Column| {
        let member = &state.members[column.index()];
        let in_service = member.entry.state == MemberState::Online && member.device.is_some();
        in_service && member.lost_zones == 0
    };
    state.scheme().iter().filter(has_all).collect()
}
