//! How long requests and commands took, by operation.

use serde::{Deserialize, Serialize};
use zoneweave_runtime::Nanos;
use zoneweave_zoned::{Histogram, Operation};

/// The operations of one kind that succeeded, and how long they took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LatencyStatus {
    /// `read`, `write`, `append`, `trim`, `write_zeroes`, `flush`, `reset` or `finish`.
    pub operation: String,
    pub count: u64,
    pub sum_ns: u64,
    /// Half of them took at most as long.
    pub p50_ns: u64,
    /// 99 of 100 took at most as long.
    pub p99_ns: u64,
    /// Operations of up to 8,192 ns, then those up to twice the bound before. The 22nd number is of
    /// those above 8.6 s. Zeros at the end are left out.
    pub buckets: Vec<u64>,
}

impl LatencyStatus {
    pub(crate) fn list(counted: Vec<(Operation, Histogram)>) -> Vec<Self> {
        counted.into_iter().map(|(operation, times)| Self::of(operation.word(), &times)).collect()
    }

    fn of(operation: &str, times: &Histogram) -> Self {
        let percentile = |percent| times.percentile(percent).map_or(0, |time| time.0);
        let used = times.buckets().iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        Self {
            operation: operation.to_owned(),
            count: times.count(),
            sum_ns: times.sum().0,
            p50_ns: percentile(50),
            p99_ns: percentile(99),
            buckets: times.buckets()[..used].to_vec(),
        }
    }

    /// The times, as they were counted.
    pub(crate) fn times(&self) -> Histogram {
        Histogram::from_parts(&self.buckets, Nanos(self.sum_ns))
    }

    /// The operations since an earlier status; `None` if there were none.
    pub(crate) fn since(&self, earlier: &[Self]) -> Option<Self> {
        let before = earlier.iter().find(|before| before.operation == self.operation);
        let before = before.map(Self::times).unwrap_or_default();
        let left = self.times().since(&before);
        (left.count() > 0).then(|| Self::of(&self.operation, &left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_survive_the_way_to_a_client_and_differences_are_of_the_later_ones() {
        let mut times = Histogram::default();
        (0..9).for_each(|_| times.note(Nanos::from_micros(20)));
        let before = LatencyStatus::list(vec![(Operation::Read, times)]);
        assert_eq!((before[0].count, before[0].buckets.as_slice()), (9, &[0, 0, 9][..]));
        (0..3).for_each(|_| times.note(Nanos::from_millis(2)));
        let now = LatencyStatus::of("read", &times);
        let told: LatencyStatus =
            serde_json::from_value(serde_json::to_value(&now).unwrap()).unwrap();
        assert_eq!((&told, told.times()), (&now, times));
        let later = now.since(&before).unwrap();
        assert_eq!((later.count, later.sum_ns), (3, 6_000_000));
        assert!(later.p50_ns > 1_048_576, "{later:?}");
        assert_eq!(now.since(&[]).unwrap(), now);
        assert_eq!(before[0].since(&before), None);
    }
}
