//! A plan: one kind of drive, array and host, and a replicated pool over the arrays.

mod rates;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use zoneweave_raid::scheme::{MAX_COLUMNS, Scheme, SchemeError};
use zoneweave_zoned::Geometry;

pub use rates::{RATES, Rate, Rates};

/// Most drives of a plan.
pub const DRIVES_MOST: u64 = 20_000;

/// Most copies of a pool.
pub const COPIES_MOST: u32 = 8;

/// A plan that describes nothing that could be built.
#[derive(Debug, PartialEq, Error)]
pub enum SpecError {
    /// A number outside its range.
    #[error("{name} is {value}, which is not {range}")]
    OutOfRange {
        /// The name, as in the file.
        name: &'static str,
        /// Its value.
        value: f64,
        /// The values that it may have.
        range: &'static str,
    },
    /// Chunks per stripe that no array has.
    #[error("array.data and array.parity: {0}")]
    Scheme(#[from] SchemeError),
    /// More copies than failure domains.
    #[error("pool.copies is {copies}, but there are {domains} {domain}s to hold one each")]
    TooFewDomains {
        /// Copies of the pool.
        copies: u32,
        /// Failure domains.
        domains: u32,
        /// Their kind.
        domain: Domain,
    },
    /// More drives than the model simulates.
    #[error("the plan has {drives} drives; the model takes at most {DRIVES_MOST}")]
    TooManyDrives {
        /// Drives of all hosts.
        drives: u64,
    },
}

/// A drive: its geometry, and its rates in sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct Drive {
    /// Its name, for the report.
    pub name: String,
    /// Zones, capacity and limits.
    pub geometry: Geometry,
    /// Rate of sequential writes, in MiB/s.
    pub write_mib_per_s: f64,
    /// Rate of sequential reads, in MiB/s.
    pub read_mib_per_s: f64,
}

/// An array, which is one OSD.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Array {
    /// Data chunks per stripe.
    pub data: usize,
    /// Parity chunks per stripe.
    pub parity: usize,
    /// Reserve for relocation, in percent of the volume.
    pub reserve_percent: u32,
    /// Whether a spare stands by in each host.
    pub spare: bool,
}

/// A host.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Host {
    /// Arrays of each host.
    pub arrays: u32,
    /// Rate of its network, in Gbit/s.
    pub network_gbit_per_s: f64,
}

/// The hosts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cluster {
    /// Hosts, divided evenly among the racks.
    pub hosts: u32,
    /// Racks.
    pub racks: u32,
}

/// The parts that hold at most one copy of an object each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Domain {
    /// A host.
    Host,
    /// A rack.
    Rack,
}

impl std::fmt::Display for Domain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Host => "host",
            Self::Rack => "rack",
        })
    }
}

/// A replicated pool over all arrays.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pool {
    /// Copies of each object, each in another failure domain.
    pub copies: u32,
    /// The failure domain.
    pub domain: Domain,
    /// Copies of placement groups on each array.
    pub groups_per_array: u32,
    /// Share of the volumes that objects fill. Ceph refuses writes at 0.95 and warns at 0.85.
    pub fill: f64,
}

/// The load of each host's clients.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Load {
    /// Rate at which clients write, in MiB/s for each host, before copies.
    pub write_mib_per_s: f64,
    /// Size of their writes, in KiB.
    pub write_kib: f64,
    /// Whether they overwrite at random; otherwise whole segments become free at once.
    pub random: bool,
}

/// A plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// The drives, all alike.
    pub drive: Drive,
    /// The arrays.
    pub array: Array,
    /// The hosts.
    pub host: Host,
    /// The cluster.
    pub cluster: Cluster,
    /// The pool.
    pub pool: Pool,
    /// The load.
    pub load: Load,
    /// The assumptions of the model.
    pub rates: Rates,
}

impl Default for Array {
    fn default() -> Self {
        Self { data: 3, parity: 1, reserve_percent: 20, spare: true }
    }
}

impl Default for Host {
    fn default() -> Self {
        Self { arrays: 2, network_gbit_per_s: 25.0 }
    }
}

impl Default for Cluster {
    fn default() -> Self {
        Self { hosts: 12, racks: 3 }
    }
}

impl Default for Pool {
    fn default() -> Self {
        Self { copies: 2, domain: Domain::Rack, groups_per_array: 100, fill: 0.7 }
    }
}

impl Default for Load {
    fn default() -> Self {
        Self { write_mib_per_s: 200.0, write_kib: 64.0, random: true }
    }
}

impl Array {
    /// Drives of the array.
    #[must_use]
    pub const fn drives(&self) -> usize {
        self.data + self.parity
    }
}

impl Spec {
    /// The scheme of the arrays.
    ///
    /// # Errors
    /// If no array has such stripes.
    pub fn scheme(&self) -> Result<Scheme, SpecError> {
        let Array { data, parity, .. } = self.array;
        if data.max(parity) > MAX_COLUMNS {
            return Err(SchemeError::TooManyColumns { columns: data.saturating_add(parity) }.into());
        }
        Ok(Scheme::new(data, parity)?)
    }

    /// Arrays of all hosts.
    #[must_use]
    pub fn arrays(&self) -> u32 {
        self.cluster.hosts * self.host.arrays
    }

    /// Drives in arrays; spares are beside them.
    #[must_use]
    pub fn drives(&self) -> u64 {
        u64::from(self.arrays()) * self.array.drives() as u64
    }

    /// Placement groups of the pool.
    #[must_use]
    pub fn groups(&self) -> u32 {
        (self.arrays() * self.pool.groups_per_array / self.pool.copies).max(1)
    }

    /// Checks every number, so that nothing after it divides by zero or runs for ever.
    ///
    /// # Errors
    /// The first number that makes no sense, by its name in the file.
    pub fn check(&self) -> Result<(), SpecError> {
        let Self { drive, array, host, cluster, pool, load, rates } = self;
        for (name, value, least, most, range) in [
            ("drive.write_mib_per_s", drive.write_mib_per_s, 1e-3, 1e7, "a rate"),
            ("drive.read_mib_per_s", drive.read_mib_per_s, 1e-3, 1e7, "a rate"),
            ("array.reserve_percent", array.reserve_percent.into(), 1.0, 1000.0, "1 to 1000"),
            ("host.arrays", host.arrays.into(), 1.0, 2048.0, "1 to 2048"),
            ("host.network_gbit_per_s", host.network_gbit_per_s, 1e-3, 1e5, "a rate"),
            ("cluster.hosts", cluster.hosts.into(), 1.0, 1e5, "1 to 100000"),
            ("cluster.racks", cluster.racks.into(), 1.0, 1e5, "1 to 100000"),
            ("pool.copies", pool.copies.into(), 1.0, COPIES_MOST.into(), "1 to 8"),
            ("pool.groups_per_array", pool.groups_per_array.into(), 1.0, 1000.0, "1 to 1000"),
            ("pool.fill", pool.fill, 0.01, 0.95, "a share of at most 0.95"),
            ("load.write_mib_per_s", load.write_mib_per_s, 0.0, 1e6, "a rate"),
            ("load.write_kib", load.write_kib, 0.5, 1e6, "a size"),
        ] {
            if !(least..=most).contains(&value) {
                return Err(SpecError::OutOfRange { name, value, range });
            }
        }
        rates.check()?;
        self.scheme()?;
        let drives = self.drives();
        if drives > DRIVES_MOST {
            return Err(SpecError::TooManyDrives { drives });
        }
        if cluster.racks > cluster.hosts {
            let (name, value) = ("cluster.racks", cluster.racks.into());
            return Err(SpecError::OutOfRange { name, value, range: "at most cluster.hosts" });
        }
        let domains = match pool.domain {
            Domain::Host => cluster.hosts,
            Domain::Rack => cluster.racks,
        };
        if pool.copies > domains {
            let (copies, domain) = (pool.copies, pool.domain);
            return Err(SpecError::TooFewDomains { copies, domains, domain });
        }
        Ok(())
    }
}
