//! The file of a plan.

use serde::{Deserialize, Serialize};
use zoneweave_emulator::Preset;
use zoneweave_emulator::preset::Model;
use zoneweave_plan::spec::{Array, Cluster, Drive, Host, Load, Pool, RATES, Rates, Spec};
use zoneweave_zoned::{BLOCK_BYTES, BlockCount, OobKind};

use crate::error::{CliError, usage};
use crate::format;

/// The drive that is planned by default, which was measured.
const DEFAULT_DRIVE: &str = "zn540-4tb";

/// Rates of a preset without a calibrated data path.
const FALLBACK_MIB_PER_S: f64 = 1000.0;

/// A plan, as written.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct File {
    drive: DriveTable,
    array: Array,
    host: Host,
    cluster: Cluster,
    pool: Pool,
    load: Load,
    rates: Rates,
}

/// The drive: a preset, with differences.
#[derive(Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct DriveTable {
    model: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    zones: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    zone_capacity: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    write_mib_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    read_mib_per_s: Option<f64>,
}

impl Default for DriveTable {
    fn default() -> Self {
        Self {
            model: DEFAULT_DRIVE.to_owned(),
            zones: None,
            zone_capacity: None,
            write_mib_per_s: None,
            read_mib_per_s: None,
        }
    }
}

/// All defaults.
pub(super) fn defaults() -> File {
    File::default()
}

/// The plan of a text.
///
/// # Errors
/// If it is not TOML, has unknown keys, or names an unknown drive.
pub(super) fn parse(text: &str) -> Result<Spec, CliError> {
    let refused = usage("plan");
    let file: File = toml::from_str(text).map_err(|error| refused(error.to_string()))?;
    Ok(Spec {
        drive: drive(file.drive)?,
        array: file.array,
        host: file.host,
        cluster: file.cluster,
        pool: file.pool,
        load: file.load,
        rates: file.rates,
    })
}

fn drive(table: DriveTable) -> Result<Drive, CliError> {
    let refused = |problem| usage("drive")(problem);
    let preset = Preset::by_name(&table.model).map_err(|error| refused(error.to_string()))?;
    let mut geometry = preset.geometry().clone();
    geometry.zones = table.zones.unwrap_or(geometry.zones);
    if let Some(capacity) = &table.zone_capacity {
        let bytes = format::parse_bytes(capacity)
            .map_err(|error| refused(format!("zone_capacity: {error}")))?;
        let blocks = u32::try_from(bytes / BLOCK_BYTES as u64)
            .map_err(|_| refused(format!("zone_capacity {capacity} is too large")))?;
        geometry.zone_capacity = BlockCount(blocks);
        geometry.zone_size = geometry.zone_size.max(BlockCount(blocks));
    }
    // Drives without metadata per block keep it among the blocks, which costs little space.
    geometry.oob = OobKind::Separate;
    let (write, read) = match preset.model() {
        Model::Stations(stations) => {
            let read = stations.read.link_mib_per_s.get();
            (stations.write.path_mib_per_s.map_or(FALLBACK_MIB_PER_S, |rate| rate.get()), read)
        }
        Model::Instant | Model::Direct(_) => (FALLBACK_MIB_PER_S, FALLBACK_MIB_PER_S),
    };
    Ok(Drive {
        name: table.model,
        geometry,
        write_mib_per_s: table.write_mib_per_s.unwrap_or(write),
        read_mib_per_s: table.read_mib_per_s.unwrap_or(read),
    })
}

/// A file with every default, explained.
pub(super) fn template() -> String {
    let (array, host, cluster, pool, load) =
        (Array::default(), Host::default(), Cluster::default(), Pool::default(), Load::default());
    let mut text = format!(
        "# A plan for `zoneweave plan FILE`. Every key may be left out.

[drive]
model = \"{DEFAULT_DRIVE}\"        # a preset of `zoneweave emu presets`
# zones = 3690               # differences from it
# zone_capacity = \"1077MiB\"
# write_mib_per_s = 1780.0   # in sequence
# read_mib_per_s = 3000.0

[array]                      # each array is one OSD
data = {}                     # chunks per stripe
parity = {}
reserve_percent = {}         # space for relocation, of the volume
spare = {}                 # whether a spare drive stands by

[host]
arrays = {}
network_gbit_per_s = {:.1}

[cluster]
hosts = {}
racks = {}

[pool]
copies = {}
domain = \"{}\"              # what holds one copy at most: host or rack
groups_per_array = {}       # copies of placement groups
fill = {}                   # share of the volumes that objects fill

[load]                       # of each host's clients
write_mib_per_s = {:.1}
write_kib = {:.1}
random = {}                # overwrites at random; false: whole segments become free

[rates]                      # assumptions: replace them by your own figures
",
        array.data,
        array.parity,
        array.reserve_percent,
        array.spare,
        host.arrays,
        host.network_gbit_per_s,
        cluster.hosts,
        cluster.racks,
        pool.copies,
        pool.domain,
        pool.groups_per_array,
        pool.fill,
        load.write_mib_per_s,
        load.write_kib,
        load.random,
    );
    for rate in RATES {
        let about = format::wrapped("# ", rate.about).join("\n# ");
        let about = about.replace("\n#   ", "\n# ");
        text += &format!("{about}\n# Source: {}\n{} = {:?}\n", rate.source, rate.name, rate.value);
    }
    text.truncate(text.trim_end().len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_is_the_default_plan() {
        let (template, empty) = (parse(&template()).unwrap(), parse("").unwrap());
        assert_eq!(template, empty);
        assert!(template.check().is_ok());
    }

    #[test]
    fn unknown_keys_and_drives_are_refused() {
        for (text, says) in [
            ("[pool]\ncopys = 3", "copies"),
            ("[disk]", "drive"),
            ("[drive]\nmodel = \"zn54\"", "zn540-4tb"),
            ("[drive]\nzone_capacity = \"1 mile\"", "zone_capacity"),
            ("pool = 3", "pool"),
        ] {
            let message = parse(text).unwrap_err().to_string();
            assert!(message.contains(says), "{text:?}: {message}");
        }
    }
}
