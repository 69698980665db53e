//! Frequencies of the parts of a seed's histories.

use zoneweave_runtime::Random;

use super::fault_kind::{FAULT_KINDS, FaultKind};
use super::mix::Mix;
use crate::random::pick;
use crate::simulate::scenario::Shape;

/// Frequencies of the parts of a seed's histories, per 1,000 or by weight.
pub(super) struct Habits {
    pub writes: u64,
    pub reads: u64,
    pub flushes: u64,
    pub trims: u64,
    pub zeroes: u64,
    pub sleeps: u64,
    pub fua: u64,
    pub hot_blocks: u64,
    pub blocks_most: u32,
    pub actors_most: u64,
    pub fills: bool,
    /// Lives that are stopped soon after their start.
    pub early_stops: u64,
    pub power: u64,
    pub missing: u64,
    pub refused: u64,
    pub blanked: u64,
    pub former_drives: u64,
    pub admin: u64,
    pub pulls: u64,
    pub timed: u64,
    pub faults: u64,
    pub faults_before: u64,
    pub kinds: Vec<FaultKind>,
    /// Sequences of lives from a template, in place of one life.
    pub templates: u64,
    /// The same, with foreign drives and starts by force.
    pub foreign_templates: u64,
    pub steps_most: u64,
}

impl Habits {
    pub(super) fn draw(random: &mut Random, mix: Mix, shape: &Shape) -> Self {
        let redundant = shape.spared() > 0 || shape.beyond;
        // Swarm: nothing, the usual, or a lot.
        let mut often = |usual: u64| match (mix.swarm, random.below(3)) {
            (false, _) => usual,
            (true, 0) => 0,
            (true, 1) => usual,
            (true, _) => (usual * 4).min(900),
        };
        let mut if_redundant = |usual: u64| if redundant { often(usual) } else { 0 };
        let (missing, blanked) = (if_redundant(150), if_redundant(50));
        let (admin, pulls, timed) = (if_redundant(150), if_redundant(60), if_redundant(80));
        let (faults, faults_before) = (if_redundant(300), if_redundant(150));
        let refused = if shape.columns() > 1 { often(30) } else { 0 };
        let (flushes, trims, zeroes) = (often(80), often(60), often(20));
        let (sleeps, fua, early_stops) = (often(40), often(100), 100 + often(200));
        let (reads, former_drives) = (often(120), often(200));
        let (templates, foreign_templates) = (often(150), often(20));
        // Templates need drives without other faults.
        let calm = !mix.swarm && random.per_mille(300);
        let unless_calm = |usual: u64| if calm { 0 } else { usual };
        let mut kinds = FAULT_KINDS.to_vec();
        if mix.swarm {
            kinds.dedup();
            kinds.retain(|_| random.per_mille(400));
            if kinds.is_empty() {
                kinds.push(pick(random, &FAULT_KINDS));
            }
        }
        Self {
            writes: 600,
            reads,
            flushes,
            trims,
            zeroes,
            sleeps,
            fua,
            hot_blocks: pick(random, &[4, 16, 64, 100_000]),
            blocks_most: pick(random, &[1, 4, 8, 8, 24]),
            actors_most: pick(random, &[1, 3, 6, 10]),
            fills: random.per_mille(700),
            early_stops,
            power: pick(random, &[0, 500, 600, 1000]),
            missing,
            refused,
            blanked,
            former_drives,
            admin,
            pulls,
            timed: unless_calm(timed),
            faults: unless_calm(faults),
            faults_before: unless_calm(faults_before),
            kinds,
            templates,
            foreign_templates,
            steps_most: pick(random, &[300, 1000, 3000]),
        }
    }
}
