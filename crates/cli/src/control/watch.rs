//! The periodic check of a server: members that change their state, and the rate of a rebuild.

use std::collections::VecDeque;

use zoneweave_raid::log::{MemberErrors, MemberHealth, MemberStatus};
use zoneweave_runtime::Nanos;
use zoneweave_zoned::BLOCK_BYTES;

use super::slots::{Slots, place};
use crate::format::bytes;
use crate::job::Job;

/// Samples of a rate: half a minute.
const SAMPLES: usize = 30;

/// The recent rate of a job. Older samples predict the rest badly: the drive may have been busy, or
/// the segments fuller.
#[derive(Debug, Default)]
pub(super) struct Pace {
    samples: VecDeque<(Nanos, Job)>,
}

impl Pace {
    /// Records the progress of the job; `None` without a job.
    pub(super) fn sample(&mut self, now: Nanos, job: Option<Job>) {
        let Some(job) = job else { return self.samples.clear() };
        let other = |(_, last): &(Nanos, Job)| last.total != job.total || last.done > job.done;
        if self.samples.back().is_some_and(other) {
            self.samples.clear();
        }
        self.samples.push_back((now, job));
        if self.samples.len() > SAMPLES {
            self.samples.pop_front();
        }
    }

    /// Nanoseconds until the job is done at this rate, if it is known.
    pub(super) fn left_ns(&self) -> Option<u64> {
        let ((began, first), (now, last)) = (self.samples.front()?, self.samples.back()?);
        let done = last.done.checked_sub(first.done).filter(|done| *done > 0)?;
        let left = u128::from(last.total.saturating_sub(last.done));
        let span = u128::from(now.since(*began).0);
        u64::try_from(left * span / u128::from(done)).ok()
    }
}

/// States and errors of the members at the last check.
#[derive(Debug, Default)]
pub(super) struct Checked {
    states: Vec<MemberHealth>,
    errors: Vec<MemberErrors>,
}

impl Checked {
    /// The changes and the new damage since the last check, as events.
    pub(super) fn news(&mut self, members: &[MemberStatus], slots: &Slots) -> Vec<String> {
        let drive_of = |member: &MemberStatus| slots.label_of(member);
        // The drives know the cause of their failure better than the volume.
        let explained = |member: &MemberStatus| MemberStatus {
            reason: slots.failure_of(member).or_else(|| member.reason.clone()),
            ..member.clone()
        };
        let explained: Vec<_> = members.iter().map(explained).collect();
        let mut news = changes(&self.states, &explained, drive_of);
        self.states = members.iter().map(|member| member.state).collect();
        news.extend(damage(&self.errors, members, drive_of));
        self.errors = members.iter().map(|member| member.errors).collect();
        news
    }
}

/// Describes the changes of member states. `drive_of` returns the label of a drive.
fn changes(
    before: &[MemberHealth],
    now: &[MemberStatus],
    drive_of: impl Fn(&MemberStatus) -> String,
) -> Vec<String> {
    let changed = now
        .iter()
        .enumerate()
        .filter(|(slot, member)| before.get(*slot).is_some_and(|state| *state != member.state));
    let words = |(slot, member): (usize, &MemberStatus)| {
        let place = place(slot, &drive_of(member));
        match &member.reason {
            Some(reason) => format!("{place} is now {}: {reason}", member.state),
            None => format!("{place} is now {}", member.state),
        }
    };
    changed.map(words).collect()
}

/// Describes new damage to blocks of members. A member with ever more of it is told again at each
/// doubling.
fn damage(
    before: &[MemberErrors],
    now: &[MemberStatus],
    drive_of: impl Fn(&MemberStatus) -> String,
) -> Vec<String> {
    let doubled =
        |before: u64, now: u64| now > before && (before == 0 || before.ilog2() != now.ilog2());
    let mut told = Vec::new();
    for (slot, member) in now.iter().enumerate() {
        let (before, now) = (before.get(slot).copied().unwrap_or_default(), member.errors);
        let size = |blocks: u64| bytes(blocks * BLOCK_BYTES as u64);
        let place = place(slot, &drive_of(member));
        if doubled(before.repaired, now.repaired) {
            let repaired = size(now.repaired);
            told.push(format!("{place}: {repaired} were damaged, and restored from other drives"));
        }
        if doubled(before.unrepairable, now.unrepairable) {
            let lost = size(now.unrepairable);
            told.push(format!("{place}: {lost} are LOST: damaged, and on no other drive"));
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_the_recent_pace() {
        let mut pace = Pace::default();
        assert_eq!(pace.left_ns(), None);
        for second in 0..100 {
            // One segment a second for a minute, then two.
            let done = if second < 60 { second } else { 60 + 2 * (second - 60) };
            pace.sample(Nanos::from_secs(second), Some(Job { done, total: 338 }));
        }
        assert_eq!(pace.left_ns(), Some(Nanos::from_secs(100).0));
        pace.sample(Nanos::from_secs(100), Some(Job { done: 3, total: 10 }));
        assert_eq!(pace.left_ns(), None, "another job");
    }
}
