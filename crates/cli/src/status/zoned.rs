//! The status of an array with a zoned volume: served, or from its superblocks.

use serde::{Deserialize, Serialize};
use zoneweave_raid::array::format::config::ArrayConfig;
use zoneweave_raid::log::{MemberHealth, MemberStatus};
use zoneweave_raid::raizn::{self, OpenError, VolumeStatus, ZoneCounts};
use zoneweave_zoned::{BLOCK_BYTES, Geometry};

use super::inactive::{count_named, few_named, inactive_member, no_space};
use super::judge::{Facts, Rebuild, Verdict, judge};
use super::lost::{lost_of_status, lost_on_record};
use super::served::{FrontEnds, SlotDrive, for_full, free_space, served_member, tell_stopped};
use super::{
    ArrayStatus, Health, LostRanges, OtherDrive, ScrubEntry, ServerStatus, ShardStatus,
    describe_drives, losses_left,
};
use crate::error::CliError;
use crate::zoned::Found;

/// The logical zones of a zoned volume.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct LogicalZones {
    pub count: u32,
    pub zone_bytes: u64,
}

/// The status of a served zoned volume.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct ZonedVolumeStatus {
    /// Logical zones by state.
    pub zones: ZoneCounts,
    /// Whether reads are verified.
    pub checksums: bool,
    /// Blocks in parity logs, because a crash left something in their places.
    pub relocated_blocks: u64,
}

/// The status of an array with a zoned volume. Nothing is started, so the states of its zones are
/// not known.
///
/// # Errors
/// If the drives cannot have the volume.
pub(crate) fn inactive_zoned_status(found: &Found) -> Result<ArrayStatus, CliError> {
    let (config, epoch) = (&found.membership.config, found.membership.epoch.0);
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
    let faults = found.survey.faults.clone().unwrap_or_default();
    let facts = Facts {
        members: &members,
        losses_left,
        stopped,
        lost_blocks: lost_on_record(&faults),
        awaited_blocks: 0,
        is_zoned: true,
        ..Facts::default()
    };
    let named = count_named(&found.drives, &found.survey.drives, config);
    let refusal = match &found.survey.refusal {
        Some(OpenError::Assembly(error)) => Some(error),
        _ => None,
    };
    let verdict = few_named(named, refusal, &members).unwrap_or_else(|| judge(&facts));
    let verdict = no_space(&found.drives.opened, &found.survey.drives, verdict);
    let Verdict { health, why, action } = verdict;
    let status = ArrayStatus {
        is_elsewhere: false,
        losses_left: Some(losses_left).filter(|_| health != Health::Unknown),
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
        lost: LostRanges::of_faults(&faults, config.shard),
        awaited: LostRanges::default(),
        scrubs: ScrubEntry::list(&found.survey.scrubs.0, false),
        members,
        others: describe_drives(&found.drives, &found.survey.drives, config),
    };
    Ok(status.with_drives_named())
}

/// A member of a zoned volume in the form that all volumes share.
pub(crate) fn as_member(member: &raizn::MemberStatus) -> MemberStatus {
    let state = match (member.online, member.rebuilding, member.missing) {
        (true, ..) => MemberHealth::Online,
        (false, true, _) => MemberHealth::Rebuilding,
        (false, false, true) => MemberHealth::Missing,
        (false, false, false) => MemberHealth::Failed,
    };
    MemberStatus {
        slot: member.slot,
        uuid: member.uuid.clone(),
        state,
        reason: member.failure.clone(),
        free_zones: 0,
        orphan_zones: 0,
        lost_zones: 0,
        segments_lacking: 0,
        segments_absent_at_start: 0,
        errors: member.errors,
        seen_ns_ago: member.seen_ns_ago,
        read_latency_ns: member.read_latency_ns,
    }
}

/// The status of a running zoned volume; `geometry` is that of the volume as a drive.
pub(crate) fn served_zoned_status(
    config: &ArrayConfig,
    geometry: &Geometry,
    volume: VolumeStatus,
    slots: &[Option<SlotDrive>],
    others: Vec<OtherDrive>,
    front_ends: FrontEnds,
) -> ArrayStatus {
    assert_eq!(volume.members.len(), slots.len(), "a place for each member's drive");
    let members = volume.members.iter().zip(slots);
    let members = members.map(|(member, slot)| served_member(&as_member(member), slot.as_ref()));
    let mut members: Vec<_> = members.collect();
    let runs = volume.rebuild.is_some() || front_ends.resumes;
    if !runs {
        tell_stopped(&mut members, &front_ends.jobs);
    }
    let losses_left = losses_left(config.scheme, &members);
    let lost = members.iter().filter_map(|member| member.io).map(|io| io.unrepairable_blocks);
    let facts = Facts {
        members: &members,
        losses_left,
        stopped: volume.stopped.as_deref(),
        is_served: true,
        rebuild: if runs { Rebuild::Runs } else { Rebuild::None },
        relocates: false,
        waiting: &front_ends.waiting,
        offline: &front_ends.offline,
        spares: &[],
        lost_blocks: lost_of_status(lost, &volume.lost, volume.lost_joined),
        awaited_blocks: 0,
        is_zoned: true,
    };
    let Verdict { health, why, action } = judge(&facts);
    let action = match health {
        Health::Failed => free_space(slots).or(action),
        Health::Degraded => {
            let jobs = &front_ends.jobs;
            action.map(|action| for_full(&members, jobs, &action, true).unwrap_or(action))
        }
        _ => action,
    };
    let zone_bytes = geometry.zone_capacity.data_bytes() as u64;
    let status = ArrayStatus {
        is_elsewhere: false,
        losses_left: Some(losses_left),
        members,
        name: volume.name,
        array: config.array.to_string(),
        scheme: volume.scheme,
        shard: ShardStatus::of(config.shard),
        health,
        why,
        action,
        epoch: volume.epoch.0,
        size_bytes: zone_bytes * u64::from(geometry.zones),
        chunk_bytes: volume.unit_bytes,
        group_rows: 0,
        mode: "zoned".to_owned(),
        zones: Some(LogicalZones { count: geometry.zones, zone_bytes }),
        server: Some(ServerStatus {
            uptime_ns: front_ends.uptime_ns,
            exports: front_ends.exports,
            clients: front_ends.clients,
            requests: front_ends.requests,
            latencies: front_ends.latencies,
            volatile_cache: volume.volatile_cache,
            blocks: None,
            zoned: Some(ZonedVolumeStatus {
                zones: volume.zones,
                checksums: volume.checksums,
                relocated_blocks: volume.relocated_blocks,
            }),
            rebuild: volume.rebuild.map(Into::into),
            rebuild_left_ns: front_ends.rebuild_left_ns.filter(|_| volume.rebuild.is_some()),
            waiting: front_ends.waiting,
            jobs: front_ends.jobs,
            spares: Vec::new(),
            scrub: volume.scrub.map(Into::into),
            next_scrub_s: front_ends.next_scrub_s,
        }),
        is_silent: false,
        lost: LostRanges::of_status(&volume.lost, volume.lost_joined, config.shard),
        awaited: LostRanges::default(),
        scrubs: ScrubEntry::list(&volume.scrubs, volume.scrub_state.is_some()),
        others,
    };
    status.with_drives_named()
}
