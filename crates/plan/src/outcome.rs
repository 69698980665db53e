//! All figures of a plan.

use serde::Serialize;
use thiserror::Error;
use zoneweave_raid::log::CreateError;
use zoneweave_zoned::BLOCK_BYTES;

use crate::durability::array::ArrayFailures;
use crate::durability::cluster::{ClusterFailures, Places};
use crate::durability::cycles::{Estimate, estimate};
use crate::durability::{HOURS_PER_YEAR, Repairs, per_hour};
use crate::repair::{Repair, of_arrays, of_drive};
use crate::spec::{Array, Spec, SpecError};
use crate::{array, repair};

/// Why a plan has no figures.
#[derive(Debug, Error)]
pub enum PlanError {
    /// A number makes no sense.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The engine refuses such an array.
    #[error("such an array cannot be made: {0}")]
    Array(#[from] CreateError),
    /// The chain of lost hosts would be too large.
    #[error(
        "an outage that loses about {hosts} of the hosts at once is beyond the model: lower \
         rates.hosts_lost_at_outage"
    )]
    TooManyLost {
        /// Hosts that an outage loses on average.
        hosts: u32,
    },
    /// The volume has no space to spare.
    #[error("the volume leaves no space for relocation: raise array.reserve_percent")]
    NoReserve,
}

/// Bytes, from the drives down to the users' objects.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Capacity {
    /// Drives in arrays.
    pub drives: u64,
    /// Their zones.
    pub raw_bytes: f64,
    /// The volumes.
    pub volume_bytes: f64,
    /// Objects that users may store, before the pool counts as too full.
    pub usable_bytes: f64,
    /// Raw bytes for each usable one.
    pub raw_for_each: f64,
}

/// Blocks written for each block that clients write.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Amplification {
    /// By the pool: copies, and the object store's own writes.
    pub pool: f64,
    /// By relocation.
    pub relocation: f64,
    /// By parity.
    pub parity: f64,
    /// By the drives, in all.
    pub drives: f64,
    /// Full writes of each drive in a day, under the plan's load.
    pub drive_writes_per_day: f64,
}

/// The needs of each host, for its arrays.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HostNeeds {
    /// Memory that is always in use: the index.
    pub index_bytes: u64,
    /// The most memory, with all queues full.
    pub memory_bytes: u64,
    /// Cores under the plan's load.
    pub cores: f64,
}

/// Repairs in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Repairing {
    /// Of a drive.
    pub drive: Repair,
    /// Of an array, by Ceph.
    pub array: Repair,
    /// Of a host, by Ceph.
    pub host: Repair,
    /// Drives that fail in a year.
    pub drives_per_year: f64,
    /// Hosts that are lost in a year.
    pub hosts_per_year: f64,
    /// Bytes written within hosts in a year.
    pub local_bytes_per_year: f64,
    /// Bytes that cross the network in a year.
    pub network_bytes_per_year: f64,
}

/// Losses in a simulation below which its figures are not used.
const LOSSES_LEAST: u32 = 100;

/// Time to a loss. Figures that are infinite, so `null` in JSON: nothing leads to a loss, or no
/// simulated history had one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Lasting {
    /// Years, by a Markov chain.
    pub chain_years: f64,
    /// Years, by Monte-Carlo with exponential repairs, as the chain has them.
    pub like_chain_years: f64,
    /// Years, by Monte-Carlo with repairs as long as computed.
    pub years: f64,
    /// Half of the 95 % confidence interval of that, as a share.
    pub error: f64,
    /// The share of the data that such a loss takes, on average.
    pub lost_share: f64,
    /// Losses that were simulated.
    pub losses: u32,
}

/// Losses of data.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Durability {
    /// Of one array.
    pub array: Lasting,
    /// Blocks without redundancy that a rebuild cannot read, of all arrays in a year. Ceph has
    /// other copies of them.
    pub unreadable_blocks_per_year: f64,
    /// Of the first objects of the pool.
    pub pool: Lasting,
    /// The share of the data lost in a year, on average: by the chain, and one group at a time, if
    /// fewer than 100 losses were simulated.
    pub lost_share_per_year: f64,
    /// That in nines: 11 means that a share of 10^-11 is lost in a year.
    pub nines: f64,
}

/// All figures of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Bytes.
    pub capacity: Capacity,
    /// Blocks written.
    pub amplification: Amplification,
    /// Memory and cores of a host.
    pub host: HostNeeds,
    /// Repairs.
    pub repairs: Repairing,
    /// Losses.
    pub durability: Durability,
}

/// How much is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Cycles of each simulation.
    pub cycles: u32,
    /// The seed.
    pub seed: u64,
}

impl Default for Effort {
    fn default() -> Self {
        Self { cycles: 200_000, seed: 1 }
    }
}

/// Years of hours.
fn years(hours: f64) -> f64 {
    hours / HOURS_PER_YEAR
}

impl Outcome {
    /// The figures of a plan.
    ///
    /// # Errors
    /// If the plan makes no sense, or the engine refuses its arrays.
    pub fn of(spec: &Spec, effort: Effort) -> Result<Self, PlanError> {
        spec.check()?;
        let one = OneArray::of(spec)?;
        let capacity = capacity(spec, &one);
        let amplification = amplification(spec, &one);
        let repairs = Repairs3::of(spec, &one);
        let durability = durability(spec, &one, &repairs, effort)?;
        let repairs = repairing(spec, &repairs, durability.array.chain_years);
        let host = host(spec, &one, &amplification);
        Ok(Self { capacity, amplification, host, repairs, durability })
    }
}

/// One array of the plan.
struct OneArray {
    raw_bytes: f64,
    volume_bytes: f64,
    /// Bytes of a drive that hold segments.
    drive_bytes: f64,
    relocation: f64,
    index_bytes: u64,
    memory_bytes: u64,
}

impl OneArray {
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    fn of(spec: &Spec) -> Result<Self, PlanError> {
        let config =
            array::configuration(&spec.drive.geometry, spec.scheme()?, spec.array.reserve_percent)?;
        let drive = u64::from(config.zones) * u64::from(config.zone_capacity.0);
        let raw_bytes = (drive * spec.array.drives() as u64) as f64 * BLOCK_BYTES as f64;
        let random = array::amplification(&config, spec.pool.fill).ok_or(PlanError::NoReserve)?;
        let memory = array::memory(&config);
        Ok(Self {
            raw_bytes,
            volume_bytes: config.log().volume_blocks as f64 * BLOCK_BYTES as f64,
            // Segments are freed only when space is needed, so in the long run all are in use.
            drive_bytes: drive as f64 * BLOCK_BYTES as f64,
            relocation: if spec.load.random { random } else { 1.0 },
            index_bytes: memory.index_bytes,
            memory_bytes: memory.total_bytes,
        })
    }
}

/// Repairs of the three kinds of parts.
struct Repairs3 {
    drive: Repair,
    array: Repair,
    host: Repair,
}

impl Repairs3 {
    fn of(spec: &Spec, one: &OneArray) -> Self {
        let objects = one.volume_bytes * spec.pool.fill;
        Self {
            drive: of_drive(spec, one.drive_bytes),
            array: of_arrays(spec, 1, objects),
            host: of_arrays(spec, spec.host.arrays, objects),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "at most 100,000 drives")]
fn drives(spec: &Spec) -> f64 {
    spec.drives() as f64
}

fn capacity(spec: &Spec, one: &OneArray) -> Capacity {
    let arrays = f64::from(spec.arrays());
    let (raw_bytes, volume_bytes) = (arrays * one.raw_bytes, arrays * one.volume_bytes);
    let usable_bytes = volume_bytes * spec.pool.fill / f64::from(spec.pool.copies);
    let raw_for_each = raw_bytes / usable_bytes;
    Capacity { drives: spec.drives(), raw_bytes, volume_bytes, usable_bytes, raw_for_each }
}

#[expect(clippy::cast_precision_loss, reason = "at most 32 chunks")]
fn amplification(spec: &Spec, one: &OneArray) -> Amplification {
    let pool = f64::from(spec.pool.copies) * spec.rates.object_store_amplification;
    let parity = spec.array.drives() as f64 / spec.array.data as f64;
    let all = pool * one.relocation * parity;
    let day = spec.load.write_mib_per_s * repair::MIB * 86_400.0;
    let of_host = f64::from(spec.host.arrays) * one.raw_bytes;
    Amplification {
        pool,
        relocation: one.relocation,
        parity,
        drives: all,
        drive_writes_per_day: day * all / of_host,
    }
}

fn host(spec: &Spec, one: &OneArray, amplification: &Amplification) -> HostNeeds {
    let (rates, load) = (&spec.rates, &spec.load);
    let requests = load.write_mib_per_s * amplification.pool * 1024.0 / load.write_kib;
    // Relocated blocks are processed as the further blocks of large requests.
    let blocks = (load.write_kib / 4.0).ceil();
    let further = blocks * one.relocation - 1.0;
    let micros = rates.write_cpu_us + further.max(0.0) * rates.write_cpu_block_us;
    let arrays = u64::from(spec.host.arrays);
    HostNeeds {
        index_bytes: arrays * one.index_bytes,
        memory_bytes: arrays * one.memory_bytes,
        cores: requests * micros / 1e6,
    }
}

fn repairing(spec: &Spec, repairs: &Repairs3, array_years: f64) -> Repairing {
    let rates = &spec.rates;
    let hosts = f64::from(spec.cluster.hosts);
    let failing = |share: f64| per_hour(share) * HOURS_PER_YEAR;
    let drives_per_year = drives(spec) * failing(rates.drive_failures_per_year);
    let outages = rates.site_outages_per_year + rates.rack_outages_per_year;
    let by_outage = outages * rates.hosts_lost_at_outage;
    let hosts_per_year = hosts * (failing(rates.host_losses_per_year) + by_outage);
    let arrays_per_year = f64::from(spec.arrays()) / array_years;
    // Without parity a failed drive is a lost array.
    let local = if spec.array.parity > 0 { drives_per_year * repairs.drive.bytes } else { 0.0 };
    let network =
        arrays_per_year * repairs.array.network_bytes + hosts_per_year * repairs.host.network_bytes;
    Repairing {
        drive: repairs.drive,
        array: repairs.array,
        host: repairs.host,
        drives_per_year,
        hosts_per_year,
        local_bytes_per_year: local,
        network_bytes_per_year: network,
    }
}

fn lasting(chain_hours: f64, like_chain: Estimate, found: Estimate) -> Lasting {
    Lasting {
        chain_years: years(chain_hours),
        like_chain_years: years(like_chain.hours_to_loss),
        years: years(found.hours_to_loss),
        error: found.error,
        lost_share: found.lost_share,
        losses: found.losses,
    }
}

#[expect(clippy::cast_precision_loss, reason = "at most 32 drives")]
fn durability(
    spec: &Spec,
    one: &OneArray,
    repairs: &Repairs3,
    effort: Effort,
) -> Result<Durability, PlanError> {
    let Array { data, parity, .. } = spec.array;
    let drives = spec.array.drives();
    let array = ArrayFailures::of(drives, parity, repairs.drive.hours, &spec.rates);
    let Effort { cycles, seed } = effort;
    let of_array = lasting(
        array.hours_to_loss(),
        estimate(&mut array.system(), Repairs::Exponential, cycles, seed),
        estimate(&mut array.system(), Repairs::Fixed, cycles, seed),
    );
    // A rebuild without redundancy reads all of as many drives as a stripe has data chunks.
    let bits = data as f64 * one.drive_bytes * 8.0;
    let unreadable = array.critical_per_hour() * HOURS_PER_YEAR * f64::from(spec.arrays());
    let cluster = ClusterFailures {
        places: Places {
            hosts: spec.cluster.hosts,
            racks: spec.cluster.racks,
            arrays: spec.host.arrays,
        },
        copies: spec.pool.copies,
        domain: spec.pool.domain,
        groups: spec.groups(),
        array_per_hour: 1.0 / array.hours_to_loss(),
        host_per_hour: 0.0,
        rack_per_hour: 0.0,
        site_per_hour: 0.0,
        lost_at_outage: 0.0,
        array_hours: repairs.array.hours,
        host_hours: repairs.host.hours,
    }
    .with_rates(&spec.rates);
    if !cluster.is_tractable() {
        let lost = f64::from(spec.cluster.hosts) * spec.rates.hosts_lost_at_outage;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "few hosts")]
        let hosts = lost.round() as u32;
        return Err(PlanError::TooManyLost { hosts });
    }
    let pool = lasting(
        cluster.hours_to_loss(),
        estimate(&mut cluster.system(), Repairs::Exponential, cycles, seed),
        estimate(&mut cluster.system(), Repairs::Fixed, cycles, seed),
    );
    let lost_share_per_year = match pool.losses >= LOSSES_LEAST {
        true => pool.lost_share / pool.years,
        false => pool.lost_share.max(1.0 / f64::from(spec.groups())) / pool.chain_years,
    };
    Ok(Durability {
        array: of_array,
        unreadable_blocks_per_year: unreadable * bits * spec.rates.unreadable_per_bit,
        pool,
        lost_share_per_year,
        nines: -lost_share_per_year.log10(),
    })
}

/// The same drives without arrays: each is an OSD of its own, in a pool of so many copies.
#[must_use]
pub fn without_arrays(spec: &Spec, copies: u32) -> Spec {
    let drives = u32::try_from(spec.array.drives()).unwrap_or(u32::MAX);
    let mut other = spec.clone();
    other.array = Array { data: 1, parity: 0, ..spec.array };
    other.host.arrays = spec.host.arrays.saturating_mul(drives);
    other.pool.copies = copies;
    other
}
