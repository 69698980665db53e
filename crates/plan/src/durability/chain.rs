//! Mean time to absorption of a Markov chain in continuous time.
//!
//! States are eliminated one after the other, and every number on the way is a sum of products of
//! rates: nothing is subtracted. So the result has full precision even if a loss is 10^20 times
//! rarer than a repair (W. Grassmann, M. Taksar, D. Heyman, Operations Research 33, 1985).

/// Rates between states; state 0 is the start.
pub(super) struct Chain {
    states: usize,
    /// Row after row, with a last column for the loss.
    rates: Vec<f64>,
}

impl Chain {
    /// A chain of so many states without transitions.
    #[must_use]
    pub(super) fn new(states: usize) -> Self {
        assert!(states > 0, "a chain starts in a state");
        Self { states, rates: vec![0.0; states * (states + 1)] }
    }

    fn rate(&mut self, from: usize, to: usize) -> &mut f64 {
        &mut self.rates[from * (self.states + 1) + to]
    }

    /// Adds a transition; `per_hour` is its rate.
    pub(super) fn goes(&mut self, from: usize, to: usize, per_hour: f64) {
        assert!(from < self.states && to < self.states, "{from} and {to} are states");
        assert!(per_hour >= 0.0, "rates are not negative");
        if from != to {
            *self.rate(from, to) += per_hour;
        }
    }

    /// Adds a transition to the loss.
    pub(super) fn loses(&mut self, from: usize, per_hour: f64) {
        assert!(from < self.states && per_hour >= 0.0, "{from} loses at {per_hour}");
        let loss = self.states;
        *self.rate(from, loss) += per_hour;
    }

    /// Hours from state 0 to the loss, on average; infinite if nothing leads there.
    #[must_use]
    pub(super) fn hours_to_loss(mut self) -> f64 {
        let (states, width) = (self.states, self.states + 1);
        // Time that each visit of a state stands for, with the visits of eliminated states.
        let mut hours = vec![1.0; states];
        for gone in (1..states).rev() {
            let row: Vec<f64> = self.rates[gone * width..][..width].to_vec();
            let leaves: f64 = row[..gone].iter().sum::<f64>() + row[states];
            for from in 0..gone {
                let enters = self.rates[from * width + gone];
                if enters <= 0.0 {
                    continue;
                }
                if leaves <= 0.0 {
                    // A state without a way out.
                    hours[from] = f64::INFINITY;
                    continue;
                }
                let share = enters / leaves;
                hours[from] += share * hours[gone];
                for to in (0..gone).chain([states]) {
                    if to != from {
                        self.rates[from * width + to] += share * row[to];
                    }
                }
            }
        }
        let loss = self.rates[states];
        if loss > 0.0 { hours[0] / loss } else { f64::INFINITY }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-12, "{found} against {expected}");
    }

    /// A mirror: (3 l + m) / (2 l^2).
    #[test]
    fn a_mirror_lasts_as_in_the_textbook() {
        for (fails, repairs) in [(1e-6, 0.1), (1e-2, 1e-3), (1e-12, 10.0)] {
            let mut chain = Chain::new(2);
            chain.goes(0, 1, 2.0 * fails);
            chain.goes(1, 0, repairs);
            chain.loses(1, fails);
            near(chain.hours_to_loss(), (3.0 * fails + repairs) / (2.0 * fails * fails));
        }
    }

    #[test]
    fn a_rare_loss_keeps_its_precision() {
        // Nine repairs in a row of rates 10^18 apart.
        let mut chain = Chain::new(10);
        let mut expected = 1.0;
        for state in 0..9 {
            chain.goes(state, state + 1, 1e-9);
            chain.goes(state + 1, state, 1.0);
            expected *= 1e9;
        }
        chain.loses(9, 1e-9);
        let found = chain.hours_to_loss();
        assert!((found / (expected * 1e9) - 1.0).abs() < 1e-7, "{found:e}");
    }

    #[test]
    fn without_a_way_to_the_loss_it_lasts_for_ever() {
        let mut chain = Chain::new(2);
        chain.goes(0, 1, 1.0);
        chain.goes(1, 0, 1.0);
        assert!(chain.hours_to_loss().is_infinite());
    }
}
