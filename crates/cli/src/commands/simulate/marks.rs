//! Hit counts of the coverage marks of the engine.
//!
//! Counts are stored in text files, with a line per mark and run: the name, a space, the count.
//! Runs append to them, including the engine's own tests (`ZONEWEAVE_MARKS`); lines of the same
//! mark add up.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Serialize, Serializer};
use zoneweave_raid::instrument::marks::{self, Mark};

use super::file_error;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Output, Tone};

/// Number of rarest marks that are printed.
const RAREST: usize = 8;

/// Hits of each mark; a mark that is missing was not hit.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts(BTreeMap<Mark, u64>);

impl Counts {
    /// The counts of this thread.
    pub(super) fn of_this_thread() -> Self {
        Self(marks::counts().into_iter().collect())
    }

    /// Adds other counts.
    pub(super) fn add(&mut self, other: &Self) {
        for (mark, count) in &other.0 {
            *self.0.entry(*mark).or_default() += count;
        }
    }

    /// Reads the counts of a file.
    fn read(path: &Path) -> Result<Self, CliError> {
        let text = fs::read_to_string(path).map_err(|error| file_error(path, "read", error))?;
        let mut counts = Self::default();
        for line in text.lines() {
            let counted = line.split_once(' ').and_then(|(name, count)| {
                let mark = Mark::ALL.iter().find(|mark| mark.name() == name)?;
                Some((*mark, count.parse::<u64>().ok()?))
            });
            let (mark, count) = counted.ok_or_else(|| CliError::Usage {
                option: "marks",
                problem: format!("{}: not the name of a mark and a count: {line}", path.display()),
            })?;
            *counts.0.entry(mark).or_default() += count;
        }
        Ok(counts)
    }

    /// Appends the counts to a file, if one is given.
    pub(super) fn append_if_asked(&self, path: Option<&Path>) -> Result<(), CliError> {
        let Some(path) = path else { return Ok(()) };
        let hit = self.sorted().into_iter().filter(|(_, count)| *count > 0);
        let lines: String = hit.map(|(mark, count)| format!("{} {count}\n", mark.name())).collect();
        let file = OpenOptions::new().append(true).create(true).open(path);
        let written = file.and_then(|mut file| file.write_all(lines.as_bytes()));
        written.map_err(|error| file_error(path, "write", error))
    }

    /// All marks, the rarest first.
    fn sorted(&self) -> Vec<(Mark, u64)> {
        let count = |mark: &Mark| (*mark, self.0.get(mark).copied().unwrap_or(0));
        let mut counts: Vec<_> = Mark::ALL.iter().map(count).collect();
        counts.sort_by_key(|(_, count)| *count);
        counts
    }

    /// Prints the marks that were never hit, and the rarest.
    pub(super) fn tell(&self, output: &Output) {
        let counts = self.sorted();
        let (never, hit) = counts.split_at(counts.partition_point(|(_, count)| *count == 0));
        let rarest = hit.iter().take(RAREST);
        let rarest: Vec<_> =
            rarest.map(|(mark, count)| format!("{} {count}", mark.name())).collect();
        output.line(format_args!(
            "{} of {} marks hit, the rarest: {}",
            hit.len(),
            counts.len(),
            rarest.join(", ")
        ));
        if !never.is_empty() {
            let never: Vec<_> = never.iter().map(|(mark, _)| mark.name()).collect();
            output.line(format_args!("never hit: {}", never.join(", ")));
        }
    }
}

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.sorted().iter().map(|(mark, count)| (mark.name(), count)))
    }
}

/// Checks before hours of work that counts can be stored.
pub(super) fn writable_before(path: Option<&Path>) -> Result<(), CliError> {
    Counts::default().append_if_asked(path)
}

#[derive(Args)]
pub(super) struct Check {
    /// Files written by --marks, or by the engine's tests (ZONEWEAVE_MARKS)
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Minimum hits of each mark
    #[arg(long, value_name = "N", default_value_t = 1)]
    least: u64,
}

#[derive(Serialize)]
struct Checked<'a> {
    least: u64,
    /// Marks that were hit less often.
    missed: Vec<&'static str>,
    marks: &'a Counts,
}

/// Sums files of counts.
pub(super) fn check(request: &Check, output: &Output) -> Result<Exit, CliError> {
    let mut counts = Counts::default();
    for path in &request.files {
        counts.add(&Counts::read(path)?);
    }
    let sorted = counts.sorted();
    let missed: Vec<_> = sorted.iter().filter(|(_, count)| *count < request.least).collect();
    let names = missed.iter().map(|(mark, _)| mark.name()).collect();
    let checked = Checked { least: request.least, missed: names, marks: &counts };
    output.result("marks", &checked, |output| {
        counts.tell(output);
        for (mark, count) in &missed {
            let text = format!("{} was hit {count} times: {}", mark.name(), mark.doc());
            output.line(output.paint(Tone::Bad, &text));
        }
    });
    Ok(if missed.is_empty() { Exit::Done } else { Exit::Failed })
}
