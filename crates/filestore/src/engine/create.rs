//! Making a store: an empty snapshot in the first metadata zone.

use zoneweave_journal::TwinLog;
use zoneweave_zoned::{ZoneAction, ZoneId, ZoneInfo, ZoneState, ZonedDevice, ZonedDeviceExt};

use crate::error::{FormatError, Unfit};
use crate::format::{BlockLayout, LABEL_BYTES_MAX, Part, RecordBuilder, Superblock};
use crate::ids::Incarnation;
use crate::options::{FormatOptions, ZONE_RECORDS, active_data_zones};
use crate::state::Namespace;
use crate::state::snapshot::snapshot;

/// Zones that may be metadata zones: a scan searches the first four that are not offline.
const SEARCHED: usize = zoneweave_journal::SEARCHED_ZONES;

/// Makes a store on a drive.
///
/// # Errors
/// If the drive fails, is in use, or cannot hold a store.
pub(crate) async fn format(
    device: &dyn ZonedDevice,
    options: &FormatOptions,
) -> Result<(), FormatError> {
    let (label, most) = (&options.label, LABEL_BYTES_MAX);
    if label.len() > most {
        return Err(FormatError::Label { bytes: label.len(), most });
    }
    let zones = device.report().await?;
    let geometry = device.geometry();
    let metadata_zones = metadata_zones(&zones)?;
    active_data_zones(geometry, count_usable(&zones))?;
    let written: Vec<&ZoneInfo> =
        zones.iter().filter(|info| is_usable(info) && info.state != ZoneState::Empty).collect();
    if let Some(first) = written.first()
        && !options.force
    {
        return Err(FormatError::NotEmpty { zone: first.zone });
    }
    for info in written {
        device.manage(info.zone, ZoneAction::Reset).await?;
    }
    let superblock = Superblock {
        zones: geometry.zones,
        zone_capacity: geometry.zone_capacity,
        write_unit: geometry.write_unit,
        layout: BlockLayout::for_drive(geometry.oob),
        metadata_zones,
        finish_percent: options.finish_percent.min(100),
        created: options.created,
        label: label.clone(),
    };
    let namespace = Namespace::new(superblock.layout);
    let entries = snapshot(&superblock, &namespace, Vec::new(), Incarnation(1));
    let mut records = RecordBuilder::pack(&entries);
    assert!(records.len() == 1, "an empty store in {} records", records.len());
    let record = records.remove(0);
    let has_metadata = superblock.layout == BlockLayout::Separate;
    let part = Part::SnapshotEnd { before: 0 };
    let payload = |_| record.payload(options.uuid, 1, part, has_metadata);
    let log = TwinLog::begin(metadata_zones, zoneweave_journal::ignore);
    log.with_zone_records(ZONE_RECORDS).switch(device, 1, payload).await?;
    Ok(())
}

/// The first two usable zones among those that a scan searches.
fn metadata_zones(zones: &[ZoneInfo]) -> Result<[ZoneId; 2], Unfit> {
    let alive = zones.iter().filter(|info| info.state != ZoneState::Offline).take(SEARCHED);
    let mut usable = alive.filter(|info| is_usable(info)).map(|info| info.zone);
    match (usable.next(), usable.next()) {
        (Some(first), Some(second)) => Ok([first, second]),
        _ => Err(Unfit::Zones { found: count_usable(zones), needed: 2 }),
    }
}

/// Zones that can be written.
pub(crate) fn count_usable(zones: &[ZoneInfo]) -> u32 {
    u32::try_from(zones.iter().filter(|info| is_usable(info)).count()).expect("32 bits of zones")
}

pub(crate) fn is_usable(info: &ZoneInfo) -> bool {
    !matches!(info.state, ZoneState::Offline | ZoneState::ReadOnly)
}
