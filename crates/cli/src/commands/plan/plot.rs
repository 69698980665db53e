//! Durability against raw space: a line for each number of parity chunks, a point for each number
//! of copies.

use zoneweave_plan::outcome::{Effort, Outcome};
use zoneweave_plan::spec::Spec;
use zoneweave_sim::experiments::{Chart, Line, svg as drawn};

/// Parity chunks that are compared.
const PARITY_MOST: usize = 2;

/// Copies that are compared.
const COPIES_MOST: u32 = 4;

/// The part of the plan's cycles that each point gets.
const PART: u32 = 4;

/// The chart of a plan's variants. Those that cannot be built are left out.
pub(super) fn svg(spec: &Spec, effort: Effort) -> String {
    let effort = Effort { cycles: (effort.cycles / PART).max(2), ..effort };
    let lines = (0..=PARITY_MOST).map(|parity| Line {
        name: format!("{}+{parity}", spec.array.data),
        points: (1..=COPIES_MOST)
            .filter_map(|copies| point(spec, parity, copies, effort))
            .collect(),
    });
    drawn(&Chart {
        name: "plan",
        title: "Durability of a pool with 1, 2, .. copies",
        x: "raw bytes for each usable byte",
        y: "nines of durability, a year",
        lines: lines.filter(|line| !line.points.is_empty()).collect(),
    })
}

fn point(spec: &Spec, parity: usize, copies: u32, effort: Effort) -> Option<(f64, f64)> {
    let mut variant = spec.clone();
    (variant.array.parity, variant.pool.copies) = (parity, copies);
    let outcome = Outcome::of(&variant, effort).ok()?;
    let nines = outcome.durability.nines;
    (nines.is_finite() && nines >= 0.0).then_some((outcome.capacity.raw_for_each, nines))
}
