//! One self-contained page: no script, style sheet, font or picture from elsewhere.

use std::fmt::Write;

use super::Report;
use super::plot::{Plot, svg};
use crate::characterize::{Observation, Verdict, emulators};

const STYLE: &str = "\
body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:72em;padding:0 1em;color:#222}\
h1{font-size:1.5em}h2{font-size:1.2em;margin-top:2em;border-bottom:1px solid #ccc}\
table{border-collapse:collapse;width:100%;margin:.6em 0}\
th,td{text-align:left;vertical-align:top;padding:.25em .6em;border-bottom:1px solid #e2e2e2}\
th{font-weight:600;background:#f6f6f6}small{color:#666}\
.holds{color:#00704f}.does-not-hold{color:#b03000}.artefact{color:#8a5a00}\
.cannot-be-measured-here{color:#666}.v{font-weight:600;white-space:nowrap}\
.plots{display:flex;flex-wrap:wrap;gap:1em}.plots svg{max-width:100%;height:auto}\
tr.head td{background:#fafafa;border-top:2px solid #bbb}";

/// The page.
pub(super) fn page(report: &Report, plots: &[Plot]) -> String {
    let mut page = Page(String::new());
    let title = escape(&report.subject);
    page.add(format_args!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>Characterisation of {title}\
         </title><style>{STYLE}</style></head><body>\n<h1>Characterisation of {title}</h1>"
    ));
    conditions(&mut page, report);
    recommendations(&mut page, report);
    observations(&mut page, &report.observations);
    page.add(format_args!("<h2>Figures</h2>\n<div class=\"plots\">"));
    for plot in plots {
        page.add(format_args!("{}", svg(plot).trim_end()));
    }
    page.add(format_args!("</div>"));
    fidelity(&mut page, report);
    page.add(format_args!("</body></html>"));
    page.0
}

struct Page(String);

impl Page {
    fn add(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("text in memory takes every line");
    }

    fn row(&mut self, cells: &[&str]) {
        self.0.push_str("<tr>");
        for cell in cells {
            self.add(format_args!("<td>{}</td>", escape(cell)));
        }
        self.0.push_str("</tr>\n");
    }
}

fn conditions(page: &mut Page, report: &Report) {
    page.add(format_args!("<table>"));
    for (name, value) in &report.conditions {
        page.row(&[name, value]);
    }
    page.add(format_args!("</table>"));
}

fn recommendations(page: &mut Page, report: &Report) {
    page.add(format_args!("<h2>What follows for this drive</h2>\n<table>"));
    for item in &report.recommendations {
        page.row(&[item.question, &item.advice, &item.reason]);
    }
    page.add(format_args!("</table>"));
}

fn observations(page: &mut Page, observations: &[Observation]) {
    page.add(format_args!(
        "<h2>The thirteen observations</h2>\n<p>Doekemeijer et al., “Performance Characterization of \
         NVMe Flash Devices with Zoned Namespaces”, CLUSTER 2023, and its published data set (WD \
         Ultrastar DC ZN540, 1 TB). Each claim is decided by its rule from the numbers of this run \
         alone; small ones are shown and decide nothing. An <em>artefact</em> is a claim that does \
         not hold here, whose figure in the paper was traced to how it was measured, and in place \
         of which this drive does as the data set has it, by a rule of its own.</p>\n<table>\
         <tr><th>claim and rule</th><th>paper</th><th>data set</th><th>this drive</th><th>verdict\
         </th></tr>"
    ));
    for observation in observations {
        page.add(format_args!(
            "<tr class=\"head\"><td colspan=\"4\"><b>{}. {}</b></td><td>{}</td></tr>",
            observation.number,
            escape(observation.title),
            verdict(observation.verdict)
        ));
        for claim in &observation.claims {
            let (open, close) = if claim.decides { ("", "") } else { ("<small>", "</small>") };
            let cause = match (claim.verdict, claim.artefact) {
                (Verdict::Artefact, Some(artefact)) => format!(
                    "<br><small>{} (met: {})</small>",
                    escape(artefact.cause),
                    escape(artefact.rule)
                ),
                _ => String::new(),
            };
            page.add(format_args!(
                "<tr><td>{open}{}{close}<br><small>{}</small></td><td>{}</td><td>{}</td><td>{}</td>\
                 <td>{}{cause}</td></tr>",
                escape(claim.statement),
                escape(claim.rule),
                escape(claim.paper),
                escape(claim.data_set),
                escape(&claim.drive),
                verdict(claim.verdict)
            ));
        }
    }
    page.add(format_args!("</table>"));
}

fn fidelity(page: &mut Page, report: &Report) {
    let emulators = emulators();
    page.add(format_args!(
        "<h2>Which emulator shows which observation</h2>\n<table><tr><th>observation</th>"
    ));
    for emulator in &emulators {
        page.add(format_args!("<th>{}</th>", escape(emulator.name)));
    }
    page.add(format_args!("<th>this run</th></tr>"));
    for row in &report.fidelity {
        let title = format!("{}. {}", row.number, row.title);
        let mut cells = vec![title.as_str()];
        cells.extend(row.others.iter().map(|shows| shows.text()));
        cells.push(row.ours);
        page.row(&cells);
    }
    page.add(format_args!("</table>\n<ul>"));
    for emulator in &emulators {
        page.add(format_args!("<li>{}: {}</li>", escape(emulator.name), escape(emulator.because)));
    }
    page.add(format_args!("</ul>"));
}

fn verdict(verdict: Verdict) -> String {
    let text = verdict.text();
    format!("<span class=\"v {}\">{text}</span>", text.replace(' ', "-"))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
