//! The kill table: a file that later runs resume from, and its Markdown.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use zoneweave_raid::instrument::mutants::Mutant;
use zoneweave_sim::simulate::Failure;

use super::file_error;
use super::kills::{mix_of, scenario_of};
use crate::error::CliError;
use crate::output::{Output, Tone};

/// Number of scenarios in the checksum of a table.
const WITNESSES: u64 = 16;

/// Maximum length of a failure message in the Markdown.
const MESSAGE_LETTERS: usize = 110;

/// The results of all mutants.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    first_seed: u64,
    /// Checksum of the first scenarios: another generator makes other histories of the same seeds.
    generator: u32,
    mutants: BTreeMap<String, Entry>,
    /// Seeds that fail without a mutant, with the failure; they count for no mutant.
    unsound: BTreeMap<u64, String>,
    /// Seconds of all threads.
    seconds: f64,
}

/// The results of a mutant on the seeds from the first of the table on.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// All seeds, including seeds that it cannot change.
    seeds: u64,
    /// Seeds that consulted the mutant, so that it was run.
    asked: u64,
    kills: u64,
    first_seed: Option<u64>,
    /// The failure in the first seed.
    message: String,
}

/// The results of a seed.
pub(super) struct Fared {
    /// The failure of each mutant that was run, if any; or the failure without a mutant.
    pub outcome: Result<BTreeMap<Mutant, Option<Failure>>, Failure>,
    /// Seconds of the thread.
    pub seconds: f64,
}

impl Entry {
    fn enter(&mut self, seed: u64, failure: Option<&Failure>) {
        self.asked += 1;
        let Some(failure) = failure else { return };
        self.kills += 1;
        if self.first_seed.is_none() {
            self.first_seed = Some(seed);
            self.message = failure.to_string();
        }
    }
}

impl Table {
    fn new(first_seed: u64) -> Self {
        let generator = (0..WITNESSES).fold(0, |sum, number| {
            let text = scenario_of(first_seed.wrapping_add(number), false).text();
            crc32c::crc32c_append(sum, text.as_bytes())
        });
        let (mutants, unsound) = (BTreeMap::new(), BTreeMap::new());
        Self { first_seed, generator, mutants, unsound, seconds: 0.0 }
    }

    /// The table in a file, or an empty one if there is none.
    pub(super) fn load(path: Option<&Path>, first_seed: u64) -> Result<Self, CliError> {
        let new = Self::new(first_seed);
        let Some(path) = path.filter(|path| path.exists()) else { return Ok(new) };
        let text = fs::read_to_string(path).map_err(|error| file_error(path, "read", error))?;
        let useless = |problem: String| CliError::Usage {
            option: "table",
            problem: format!("{}: {problem}", path.display()),
        };
        let old: Self = serde_json::from_str(&text).map_err(|error| useless(error.to_string()))?;
        if (old.first_seed, old.generator) != (new.first_seed, new.generator) {
            return Err(useless(
                "the table was made with other seeds, or with another generator".to_owned(),
            ));
        }
        Ok(old)
    }

    /// Stores the table, if it has a file.
    pub(super) fn store(&self, path: Option<&Path>) -> Result<(), CliError> {
        let Some(path) = path else { return Ok(()) };
        let text = serde_json::to_string_pretty(self).expect("a table has a text");
        // An interruption leaves the old table or the new one.
        let new = path.with_extension("new");
        let stored = fs::write(&new, text + "\n").and_then(|()| fs::rename(&new, path));
        stored.map_err(|error| file_error(path, "write", error))
    }

    /// Adds a mutant.
    pub(super) fn add(&mut self, mutant: Mutant) {
        self.mutants.entry(mutant.name().to_owned()).or_default();
    }

    /// The first seed that one of the mutants was not run on, counted from the table's first.
    pub(super) fn next(&self, mutants: &[Mutant], kills: u64) -> u64 {
        let entries = mutants.iter().map(|mutant| &self.mutants[mutant.name()]);
        entries.filter(|entry| entry.kills < kills).map(|entry| entry.seeds).min().unwrap_or(0)
    }

    /// The mutants that still have to run on a seed: with fewer kills than asked for.
    pub(super) fn wanted(&self, mutants: &[Mutant], number: u64, kills: u64) -> Vec<Mutant> {
        let wanted = |mutant: &Mutant| {
            let entry = &self.mutants[mutant.name()];
            entry.seeds <= number && entry.kills < kills
        };
        mutants.iter().copied().filter(wanted).collect()
    }

    /// Enters the results of these mutants in their next seed.
    pub(super) fn enter(&mut self, number: u64, wanted: &[Mutant], fared: &Fared) {
        let seed = self.first_seed.wrapping_add(number);
        self.seconds += fared.seconds;
        if let Err(failure) = &fared.outcome {
            self.unsound.insert(seed, failure.to_string());
        }
        for mutant in wanted {
            let entry = self.mutants.get_mut(mutant.name()).expect("a mutant of the table");
            assert_eq!(entry.seeds, number, "{} skips a seed", mutant.name());
            entry.seeds += 1;
            if let Some(failure) = fared.outcome.as_ref().ok().and_then(|run| run.get(mutant)) {
                entry.enter(seed, failure.as_ref());
            }
        }
    }

    /// The first seed that found a mutant.
    pub(super) fn first_seed(&self, mutant: Mutant) -> Option<u64> {
        self.mutants.get(mutant.name())?.first_seed
    }

    /// Mutants that no seed found.
    pub(super) fn survivors(&self) -> Vec<&str> {
        let alive = self.mutants.iter().filter(|(_, entry)| entry.kills == 0);
        alive.map(|(name, _)| &name[..]).collect()
    }
}

/// Prints the table as Markdown, the mutants that die least often first.
#[expect(clippy::cast_precision_loss, reason = "rates for people")]
pub(super) fn tell(table: &Table, output: &Output) {
    output.line(
        "| mutant | seeds | asked in | found in | of 1,000 | first seed | how it shows there |",
    );
    output.line("|---|---:|---:|---:|---:|---:|---|");
    let mut rows: Vec<_> = table.mutants.iter().collect();
    let rate = |entry: &Entry| entry.kills as f64 * 1000.0 / entry.seeds.max(1) as f64;
    rows.sort_by(|(_, one), (_, other)| rate(one).total_cmp(&rate(other)));
    for (name, entry) in rows {
        let first = entry.first_seed.map_or_else(String::new, |seed| {
            let flag = if mix_of(seed, false).swarm { " (swarm)" } else { "" };
            format!("{seed}{flag}")
        });
        let message: String =
            entry.message.replace('|', "/").chars().take(MESSAGE_LETTERS).collect();
        output.line(format_args!(
            "| {name} | {} | {} | {} | {:.2} | {first} | {message} |",
            entry.seeds,
            entry.asked,
            entry.kills,
            rate(entry)
        ));
    }
    let asked: u64 = table.mutants.values().map(|entry| entry.asked).sum();
    let survivors = table.survivors();
    output.line("");
    output.line(format_args!(
        "{} mutants, {asked} histories with one in {:.2} hours of threads; {}.",
        table.mutants.len(),
        table.seconds / 3600.0,
        match survivors.is_empty() {
            true => "none survives".to_owned(),
            false => format!("{} survive: {}", survivors.len(), survivors.join(", ")),
        }
    ));
    for (seed, message) in &table.unsound {
        let flag = if mix_of(*seed, false).swarm { " --swarm" } else { "" };
        let text = format!("without a mutant seed {seed}{flag} fails {message}");
        output.line(output.paint(Tone::Bad, &text));
    }
}
