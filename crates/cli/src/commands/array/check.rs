//! `zoneweave array check`: the offline checker, which shares no code with the engine.

use std::path::PathBuf;
use std::rc::Rc;

use clap::Args;
use serde::Serialize;
use zoneweave_check::{Finding, Options, Report, check};
use zoneweave_raid::log::format::ArrayUuid;
use zoneweave_raid::log::{AssemblyError, OpenError};
use zoneweave_zoned::ZonedDevice;

use crate::control::{self, socket_of};
use crate::error::CliError;
use crate::exit::Exit;
use crate::findings::{collected, exit_of, list};
use crate::output::{Output, Tone};
use crate::ranges::{Line, ranges};
use crate::session::Session;
use crate::start::{Contact, Located, find, refuse_two};
use crate::status::{ArrayStatus, Health, inactive_status};
use crate::zoned;

#[derive(Args)]
pub(crate) struct Check {
    /// Drives of the array
    #[arg(value_name = "DRIVE", required = true)]
    drives: Vec<PathBuf>,
    /// Maximum number of findings to list, a range of blocks counting as one
    #[arg(long, value_name = "N", default_value_t = 100)]
    findings: usize,
}

#[derive(Serialize)]
struct Checked<'a> {
    drives: Vec<String>,
    #[serde(flatten)]
    report: &'a Report,
}

pub(crate) fn run(request: &Check, output: &Output) -> Result<Exit, CliError> {
    let session = Session::new()?;
    let zoned = zoned::find(&session, &request.drives)?;
    let array = match &zoned {
        Some(found) => {
            refuse_served(found.contact(), &found.membership.config.name)?;
            found.refuse_few_named()?;
            Some(found.membership.config.array)
        }
        None => {
            let (located, contact) = find(&session, &request.drives)?;
            refuse_two(&located.survey)?;
            let record = located.survey.membership.as_ref();
            let name = record.map(|record| record.config.name.clone()).unwrap_or_default();
            refuse_served(contact, &name)?;
            refuse_few_named(&located)?;
            record.map(|record| record.config.array)
        }
    };
    // Locked, so that no server starts meanwhile. Opening writes nothing.
    let (drives, unlocked) = session.open_some_to_read(&request.drives)?;
    refuse_locked(&unlocked, array)?;
    for unopened in &drives.unopened {
        output.warning(&unopened.error);
    }
    let labels: Vec<_> = drives.opened.iter().map(|named| named.label.clone()).collect();
    let devices =
        drives.opened.iter().map(|named| Some(named.drive.clone() as Rc<dyn ZonedDevice>));
    // More than are listed, since consecutive findings merge into one line.
    let findings_max = collected(request.findings);
    let options = Options { findings_max, ..Options::default() };
    let mut report = session.executor.run(check(devices.collect(), options)).report;
    // A server of another user may have begun to write.
    refuse_locked(&unlocked, array)?;
    let lines = ranges(report.findings.iter().map(|finding| line(finding, &labels)));
    report.findings_omitted += report.findings.len().saturating_sub(request.findings) as u64;
    report.findings.truncate(request.findings);
    output.result("array-check", &Checked { drives: labels.clone(), report: &report }, |output| {
        tell(&report, &lines, request.findings, zoned.is_some(), output);
    });
    if report.array.is_none() {
        return Ok(Exit::NotFound);
    }
    Ok(exit_of(&report.tally, report.clean))
}

/// Refuses an array that a server writes to.
fn refuse_served(contact: Contact, name: &str) -> Result<(), CliError> {
    match contact {
        // Copies and former members are not being written.
        Contact::Nobody | Contact::Copies(_) | Contact::Former(..) => Ok(()),
        Contact::Silent(error) => Err(error),
        Contact::Server(client) => {
            let (name, socket) = (name.to_owned(), client.socket().to_owned());
            Err(CliError::Served { name, socket })
        }
    }
}

/// Refuses drives that another process has, and that could not be locked as this user may only read
/// them.
fn refuse_locked(unlocked: &[PathBuf], array: Option<ArrayUuid>) -> Result<(), CliError> {
    array.map_or(Ok(()), |array| control::refuse_locked(unlocked, &socket_of(array)))
}

/// Refuses to report data as lost only because its drives were not named. If every slot's drive
/// is named, or a placeholder for a lost one, the check goes ahead.
fn refuse_few_named(located: &Located) -> Result<(), CliError> {
    let unreadable = matches!(
        located.survey.refusal,
        Some(OpenError::Array(AssemblyError::TooFewMembers { .. }))
    );
    let status = inactive_status(&located.drives, &located.survey);
    match status.filter(|status| unreadable && status.health == Health::Unknown) {
        Some(ArrayStatus { name, why, .. }) => {
            Err(CliError::FewNamed { name, why: why.unwrap_or_default() })
        }
        None => Ok(()),
    }
}

fn tell(report: &Report, lines: &[Line], most: usize, is_zoned: bool, output: &Output) {
    if let Some(array) = &report.array {
        output.line(format_args!(
            "{}  {}+{}  {}",
            array.name, array.data_chunks, array.parity_chunks, array.uuid
        ));
    }
    let (counts, tally) = (&report.counts, &report.tally);
    list(lines, most, tally, output);
    if is_zoned {
        output.line(format_args!(
            "{} stripes, {} blocks verified, {} reconstructed; {} blocks can be read, {} are lost",
            counts.stripes,
            counts.verified_blocks,
            counts.reconstructed_blocks,
            counts.mapped_blocks,
            counts.lost_blocks
        ));
        return tell_verdict(report, output);
    }
    output.line(format_args!(
        "{} segments, {} stripes, {} chunk blocks verified, {} reconstructed; {} blocks of the \
         volume are mapped, {} are known to be lost",
        counts.segments,
        counts.stripes,
        counts.verified_blocks,
        counts.reconstructed_blocks,
        counts.mapped_blocks,
        counts.lost_blocks
    ));
    if counts.doubtful_stripes > 0 {
        output.line(format_args!(
            "{} stripes at the ends of segments are damaged beyond redundancy: torn by a crash \
             before they were acknowledged, or lost",
            counts.doubtful_stripes
        ));
    }
    tell_verdict(report, output);
}

fn tell_verdict(report: &Report, output: &Output) {
    let (counts, tally) = (&report.counts, &report.tally);
    let verdict = if report.clean {
        output.paint(Tone::Good, "clean")
    } else {
        let covered = if tally.losses + counts.doubtful_stripes == 0 {
            " (covered by redundancy)"
        } else {
            ""
        };
        let words = format!(
            "{} damaged{covered}, {} losses, {} violations",
            tally.damage, tally.losses, tally.violations
        );
        output.paint(Tone::Bad, &words)
    };
    let degraded = if report.degraded { ", and the array is degraded" } else { "" };
    output.line(format_args!("{verdict}{degraded}"));
}

fn line(finding: &Finding, labels: &[String]) -> Line {
    let place = &finding.location;
    let drive = place.drive.and_then(|drive| labels.get(drive)).cloned();
    let parts = [
        place.zone.map(|zone| format!("zone {zone}")),
        place.offset.map(|offset| format!("block {offset}")),
        place.segment.map(|segment| format!("segment {segment}")),
    ];
    let place: Vec<_> = drive.iter().cloned().chain(parts.into_iter().flatten()).collect();
    let severity = format!("{:?}", finding.severity).to_lowercase();
    let place = if place.is_empty() { "array".to_owned() } else { place.join(", ") };
    // Digits in the name of a drive do not form ranges.
    let fixed = severity.len().max(9) + 1 + drive.map_or(0, |drive| drive.len());
    Line::new(&format!("{severity:<9} {place}: {}", finding.text), fixed)
}
