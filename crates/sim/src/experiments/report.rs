//! The result of an experiment: findings with their rules, and files.

use std::fmt::Write;

use super::chart::{self, Chart};
use super::summary::Summary;

/// A file to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its name.
    pub name: String,
    /// Its contents.
    pub text: String,
}

/// A statement of a paper, and whether it was reproduced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The compared quantity.
    pub what: String,
    /// The paper's statement or value.
    pub paper: String,
    /// The measured value.
    pub ours: String,
    /// The rule that decides.
    pub rule: String,
    /// Whether the rule holds.
    pub holds: bool,
}

/// A measured number next to the paper's.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The configuration.
    pub point: String,
    /// The measured quantity.
    pub metric: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The paper's value, if it gives one.
    pub paper: Option<f64>,
    /// The measured value.
    pub here: Summary,
}

impl Comparison {
    /// The measured value over the paper's.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        self.paper.map(|paper| self.here.mean / paper)
    }
}

/// The result of an experiment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Title of the report.
    pub title: String,
    /// The method, in some paragraphs.
    pub method: String,
    /// The findings.
    pub findings: Vec<Finding>,
    /// Every number, next to the paper's.
    pub comparisons: Vec<Comparison>,
    /// Tables and charts.
    pub files: Vec<File>,
}

impl Report {
    /// Adds a table of all comparisons.
    pub(super) fn compare(&mut self) {
        let row = |one: &Comparison| {
            let Comparison { point, metric, unit, paper, here } = one;
            let paper = paper.map_or(String::new(), |paper| paper.to_string());
            let ratio = one.ratio().map_or(String::new(), |ratio| format!("{ratio:.3}"));
            let Summary { mean, half_width } = here;
            format!("{point},{metric},{unit},{paper},{mean:.1},{half_width:.1},{ratio}")
        };
        let rows: Vec<_> = self.comparisons.iter().map(row).collect();
        let header = "point,metric,unit,paper,here,confidence_95,ratio";
        self.table("comparison", header, rows.into_iter());
    }

    pub(super) fn table(&mut self, name: &str, header: &str, rows: impl Iterator<Item = String>) {
        let mut text = format!("{header}\n");
        rows.for_each(|row| {
            text += &row;
            text.push('\n');
        });
        self.files.push(File { name: format!("{name}.csv"), text });
    }

    pub(super) fn chart(&mut self, chart: &Chart) {
        let name = format!("{}.svg", chart.name);
        self.files.push(File { name, text: chart::svg(chart) });
    }

    /// Everything but the files, as Markdown that shows the charts.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut text = format!("# {}\n\n{}\n\n", self.title, self.method.trim());
        text += "| finding | paper | ours | the shape holds if | holds |\n|---|---|---|---|---|\n";
        for Finding { what, paper, ours, rule, holds } in &self.findings {
            let holds = if *holds { "yes" } else { "**no**" };
            let _ = writeln!(text, "| {what} | {paper} | {ours} | {rule} | {holds} |");
        }
        for file in self.files.iter().filter(|file| file.name.ends_with(".svg")) {
            let _ = write!(text, "\n![{0}]({0})\n", file.name);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_shows_findings_and_charts() {
        let mut report = Report { title: "Title".to_owned(), ..Report::default() };
        report.findings.push(Finding {
            what: "what".to_owned(),
            paper: "paper".to_owned(),
            ours: "ours".to_owned(),
            rule: "rule".to_owned(),
            holds: false,
        });
        report.table("table", "a,b", ["1,2".to_owned()].into_iter());
        let line = chart::Line { name: "line".to_owned(), points: vec![(0.0, 1.0), (2.0, 3.0)] };
        let chart = Chart { name: "chart", title: "Chart", x: "x", y: "y", lines: vec![line] };
        report.chart(&chart);
        assert_eq!(report.files[0].text, "a,b\n1,2\n");
        assert!(report.files[1].text.starts_with("<svg"));
        let markdown = report.markdown();
        assert!(markdown.contains("| what | paper | ours | rule | **no** |"));
        assert!(markdown.ends_with("![chart.svg](chart.svg)\n"));
    }
}
