//! Time to data loss, by Markov chains and by Monte-Carlo.
//!
//! An array loses its volume when more drives fail than it tolerates before they are rebuilt. A
//! pool loses a placement group when all arrays that hold its copies are lost before Ceph has
//! copied them elsewhere. [`array`](mod@array) and [`cluster`] describe each once as a chain and
//! once as a system that [`cycles`] simulates with its real placement; the two differ in two ways.
//!
//! | | chain | Monte-Carlo |
//! |---|---|---|
//! | repairs | last exponentially long | last as long as computed, one after the other |
//! | hosts lost with their rack | are hosts anywhere | are hosts of that rack |

pub mod array;
mod chain;
pub mod cluster;
pub mod cycles;
mod placement;

/// Hours of a year of 365.25 days.
pub const HOURS_PER_YEAR: f64 = 8766.0;

/// The rate of failures, an hour, of parts of which this share fails in a year.
#[must_use]
pub fn per_hour(share_per_year: f64) -> f64 {
    -(-share_per_year).ln_1p() / HOURS_PER_YEAR
}

/// How long repairs take, for a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repairs {
    /// As long as computed.
    Fixed,
    /// Exponentially distributed around that, as in a Markov chain.
    Exponential,
}

/// The chance that exactly 0, 1, .. of `parts` are hit if each is by itself with this chance.
fn binomial(parts: u32, chance: f64) -> Vec<f64> {
    let (ln_hit, ln_miss) = (chance.ln(), (-chance).ln_1p());
    let mut chances = Vec::with_capacity(parts as usize + 1);
    let mut ln_ways = 0.0;
    for hit in 0..=parts {
        let hits = if hit == 0 { 0.0 } else { f64::from(hit) * ln_hit };
        chances.push((ln_ways + hits + f64::from(parts - hit) * ln_miss).exp());
        ln_ways += (f64::from(parts - hit) / f64::from(hit + 1)).ln();
    }
    chances
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_are_distributed_as_published() {
        let found = binomial(4, 0.5);
        for (found, expected) in found.iter().zip([1.0, 4.0, 6.0, 4.0, 1.0]) {
            assert!((found - expected / 16.0).abs() < 1e-12);
        }
        assert!((binomial(3000, 0.01).iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert_eq!(binomial(3, 0.0), [1.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn a_share_of_a_year_is_a_rate() {
        let survive = (-per_hour(0.25) * HOURS_PER_YEAR).exp();
        assert!((survive - 0.75).abs() < 1e-12);
    }
}
