//! Runs the points of an experiment on threads, and stores their rows.
//!
//! Each row is appended to `points.jsonl` as it completes, so that an interrupted run can resume.
//! At the end the file is rewritten in the order of the points, so that it does not depend on
//! scheduling, threads or attempts. Rows of another engine version are dropped and measured again.
//! Rows of other points are kept at the end of the file, if requested.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use zoneweave_sim::experiments::{ExperimentError, Key, Point, Row};

use crate::error::CliError;
use crate::job::Job;
use crate::output::progress::Progress;

/// The rows of an experiment, and their file.
pub(super) struct Ledger {
    path: PathBuf,
    rows: Vec<Row>,
    /// Points with rows of another engine version in the file.
    outdated: usize,
    /// Rows of other points in the file.
    others: Vec<Row>,
}

impl Ledger {
    /// Reads the rows of these points from the file.
    pub(super) fn open(path: PathBuf, points: &[Point]) -> Result<Self, CliError> {
        let text = match fs::read(&path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(error) => return Err(failed(&path, "read", error)),
        };
        // A line that does not parse was cut short, or is of another version.
        let rows = text.lines().filter_map(|line| serde_json::from_str::<Row>(line).ok());
        let rows: Vec<_> = rows.collect();
        let wanted = |row: &Row| {
            let mut keys = points.iter().map(Point::key);
            keys.any(|key| row.key == *key || row.key.is_outdated_by(key))
        };
        let others = rows.iter().filter(|row| !wanted(row)).cloned().collect();
        let mut ledger = Self { path, rows: Vec::new(), outdated: 0, others };
        for key in points.iter().map(Point::key) {
            match rows.iter().find(|row| row.key == *key) {
                Some(row) => ledger.rows.push(row.clone()),
                None if rows.iter().any(|row| row.key.is_outdated_by(key)) => ledger.outdated += 1,
                None => {}
            }
        }
        Ok(ledger)
    }

    /// Points with rows of another engine version in the file.
    pub(super) fn outdated(&self) -> usize {
        self.outdated
    }

    /// Rows of these points at another scale, or with other seeds.
    pub(super) fn otherwise(&self, points: &[Point]) -> usize {
        let named = |row: &&Row| points.iter().any(|point| point.key().point == row.key.point);
        self.others.iter().filter(named).count()
    }

    /// Drops the rows of other points.
    pub(super) fn forget_others(&mut self) {
        self.others.clear();
    }

    fn has(&self, key: &Key) -> bool {
        self.rows.iter().any(|row| row.key == *key)
    }

    /// Runs the missing points; returns all rows in the order of the points.
    pub(super) fn complete(
        mut self,
        points: &[Point],
        jobs: usize,
        progress: &Progress<'_>,
    ) -> Result<Vec<Row>, CliError> {
        let missing: Vec<_> = points.iter().filter(|point| !self.has(point.key())).collect();
        if !missing.is_empty() {
            let mut file = self.start()?;
            let told = |rows: &[Row]| Job { done: rows.len() as u64, total: points.len() as u64 };
            progress.update(told(&self.rows));
            on_threads(&missing, jobs, |row| {
                let line = line(&row);
                file.write_all(line.as_bytes()).map_err(|error| self.failed("append to", error))?;
                self.rows.push(row);
                progress.update(told(&self.rows));
                Ok(())
            })?;
        }
        let order = |row: &Row| points.iter().position(|point| *point.key() == row.key);
        self.rows.sort_by_key(order);
        self.write()?;
        Ok(self.rows)
    }

    /// Writes the known rows, and opens the file for appending.
    fn start(&self) -> Result<File, CliError> {
        self.write()?;
        let opened = File::options().append(true).open(&self.path);
        opened.map_err(|error| self.failed("open", error))
    }

    /// Writes all rows, or leaves the file as it was.
    fn write(&self) -> Result<(), CliError> {
        let text: String = self.rows.iter().chain(&self.others).map(line).collect();
        let new = self.path.with_extension("jsonl.new");
        fs::write(&new, text).map_err(|error| failed(&new, "write", error))?;
        fs::rename(&new, &self.path).map_err(|error| self.failed("write", error))
    }

    fn failed(&self, action: &'static str, error: std::io::Error) -> CliError {
        failed(&self.path, action, error)
    }
}

fn line(row: &Row) -> String {
    serde_json::to_string(row).expect("a row has names and finite numbers") + "\n"
}

fn failed(path: &Path, action: &'static str, error: std::io::Error) -> CliError {
    CliError::File { path: path.to_owned(), action, error }
}

/// Runs points on `jobs` threads, and hands over rows as they complete. After an error no point is
/// started.
fn on_threads(
    points: &[&Point],
    jobs: usize,
    mut take: impl FnMut(Row) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let next = AtomicUsize::new(0);
    let (sender, rows) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, points.len()) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                while let Some(point) = points.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if sender.send(point.run()).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        // An error drops the receiver, so that sending fails.
        rows.into_iter().try_for_each(|row| take(row.map_err(impossible)?))
    })
}

/// The error of an experiment that cannot be run.
pub(super) fn impossible(error: ExperimentError) -> CliError {
    CliError::System { action: "run the experiment", error: std::io::Error::other(error) }
}

/// Whether a text is part of a name, and numbers at its ends are whole ones there: "QD=1" is not in
/// "QD=16".
pub(super) fn contains(name: &str, text: &str) -> bool {
    let ends_in_digit = |text: &str| text.ends_with(|last: char| last.is_ascii_digit());
    let begins_with_digit = |text: &str| text.starts_with(|first: char| first.is_ascii_digit());
    let goes_on = |text, behind| ends_in_digit(text) && begins_with_digit(behind);
    name.match_indices(text)
        .any(|(at, _)| !goes_on(&name[..at], text) && !goes_on(text, &name[at + text.len()..]))
}

#[cfg(test)]
mod tests {
    use zoneweave_sim::experiments::{Experiment, Settings};

    use super::*;
    use crate::output::Output;
    use crate::output::globals::{Color, Globals};

    const SETTINGS: Settings = Settings { scale: 0.000_1, runs: 1 };

    fn quiet() -> Output {
        Output::new(&Globals { json: false, quiet: true, verbose: false, color: Color::Never })
    }

    fn run(path: &Path, jobs: usize) -> String {
        let output = quiet();
        let points = Experiment::by_name("zapraid/fig2").unwrap().points(&SETTINGS);
        let progress = Progress::of(&output, "points", "points");
        let mut ledger = Ledger::open(path.to_owned(), &points).unwrap();
        ledger.forget_others();
        let rows = ledger.complete(&points, jobs, &progress).unwrap();
        assert_eq!(rows.len(), points.len());
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn what_is_kept_depends_neither_on_threads_nor_on_interruptions() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let whole = run(&path("one.jsonl"), 1);
        assert_eq!(run(&path("three.jsonl"), 3), whole);
        // The last of some rows is torn, one is of another version.
        let kept = whole.len() / 2;
        let other = whole.lines().next().unwrap().replace("\"version\":", "\"version\":9");
        fs::write(path("torn.jsonl"), format!("{other}\n{}", &whole[..kept])).unwrap();
        assert_eq!(run(&path("torn.jsonl"), 2), whole);
        assert_eq!(run(&path("torn.jsonl"), 2), whole);
    }

    #[test]
    fn points_of_another_engine_are_run_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("points.jsonl");
        let whole = run(&path, 2);
        let points = Experiment::by_name("zapraid/fig2").unwrap().points(&SETTINGS);
        let outdated = || Ledger::open(path.clone(), &points).unwrap().outdated();
        assert_eq!(outdated(), 0);
        let fingerprint = format!("\"fingerprint\":\"{}\"", points[0].key().fingerprint);
        let (first, rest) = whole.split_once('\n').unwrap();
        let older = first.replace(&fingerprint, "\"fingerprint\":\"0\"");
        let older = older.replace("\"throughput\":", "\"throughput\":9");
        assert_ne!(older, first);
        fs::write(&path, format!("{older}\n{rest}")).unwrap();
        assert_eq!(outdated(), 1);
        assert_eq!(run(&path, 2), whole);
        assert_eq!(outdated(), 0);
    }

    #[test]
    fn other_points_stay_if_they_are_wanted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("points.jsonl");
        let whole = run(&path, 2);
        let all = Experiment::by_name("zapraid/fig2").unwrap();
        let smaller = all.points(&Settings { scale: 0.000_2, ..SETTINGS });
        let ledger = Ledger::open(path.clone(), &smaller[..1]).unwrap();
        assert_eq!(ledger.otherwise(&smaller), smaller.len());
        assert_eq!(
            Ledger::open(path.clone(), &all.points(&SETTINGS)).unwrap().otherwise(&smaller),
            0
        );
        let output = quiet();
        ledger.complete(&smaller[..1], 1, &Progress::of(&output, "points", "points")).unwrap();
        let kept = fs::read_to_string(&path).unwrap();
        assert!(kept.ends_with(&whole) && kept.lines().count() == whole.lines().count() + 1);
        assert_eq!(run(&path, 1), whole);
    }

    #[test]
    fn a_number_in_a_name_is_named_whole() {
        let name = "zn540 16 KiB QD=16 adaptive";
        for text in ["", "zn540", "16 KiB", "KiB QD=16", "QD=", "=16 ad", "540", "adap"] {
            assert!(contains(name, text), "{text:?}");
        }
        for text in ["6 KiB", "QD=1", "40 1", "QD=6"] {
            assert!(!contains(name, text), "{text:?}");
        }
    }
}
