//! Means over runs, with confidence intervals.

/// The mean of some runs, and the half-width of its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The mean.
    pub mean: f64,
    /// Half the width of the interval.
    pub half_width: f64,
}

/// Student's t for 95 %, two-sided, by degrees of freedom from 1 on.
const STUDENT_T: [f64; 9] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262];

/// The same for more degrees of freedom than the table has: slightly too wide.
const STUDENT_T_BEYOND: f64 = 2.228;

impl Summary {
    /// Of a value that each run has.
    #[expect(clippy::cast_precision_loss, reason = "a few runs")]
    pub(super) fn of<T>(runs: &[T], value: impl Fn(&T) -> f64) -> Self {
        let count = runs.len() as f64;
        let mean = runs.iter().map(&value).sum::<f64>() / count;
        let squares = runs.iter().map(|run| (value(run) - mean).powi(2)).sum::<f64>();
        let half_width = match runs.len() {
            0 | 1 => 0.0,
            some => {
                let t = STUDENT_T.get(some - 2).copied().unwrap_or(STUDENT_T_BEYOND);
                t * (squares / (count - 1.0) / count).sqrt()
            }
        };
        Self { mean, half_width }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_runs_have_the_interval_of_the_textbook() {
        let summary = Summary::of(&[1.0, 2.0, 3.0, 4.0, 5.0], |run| *run);
        assert!((summary.mean - 3.0).abs() < 1e-12);
        // 2.776 * sqrt(2.5 / 5)
        assert!((summary.half_width - 1.963).abs() < 1e-3, "{summary:?}");
        assert!(Summary::of(&[7.0], |run| *run).half_width.abs() < 1e-12);
    }
}
