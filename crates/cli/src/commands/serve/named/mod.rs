//! `zoneweave serve named`, and the configuration file that names volumes.
//!
//! The file has a table `[volume.NAME]` for each volume: the options of `zoneweave serve` as keys,
//! and a table for each front end. They become the words of command lines, one for each front end,
//! for the parser that `zoneweave serve` has ([`table`]). So an option is described and checked
//! once, and a new one is known here at once.
//!
//! No array depends on the file: drives carry their membership. A volume is served although
//! another one of the file has problems.

mod front;
mod option;
mod table;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use toml::de::{DeTable, DeValue};

use super::fronts::Places;
use super::options::Served;
use crate::error::CliError;
use crate::format::word;
use option::unknown;
use table::Lines;
pub(crate) use table::VolumeTable;

/// Where the file is, unless `--config` names another.
const DEFAULT: &str = "/etc/zoneweave/zoneweave.toml";

/// The configuration file.
#[derive(Args, Clone, Debug)]
pub(crate) struct ConfigFile {
    /// Configuration file
    #[arg(long = "config", value_name = "FILE", default_value = DEFAULT)]
    path: PathBuf,
}

impl fmt::Display for ConfigFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)
    }
}

/// A volume of the configuration file.
#[derive(Args)]
pub(crate) struct Named {
    /// Name of the volume: the file describes it in the table [volume.NAME]
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    file: ConfigFile,
}

impl Named {
    /// The array and its front ends.
    ///
    /// # Errors
    /// If the file, or its table of the volume, has problems.
    pub(super) fn request(&self) -> Result<(Served, Places), CliError> {
        let config = self.file.read()?;
        let found = config.volumes.iter().find(|volume| volume.name() == self.name);
        let Some(volume) = found else {
            let volumes = config.volumes.iter().map(|volume| volume.name().to_owned()).collect();
            let (path, name) = (self.file.path.clone(), self.name.clone());
            return Err(CliError::NoVolume { path, name, volumes });
        };
        volume.request().map_err(|problems| self.file.error(&problems))
    }
}

/// The contents of a configuration file.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) volumes: Vec<VolumeTable>,
}

/// Something wrong at a line of the file, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    line: usize,
    text: String,
}

/// The only key at the top of the file.
const VOLUME: &str = "volume";

impl ConfigFile {
    /// Reads the file.
    ///
    /// # Errors
    /// If it cannot be read, is not TOML, or has something else than volumes.
    pub(crate) fn read(&self) -> Result<Config, CliError> {
        let text = fs::read_to_string(&self.path).map_err(|error| {
            let path = self.path.clone();
            CliError::File { path, action: "read the configuration", error }
        })?;
        Config::parse(&text).map_err(|problems| self.error(&problems))
    }

    /// The file that units take.
    pub(crate) fn of_units() -> Self {
        Self { path: DEFAULT.into() }
    }

    /// Whether it is the file that units take.
    pub(crate) fn is_default(&self) -> bool {
        self.path == Path::new(DEFAULT)
    }

    /// The command that serves a volume of the file.
    pub(crate) fn command(&self, volume: &str) -> String {
        let command = format!("zoneweave serve named {}", word(volume));
        match self.is_default() {
            true => command,
            false => format!("{command} --config {}", word(self.path.display())),
        }
    }

    /// Problems as an error.
    pub(crate) fn error(&self, problems: &[Problem]) -> CliError {
        let path = self.path.display();
        let line = |Problem { line, text }: &Problem| format!("{path}:{line}: {text}");
        CliError::Config { problems: problems.iter().map(line).collect() }
    }
}

impl Config {
    fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        let lines = Lines::of(text);
        let top = DeTable::parse(text).map_err(|error| {
            let line = lines.at(error.span().unwrap_or_default().start);
            vec![Problem { line, text: error.message().to_owned() }]
        })?;
        let (mut volumes, mut problems) = (Vec::new(), Vec::new());
        for (key, value) in top.get_ref() {
            let line = lines.at(key.span().start);
            let mut add = |text| problems.push(Problem { line, text });
            match (key.get_ref().as_ref(), value.get_ref()) {
                (VOLUME, DeValue::Table(tables)) => {
                    volumes.extend(tables.iter().map(|(name, value)| {
                        let line = lines.at(name.span().start);
                        VolumeTable::read(name.get_ref(), line, value.get_ref(), &lines)
                    }));
                }
                (VOLUME, _) => add("volumes are tables: [volume.NAME]".to_owned()),
                (other, _) => add(unknown(other, &[VOLUME])),
            }
        }
        if problems.is_empty() { Ok(Self { volumes }) } else { Err(problems) }
    }
}

#[cfg(test)]
mod tests;
