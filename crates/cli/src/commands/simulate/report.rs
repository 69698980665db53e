//! The report of a campaign.

use serde::Serialize;
use zoneweave_raid::instrument::marks::INSTRUMENTED;
use zoneweave_sim::simulate::{Failure, Tally};

use super::campaign::{Campaign, Outcome};
use super::marks::Counts;
use crate::output::{Output, Tone};

/// A history that fails.
#[derive(Serialize)]
pub(super) struct Found {
    pub seed: Option<u64>,
    pub failure: Failure,
    pub actions_before: usize,
    pub actions: usize,
    pub replay: String,
}

impl Found {
    pub(super) fn tell(&self, output: &Output) {
        let name = self.seed.map_or_else(String::new, |seed| format!("seed {seed} "));
        output.line(output.paint(Tone::Bad, &format!("{name}fails {}", self.failure)));
        output.line(format_args!(
            "  shrunk from {} to {} actions; replay it with\n  {}",
            self.actions_before, self.actions, self.replay
        ));
    }
}

#[derive(Serialize)]
pub(super) struct Report {
    program: String,
    first_seed: u64,
    seeds: u64,
    swarm: bool,
    jobs: usize,
    mutant: Option<&'static str>,
    tally: Tally,
    cpu_seconds: f64,
    wall_seconds: f64,
    recoveries_per_cpu_minute: f64,
    failing_seeds: Vec<u64>,
    failures: Vec<Found>,
    #[serde(skip_serializing_if = "Option::is_none")]
    marks: Option<Counts>,
}

impl Report {
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    pub(super) fn new(campaign: &Campaign, outcome: &Outcome, failures: Vec<Found>) -> Self {
        let minutes = outcome.cpu_seconds / 60.0;
        Self {
            program: format!("zoneweave {}", env!("CARGO_PKG_VERSION")),
            first_seed: campaign.first,
            seeds: outcome.seeds,
            swarm: campaign.mix.swarm,
            jobs: campaign.jobs,
            mutant: campaign.mutant.map(zoneweave_raid::instrument::mutants::Mutant::name),
            tally: outcome.tally,
            cpu_seconds: outcome.cpu_seconds,
            wall_seconds: outcome.wall_seconds,
            recoveries_per_cpu_minute: outcome.tally.recoveries as f64 / minutes.max(1e-9),
            failing_seeds: outcome.failures.keys().copied().collect(),
            failures,
            marks: INSTRUMENTED.then(|| outcome.marks.clone()),
        }
    }

    pub(super) fn tell(&self, output: &Output) {
        let tally = &self.tally;
        output.line(format_args!(
            "{} seeds from {} on{}: {} crashes ({} with power loss, {} in recovery, up to {} in a row)",
            self.seeds,
            self.first_seed,
            if self.swarm { ", swarm" } else { "" },
            tally.crashes,
            tally.power_losses,
            tally.crashes_in_recovery,
            tally.deepest
        ));
        output.line(format_args!(
            "{} recoveries verified ({} degraded), {} checked offline, {} starts refused",
            tally.recoveries, tally.degraded_recoveries, tally.offline_checks, tally.refusals
        ));
        output.line(format_args!(
            "{} requests, {} blocks read and verified, {} faults, {} rebuilds, {} scrubs, {} segments \
             reclaimed",
            tally.requests,
            tally.blocks_read,
            tally.faults,
            tally.rebuilds,
            tally.scrubs,
            tally.segments_reclaimed
        ));
        output.line(format_args!(
            "{:.1} s of CPU time, {:.0} verified recoveries per CPU minute",
            self.cpu_seconds, self.recoveries_per_cpu_minute
        ));
        if let Some(marks) = &self.marks {
            marks.tell(output);
        }
        for found in &self.failures {
            found.tell(output);
        }
        match (self.mutant, self.failing_seeds.first()) {
            (None, None) => output.line(output.paint(Tone::Good, "no failure")),
            (None, Some(_)) => {}
            (Some(mutant), None) => {
                output.line(output.paint(Tone::Bad, &format!("{mutant} was not found")));
            }
            (Some(mutant), Some(first)) => output.line(format_args!(
                "{mutant} was found in {} of {} seeds, first in seed {first}",
                self.failing_seeds.len(),
                self.seeds
            )),
        }
    }
}
