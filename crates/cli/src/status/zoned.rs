//! The status of an array with a zoned volume that is not served, from its superblocks.

use serde::{Deserialize, Serialize};
use zoneweave_zoned::BLOCK_BYTES;

use super::inactive::inactive_member;
use super::judge::{Facts, Verdict, judge};
use super::{ArrayStatus, ShardStatus, describe_drives, losses_left};
use crate::error::CliError;
use crate::zoned::Found;

/// The logical zones of a zoned volume.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct LogicalZones {
    pub count: u32,
    pub zone_bytes: u64,
}

/// The status of an array with a zoned volume. Nothing is started, so the states of its zones are
/// not known.
///
/// # Errors
/// If the drives cannot have the volume.
pub(crate) fn inactive_zoned_status(found: &Found) -> Result<ArrayStatus, CliError> {
    let (config, epoch) = (&found.membership.config, found.membership.epoch);
    let volume = found.geometry()?;
    let zone_bytes = volume.zone_capacity.data_bytes() as u64;
    let members = found.membership.members.iter().enumerate().map(|(slot, entry)| {
        let place = found.position_of(slot);
        let damaged = |at: usize| found.survey.drives[at].damaged_records;
        let named = place.map(|at| (&found.drives.opened[at], damaged(at)));
        inactive_member(slot, entry, named)
    });
    let members: Vec<_> = members.collect();
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
        mode: "zoned".to_owned(),
        zones: Some(LogicalZones { count: volume.zones, zone_bytes }),
        server: None,
        is_silent: false,
        members,
        others: describe_drives(&found.drives, &found.survey.drives, config.array),
    };
    Ok(status.with_drives_named())
}
