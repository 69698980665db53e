//! Derives events from the status of an array: each look is compared with the last one.
//!
//! A service cannot note what happens in the engine, such as a drive that a write has evicted. The
//! status has all of it, in one form for all kinds of volumes.

mod awaited;

use std::collections::VecDeque;

use zoneweave_raid::log::MemberHealth;
use zoneweave_runtime::Nanos;
use zoneweave_zoned::BLOCK_BYTES;

use super::{Place, What};
use crate::events::changes::awaited::Awaited;
use crate::job::{Job, JobKind};
use crate::status::{ArrayStatus, BlockVolumeStatus, Health, MemberIo, MemberStatus};

/// Shares of the volume, in percent, from which on its space is told.
const STEPS: [u8; 4] = [80, 90, 95, 99];

/// So many percent below a step it counts as left.
const SLACK: u64 = 3;

/// Length of time over which reclaim is judged.
const RECLAIM_SPAN: Nanos = Nanos::from_secs(60);

/// Blocks that users write in [`RECLAIM_SPAN`] at least, or nothing is said: 16 MiB.
const LEAST_USER_BLOCKS: u64 = 4096;

/// Relocated blocks per block of users that are pressure, and that end it.
const PRESSURE: (f64, f64) = (4.0, 2.0);

/// What the last look saw.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    health: Option<Health>,
    /// With whether the header of its file was overwritten.
    members: Vec<(MemberHealth, MemberIo, bool)>,
    /// Slots whose drives were told to be stale.
    stale: Vec<u8>,
    scrub: Quarter,
    rebuild: Quarter,
    space: Option<usize>,
    reclaim: Reclaim,
    awaited: Awaited,
}

impl Changes {
    /// The events between the last look and this one.
    pub(crate) fn look(&mut self, now: Nanos, status: &ArrayStatus) -> Vec<What> {
        let mut news = Vec::new();
        self.look_for_stale(&status.members, &mut news);
        self.look_at_members(&status.members, &mut news);
        let before = self.health.replace(status.health).unwrap_or(Health::Starting);
        // A server that starts with a healthy array has told so already.
        let is_news = (before, status.health) != (Health::Starting, Health::Healthy);
        if before != status.health && is_news {
            let (why, action) = (status.why.clone(), status.action.clone());
            news.push(What::Health { from: before, to: status.health, why, action });
        }
        news.extend(self.awaited.look(status));
        let Some(server) = &status.server else { return news };
        news.extend(self.rebuild.look(JobKind::Rebuild, server.rebuild));
        news.extend(self.scrub.look(JobKind::Scrub, server.scrub));
        if let Some(blocks) = &server.blocks {
            news.extend(self.look_at_space(blocks, status.size_bytes));
            news.extend(self.reclaim.look(now, blocks));
        }
        news
    }

    /// What the start found is told at the first look too: nobody else tells.
    fn look_for_stale(&mut self, members: &[MemberStatus], news: &mut Vec<What>) {
        let is_stale = |member: &&MemberStatus| member.segments_absent_at_start > 0;
        for member in members.iter().filter(is_stale) {
            if self.stale.contains(&member.slot) {
                continue;
            }
            let drive = member.drive.as_deref().unwrap_or_default();
            let place = Place::new(member.slot.into(), drive);
            news.push(What::DriveStale { place, segments: member.segments_absent_at_start });
        }
        self.stale = members.iter().filter(is_stale).map(|member| member.slot).collect();
    }

    fn look_at_members(&mut self, members: &[MemberStatus], news: &mut Vec<What>) {
        for (slot, member) in members.iter().enumerate() {
            let place = || Place::new(slot, member.drive.as_deref().unwrap_or_default());
            let seen = self.members.get(slot);
            // Drives are watched from their opening on, and a start may take minutes.
            if member.header_lost && !seen.is_some_and(|(.., lost)| *lost) {
                news.push(What::DriveHeader { place: place() });
            }
            let Some((state, io, _)) = seen else { continue };
            if *state != member.state {
                let reason = member.reason.clone();
                news.push(What::Member { place: place(), state: member.state, reason });
            }
            news.extend(errors(place, io, &member.io.unwrap_or_default()));
        }
        let seen = |member: &MemberStatus| {
            (member.state, member.io.unwrap_or_default(), member.header_lost)
        };
        self.members = members.iter().map(seen).collect();
    }

    fn look_at_space(&mut self, blocks: &BlockVolumeStatus, size_bytes: u64) -> Option<What> {
        // Blocks of index pages that are not loaded yet are not counted.
        if blocks.absent_pages > 0 {
            return None;
        }
        let percent = blocks.mapped_bytes.saturating_mul(100).checked_div(size_bytes)?;
        let steps = |percent: u64| STEPS.iter().filter(|step| u64::from(**step) <= percent).count();
        let reached = steps(percent);
        let before = *self.space.get_or_insert(reached);
        // A volume around a step is told once.
        self.space = Some(reached.max(before.min(steps(percent.saturating_add(SLACK)))));
        (reached > before).then(|| What::Filled { percent: STEPS[reached - 1] })
    }
}

/// New errors of a drive. A drive with ever more of them is told again at each doubling.
fn errors(place: impl Fn() -> Place, before: &MemberIo, now: &MemberIo) -> Vec<What> {
    let doubled =
        |before: u64, now: u64| now > before && (before == 0 || before.ilog2() != now.ilog2());
    let size = |blocks: u64| blocks * BLOCK_BYTES as u64;
    let mut told = Vec::new();
    let (reads, writes) = (now.read_errors, now.write_errors);
    if doubled(before.read_errors, reads) || doubled(before.write_errors, writes) {
        told.push(What::DriveErrors { place: place(), reads, writes });
    }
    if doubled(before.repaired_blocks, now.repaired_blocks) {
        told.push(What::Repaired { place: place(), bytes: size(now.repaired_blocks) });
    }
    if doubled(before.unrepairable_blocks, now.unrepairable_blocks) {
        told.push(What::Lost { place: place(), bytes: size(now.unrepairable_blocks) });
    }
    told
}

/// Quarters of a job that are done; `None` without a job.
#[derive(Debug, Default)]
struct Quarter(Option<u64>);

impl Quarter {
    fn look(&mut self, job: JobKind, progress: Option<Job>) -> Option<What> {
        let progress = progress.filter(|progress| progress.total > 0);
        let now = progress.map(|progress| progress.percent() / 25);
        let before = std::mem::replace(&mut self.0, now);
        let (progress, now) = (progress?, now?);
        // A job that went on after a restart begins in between.
        let is_news = before.is_some_and(|before| now > before) && now < 4;
        is_news.then_some(What::JobProgress { job, progress })
    }
}

/// The counters of users' and relocated blocks during the last minute.
#[derive(Debug, Default)]
struct Reclaim {
    samples: VecDeque<(Nanos, u64, u64)>,
    presses: bool,
}

impl Reclaim {
    fn look(&mut self, now: Nanos, blocks: &BlockVolumeStatus) -> Option<What> {
        let counted = (now, blocks.counters.user_blocks_written, blocks.counters.relocated_blocks);
        self.samples.push_back(counted);
        let is_old = |at: &&(Nanos, u64, u64)| now.since(at.0) >= RECLAIM_SPAN;
        // The youngest sample that is old enough stays.
        while self.samples.get(1).as_ref().is_some_and(is_old) {
            self.samples.pop_front();
        }
        let (_, users, moved) = self.samples.front().filter(is_old)?;
        let (users, moved) = (counted.1.saturating_sub(*users), counted.2.saturating_sub(*moved));
        let moved_per_user_block = ratio(moved, users)?;
        let limit = if self.presses { PRESSURE.1 } else { PRESSURE.0 };
        let presses = moved_per_user_block >= limit;
        let changed = std::mem::replace(&mut self.presses, presses) != presses;
        match presses {
            true => changed.then_some(What::ReclaimPressure { moved_per_user_block }),
            false => changed.then_some(What::ReclaimEased),
        }
    }
}

/// Relocated blocks per block of users, if these are enough to tell.
#[expect(clippy::cast_precision_loss, reason = "two digits matter")]
fn ratio(moved: u64, users: u64) -> Option<f64> {
    (users >= LEAST_USER_BLOCKS).then(|| moved as f64 / users as f64)
}

#[cfg(test)]
mod tests;
