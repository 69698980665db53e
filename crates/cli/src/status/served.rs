//! The status of an array that this process serves.

use std::path::PathBuf;
use std::rc::Rc;

use zoneweave_linux::Drive;
use zoneweave_raid::log::format::ArrayConfig;
use zoneweave_raid::log::{self, MemberHealth, VolumeStatus};
use zoneweave_zoned::{BLOCK_BYTES, Status, ZoneInfo};

use super::inactive::mode_word;
use super::judge::{Facts, Rebuild, Verdict, judge, online_with, replace};
use super::lost::lost_of_status;
use super::{
    Amplification, ArrayStatus, BlockVolumeStatus, ClassStatus, Counters, HEADER_LOST, Health,
    LaneStatus, LatencyStatus, LostRanges, MemberIo, MemberStatus, OtherDrive, ScrubEntry,
    ServerStatus, ShardStatus, SpareStatus, WaitingStatus, WritingStatus, ZoneCounts, losses_left,
};
use crate::drives::failure::with_error;
use crate::drives::space::full_disk;
use crate::format::word;
use crate::job::{JobKind, JobPhase, JobStatus};

/// A member's drive, its label and its current zones.
pub(crate) struct SlotDrive {
    pub label: String,
    pub path: PathBuf,
    pub drive: Rc<Drive>,
    pub zones: Option<Vec<ZoneInfo>>,
}

/// The status of the front ends and spares.
pub(crate) struct FrontEnds {
    pub uptime_ns: u64,
    pub exports: Vec<String>,
    pub clients: u64,
    pub requests: u64,
    /// Of the volume behind them.
    pub latencies: Vec<LatencyStatus>,
    pub rebuild_left_ns: Option<u64>,
    /// Whether the rebuild that a restart interrupted is about to go on.
    pub resumes: bool,
    pub waiting: Vec<WaitingStatus>,
    /// Slots whose drives were taken offline, with their paths.
    pub offline: Vec<(u8, PathBuf)>,
    pub jobs: Vec<JobStatus>,
    pub spares: Vec<SpareStatus>,
    /// Of the schedule, in seconds since 1970.
    pub next_scrub_s: Option<u64>,
}

/// The status of a running volume.
pub(crate) fn served_status(
    config: &ArrayConfig,
    volume: VolumeStatus,
    slots: &[Option<SlotDrive>],
    others: Vec<OtherDrive>,
    front_ends: FrontEnds,
) -> ArrayStatus {
    let members = volume.members.iter();
    let members = members.map(|member| {
        let slot = slots.get(usize::from(member.slot)).and_then(Option::as_ref);
        served_member(member, slot)
    });
    let mut members: Vec<_> = members.collect();
    let runs = volume.rebuild.is_some() || front_ends.resumes;
    if !runs {
        tell_stopped(&mut members, &front_ends.jobs);
    }
    let losses_left = losses_left(config.scheme, &members).min(volume.losses_left);
    let lost = members.iter().filter_map(|member| member.io).map(|io| io.unrepairable_blocks);
    let facts = Facts {
        members: &members,
        losses_left,
        stopped: volume.stopped,
        is_served: true,
        rebuild: if runs { Rebuild::Runs } else { Rebuild::None },
        relocates: volume.relocates,
        waiting: &front_ends.waiting,
        offline: &front_ends.offline,
        spares: &front_ends.spares,
        lost_blocks: lost_of_status(lost, &volume.lost, volume.lost_joined),
        awaited_blocks: volume.awaited.iter().map(|range| range.blocks).sum(),
        is_zoned: false,
    };
    let Verdict { health, why, action } = judge(&facts);
    let action = match health {
        Health::Failed => free_space(slots).or(action),
        Health::Degraded => {
            let jobs = &front_ends.jobs;
            action.map(|action| for_full(&members, jobs, &action, false).unwrap_or(action))
        }
        _ => action,
    };
    let status = ArrayStatus {
        is_elsewhere: false,
        losses_left: Some(losses_left),
        members,
        name: volume.name,
        array: volume.array,
        scheme: volume.scheme,
        shard: ShardStatus::of(config.shard),
        health,
        why,
        action,
        epoch: volume.epoch.0,
        size_bytes: volume.size_bytes,
        chunk_bytes: u64::from(config.log().chunk_blocks) * BLOCK_BYTES as u64,
        group_rows: config.log().group_rows,
        mode: mode_word(config.log().tabled).to_owned(),
        zones: None,
        server: Some(ServerStatus {
            uptime_ns: front_ends.uptime_ns,
            exports: front_ends.exports,
            clients: front_ends.clients,
            requests: front_ends.requests,
            latencies: front_ends.latencies,
            volatile_cache: volume.volatile_cache,
            blocks: Some(BlockVolumeStatus {
                mapped_bytes: volume.mapped_bytes,
                writing: writing(volume.writing),
                segments_total: volume.segments_total,
                segments_free: volume.segments_free,
                segments_leftover: volume.segments_leftover,
                memory: volume.memory,
                memory_at_most: volume.memory_at_most,
                absent_pages: volume.absent_pages,
                index_pages: volume.index_pages,
                write_amplification: volume.write_amplification,
                amplification: amplification(volume.amplification, &volume.counters),
                counters: counters(&volume.counters),
            }),
            zoned: None,
            rebuild: volume.rebuild.map(Into::into),
            rebuild_left_ns: front_ends.rebuild_left_ns.filter(|_| volume.rebuild.is_some()),
            waiting: front_ends.waiting,
            jobs: front_ends.jobs,
            spares: front_ends.spares,
            next_scrub_s: front_ends.next_scrub_s,
            scrub: volume.scrub.map(Into::into),
        }),
        is_silent: false,
        lost: LostRanges::of_status(&volume.lost, volume.lost_joined, config.shard),
        awaited: LostRanges::of_status(&volume.awaited, false, config.shard),
        scrubs: ScrubEntry::list(&volume.scrubs, volume.scrub_state.is_some()),
        others,
    };
    status.with_drives_named()
}

fn writing(found: log::WritingStatus) -> WritingStatus {
    let lane = |lane: log::LaneStatus| LaneStatus {
        requests: lane.requests,
        segments: lane.segments,
        chunk_bytes: u64::from(lane.chunk_blocks) * BLOCK_BYTES as u64,
        group_rows: lane.group_rows,
        command: lane.command,
    };
    let lanes = found.lanes.into_iter().map(lane).collect();
    WritingStatus { lanes, fell_back: found.fell_back }
}

/// The action where members in files were evicted because their file system is full: they are not
/// lost.
pub(super) fn free_space(slots: &[Option<SlotDrive>]) -> Option<String> {
    let full = slots.iter().flatten().find_map(|slot| full_disk(slot.drive.path()))?;
    let folder = full.folder.display();
    Some(format!("free some space in {folder}, then restart the server; no drive is lost"))
}

/// The action where the file of one member had no room, and nothing else is the matter: the drive
/// is not lost. A new drive that its rebuild has filled is too small, however. A zoned volume takes
/// no drive back, but rebuilds it in its place.
pub(super) fn for_full(
    members: &[MemberStatus],
    jobs: &[JobStatus],
    action: &str,
    is_zoned: bool,
) -> Option<String> {
    // Otherwise a spare is on its way, or more is to do.
    if !action.starts_with("replace the drive") {
        return None;
    }
    let mut bad = members.iter().filter(|member| !member.is_whole());
    let (member, None) = (bad.next()?, bad.next()) else { return None };
    let is_full = |reason: &String| reason.starts_with(Status::CapacityExceeded.name());
    member.reason.as_ref().filter(|reason| !member.state.is_in_service() && is_full(reason))?;
    let (slot, path) = (member.slot, member.path.as_ref()?);
    let is_new = |job: &JobStatus| {
        matches!(job.kind, JobKind::Replace | JobKind::Rebuild) && job.phase == JobPhase::Failed
    };
    if last_of(jobs, slot).is_some_and(is_new) {
        return None;
    }
    let free =
        full_disk(path).map(|full| format!("free some space in {}, then ", full.folder.display()));
    let free = free.unwrap_or_default();
    let drive = word(path.display());
    Some(match is_zoned {
        true => {
            let replace = replace(slot).replace("NEWDRIVE", &drive);
            format!("{free}have the drive of slot {slot} rebuilt: {replace} --yes-destroy")
        }
        false => format!(
            "{free}put the drive of slot {slot} back, which lacks only what was written since: {} {drive}",
            online_with(slot)
        ),
    })
}

/// Says why rebuilds have stopped, by the newest jobs of their slots. `jobs` has the newest first.
pub(super) fn tell_stopped(members: &mut [MemberStatus], jobs: &[JobStatus]) {
    let is_stopped = |member: &&mut MemberStatus| {
        member.state == MemberHealth::Rebuilding && member.reason.is_none()
    };
    for member in members.iter_mut().filter(is_stopped) {
        let last = last_of(jobs, member.slot).filter(|job| job.phase == JobPhase::Failed);
        member.reason = last.and_then(|job| job.outcome.clone());
    }
}

/// The last job of a slot that has ended; the newest is the first.
fn last_of(jobs: &[JobStatus], slot: u8) -> Option<&JobStatus> {
    jobs.iter().find(|job| job.slot == Some(slot) && job.phase.has_ended())
}

pub(super) fn served_member(member: &log::MemberStatus, slot: Option<&SlotDrive>) -> MemberStatus {
    let zones = slot.and_then(|slot| slot.zones.as_ref());
    let counted = slot.map(|slot| slot.drive.counters()).unwrap_or_default();
    let latencies = slot.map(|slot| slot.drive.latencies()).unwrap_or_default();
    let failure = slot.and_then(|slot| slot.drive.failure());
    let header_lost = slot.is_some_and(|slot| slot.drive.header_lost());
    MemberStatus {
        slot: member.slot,
        uuid: member.uuid.clone(),
        drive: slot.map(|slot| slot.label.clone()),
        path: slot.map(|slot| slot.path.clone()),
        state: member.state,
        reason: failure
            .or_else(|| {
                let error = slot.filter(|_| !member.state.is_in_service());
                let error = error.and_then(|slot| slot.drive.write_error());
                member.reason.as_deref().map(|reason| with_error(reason, error))
            })
            .or_else(|| header_lost.then(|| HEADER_LOST.to_owned())),
        header_lost,
        resets_max: zones.map(|zones| zones.iter().map(|info| info.resets).max().unwrap_or(0)),
        zones: zones.map(|zones| ZoneCounts::of(zones)),
        latencies: LatencyStatus::list(latencies),
        segments_lacking: member.segments_lacking,
        segments_absent_at_start: member.segments_absent_at_start,
        io: Some(MemberIo {
            read_bytes: counted.read_bytes(),
            written_bytes: counted.written_bytes(),
            read_errors: member.errors.read,
            write_errors: member.errors.write,
            checksum_errors: member.errors.checksum,
            repaired_blocks: member.errors.repaired,
            unrepairable_blocks: member.errors.unrepairable,
            seen_ns_ago: member.seen_ns_ago,
            read_latency_ns: member.read_latency_ns,
        }),
    }
}

fn amplification(found: log::Amplification, counters: &log::Counters) -> Amplification {
    let log::Amplification { data, with_parity, room, uniform, classes, settled } = found;
    let named = log::CLASSES.into_iter().zip(counters.classes).zip(classes);
    let class = |((name, counted), amplification): ((&str, log::ClassCounters), _)| ClassStatus {
        name: name.to_owned(),
        written_blocks: counted.written_blocks,
        padding_blocks: counted.padding_blocks,
        moved_blocks: counted.moved_blocks,
        freed_blocks: counted.freed_blocks,
        amplification,
    };
    let classes = named.map(class).collect();
    Amplification { data, with_parity, room, uniform, classes, settled }
}

fn counters(counters: &log::Counters) -> Counters {
    Counters {
        user_blocks_written: counters.user_blocks_written,
        user_blocks_read: counters.user_blocks_read,
        relocated_blocks: counters.relocated_blocks,
        padding_blocks: counters.padding_blocks,
        parity_blocks: counters.parity_blocks,
        segments_reclaimed: counters.segments_reclaimed,
        segments_abandoned: counters.segments_abandoned,
        index_pages_read: counters.index_pages_read,
        index_pages_written: counters.index_pages_written,
        degraded_reads: counters.degraded_reads,
        reads_around: counters.reads_around,
        reads_hedged: counters.reads_hedged,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::examples::healthy;

    /// The status only said that the rebuild had stopped.
    #[test]
    fn a_rebuild_that_has_stopped_says_why() {
        let ended = |slot, phase, outcome: &str| JobStatus {
            slot: Some(slot),
            outcome: Some(outcome.to_owned()),
            ..JobStatus::of(JobKind::Rebuild, phase)
        };
        let newest = ended(1, JobPhase::Failed, "the drive of slot 0 (d/drive0) is silent");
        let jobs = [
            JobStatus { slot: Some(1), ..JobStatus::of(JobKind::Rebuild, JobPhase::Queued) },
            ended(2, JobPhase::Failed, "of another slot"),
            newest,
            ended(1, JobPhase::Failed, "before"),
        ];
        let mut members = healthy().members;
        members[1].state = MemberHealth::Rebuilding;
        tell_stopped(&mut members, &jobs);
        let reasons: Vec<_> = members.iter().map(|member| member.reason.as_deref()).collect();
        let why = Some("the drive of slot 0 (d/drive0) is silent");
        assert_eq!(reasons, [None, why, None, None]);
        members[1].reason = None;
        tell_stopped(&mut members, &[ended(1, JobPhase::Done, "done")]);
        assert_eq!(members[1].reason, None);
    }
}
