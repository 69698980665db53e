//! Monte-Carlo of rare losses, by cycles from the whole system back to itself.
//!
//! Between two moments at which nothing is failed lies a cycle. The time to loss is the mean length
//! of a cycle, until its loss if it has one, over the chance that a cycle loses something. That
//! chance may be 10^-15, so failures are drawn more often than they happen, and each cycle weighs
//! as much as its draws are likely: *failure biasing* with *forcing* of the next failure into the
//! repair under way. The estimate has no bias, for any distribution of repairs (P. Heidelberger,
//! ACM TOMACS 5, 1995).

use zoneweave_runtime::Random;

use super::Repairs;

/// Causes of failures that a system tells apart.
const CAUSES: usize = 4;

/// The chance to force a failure into a repair, where one is rarer.
const FORCED: f64 = 0.4;

/// Failures of a cycle that are forced. More weigh too little to matter.
const FORCED_MOST: u32 = 12;

/// Parts hit at once that are drawn more often than they are.
const FORCED_HITS: u32 = 8;

/// The rates, an hour, of failures by cause.
#[derive(Clone, Copy, Debug)]
pub struct Chances {
    rates: [f64; CAUSES],
    sum: f64,
}

impl Chances {
    pub(super) fn new(rates: [f64; CAUSES]) -> Self {
        Self { rates, sum: rates.iter().sum() }
    }
}

/// A system of parts that fail and are repaired one after the other.
pub trait System {
    /// How often each cause strikes now.
    fn chances(&self) -> Chances;
    /// A cause strikes. Returns the share of the data that is lost by that.
    fn fail(&mut self, cause: usize, draw: &mut Draw) -> f64;
    /// Hours that the next repair takes on average, if something is failed.
    fn next_repair(&self) -> Option<f64>;
    /// That repair is done.
    fn repair(&mut self);
    /// Everything is whole again.
    fn renew(&mut self, draw: &mut Draw);
}

/// Random numbers for a system, and their weight.
pub struct Draw {
    random: Random,
    /// How likely the draws of this cycle are, against how often they are drawn.
    weight: f64,
}

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), weight: 1.0 }
    }

    /// Whether something of this chance happens.
    pub(super) fn happens(&mut self, chance: f64) -> bool {
        self.unit() <= chance
    }

    /// A number in (0, 1].
    fn unit(&mut self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
        let number = ((self.random.next() >> 11) + 1) as f64;
        number / (1u64 << 53) as f64
    }

    /// A number below a bound.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.random.below(bound as u64)).expect("below a usize")
    }

    /// Parts that are hit out of so many, each with a chance, if at least one is. Half of the draws
    /// are spread evenly over few numbers, as many parts at once are rare and decide.
    pub(super) fn hits(&mut self, parts: u32, chance: f64) -> u32 {
        let ln_none = f64::from(parts) * (-chance).ln_1p();
        let (any, odds) = (-ln_none.exp_m1(), chance / (1.0 - chance));
        // In logarithms: the chance of none may be below the smallest number.
        let next = |ln_exactly: f64, hit: u32| {
            ln_exactly + (f64::from(parts - hit + 1) / f64::from(hit) * odds).ln()
        };
        let spread = parts.min(FORCED_HITS);
        let (mut hits, evenly) = (parts, self.happens(0.5));
        if evenly {
            hits = 1 + u32::try_from(self.below(spread as usize)).expect("below a few");
        } else {
            let (mut ln_exactly, mut left) = (ln_none, self.unit() * any);
            for hit in 1..=parts {
                ln_exactly = next(ln_exactly, hit);
                left -= ln_exactly.exp();
                if left <= 0.0 {
                    hits = hit;
                    break;
                }
            }
        }
        let likely = (1..=hits).fold(ln_none, next).exp() / any;
        let even = if hits <= spread { 1.0 / f64::from(spread) } else { 0.0 };
        self.weight *= likely / f64::midpoint(likely, even);
        hits
    }
}

/// The result of a simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Hours to the first loss, on average; infinite if no cycle lost anything.
    pub hours_to_loss: f64,
    /// Half of the 95 % confidence interval, as a share of the hours.
    pub error: f64,
    /// The share of the data that a loss takes, on average.
    pub lost_share: f64,
    /// Cycles that were simulated.
    pub cycles: u32,
    /// Cycles that lost something: below some hundred, the interval means little.
    pub losses: u32,
}

/// Sums over cycles.
#[derive(Default)]
struct Sums {
    hours: f64,
    losses: f64,
    squares: f64,
    shares: f64,
    count: u32,
}

/// Simulates so many cycles.
#[must_use]
pub fn estimate(system: &mut impl System, repairs: Repairs, cycles: u32, seed: u64) -> Estimate {
    assert!(cycles > 1, "an interval needs cycles");
    let mut draw = Draw::new(seed);
    let mut sums = Sums::default();
    for _ in 0..cycles {
        system.renew(&mut draw);
        draw.weight = 1.0;
        if let Some(share) = cycle(system, repairs, &mut draw, &mut sums.hours) {
            sums.count += 1;
            sums.losses += draw.weight;
            sums.squares += draw.weight * draw.weight;
            sums.shares += draw.weight * share;
        }
    }
    let count = f64::from(cycles);
    let (chance, mean_square) = (sums.losses / count, sums.squares / count);
    let deviation = (mean_square - chance * chance).max(0.0).sqrt() / count.sqrt();
    Estimate {
        hours_to_loss: if chance > 0.0 { sums.hours / count / chance } else { f64::INFINITY },
        error: if chance > 0.0 { 1.96 * deviation / chance } else { f64::INFINITY },
        lost_share: if sums.losses > 0.0 { sums.shares / sums.losses } else { 0.0 },
        cycles,
        losses: sums.count,
    }
}

/// One cycle. Returns the share of the data that it loses, if it does.
fn cycle(
    system: &mut impl System,
    repairs: Repairs,
    draw: &mut Draw,
    hours: &mut f64,
) -> Option<f64> {
    let chances = system.chances();
    if chances.sum <= 0.0 {
        *hours = f64::INFINITY;
        return None;
    }
    // The first failure needs no draw: its time is known on average.
    *hours += 1.0 / chances.sum;
    let mut share = strike(system, chances, draw);
    let mut failures = 1;
    let mut under_way: Option<f64> = None;
    while share <= 0.0 {
        let left = under_way.or_else(|| system.next_repair())?;
        let chances = system.chances();
        // The chance of a failure before the repair is done, and the hours until either.
        let likely = match repairs {
            Repairs::Fixed => -(-chances.sum * left).exp_m1(),
            Repairs::Exponential => chances.sum * left / (1.0 + chances.sum * left),
        };
        let forced = if failures < FORCED_MOST { FORCED.max(likely) } else { likely };
        let fails = likely > 0.0 && draw.happens(forced);
        let passed = match repairs {
            // Memoryless: the mean is the same whichever comes first.
            Repairs::Exponential => left / (1.0 + chances.sum * left),
            Repairs::Fixed if fails => -(-draw.unit() * likely).ln_1p() / chances.sum,
            Repairs::Fixed => left,
        };
        if fails {
            draw.weight *= likely / forced;
            *hours += draw.weight * passed;
            failures += 1;
            under_way = Some(match repairs {
                Repairs::Fixed => (left - passed).max(0.0),
                Repairs::Exponential => left,
            });
            share = strike(system, chances, draw);
        } else {
            draw.weight *= if likely > 0.0 { (1.0 - likely) / (1.0 - forced) } else { 1.0 };
            *hours += draw.weight * passed;
            under_way = None;
            system.repair();
        }
    }
    Some(share)
}

/// Draws a cause, each as often as the others, and lets it strike. Returns the lost share.
fn strike(system: &mut impl System, chances: Chances, draw: &mut Draw) -> f64 {
    let possible = chances.rates.iter().filter(|rate| **rate > 0.0).count();
    let chosen = draw.below(possible);
    assert!(possible > 0, "a failure has a cause");
    let mut causes = (0..).zip(chances.rates).filter(|(_, rate)| *rate > 0.0);
    let (cause, rate) = causes.nth(chosen).expect("below the number of causes");
    #[expect(clippy::cast_precision_loss, reason = "at most four causes")]
    let as_often = possible as f64;
    draw.weight *= rate / chances.sum * as_often;
    system.fail(cause, draw)
}
