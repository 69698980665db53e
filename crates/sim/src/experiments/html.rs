//! One page about some experiments: findings, every number next to the paper's, and the charts.
//!
//! It is self-contained: no scripts, inline charts.

use std::fmt::Write;

use super::report::{Comparison, File, Finding, Report};

const STYLE: &str = "\
body{font:15px/1.5 sans-serif;max-width:72em;margin:2em auto;padding:0 1em;color:#222}\
table{border-collapse:collapse;margin:1em 0}\
td,th{border-bottom:1px solid #ddd;padding:2px 10px;text-align:left;vertical-align:top}\
td.n{text-align:right;font-variant-numeric:tabular-nums}\
.no{color:#b00020;font-weight:bold}\
summary{cursor:pointer}\
svg{max-width:100%;height:auto}";

/// The page; each report has the name of its experiment.
#[must_use]
pub fn page(title: &str, reports: &[(&str, &Report)]) -> String {
    let mut text = String::new();
    let title = escape(title);
    let _ = writeln!(
        text,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
         <style>{STYLE}</style>\n<h1>{title}</h1>\n<ul>"
    );
    for (name, report) in reports {
        let failed = report.findings.iter().filter(|finding| !finding.holds).count();
        let _ = writeln!(
            text,
            "<li><a href=\"#{name}\">{}</a>: {} of {} findings hold</li>",
            escape(&report.title),
            report.findings.len() - failed,
            report.findings.len()
        );
    }
    text += "</ul>\n";
    for (name, report) in reports {
        section(&mut text, name, report);
    }
    text + "</html>\n"
}

fn section(text: &mut String, name: &str, report: &Report) {
    let _ = writeln!(text, "<h2 id=\"{name}\">{}</h2>", escape(&report.title));
    for paragraph in report.method.split("\n\n") {
        let _ = writeln!(text, "<p>{}</p>", escape(paragraph.trim()));
    }
    findings(text, &report.findings);
    let charts = report.files.iter().filter(|file| file.name.ends_with(".svg"));
    charts.for_each(|File { text: svg, .. }| *text += svg);
    if !report.comparisons.is_empty() {
        comparisons(text, &report.comparisons);
    }
}

fn findings(text: &mut String, findings: &[Finding]) {
    *text += "<table>\n<tr><th>finding<th>paper<th>here<th>the shape holds if<th>holds</tr>\n";
    for Finding { what, paper, ours, rule, holds } in findings {
        let holds = if *holds { "yes" } else { "<span class=\"no\">no</span>" };
        let cells = [what, paper, ours, rule].map(|cell| escape(cell)).join("<td>");
        let _ = writeln!(text, "<tr><td>{cells}<td>{holds}</tr>");
    }
    *text += "</table>\n";
}

fn comparisons(text: &mut String, comparisons: &[Comparison]) {
    let compared = comparisons.iter().filter(|one| one.paper.is_some()).count();
    let _ = writeln!(
        text,
        "<details{}>\n<summary>Every number ({compared} of {} are in the paper's text)</summary>\n\
         <table>\n<tr><th>point<th>metric<th>unit<th>paper<th>here<th>± 95 %<th>ratio</tr>",
        if compared > 0 { " open" } else { "" },
        comparisons.len()
    );
    for one in comparisons {
        let paper = one.paper.map_or(String::new(), |paper| paper.to_string());
        let ratio = one.ratio().map_or(String::new(), |ratio| format!("{ratio:.3}"));
        let _ = writeln!(
            text,
            "<tr><td>{}<td>{}<td>{}<td class=\"n\">{paper}<td class=\"n\">{:.1}<td class=\"n\">{:.1}\
             <td class=\"n\">{ratio}</tr>",
            escape(&one.point),
            one.metric,
            one.unit,
            one.here.mean,
            one.here.half_width,
        );
    }
    *text += "</table>\n</details>\n";
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::summary::Summary;

    #[test]
    fn a_page_shows_numbers_beside_those_of_the_paper() {
        let comparison = Comparison {
            point: "4 KiB <written>".to_owned(),
            metric: "throughput",
            unit: "MiB/s",
            paper: Some(100.0),
            here: Summary { mean: 90.0, half_width: 1.5 },
        };
        let mut report = Report { title: "One".to_owned(), ..Report::default() };
        report.comparisons.push(comparison);
        report.files.push(File { name: "chart.svg".to_owned(), text: "<svg></svg>\n".to_owned() });
        let page = page("All", &[("group/one", &report)]);
        assert!(page.contains("<td>4 KiB &lt;written&gt;<td>throughput<td>MiB/s"));
        assert!(page.contains("<td class=\"n\">0.900</tr>"));
        assert!(page.contains("<svg></svg>") && !page.contains("<script"));
    }
}
