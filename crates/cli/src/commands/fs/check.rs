//! `zoneweave fs check`: the offline checker, which shares no code with the store.

use std::path::Path;

use clap::Args;
use serde::Serialize;
use zoneweave_check::{StoreFinding, StoreReport, check_store};

use super::{DRIVES_HELP, OfStore};
use crate::error::CliError;
use crate::exit::Exit;
use crate::findings::{collected, exit_of, list};
use crate::format::bytes;
use crate::output::{Output, Tone};
use crate::ranges::{Line, ranges};
use crate::session::Session;

/// The store to check.
#[derive(Args)]
#[command(mut_arg("store", |store| store.help(DRIVES_HELP)))]
pub(crate) struct Check {
    #[command(flatten)]
    store: OfStore,
    /// Maximum number of findings to list, a range of blocks counting as one
    #[arg(long, value_name = "N", default_value_t = 100)]
    findings: usize,
}

#[derive(Serialize)]
struct Checked<'a> {
    store: &'a Path,
    #[serde(flatten)]
    report: &'a StoreReport,
}

pub(super) fn run(request: &Check, output: &Output) -> Result<Exit, CliError> {
    let session = Session::new()?;
    let place = request.store.place(&session, output)?;
    let most = collected(request.findings);
    let mut report = session.executor.run(async {
        let report = check_store(place.device(), most).await;
        place.close().await;
        report
    });
    let lines = ranges(report.findings.iter().map(line));
    report.findings_omitted += report.findings.len().saturating_sub(request.findings) as u64;
    report.findings.truncate(request.findings);
    let checked = Checked { store: &request.store.store, report: &report };
    output.result("fs-check", &checked, |output| tell(&report, &lines, request.findings, output));
    if report.uuid.is_none() {
        return Ok(Exit::NotFound);
    }
    Ok(exit_of(&report.tally, report.clean))
}

fn tell(report: &StoreReport, lines: &[Line], most: usize, output: &Output) {
    let (counts, tally) = (&report.counts, &report.tally);
    if let Some(uuid) = &report.uuid {
        output.line(format_args!("{} {uuid}", report.label).to_string().trim());
    }
    list(lines, most, tally, output);
    output.line(format_args!(
        "{} files, {} directories, {} in {} extents; {} blocks verified, {} not on record",
        counts.files,
        counts.directories,
        bytes(counts.bytes),
        counts.extents,
        counts.verified_blocks,
        counts.unrecorded_blocks
    ));
    output.line(if report.clean {
        output.paint(Tone::Good, "clean")
    } else {
        let words = format!(
            "{} damaged, {} losses, {} violations",
            tally.damage, tally.losses, tally.violations
        );
        output.paint(Tone::Bad, &words)
    });
}

fn line(finding: &StoreFinding) -> Line {
    let parts = [
        finding.zone.map(|zone| format!("zone {zone}")),
        finding.offset.map(|offset| format!("block {offset}")),
    ];
    let place: Vec<_> = parts.into_iter().flatten().collect();
    let place = if place.is_empty() { "store".to_owned() } else { place.join(", ") };
    let severity = format!("{:?}", finding.severity).to_lowercase();
    Line::new(&format!("{severity:<9} {place}: {}", finding.text), severity.len().max(9))
}
