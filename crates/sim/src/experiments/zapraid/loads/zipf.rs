//! Places drawn by Zipf's law, identical on every machine.
//!
//! A power is computed from square roots, products and quotients, which every machine rounds alike;
//! logarithms of a library may differ. Weights are integers from there on.

use zoneweave_runtime::Random;

/// The law over ranks: the probability of rank *r* is proportional to *r* to the power of minus the
/// exponent.
pub(crate) struct Zipf {
    /// Cumulative weights by rank.
    sums: Vec<u64>,
}

/// The weight of rank 1.
const WHOLE: f64 = (1_u64 << 40) as f64;

/// Binary digits of the exponent in use.
const DIGITS: u32 = 30;

impl Zipf {
    /// The law for so many ranks, with an exponent in hundredths, below one.
    pub(crate) fn new(ranks: u64, hundredths: u32) -> Self {
        let mut sum = 0;
        let sums = (1..=ranks).map(|rank| {
            sum += weight(rank, hundredths);
            sum
        });
        Self { sums: sums.collect() }
    }

    /// A rank, from 0 on.
    pub(crate) fn draw(&self, random: &mut Random) -> u64 {
        let all = self.sums.last().copied().unwrap_or(1);
        let drawn = random.below(all);
        self.sums.partition_point(|sum| *sum <= drawn) as u64
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below 2 to the 40th")]
#[expect(clippy::cast_precision_loss, reason = "ranks are far below 2 to the 53rd")]
fn weight(rank: u64, hundredths: u32) -> u64 {
    let (mut root, mut power) = (rank as f64, 1.0);
    let mut left = f64::from(hundredths) / 100.0;
    for _ in 0..DIGITS {
        root = root.sqrt();
        left *= 2.0;
        if left >= 1.0 {
            left -= 1.0;
            power *= root;
        }
    }
    (WHOLE / power) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_powers() {
        for (rank, expected) in [(1_u64, 1.0), (2, 0.503_478), (10, 0.102_329), (1000, 0.001_072)] {
            #[expect(clippy::cast_precision_loss, reason = "a test")]
            let part = weight(rank, 99) as f64 / WHOLE;
            assert!((part / expected - 1.0).abs() < 1e-3, "{rank}: {part}");
        }
    }

    #[test]
    fn the_first_ranks_are_the_most_frequent() {
        let (zipf, mut random) = (Zipf::new(1000, 99), Random::new(1));
        let mut counts = [0_u32; 1000];
        for _ in 0..100_000 {
            counts[usize::try_from(zipf.draw(&mut random)).unwrap()] += 1;
        }
        // The sum of all weights is 7.73 times the first.
        assert!((12_400..13_500).contains(&counts[0]), "{}", counts[0]);
        assert!(counts[0] > counts[1] && counts[1] > counts[7] && counts[7] > counts[500]);
    }
}
