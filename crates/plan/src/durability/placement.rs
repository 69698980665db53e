//! Which arrays hold the copies of each placement group, and which groups a set of lost arrays
//! takes along.

use super::cycles::Draw;
use crate::spec::Domain;

/// Hosts, each in a rack, with arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// Hosts.
    pub hosts: u32,
    /// Racks; host h is in rack h mod racks.
    pub racks: u32,
    /// Arrays of each host; array a is in host a / arrays.
    pub arrays: u32,
}

impl Places {
    /// How many hosts a rack has.
    pub(super) fn hosts_of(&self, rack: u32) -> u32 {
        (self.hosts - rack).div_ceil(self.racks)
    }

    /// The rack of a host.
    pub(super) fn rack_of(&self, host: u32) -> u32 {
        host % self.racks
    }
}

/// The copies of all groups.
pub(super) struct Placement {
    copies: u32,
    /// Groups with a copy on each array.
    groups_of: Vec<Vec<u32>>,
    /// Lost copies of each group.
    lost: Vec<u8>,
    lost_groups: u32,
}

impl Placement {
    /// Each copy of a group on a random array of another random domain.
    pub(super) fn random(
        places: Places,
        domain: Domain,
        copies: u32,
        groups: u32,
        draw: &mut Draw,
    ) -> Self {
        let domains = match domain {
            Domain::Host => places.hosts,
            Domain::Rack => places.racks,
        };
        assert!(copies <= domains, "each copy has a domain of its own");
        let mut groups_of = vec![Vec::new(); (places.hosts * places.arrays) as usize];
        let mut order: Vec<u32> = (0..domains).collect();
        for group in 0..groups {
            for copy in 0..copies as usize {
                let with = copy + draw.below(order.len() - copy);
                order.swap(copy, with);
                let host = match domain {
                    Domain::Host => order[copy],
                    Domain::Rack => {
                        let rack = order[copy];
                        let within = draw.below(places.hosts_of(rack) as usize);
                        rack + places.racks * u32::try_from(within).expect("below all hosts")
                    }
                };
                let array = host * places.arrays;
                groups_of[array as usize + draw.below(places.arrays as usize)].push(group);
            }
        }
        Self { copies, groups_of, lost: vec![0; groups as usize], lost_groups: 0 }
    }

    /// An array is lost. Returns how many groups have no copy any more.
    pub(super) fn lose(&mut self, array: u32) -> u32 {
        for group in &self.groups_of[array as usize] {
            let lost = &mut self.lost[*group as usize];
            *lost += 1;
            assert!(u32::from(*lost) <= self.copies, "an array is lost once");
            self.lost_groups += u32::from(u32::from(*lost) == self.copies);
        }
        self.lost_groups
    }

    /// Groups that have no copy.
    pub(super) fn lost_groups(&self) -> u32 {
        self.lost_groups
    }

    /// The copies of a lost array are elsewhere, or the array is whole again.
    pub(super) fn heal(&mut self, array: u32) {
        for group in &self.groups_of[array as usize] {
            let lost = &mut self.lost[*group as usize];
            self.lost_groups -= u32::from(u32::from(*lost) == self.copies);
            *lost -= 1;
        }
    }
}
