//! Progress of long work: a bar on a terminal, a line every 10 % elsewhere.

use std::cell::Cell;

use indicatif::{ProgressBar, ProgressStyle};

use super::Output;
use crate::job::Job;

/// Shows one job.
pub(crate) struct Progress<'a> {
    output: &'a Output,
    what: &'static str,
    unit: &'static str,
    bar: Option<ProgressBar>,
    tenths_told: Cell<u64>,
}

impl<'a> Progress<'a> {
    /// Starts to show a job, e.g. "rebuild", that counts segments.
    pub(crate) fn new(output: &'a Output, what: &'static str) -> Self {
        Self::of(output, what, "segments")
    }

    /// As [`Progress::new`], for a job that counts `unit`.
    pub(crate) fn of(output: &'a Output, what: &'static str, unit: &'static str) -> Self {
        let bar = ProgressBar::new(0);
        // Hidden if stderr is not a terminal.
        let bar = (!bar.is_hidden() && !output.quiet())
            .then(|| bar.with_style(style(unit)).with_message(what));
        Self { output, what, unit, bar, tenths_told: Cell::new(0) }
    }

    /// Shows progress.
    pub(crate) fn update(&self, job: Job) {
        if let Some(bar) = &self.bar {
            bar.set_length(job.total);
            bar.set_position(job.done);
            return;
        }
        let tenths = job.percent() / 10;
        if tenths > self.tenths_told.replace(tenths) {
            self.output.note(format_args!(
                "{} {} % ({} of {} {})",
                self.what,
                tenths * 10,
                job.done,
                job.total,
                self.unit
            ));
        }
    }
}

impl Progress<'_> {
    /// Shows the end of the job.
    pub(crate) fn finish(self) {
        if self.bar.is_none() && self.tenths_told.get() < 10 {
            self.output.note(format_args!("{} 100 %", self.what));
        }
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn style(unit: &str) -> ProgressStyle {
    let template =
        format!("{{msg}}  {{bar:30}} {{percent}} %  {{pos}}/{{len}} {unit}  {{eta}} left");
    ProgressStyle::with_template(&template).expect("a fixed template")
}
