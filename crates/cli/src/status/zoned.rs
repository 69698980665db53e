//! The status of an array with a zoned volume that is not served, from its superblocks.

use serde::{Deserialize, Serialize};
use zoneweave_raid::log::MemberHealth;
use zoneweave_raid::raizn;
use zoneweave_zoned::{BLOCK_BYTES, ZonedDevice};

use super::judge::{Facts, Verdict, judge};
use super::{ArrayStatus, MemberStatus, ShardStatus, ZoneCounts, describe_drives, losses_left};
use crate::error::CliError;
use crate::zoned::Found;

/// Write mode of a zoned volume, as a word.
pub(super) const ZONED: &str = "zoned";

/// The logical zones of a zoned volume.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct LogicalZones {
    pub count: u32,
    pub zone_bytes: u64,
    /// Zones by state, while the volume is served.
    pub states: Option<raizn::ZoneCounts>,
}

/// The status of an array with a zoned volume. Nothing is started, so the states of its zones are
/// not known.
///
/// # Errors
/// If the drives cannot have the volume.
pub(crate) fn inactive_zoned_status(found: &Found) -> Result<ArrayStatus, CliError> {
    let (config, epoch) = (&found.membership.config, found.membership.epoch);
    let geometries = found.drives.opened.iter().map(|named| named.drive.geometry());
    let volume = raizn::geometry(config, geometries)?;
    let zone_bytes = volume.zone_capacity.data_bytes() as u64;
    let slots = 0..found.membership.members.len();
    let members: Vec<_> = slots.map(|slot| member(found, slot)).collect();
    let losses_left = losses_left(config.scheme, &members);
    let refusal = found.survey.refusal.as_ref().map(ToString::to_string);
    let stopped = refusal.as_deref();
    let facts = Facts { members: &members, losses_left, stopped, ..Facts::default() };
    let Verdict { health, why, action } = judge(&facts);
    let status = ArrayStatus {
        losses_left: Some(losses_left),
        name: config.name.clone(),
        array: config.array.to_string(),
        scheme: config.scheme.to_string(),
        shard: ShardStatus::of(config.shard),
        health,
        why,
        action,
        epoch,
        size_bytes: zone_bytes * u64::from(volume.zones),
        chunk_bytes: u64::from(config.zoned().unit_blocks) * BLOCK_BYTES as u64,
        group_rows: 0,
        mode: ZONED.to_owned(),
        zones: Some(LogicalZones { count: volume.zones, zone_bytes, states: None }),
        server: None,
        is_silent: false,
        members,
        others: describe_drives(&found.drives, &found.survey.drives, config.array),
    };
    Ok(status.with_drives_named())
}

fn member(found: &Found, slot: usize) -> MemberStatus {
    let entry = &found.membership.members[slot];
    let place = found.position_of(slot);
    let named = place.map(|at| &found.drives.opened[at]);
    let damaged = place.map_or(0, |at| found.survey.drives[at].damaged_records);
    let info = named.and_then(|named| zoneweave_linux::Drive::inspect(named.drive.path()).ok());
    let zones = info.map(|info| info.zones);
    MemberStatus {
        slot: u8::try_from(slot).unwrap_or(u8::MAX),
        uuid: entry.uuid.to_string(),
        drive: named.map(|named| named.label.clone()),
        path: named.map(|named| named.path.clone()),
        state: MemberHealth::of(entry.state, named.is_some()),
        reason: (damaged > 0).then(|| format!("{damaged} damaged superblock records")),
        resets_max: zones.as_ref().map(|zones| zones.iter().map(|z| z.resets).max().unwrap_or(0)),
        zones: zones.map(|zones| ZoneCounts::of(&zones)),
        io: None,
    }
}
