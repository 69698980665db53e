//! The cost of a lost drive, array or host: bytes that are moved, and time.
//!
//! A lost drive is rebuilt within its array: its bytes are read from the other drives of the host,
//! and nothing crosses the network. A lost array or host is healed by Ceph, which copies its
//! objects from the other copies to the arrays that are left.

use serde::Serialize;

use crate::spec::{Domain, Spec};

pub(crate) const MIB: f64 = 1_048_576.0;

/// Bytes that a gigabit has.
const GBIT_BYTES: f64 = 125_000_000.0;

const SECONDS_PER_HOUR: f64 = 3600.0;

/// A repair of one kind of part.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Repair {
    /// Bytes that are written again.
    pub bytes: f64,
    /// Bytes that cross the network.
    pub network_bytes: f64,
    /// Rate of the writes, in MiB/s.
    pub mib_per_s: f64,
    /// Hours before the first write: a new drive, or the patience of Ceph.
    pub waiting_hours: f64,
    /// Hours from the failure to full redundancy.
    pub hours: f64,
}

impl Repair {
    fn new(bytes: f64, network_bytes: f64, mib_per_s: f64, waiting_hours: f64) -> Self {
        assert!(mib_per_s > 0.0, "a repair makes progress");
        let hours = waiting_hours + bytes / (mib_per_s * MIB) / SECONDS_PER_HOUR;
        Self { bytes, network_bytes, mib_per_s, waiting_hours, hours }
    }
}

/// Rate at which a drive is rebuilt, in MiB/s: that of the slowest drive involved, or a limit.
#[must_use]
pub fn rebuild_mib_per_s(spec: &Spec) -> f64 {
    let drive = spec.drive.write_mib_per_s.min(spec.drive.read_mib_per_s);
    (drive * spec.rates.rebuild_share).min(spec.rates.rebuild_mib_per_s_most)
}

/// The rebuild of a drive whose part of the segments in use is so large.
#[must_use]
pub fn of_drive(spec: &Spec, drive_bytes: f64) -> Repair {
    let waiting = if spec.array.spare { 0.0 } else { spec.rates.drive_replacement_hours };
    Repair::new(drive_bytes, 0.0, rebuild_mib_per_s(spec), waiting)
}

/// Healing of so many arrays of one host, each with so many bytes of objects.
///
/// With as many racks as copies, the objects of a rack's host go to the other hosts of that rack.
#[must_use]
pub fn of_arrays(spec: &Spec, arrays: u32, array_bytes: f64) -> Repair {
    let (cluster, rates) = (&spec.cluster, &spec.rates);
    let bytes = f64::from(arrays) * array_bytes;
    let alike = match spec.pool.domain {
        Domain::Rack if cluster.racks == spec.pool.copies => {
            f64::from(cluster.hosts) / f64::from(cluster.racks)
        }
        _ => f64::from(cluster.hosts),
    };
    // A host that stands alone waits for its own repair: as if another one took its place.
    let onto = (alike - 1.0).max(1.0);
    let network = spec.host.network_gbit_per_s * GBIT_BYTES / MIB * rates.healing_network_share;
    let osds = f64::from(spec.host.arrays) * rates.healing_mib_per_s;
    // Each group that lost a copy is healed onto one OSD.
    let groups = f64::from(arrays) * f64::from(spec.pool.groups_per_array);
    let rate = (onto * network.min(osds)).min(groups * rates.healing_mib_per_s);
    Repair::new(bytes, bytes, rate, rates.hours_until_out)
}
