//! `zoneweave emu presets`: the drive presets.

use clap::Args;
use serde::Serialize;
use zoneweave_emulator::{Preset, PresetError, preset};

use crate::error::CliError;
use crate::exit::Exit;
use crate::format;
use crate::output::Output;

#[derive(Args)]
pub(crate) struct Presets {
    /// Print the file of this preset, with the source of every figure
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

#[derive(Serialize)]
struct List {
    presets: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    name: &'static str,
    summary: String,
    zones: u32,
    zone_capacity_bytes: u64,
}

#[derive(Serialize)]
struct Text<'a> {
    name: &'a str,
    text: &'static str,
}

pub(crate) fn run(request: &Presets, output: &Output) -> Result<Exit, CliError> {
    if let Some(name) = &request.name {
        let text = Preset::text(name).map_err(|_| CliError::OutOfRange {
            what: format!("preset {name}"),
            range: format!("there are {}", preset::names().join(", ")),
        })?;
        output.result("emu-preset", &Text { name, text }, |output| output.line(text.trim_end()));
        return Ok(Exit::Done);
    }
    let entry = |name: &'static str| -> Result<Entry, CliError> {
        let preset = Preset::by_name(name).map_err(refused)?;
        let geometry = preset.geometry();
        Ok(Entry {
            name,
            summary: preset.summary().to_owned(),
            zones: geometry.zones,
            zone_capacity_bytes: geometry.zone_capacity.data_bytes() as u64,
        })
    };
    let presets = preset::names().into_iter().map(entry).collect::<Result<_, _>>()?;
    let list = List { presets };
    output.result("emu-presets", &list, |output| tell(&list, output));
    Ok(Exit::Done)
}

fn tell(list: &List, output: &Output) {
    let row = |entry: &Entry| {
        let shape = format!("{} x {}", entry.zones, format::bytes(entry.zone_capacity_bytes));
        vec![entry.name.to_owned(), shape, entry.summary.clone()]
    };
    let rows: Vec<_> = list.presets.iter().map(row).collect();
    for line in format::table(&["PRESET", ">ZONES", "DESCRIPTION"], &rows) {
        output.line(line);
    }
}

/// The preset of this name.
pub(super) fn named(name: &str) -> Result<Preset, CliError> {
    let is_file = name.contains('/') || name.ends_with(".toml");
    if is_file {
        let problem = format!(
            "file drives store the name of their preset, so the file {name} cannot be one: choose one \
             of {}; programs can give a file drive any timing, see docs/emulator.md",
            preset::names().join(", ")
        );
        return Err(CliError::Usage { option: "preset", problem });
    }
    Preset::by_name(name).map_err(|_| {
        let known = preset::names().join(", ");
        let problem = format!("there is no preset `{name}`: choose one of {known}");
        CliError::Usage { option: "preset", problem }
    })
}

pub(super) fn refused(error: PresetError) -> CliError {
    CliError::Usage { option: "preset", problem: error.to_string() }
}
