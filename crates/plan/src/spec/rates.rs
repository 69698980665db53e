//! The assumptions of the model, each figure with its source.
//!
//! A figure *assumed* has no measurement behind it: replace it by your own.

use serde::{Deserialize, Serialize};

use super::SpecError;

macro_rules! rates {
    ($($(#[doc = $doc:literal])+ $name:ident = $value:expr, most $most:expr, $source:literal;)+) => {
        /// Rates of failures, and costs.
        #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Rates {
            $($(#[doc = $doc])+ pub $name: f64,)+
        }

        impl Default for Rates {
            fn default() -> Self {
                Self { $($name: $value,)+ }
            }
        }

        /// Every rate in the order of the file.
        pub const RATES: &[Rate] = &[$(Rate {
            name: stringify!($name),
            value: $value,
            most: $most,
            about: concat!($($doc,)+).trim_ascii(),
            source: $source,
            of: |rates| rates.$name,
        },)+];
    };
}

/// A figure that the model assumes.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Its name in the file.
    pub name: &'static str,
    /// Its default.
    pub value: f64,
    /// The largest value that makes sense.
    pub most: f64,
    /// Its meaning, with the unit.
    pub about: &'static str,
    /// Where it is from.
    pub source: &'static str,
    /// Its value among rates.
    pub of: fn(&Rates) -> f64,
}

rates! {
    /// Share of drives that fail in a year.
    drive_failures_per_year = 0.0098, most 0.99,
        "Backblaze, SSD edition of 2022: 25 failures in 934,441 drive days";
    /// Unreadable bits for each bit read.
    unreadable_per_bit = 1e-16, most 1e-6,
        "JEDEC JESD218, the bound for enterprise SSDs";
    /// Events a year that strike all drives of an array at once: firmware, heat, power.
    drive_shocks_per_year = 0.1, most 1000.0,
        "one loss of power of a rack in 10.2 years, as rack_outages_per_year";
    /// Share of an array's drives that such an event destroys.
    drives_lost_at_shock = 0.001, most 0.99, "assumed";
    /// Hours until a new drive is in the slot, where no spare stands by.
    drive_replacement_hours = 24.0, most 1e5, "assumed: next business day";
    /// Hosts lost for good in a year, with all their drives, as a share.
    host_losses_per_year = 0.002, most 0.99,
        "assumed: drives of a broken host move to another one";
    /// Losses of power of each rack in a year.
    rack_outages_per_year = 0.098, most 1000.0,
        "Ford et al., OSDI 2010: a rack fails once in 10.2 years";
    /// Losses of power of the whole site in a year.
    site_outages_per_year = 1.0, most 1000.0,
        "Cidon et al., ATC 2013 (Copysets): about once a year";
    /// Share of hosts that do not come back after a loss of power.
    hosts_lost_at_outage = 0.01, most 0.99,
        "Cidon et al., ATC 2013: 0.5 to 1 % of nodes";
    /// Hours until Ceph counts a lost OSD as out and begins to heal.
    hours_until_out = 0.1667, most 1e5,
        "Ceph: mon_osd_down_out_interval of 600 s";
    /// Share of a host's network that healing may take.
    healing_network_share = 0.5, most 1.0, "assumed";
    /// Rate at which Ceph heals onto one OSD, in MiB/s.
    healing_mib_per_s = 200.0, most 1e6,
        "assumed: Ceph bounds recovery beside clients; set the rate of your cluster";
    /// Share of the new drive's write rate that a rebuild reaches.
    rebuild_share = 0.95, most 1.0,
        "experiments/zapraid/exp9: 1,698 of 1,780 MiB/s at 100 GiB, 1,735 at 200 GiB";
    /// Rate that a rebuild is limited to beside users, in MiB/s.
    rebuild_mib_per_s_most = 1e6, most 1e6,
        "no limit, as a server without --rebuild-limit";
    /// Processor time of a write, in microseconds for each request.
    write_cpu_us = 2.8, most 1e6,
        "docs/performance.md: overwrite, processor time per request, 2.70 to 2.81 us";
    /// Processor time of a write, in microseconds for each further 4 KiB.
    write_cpu_block_us = 0.45, most 1e6,
        "docs/performance.md: 64 KiB writes at 7.07 GiB/s";
    /// Blocks that the object store writes for each block of an object.
    object_store_amplification = 1.0, most 100.0,
        "not measured: BlueStore writes small overwrites twice";
}

impl Rates {
    pub(super) fn check(&self) -> Result<(), SpecError> {
        for rate in RATES {
            let value = (rate.of)(self);
            if !(0.0..=rate.most).contains(&value) {
                let (name, range) = (rate.name, "between zero and the largest that makes sense");
                return Err(SpecError::OutOfRange { name, value, range });
            }
        }
        for (name, value) in [
            ("healing_network_share", self.healing_network_share),
            ("healing_mib_per_s", self.healing_mib_per_s),
            ("rebuild_share", self.rebuild_share),
            ("rebuild_mib_per_s_most", self.rebuild_mib_per_s_most),
        ] {
            if value <= 0.0 {
                return Err(SpecError::OutOfRange { name, value, range: "above zero" });
            }
        }
        Ok(())
    }
}
