//! The roster of narrow segments: docs/format.md sections 4 and 5.

use std::collections::BTreeSet;

use crate::blocks::{Header, shape_within_limits};
use crate::fields::Fields;
use crate::membership::Membership;
use crate::record::{Config, MemberState};
use crate::report::{Findings, Location, Problem};
use crate::shape::Scheme;

/// The narrow segments that are alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Roster {
    below: u64,
    /// Ascending by generation.
    segments: Vec<Header>,
}

impl Roster {
    pub(crate) fn parse(bytes: &[u8], config: &Config) -> Option<Self> {
        let (below, mut rest) = bytes.split_at_checked(8)?;
        let below = Fields(below).u64(0);
        let mut segments: Vec<Header> = Vec::new();
        while !rest.is_empty() {
            let (header, behind) = parse_segment(rest, config)?;
            let ascends = segments.last().is_none_or(|last| last.generation < header.generation);
            if !ascends || header.generation >= below {
                return None;
            }
            segments.push(header);
            rest = behind;
        }
        Some(Self { below, segments })
    }
}

fn parse_segment<'a>(bytes: &'a [u8], config: &Config) -> Option<(Header, &'a [u8])> {
    let (head, rest) = bytes.split_at_checked(40)?;
    let fields = Fields(head);
    let of_array = config.shape.scheme;
    let absent = fields.u32(24);
    let own = of_array.width().checked_sub(absent.count_ones())?;
    let data_chunks = own.checked_sub(of_array.parity_chunks)?;
    let scheme = Scheme { data_chunks, absent: 0, ..of_array }.without(absent)?;
    let legal = absent != 0
        && data_chunks > 0
        && of_array.admits(&scheme)
        && matches!(fields.u8(36), 1 | 2)
        && fields.u8(37) <= 1
        && fields.bytes::<2>(38) == [0; 2];
    if !legal {
        return None;
    }
    let (unit, capacity) = (config.shape.unit, config.zone_capacity);
    let shape = shape_within_limits(scheme, unit, capacity, fields.u32(28), fields.u32(32))?;
    let (listed, rest) = rest.split_at_checked(4 * own as usize)?;
    let mut zones = vec![None; scheme.width() as usize];
    for (at, column) in scheme.own_columns().enumerate() {
        let zone = Fields(listed).u32(4 * at);
        zones[column as usize] = (zone != u32::MAX).then_some(zone);
    }
    let header = Header {
        segment: fields.u64(0),
        generation: fields.u64(8),
        epoch: fields.u64(16),
        stream: fields.u8(36),
        tabled: fields.u8(37) == 1,
        shape,
        zone_capacity: capacity,
        zones,
    };
    Some((header, rest))
}

impl Membership {
    /// Whether records tell that a segment is dead.
    pub(crate) fn is_dead(&self, header: &Header) -> bool {
        let narrow = header.shape.scheme.absent != 0;
        let unlisted = || {
            let roster = self.roster.as_ref().map(|(_, roster)| roster);
            roster.is_some_and(|roster| header.generation < roster.below) && !self.lists(header)
        };
        self.dead.contains(&header.generation) || narrow && unlisted()
    }

    fn listed(&self) -> impl Iterator<Item = &Header> {
        let roster = self.roster.iter().flat_map(|(_, roster)| &roster.segments);
        roster.filter(|header| !self.dead.contains(&header.generation))
    }

    fn lists(&self, header: &Header) -> bool {
        self.listed().any(|listed| listed.generation == header.generation)
    }

    /// What the roster says of the zone of a member that does not tell itself: of the segment of the generation that most of its
    /// blocks carry, or, where there is none, of the newest that the zone was made for.
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

    /// Tells of listed segments that none of the known ones is, though no member tells that it never had any of them.
    pub(crate) fn note_lost(&self, known: &BTreeSet<u64>, findings: &mut Findings) {
        for header in self.listed().filter(|header| !known.contains(&header.segment)) {
            let mut columns = header.shape.scheme.own_columns().map(|column| column as usize);
            if !columns.any(|slot| self.has_none(header, slot)) {
                findings.add(Location::default().segment(header.segment), Problem::SegmentLost);
            }
        }
    }

    /// Whether a member tells that it has nothing of a segment that no zone was found of.
    fn has_none(&self, header: &Header, slot: usize) -> bool {
        let online = |state| state == MemberState::Online;
        let Some(member) = self.members[slot].as_ref().filter(|member| online(member.state)) else {
            return false;
        };
        if member.since_epoch > header.epoch {
            // It was rebuilt since, and may have had it in any of its zones.
            return member.drive.has_all_zones();
        }
        let can_be_read = |zone| member.drive.readable_zones().any(|info| info.zone.0 == zone);
        header.zones[slot].is_some_and(can_be_read)
    }
}
