//! Dead segments, and narrow segments by the narrow list: docs/format.md sections 4 and 5.

use std::collections::BTreeSet;

use crate::array::membership::Membership;
use crate::format::blocks::Header;
use crate::format::record::MemberState;
use crate::report::{Findings, Location, Problem};

impl Membership {
    /// Whether a segment is dead by the records.
    pub(crate) fn is_dead(&self, header: &Header) -> bool {
        let narrow = header.shape.scheme.absent != 0;
        let unlisted = || {
            let list = self.narrow_list.as_ref().map(|(_, list)| list);
            list.is_some_and(|list| header.generation < list.below) && !self.lists(header)
        };
        self.dead.contains(&header.generation) || narrow && unlisted()
    }

    fn listed(&self) -> impl Iterator<Item = &Header> {
        let list = self.narrow_list.iter().flat_map(|(_, list)| &list.segments);
        list.filter(|header| !self.dead.contains(&header.generation))
    }

    fn lists(&self, header: &Header) -> bool {
        self.listed().any(|listed| listed.generation == header.generation)
    }

    /// The narrow list's header for a zone without a readable header of its own: the segment whose
    /// generation most of its blocks carry. Without such a generation, the newest segment that
    /// lists the zone.
    pub(crate) fn listed_at(
        &self,
        slot: usize,
        zone: u32,
        carried: Option<u64>,
    ) -> Option<&Header> {
        let since = self.members[slot].as_ref()?.since_epoch;
        let is_it = |header: &&Header| match carried {
            Some(generation) => header.generation == generation,
            None => header.zones[slot] == Some(zone) && header.epoch >= since,
        };
        let is_on = |header: &&Header| {
            let mut columns = header.shape.scheme.own_columns();
            columns.any(|column| column as usize == slot)
        };
        self.listed().filter(is_it).filter(is_on).max_by_key(|header| header.generation)
    }

    /// Reports listed segments without any zone, unless a member proves that it never held a part.
    pub(crate) fn report_lost(&self, known: &BTreeSet<u64>, findings: &mut Findings) {
        for header in self.listed().filter(|header| !known.contains(&header.segment)) {
            let mut columns = header.shape.scheme.own_columns().map(|column| column as usize);
            if !columns.any(|slot| self.has_none(header, slot)) {
                findings.add(Location::default().segment(header.segment), Problem::SegmentLost);
            }
        }
    }

    /// Whether a member proves that it holds nothing of a segment without known zones.
    fn has_none(&self, header: &Header, slot: usize) -> bool {
        let online = |state| state == MemberState::Online;
        let Some(member) = self.members[slot].as_ref().filter(|member| online(member.state)) else {
            return false;
        };
        if member.since_epoch > header.epoch {
            // A member that was rebuilt since may have had it in any of its zones.
            return member.drive.has_all_zones();
        }
        let can_be_read = |zone| member.drive.readable_zones().any(|info| info.zone.0 == zone);
        header.zones[slot].is_some_and(can_be_read)
    }
}
