//! Zoned drives of this machine.

use std::fmt;

use serde::Serialize;

use super::machine::Machine;
use crate::format;

/// Bytes of a sector of sysfs.
const SECTOR_BYTES: u64 = 512;

/// A zoned block device of the kernel.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct ZonedDrive {
    device: String,
    model: Option<String>,
    /// As the kernel calls it: `host-managed` or `host-aware`.
    zoned: String,
    bytes: u64,
    zones: u64,
    zone_bytes: u64,
    /// Zones that may be active at once; none if there is no limit.
    max_active_zones: Option<u64>,
}

/// All of them, by name.
pub(super) fn zoned_drives(machine: &Machine) -> Vec<ZonedDrive> {
    machine.names("/sys/block").iter().filter_map(|name| zoned_drive(machine, name)).collect()
}

fn zoned_drive(machine: &Machine, name: &str) -> Option<ZonedDrive> {
    let line = |file: &str| machine.line(&format!("/sys/block/{name}/{file}"));
    let number = |file: &str| line(file).and_then(|text| text.parse::<u64>().ok());
    let zoned = line("queue/zoned").filter(|zoned| zoned != "none")?;
    let bytes = |sectors: Option<u64>| sectors.unwrap_or(0).saturating_mul(SECTOR_BYTES);
    Some(ZonedDrive {
        device: format!("/dev/{name}"),
        model: line("device/model").filter(|model| !model.is_empty()),
        zoned,
        bytes: bytes(number("size")),
        zones: number("queue/nr_zones").unwrap_or(0),
        zone_bytes: bytes(number("queue/chunk_sectors")),
        max_active_zones: number("queue/max_active_zones").filter(|zones| *zones > 0),
    })
}

impl fmt::Display for ZonedDrive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, model, zoned, zones, .. } = self;
        let model = model.as_deref().unwrap_or("unknown model");
        let (size, zone) = (format::bytes(self.bytes), format::bytes(self.zone_bytes));
        write!(f, "{device}: {model}, {zoned}, {size} in {zones} zones of {zone}")?;
        match self.max_active_zones {
            Some(active) => write!(f, ", {active} of which may be active"),
            None => Ok(()),
        }
    }
}
