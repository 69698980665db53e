//! `zoneweave doctor`: the features of this machine, and how to add the missing ones.
//!
//! It changes nothing, writes to no drive and starts no program: it sets up a ring and reads files
//! of the kernel. The engine needs io_uring. Everything else is a way to reach a volume from this
//! machine; one is enough, since NBD clients may run anywhere.

mod clients;
mod drives;
mod machine;

use clap::Args;
use serde::Serialize;

use crate::error::CliError;
use crate::exit::Exit;
use crate::format;
use crate::output::{Output, Tone};
use drives::ZonedDrive;
use machine::Machine;

#[derive(Args)]
pub(crate) struct Doctor {}

/// Whether a feature is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ready,
    Missing,
}

/// A feature of the machine.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Ability {
    name: &'static str,
    /// Its use.
    purpose: &'static str,
    state: State,
    /// Steps to add it, each with its reason.
    fixes: Vec<String>,
}

impl Ability {
    /// A feature, ready if there is nothing to fix.
    fn new(name: &'static str, purpose: &'static str, fixes: Vec<String>) -> Self {
        let state = if fixes.is_empty() { State::Ready } else { State::Missing };
        Self { name, purpose, state, fixes }
    }
}

#[derive(Serialize)]
struct Report {
    kernel: String,
    /// Whether arrays can be served: everything else is optional.
    can_serve: bool,
    abilities: Vec<Ability>,
    zoned_drives: Vec<ZonedDrive>,
}

pub(crate) fn run(_request: &Doctor, output: &Output) -> Result<Exit, CliError> {
    let machine = Machine::this();
    let ring = zoneweave_linux::Ring::new().map(drop).map_err(|error| error.to_string());
    let report = examine(&machine, ring);
    output.result("doctor", &report, |output| tell(&report, output));
    Ok(if report.can_serve { Exit::Done } else { Exit::Failed })
}

fn examine(machine: &Machine, ring: Result<(), String>) -> Report {
    let ring = Ability::new(
        "io_uring",
        "serving arrays, and everything else",
        ring.err().into_iter().collect(),
    );
    let can_serve = ring.state == State::Ready;
    let mut abilities = vec![ring];
    abilities.extend(clients::abilities(machine));
    Report {
        kernel: machine.kernel().unwrap_or_else(|| "unknown".to_owned()),
        can_serve,
        abilities,
        zoned_drives: drives::zoned_drives(machine),
    }
}

fn tell(report: &Report, output: &Output) {
    output.line(format_args!("Linux {}", report.kernel));
    output.line("");
    let rows = report.abilities.iter().map(|ability| {
        let state = if ability.state == State::Ready { "ready" } else { "missing" };
        vec![ability.name.to_owned(), state.to_owned(), ability.purpose.to_owned()]
    });
    for (number, text) in
        format::table(&["FEATURE", "STATE", "USE"], &rows.collect::<Vec<_>>()).iter().enumerate()
    {
        let ability = number.checked_sub(1).map(|at| &report.abilities[at]);
        let tone = match ability.map(|ability| ability.state) {
            None => Tone::Faint,
            Some(State::Ready) => Tone::Good,
            Some(State::Missing) => Tone::Warning,
        };
        output.line(output.paint(tone, text));
        for fix in ability.iter().flat_map(|ability| &ability.fixes) {
            output.line(format_args!("    {fix}"));
        }
    }
    output.line("");
    for drive in &report.zoned_drives {
        output.line(format_args!("{drive}"));
    }
    output.line(match report.zoned_drives.is_empty() {
        true => "no zoned drive found; `zoneweave emu create` creates emulated ones",
        false => "`zoneweave zones DRIVE` shows the zones of a drive, `zoneweave array create NAME DRIVE...` creates an array",
    });
    output.line(match report.can_serve {
        true => "arrays can be served here: `zoneweave quickstart DIR` creates one and serves it",
        false => "arrays cannot be served here without io_uring",
    });
}

#[cfg(test)]
mod tests;
