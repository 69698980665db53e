//! What a server notices by itself, once a second: drives that are gone although nobody uses
//! them, members that change their state, and how fast a rebuild goes.

use std::collections::VecDeque;

use zoneweave_raid::log::MemberStatus;
use zoneweave_runtime::Nanos;

use crate::job::Job;

/// Samples that a rate is taken over: half a minute.
const SAMPLES: usize = 30;

/// The recent pace of a job. What happened longer ago says little about the rest: the drive may
/// have been busy, or the segments full.
#[derive(Debug, Default)]
pub(super) struct Pace {
    samples: VecDeque<(Nanos, Job)>,
}

impl Pace {
    /// Notes how far the job is; `None` if there is none.
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

    /// Nanoseconds until the job is done at this pace, if it can be told.
    pub(super) fn left_ns(&self) -> Option<u64> {
        let ((began, first), (now, last)) = (self.samples.front()?, self.samples.back()?);
        let done = last.done.checked_sub(first.done).filter(|done| *done > 0)?;
        let left = u128::from(last.total.saturating_sub(last.done));
        let span = u128::from(now.since(*began).0);
        u64::try_from(left * span / u128::from(done)).ok()
    }
}

/// A slot and the drive in it, where that is known.
pub(super) fn place(slot: usize, drive: &str) -> String {
    match drive {
        "" => format!("slot {slot}"),
        _ => format!("slot {slot} ({drive})"),
    }
}

/// What is different between two looks at the members, whose drives are called as `drive_of` says: words for each change.
pub(super) fn changes(
    before: &[String],
    now: &[MemberStatus],
    drive_of: impl Fn(&MemberStatus) -> String,
) -> Vec<String> {
    let changed = now
        .iter()
        .enumerate()
        .filter(|(slot, member)| before.get(*slot).is_some_and(|state| state != member.state));
    let words = |(slot, member): (usize, &MemberStatus)| {
        let place = place(slot, &drive_of(member));
        match &member.reason {
            Some(reason) => format!("{place} is {} now: {reason}", member.state),
            None => format!("{place} is {} now", member.state),
        }
    };
    changed.map(words).collect()
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
