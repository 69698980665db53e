//! Loss of an array: more drives fail than it tolerates, by themselves or by one shock.

use super::chain::Chain;
use super::cycles::{Chances, Draw, System};
use super::{binomial, per_hour};
use crate::spec::Rates;

/// An array, as its failures see it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArrayFailures {
    /// Drives.
    pub drives: u32,
    /// Drives that may fail at a time.
    pub tolerated: u32,
    /// Failures of each drive, an hour.
    pub drive_per_hour: f64,
    /// Shocks to all drives, an hour.
    pub shock_per_hour: f64,
    /// The chance of each drive to fail with a shock.
    pub lost_at_shock: f64,
    /// Hours from a failure until the drive is rebuilt; drives are rebuilt one after the other.
    pub repair_hours: f64,
}

impl ArrayFailures {
    /// An array of such drives.
    #[must_use]
    pub fn of(drives: usize, tolerated: usize, repair_hours: f64, rates: &Rates) -> Self {
        assert!(drives > tolerated && repair_hours > 0.0, "an array holds data and is repaired");
        let small = |count| u32::try_from(count).expect("an array has at most 32 drives");
        Self {
            drives: small(drives),
            tolerated: small(tolerated),
            drive_per_hour: per_hour(rates.drive_failures_per_year),
            shock_per_hour: rates.drive_shocks_per_year / super::HOURS_PER_YEAR,
            lost_at_shock: rates.drives_lost_at_shock,
            repair_hours,
        }
    }

    /// Hours to the loss of the array, on average, by a Markov chain over the number of failed
    /// drives.
    #[must_use]
    pub fn hours_to_loss(&self) -> f64 {
        let mut chain = Chain::new(self.tolerated as usize + 1);
        for failed in 0..=self.tolerated {
            let (from, left) = (failed as usize, self.drives - failed);
            let mut fails = |count: u32, per_hour: f64| match failed + count {
                now if now > self.tolerated => chain.loses(from, per_hour),
                now => chain.goes(from, now as usize, per_hour),
            };
            fails(1, f64::from(left) * self.drive_per_hour);
            for (count, chance) in (0..).zip(binomial(left, self.lost_at_shock)).skip(1) {
                fails(count, self.shock_per_hour * chance);
            }
            if failed > 0 {
                chain.goes(from, from - 1, 1.0 / self.repair_hours);
            }
        }
        chain.hours_to_loss()
    }

    /// How often an hour the array is left without redundancy, on average.
    #[must_use]
    pub fn critical_per_hour(&self) -> f64 {
        match self.tolerated {
            0 => 0.0,
            // As the loss of an array that tolerates one failure less.
            _ => 1.0 / Self { tolerated: self.tolerated - 1, ..*self }.hours_to_loss(),
        }
    }

    /// The array, for a simulation.
    #[must_use]
    pub fn system(self) -> impl System {
        Failing { array: self, failed: 0 }
    }
}

struct Failing {
    array: ArrayFailures,
    failed: u32,
}

const DRIVE: usize = 0;

impl System for Failing {
    fn chances(&self) -> Chances {
        let ArrayFailures { drives, drive_per_hour, shock_per_hour, lost_at_shock, .. } =
            self.array;
        let left = f64::from(drives - self.failed);
        let hit = -(left * (-lost_at_shock).ln_1p()).exp_m1();
        Chances::new([left * drive_per_hour, shock_per_hour * hit, 0.0, 0.0])
    }

    fn fail(&mut self, cause: usize, draw: &mut Draw) -> f64 {
        let left = self.array.drives - self.failed;
        self.failed += match cause {
            DRIVE => 1,
            _ => draw.hits(left, self.array.lost_at_shock),
        };
        if self.failed > self.array.tolerated { 1.0 } else { 0.0 }
    }

    fn next_repair(&self) -> Option<f64> {
        (self.failed > 0).then_some(self.array.repair_hours)
    }

    fn repair(&mut self) {
        assert!(self.failed > 0, "only failed drives are rebuilt");
        self.failed -= 1;
    }

    fn renew(&mut self, _: &mut Draw) {
        self.failed = 0;
    }
}
