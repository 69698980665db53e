//! The rate of a rebuild, for the time that it has left.

use std::collections::VecDeque;

use zoneweave_runtime::Nanos;

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
