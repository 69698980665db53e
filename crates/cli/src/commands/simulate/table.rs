//! The kill table as a file that later runs go on with, and as text.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use zoneweave_raid::mutants::Mutant;

use super::file_error;
use super::kills::{mix_of, scenario_of};
use crate::error::CliError;
use crate::output::Output;

/// Scenarios of which a table keeps the checksum.
const WITNESSES: u64 = 16;

/// Letters of a failure's message in the text.
const MESSAGE_LETTERS: usize = 110;

/// How every mutant fared.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    first_seed: u64,
    /// Checksum of some scenarios: seeds of another generator are other histories.
    generator: u32,
    mutants: BTreeMap<String, Entry>,
}

/// How one mutant fared on the seeds from the table's first one on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    pub seeds: u64,
    pub kills: u64,
    /// Seeds in which the engine fails without the mutant as well; no kills.
    pub unsound: u64,
    pub first_seed: Option<u64>,
    /// How it failed there.
    pub message: String,
    /// What all that took.
    pub seconds: f64,
}

impl Table {
    fn new(first_seed: u64) -> Self {
        let generator = (0..WITNESSES).fold(0, |sum, number| {
            let text = scenario_of(first_seed.wrapping_add(number)).text();
            crc32c::crc32c_append(sum, text.as_bytes())
        });
        Self { first_seed, generator, mutants: BTreeMap::new() }
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
            return Err(useless("it is of other seeds, or of another generator".to_owned()));
        }
        Ok(old)
    }

    /// Stores the table, if it has a file.
    pub(super) fn store(&self, path: Option<&Path>) -> Result<(), CliError> {
        let Some(path) = path else { return Ok(()) };
        let text = serde_json::to_string_pretty(self).expect("a table has a text");
        // Whoever interrupts this finds the old table or the new one.
        let new = path.with_extension("new");
        let stored = fs::write(&new, text + "\n").and_then(|()| fs::rename(&new, path));
        stored.map_err(|error| file_error(path, "write", error))
    }

    /// Adds a mutant.
    pub(super) fn add(&mut self, mutant: Mutant) {
        self.mutants.entry(mutant.name().to_owned()).or_default();
    }

    /// How a mutant fared.
    pub(super) fn entry(&self, mutant: Mutant) -> &Entry {
        &self.mutants[mutant.name()]
    }

    /// The first seed that found a mutant.
    pub(super) fn first_seed(&self, mutant: Mutant) -> Option<u64> {
        self.mutants.get(mutant.name())?.first_seed
    }

    /// A mutant has come further.
    pub(super) fn replace(&mut self, mutant: Mutant, entry: Entry) {
        self.mutants.insert(mutant.name().to_owned(), entry);
    }

    /// Mutants that no seed found.
    fn survivors(&self) -> Vec<&str> {
        let alive = self.mutants.iter().filter(|(_, entry)| entry.kills == 0);
        alive.map(|(name, _)| &name[..]).collect()
    }
}

/// Prints the table as Markdown, what dies least often first.
#[expect(clippy::cast_precision_loss, reason = "rates for people")]
pub(super) fn tell(table: &Table, output: &Output) {
    output.line("| mutant | seeds | found in | of 1,000 | first seed | how it shows there |");
    output.line("|---|---:|---:|---:|---:|---|");
    let mut rows: Vec<_> = table.mutants.iter().collect();
    let rate = |entry: &Entry| entry.kills as f64 * 1000.0 / entry.seeds.max(1) as f64;
    rows.sort_by(|(_, one), (_, other)| rate(one).total_cmp(&rate(other)));
    for (name, entry) in rows {
        let first = entry.first_seed.map_or_else(String::new, |seed| {
            let flag = if mix_of(seed).swarm { " (swarm)" } else { "" };
            format!("{seed}{flag}")
        });
        let message: String =
            entry.message.replace('|', "/").chars().take(MESSAGE_LETTERS).collect();
        output.line(format_args!(
            "| {name} | {} | {} | {:.2} | {first} | {message} |",
            entry.seeds,
            entry.kills,
            rate(entry)
        ));
    }
    let seeds: u64 = table.mutants.values().map(|entry| entry.seeds).sum();
    let seconds: f64 = table.mutants.values().map(|entry| entry.seconds).sum();
    let survivors = table.survivors();
    output.line("");
    output.line(format_args!(
        "{} mutants, {seeds} histories in {:.1} hours of threads; {}.",
        table.mutants.len(),
        seconds / 3600.0,
        match survivors.is_empty() {
            true => "none survives".to_owned(),
            false => format!("{} survive: {}", survivors.len(), survivors.join(", ")),
        }
    ));
}
