//! The report as text.

use zoneweave_sim::characterize::Verdict;

use super::Document;
use crate::output::{Output, Tone};

pub(super) fn tell(document: &Document<'_>, output: &Output) {
    let report = document.report;
    output.line(output.paint(Tone::Strong, &report.subject));
    for (name, value) in &report.conditions {
        output.line(format_args!("  {name}: {value}"));
    }
    output.line("");
    for observation in &report.observations {
        let verdict = paint(output, observation.verdict);
        output.line(format_args!("{:>2}  {}: {verdict}", observation.number, observation.title));
        for claim in observation.claims.iter().filter(|claim| claim.decides) {
            if !claim.drive.is_empty() {
                output.line(format_args!("      {}: {}", claim.statement, claim.drive));
            }
        }
    }
    output.line("");
    for item in &report.recommendations {
        output.line(format_args!("{} {}", output.paint(Tone::Strong, item.question), item.advice));
        output.line(output.paint(Tone::Faint, &format!("      {}", item.reason)));
    }
    if let Some(page) = document.files.first() {
        output.line(format_args!(
            "\n{} and {} more files",
            page.display(),
            document.files.len() - 1
        ));
    }
}

fn paint(output: &Output, verdict: Verdict) -> String {
    let tone = match verdict {
        Verdict::Holds => Tone::Good,
        Verdict::Artefact => Tone::Warning,
        Verdict::DoesNotHold => Tone::Bad,
        Verdict::CannotBeMeasured => Tone::Faint,
    };
    output.paint(tone, verdict.text())
}
