//! The report of a run: JSON lines, a CSV file and plots by table, one self-contained page, and the
//! fidelity matrix.
//!
//! All files are texts in memory, the same for the same results; the caller writes them.

mod html;
mod markdown;
mod plot;
mod plots;
mod tables;

use serde::Serialize;

use super::{Fidelity, Observation, Recommendation, Results};
use super::{fidelity, observations, recommendations};

/// A run and its interpretation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Name of the subject.
    pub subject: String,
    /// Conditions, as pairs of words: the command, the plan, the program.
    pub conditions: Vec<(String, String)>,
    /// The thirteen.
    pub observations: Vec<Observation>,
    /// The recommendations.
    pub recommendations: Vec<Recommendation>,
    /// The coverage of other emulators.
    pub fidelity: Vec<Fidelity>,
    /// The measurements.
    #[serde(skip)]
    pub results: Results,
}

/// A file of the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its name.
    pub name: String,
    /// Its contents.
    pub text: String,
}

impl Report {
    /// Judges a run.
    #[must_use]
    pub fn new(subject: String, conditions: Vec<(String, String)>, results: Results) -> Self {
        let observations = observations(&results);
        let recommendations = recommendations(&results);
        let fidelity = fidelity(&observations);
        Self { subject, conditions, observations, recommendations, fidelity, results }
    }

    /// Every file of it.
    #[must_use]
    pub fn files(&self) -> Vec<File> {
        let plots = plots::plots(&self.results);
        let mut files = vec![
            File { name: "index.html".into(), text: html::page(self, &plots) },
            File { name: "fidelity.md".into(), text: markdown::fidelity(self) },
            File { name: "samples.jsonl".into(), text: tables::json_lines(&self.results) },
        ];
        files.extend(tables::csv_files(&self.results));
        for plot in &plots {
            let text = plot::svg(plot);
            files.push(File { name: format!("{}.svg", plot.name), text });
        }
        files
    }
}
