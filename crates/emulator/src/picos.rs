//! Time inside the timing model: integer picoseconds, so that every build computes the same.

use std::ops::{Add, AddAssign};

use zoneweave_runtime::{Nanos, Random};

/// A point in time or a span of it, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Picos(pub u64);

impl Picos {
    /// The start, and the empty span.
    pub const ZERO: Self = Self(0);

    /// A span of microseconds, rounded to whole picoseconds; negative ones are empty.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    pub fn from_micros(micros: f64) -> Self {
        Self((micros * 1e6).round() as u64)
    }

    /// The span in microseconds, for people.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "53 bits of picoseconds are hours")]
    pub fn as_micros(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The first whole nanosecond that is not earlier.
    #[must_use]
    pub const fn to_nanos(self) -> Nanos {
        Nanos(self.0.div_ceil(1_000))
    }

    /// The span from `earlier` to this point, empty if `earlier` is not earlier.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// The span that many times.
    #[must_use]
    pub const fn times(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count))
    }
}

impl From<Nanos> for Picos {
    fn from(nanos: Nanos) -> Self {
        Self(nanos.0.saturating_mul(1_000))
    }
}

impl Add for Picos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Picos {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// Durations drawn evenly from an interval around their mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    shortest: Picos,
    width: u64,
}

impl Spread {
    /// Durations of `mean` microseconds, give or take that fraction of it.
    #[must_use]
    pub fn new(mean_us: f64, fraction: f64) -> Self {
        let shortest = Picos::from_micros(mean_us * (1.0 - fraction));
        let longest = Picos::from_micros(mean_us * (1.0 + fraction));
        Self { shortest, width: longest.since(shortest).0 }
    }

    /// Durations around a mean, give or take that fraction of it.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "53 bits of picoseconds are hours")]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below the mean")]
    pub fn around(mean: Picos, fraction: f64) -> Self {
        let aside = (mean.0 as f64 * fraction) as u64;
        Self { shortest: Picos(mean.0.saturating_sub(aside)), width: aside * 2 }
    }

    /// Durations from zero up to `longest` microseconds.
    #[must_use]
    pub fn up_to(longest_us: f64) -> Self {
        Self { shortest: Picos::ZERO, width: Picos::from_micros(longest_us).0 }
    }

    /// The mean of the durations.
    #[must_use]
    pub const fn mean(&self) -> Picos {
        Picos(self.shortest.0 + self.width / 2)
    }

    /// One of the durations.
    pub fn draw(&self, random: &mut Random) -> Picos {
        match self.width {
            0 => self.shortest,
            width => Picos(self.shortest.0 + random.below(width + 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_round_the_safe_way() {
        assert_eq!(Picos::from_micros(0.45), Picos(450_000));
        assert_eq!(Picos::from_micros(-1.0), Picos::ZERO);
        assert_eq!(Picos(1_001).to_nanos(), Nanos(2));
        assert_eq!(Picos::from(Nanos(2)), Picos(2_000));
    }

    #[test]
    fn durations_stay_within_their_spread() {
        let mut random = Random::new(1);
        let spread = Spread::new(100.0, 0.1);
        let drawn: Vec<_> = (0..1000).map(|_| spread.draw(&mut random)).collect();
        assert!(drawn.iter().all(|one| (90_000_000..=110_000_000).contains(&one.0)));
        assert!(drawn.iter().any(|one| one.0 < 91_000_000));
        assert!(drawn.iter().any(|one| one.0 > 109_000_000));
        assert_eq!(Spread::new(5.0, 0.0).draw(&mut random), Picos(5_000_000));
    }
}
