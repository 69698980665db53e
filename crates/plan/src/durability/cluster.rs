//! Loss of objects of a pool: every copy of a placement group is on a lost array.

use std::collections::{BTreeMap, VecDeque};

use super::chain::Chain;
use super::cycles::{Chances, Draw, System};
use super::placement::Placement;
pub use super::placement::Places;
use super::{HOURS_PER_YEAR, binomial, per_hour};
use crate::spec::{Domain, Rates};

/// Cycles with the same placement.
const CYCLES_PLACED: u32 = 5_000;

/// Most states of the chain: some seconds.
const STATES_MOST: u64 = 2_500;

/// Arrays that are lost by themselves at a time, beyond the copies, in the chain.
const ARRAYS_BESIDE: u32 = 3;

/// A cluster, as its failures see it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClusterFailures {
    /// Hosts, racks and arrays.
    pub places: Places,
    /// Copies of each group.
    pub copies: u32,
    /// The parts that hold at most one copy each.
    pub domain: Domain,
    /// Placement groups.
    pub groups: u32,
    /// Losses of each array, an hour.
    pub array_per_hour: f64,
    /// Losses of each host, an hour.
    pub host_per_hour: f64,
    /// Losses of power of each rack, an hour.
    pub rack_per_hour: f64,
    /// Losses of power of the site, an hour.
    pub site_per_hour: f64,
    /// The chance of each host to be lost with its power.
    pub lost_at_outage: f64,
    /// Hours to heal a lost array.
    pub array_hours: f64,
    /// Hours to heal a lost host.
    pub host_hours: f64,
}

impl ClusterFailures {
    /// Sets the rates of failures.
    #[must_use]
    pub fn with_rates(self, rates: &Rates) -> Self {
        Self {
            host_per_hour: per_hour(rates.host_losses_per_year),
            rack_per_hour: rates.rack_outages_per_year / HOURS_PER_YEAR,
            site_per_hour: rates.site_outages_per_year / HOURS_PER_YEAR,
            lost_at_outage: rates.hosts_lost_at_outage,
            ..self
        }
    }

    /// The most hosts, and arrays of others, that the chain tells apart.
    fn most_lost(&self) -> (u32, u32) {
        let all_lost = f64::from(self.places.hosts) * self.lost_at_outage;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "few hosts")]
        let tail = (all_lost + 8.0 * all_lost.sqrt()).ceil() as u32 + self.copies + ARRAYS_BESIDE;
        (tail.min(self.places.hosts), self.copies + ARRAYS_BESIDE)
    }

    /// Whether the chain is small enough: its time grows with the cube of its states.
    #[must_use]
    pub fn is_tractable(&self) -> bool {
        let (hosts, arrays) = self.most_lost();
        u64::from(hosts + 1) * u64::from(arrays + 1) <= STATES_MOST
    }

    /// Hours to the first loss, on average, by a Markov chain over the numbers of lost hosts and
    /// arrays.
    ///
    /// A lost set of arrays counts as a random one. That is exact if the failure domain is a host.
    /// If it is a rack, hosts lost with their rack hold no two copies of a group: then the chain
    /// loses earlier than the cluster.
    #[must_use]
    pub fn hours_to_loss(&self) -> f64 {
        let Places { hosts, racks, arrays } = self.places;
        let (most_hosts, most_arrays) = self.most_lost();
        let width = most_arrays as usize + 1;
        let state = |hosts: u32, arrays: u32| hosts as usize * width + arrays as usize;
        let mut chain = Chain::new((most_hosts as usize + 1) * width);
        for lost_hosts in 0..=most_hosts {
            for lost_arrays in 0..=most_arrays {
                let from = state(lost_hosts, lost_arrays);
                let left = hosts - lost_hosts;
                let before = self.covered(lost_hosts, lost_arrays);
                let mut fails = |more_hosts: u32, more_arrays: u32, per_hour: f64| {
                    let hosts = (lost_hosts + more_hosts).min(most_hosts);
                    let arrays = (lost_arrays + more_arrays).min(most_arrays);
                    let now = self.covered(lost_hosts + more_hosts, lost_arrays + more_arrays);
                    // Without a difference of nearly equal numbers: `now` may be 10^-20.
                    let ln_spared = match before < 1.0 {
                        true => (-now).ln_1p() - (-before).ln_1p(),
                        false => f64::NEG_INFINITY,
                    };
                    let lost = -(f64::from(self.groups) * ln_spared).exp_m1();
                    chain.loses(from, per_hour * lost);
                    chain.goes(from, state(hosts, arrays), per_hour * (1.0 - lost));
                };
                let arrays_left = (left * arrays).saturating_sub(lost_arrays);
                fails(0, u32::from(arrays_left > 0), f64::from(arrays_left) * self.array_per_hour);
                fails(u32::from(left > 0), 0, f64::from(left) * self.host_per_hour);
                for (lost, chance) in (0..).zip(binomial(left, self.lost_at_outage)).skip(1) {
                    fails(lost, 0, self.site_per_hour * chance);
                }
                let in_rack = hosts.div_ceil(racks).min(left);
                for (lost, chance) in (0..).zip(binomial(in_rack, self.lost_at_outage)).skip(1) {
                    fails(lost, 0, f64::from(racks) * self.rack_per_hour * chance);
                }
                if lost_hosts > 0 {
                    chain.goes(from, state(lost_hosts - 1, lost_arrays), 1.0 / self.host_hours);
                } else if lost_arrays > 0 {
                    chain.goes(from, state(0, lost_arrays - 1), 1.0 / self.array_hours);
                }
            }
        }
        chain.hours_to_loss()
    }

    /// The chance that all copies of a group are on lost arrays: those of so many hosts, and so
    /// many of the other hosts'.
    fn covered(&self, lost_hosts: u32, lost_arrays: u32) -> f64 {
        let Places { hosts, arrays, .. } = self.places;
        let others = (hosts - lost_hosts.min(hosts)) * arrays;
        let copies = self.copies;
        let by_hosts = |count: u32| {
            // Hypergeometric: `count` of the copies' hosts are lost.
            ways(lost_hosts, count) * ways(hosts - lost_hosts, copies - count) / ways(hosts, copies)
        };
        let by_arrays = |count: u32| match count {
            0 => 1.0,
            _ if others < count => 0.0,
            _ => ways(lost_arrays, count) / ways(others, count),
        };
        (0..=copies).map(|count| by_hosts(count) * by_arrays(copies - count)).sum::<f64>().min(1.0)
    }

    /// The cluster, for a simulation: with a random placement, and another one from time to time.
    #[must_use]
    pub fn system(self) -> impl System {
        let hosts = self.places.hosts as usize;
        let left_in: Vec<_> =
            (0..self.places.racks).map(|rack| self.places.hosts_of(rack)).collect();
        let mut racks_with = BTreeMap::new();
        for left in &left_in {
            *racks_with.entry(*left).or_default() += 1;
        }
        Failing {
            cluster: self,
            placement: None,
            cycles: 0,
            lost: vec![false; hosts * self.places.arrays as usize],
            lost_hosts: vec![false; hosts],
            arrays_left: self.places.hosts * self.places.arrays,
            hosts_left: self.places.hosts,
            left_in,
            racks_with,
            queue: VecDeque::new(),
        }
    }
}

/// Sets of so many out of so many.
fn ways(of: u32, count: u32) -> f64 {
    if count > of {
        return 0.0;
    }
    (0..count).map(|at| f64::from(of - at) / f64::from(at + 1)).product()
}

#[derive(Clone, Copy)]
enum Lost {
    Array(u32),
    Host(u32),
}

struct Failing {
    cluster: ClusterFailures,
    placement: Option<Placement>,
    cycles: u32,
    lost: Vec<bool>,
    lost_hosts: Vec<bool>,
    arrays_left: u32,
    hosts_left: u32,
    /// Hosts that are left in each rack.
    left_in: Vec<u32>,
    /// Racks by the number of hosts that are left in them.
    racks_with: BTreeMap<u32, u32>,
    queue: VecDeque<Lost>,
}

const ARRAY: usize = 0;
const HOST: usize = 1;
const RACK: usize = 2;

impl Failing {
    fn placed(&mut self) -> &mut Placement {
        self.placement.as_mut().expect("a cycle begins with a placement")
    }

    /// Loses an array. Returns the groups without a copy.
    fn lose_array(&mut self, array: u32) -> u32 {
        let lost = &mut self.lost[array as usize];
        assert!(!*lost, "array {array} is lost twice");
        *lost = true;
        self.arrays_left -= 1;
        self.placed().lose(array)
    }

    fn heal_array(&mut self, array: u32) {
        self.lost[array as usize] = false;
        self.arrays_left += 1;
        self.placed().heal(array);
    }

    /// Loses the arrays that a host has left.
    fn lose_host(&mut self, host: u32) -> u32 {
        let arrays = self.cluster.places.arrays;
        for array in host * arrays..(host + 1) * arrays {
            if !self.lost[array as usize] {
                self.lose_array(array);
            }
        }
        self.lost_hosts[host as usize] = true;
        self.hosts_left -= 1;
        self.recount_rack(host, |left| left - 1);
        self.queue.push_back(Lost::Host(host));
        self.placed().lost_groups()
    }

    /// Changes the number of hosts that are left in a host's rack.
    fn recount_rack(&mut self, host: u32, change: impl FnOnce(u32) -> u32) {
        let left = &mut self.left_in[self.cluster.places.rack_of(host) as usize];
        let before = std::mem::replace(left, change(*left));
        *self.racks_with.entry(*left).or_default() += 1;
        let count = self.racks_with.get_mut(&before).expect("the rack was counted");
        *count -= 1;
        if *count == 0 {
            self.racks_with.remove(&before);
        }
    }

    /// A random host that is left, of a rack or of the whole site.
    fn any_left(&self, rack: Option<u32>, draw: &mut Draw) -> u32 {
        let Places { hosts, racks, .. } = self.cluster.places;
        let (first, step) = rack.map_or((0, 1), |rack| (rack, racks));
        let of = (hosts - first).div_ceil(step) as usize;
        loop {
            let host = first + step * u32::try_from(draw.below(of)).expect("below all hosts");
            if !self.lost_hosts[host as usize] {
                return host;
            }
        }
    }

    /// Power is lost, of a rack or of the whole site, and at least one host does not come back.
    fn outage(&mut self, rack: Option<u32>, draw: &mut Draw) -> u32 {
        let left = rack.map_or(self.hosts_left, |rack| self.left_in[rack as usize]);
        let mut groups = 0;
        for _ in 0..draw.hits(left, self.cluster.lost_at_outage) {
            let host = self.any_left(rack, draw);
            groups = self.lose_host(host);
        }
        groups
    }

    /// The chance that an outage of so many hosts loses one.
    fn hit(&self, hosts: u32) -> f64 {
        -(f64::from(hosts) * (-self.cluster.lost_at_outage).ln_1p()).exp_m1()
    }

    /// A random rack, in proportion to its chance to lose a host.
    fn struck_rack(&self, draw: &mut Draw) -> u32 {
        let Places { hosts, racks, .. } = self.cluster.places;
        // No rack has more.
        let most = self.hit(hosts.div_ceil(racks));
        loop {
            let rack = draw.below(racks as usize);
            if draw.happens(self.hit(self.left_in[rack]) / most) {
                return u32::try_from(rack).expect("below all racks");
            }
        }
    }
}

impl System for Failing {
    fn chances(&self) -> Chances {
        let cluster = &self.cluster;
        let racks: f64 = match cluster.rack_per_hour > 0.0 {
            true => self.racks_with.iter().map(|(left, n)| f64::from(*n) * self.hit(*left)).sum(),
            false => 0.0,
        };
        Chances::new([
            f64::from(self.arrays_left) * cluster.array_per_hour,
            f64::from(self.hosts_left) * cluster.host_per_hour,
            racks * cluster.rack_per_hour,
            self.hit(self.hosts_left) * cluster.site_per_hour,
        ])
    }

    fn fail(&mut self, cause: usize, draw: &mut Draw) -> f64 {
        let groups = match cause {
            ARRAY => {
                let array = loop {
                    let array = draw.below(self.lost.len());
                    if !self.lost[array] {
                        break u32::try_from(array).expect("arrays are counted in 32 bits");
                    }
                };
                self.queue.push_back(Lost::Array(array));
                self.lose_array(array)
            }
            HOST => {
                let host = self.any_left(None, draw);
                self.lose_host(host)
            }
            RACK => {
                let rack = self.struck_rack(draw);
                self.outage(Some(rack), draw)
            }
            _ => self.outage(None, draw),
        };
        f64::from(groups) / f64::from(self.cluster.groups)
    }

    fn next_repair(&self) -> Option<f64> {
        Some(match self.queue.front()? {
            Lost::Array(_) => self.cluster.array_hours,
            Lost::Host(_) => self.cluster.host_hours,
        })
    }

    fn repair(&mut self) {
        let arrays = self.cluster.places.arrays;
        match self.queue.pop_front() {
            // An array that was lost with its host meanwhile is healed with it.
            Some(Lost::Array(array)) if self.lost_hosts[(array / arrays) as usize] => {}
            Some(Lost::Array(array)) => self.heal_array(array),
            Some(Lost::Host(host)) => {
                for array in host * arrays..(host + 1) * arrays {
                    self.heal_array(array);
                }
                self.lost_hosts[host as usize] = false;
                self.hosts_left += 1;
                self.recount_rack(host, |left| left + 1);
            }
            None => unreachable!("a repair is at the head of the queue"),
        }
    }

    fn renew(&mut self, draw: &mut Draw) {
        while !self.queue.is_empty() {
            self.repair();
        }
        let all = self.cluster.places.hosts * self.cluster.places.arrays;
        assert!(self.arrays_left == all, "every lost array was in the queue");
        if self.cycles.is_multiple_of(CYCLES_PLACED) {
            let ClusterFailures { places, domain, copies, groups, .. } = self.cluster;
            self.placement = Some(Placement::random(places, domain, copies, groups, draw));
        }
        self.cycles += 1;
    }
}
