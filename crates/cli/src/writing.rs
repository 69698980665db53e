//! `--write-mode`: the segments that a server keeps open, and the commands that write them.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::Value;
use zoneweave_emulator::Preset;
use zoneweave_raid::log::format::MAX_SEAL_ROWS;
use zoneweave_raid::log::{Auto, Lanes, WriteChoice, WritePolicy, WriteProfile};
use zoneweave_sim::characterize::{Results, Sample, write_profile, write_profile_of};
use zoneweave_zoned::Geometry;

use crate::error::{CliError, usage};
use crate::format::parse_small_blocks;

/// Write options of a server.
#[derive(Args, Clone, Debug, Default)]
#[command(after_long_help = RESEARCH)]
pub(crate) struct Writing {
    /// Write commands, and the number of open segments
    #[arg(long, value_enum, value_name = "MODE", default_value_t)]
    pub write_mode: WriteMode,
    /// Number of open segments for small requests (for all, without --large), and their chunk size
    /// [default: chosen for the drives (auto), or 3x8KiB]
    #[arg(long, value_name = "NxSIZE", value_parser = parse_lanes)]
    pub small: Option<Lanes>,
    /// Number of open segments for requests of at least a chunk of theirs, and that chunk size; 0
    /// for none [default: 0 (auto), or 1x16KiB]
    #[arg(long, value_name = "NxSIZE", value_parser = parse_lanes)]
    pub large: Option<Lanes>,
    /// Stripes per group that may be written in any order (--write-mode zapraid) [default: 256]
    #[arg(long, help_heading = "Research", value_name = "ROWS", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_SEAL_ROWS)))]
    pub group_rows: Option<u32>,
    /// Profile of the drives for auto: `samples.jsonl` of `zoneweave characterize --out`. Not
    /// needed for emulated drives with a preset
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
}

/// The research modes, which the help of `--write-mode` leaves out.
const RESEARCH: &str = "\
Research values of --write-mode, to compare write policies:
  zone-write   Zone Write, one chunk of a zone in flight
  zone-append  Zone Append, many chunks of a zone in flight
  zapraid      Zone Append in groups of stripes for one segment with small chunks, Zone Write
               for the others
  adaptive     Zone Write of all data that is queued for a zone";

/// Write commands, and the number of open segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum WriteMode {
    /// Chosen for the drives: as many open segments as their active-zone limit allows; Zone Write
    /// of all data queued for a zone, or Zone Append if a profile shows that it is faster
    #[default]
    Auto,
    /// One open segment, in the layout set by `array create`
    Array,
    /// Zone Write, one chunk of a zone in flight
    #[value(hide = true)]
    ZoneWrite,
    /// Zone Append, many chunks of a zone in flight
    #[value(hide = true)]
    ZoneAppend,
    /// Zone Append in groups of stripes for one segment with small chunks, Zone Write for the
    /// others
    #[value(hide = true)]
    Zapraid,
    /// Zone Write of all data that is queued for a zone
    #[value(hide = true)]
    Adaptive,
}

/// Defaults of the research modes.
const SMALL: Lanes = Lanes { count: 3, chunk_blocks: 2 };
const LARGE: Lanes = Lanes { count: 1, chunk_blocks: 4 };
const GROUP_ROWS: u32 = 256;

impl Writing {
    /// Converts the options for the engine.
    pub(crate) fn choice(&self) -> Result<WriteChoice, CliError> {
        self.refuse_unused()?;
        let (small, large) = (self.small.unwrap_or(SMALL), self.large.unwrap_or(LARGE));
        let rows = self.group_rows.unwrap_or(GROUP_ROWS);
        let policy = match self.write_mode {
            WriteMode::Auto => {
                let profile = self.profile.as_deref().map(read_profile).transpose()?;
                let (small, large) = (self.small, self.large);
                let spares = Vec::new();
                return Ok(WriteChoice::Auto(Auto { small, large, profile, spares }));
            }
            WriteMode::Array => return Ok(WriteChoice::AsMade),
            WriteMode::ZoneWrite => WritePolicy::zone_write(small, large),
            WriteMode::ZoneAppend => WritePolicy::zone_append(small, large),
            WriteMode::Zapraid => WritePolicy::zapraid(small, large, rows),
            WriteMode::Adaptive => WritePolicy::adaptive(small, large),
        };
        Ok(WriteChoice::Policy(policy))
    }

    /// Rejects options that the mode would ignore.
    fn refuse_unused(&self) -> Result<(), CliError> {
        let mode = self.write_mode;
        let segments = mode != WriteMode::Array;
        let options = [
            ("small", self.small.is_some(), segments),
            ("large", self.large.is_some(), segments),
            ("group-rows", self.group_rows.is_some(), mode == WriteMode::Zapraid),
            ("profile", self.profile.is_some(), mode == WriteMode::Auto),
        ];
        for (option, is_given, is_used) in options {
            if is_given && !is_used {
                let mode = mode.to_possible_value();
                let mode = mode.as_ref().map_or("", |value| value.get_name());
                return Err(usage(option)(format!(
                    "has no effect with --write-mode {mode}: leave it out"
                )));
            }
        }
        Ok(())
    }
}

/// Adds the profile of the presets of the drives, if no profile was given.
pub(crate) fn with_presets(
    choice: WriteChoice,
    presets: impl FnOnce() -> Vec<Option<String>>,
) -> WriteChoice {
    let WriteChoice::Auto(auto) = choice else { return choice };
    let profile = auto.profile.clone().or_else(|| profile_of_presets(&presets()));
    WriteChoice::Auto(Auto { profile, ..auto })
}

/// Adds the geometry of spares: the layout must fit them too, as they may become members.
pub(crate) fn with_spares<'a>(
    choice: WriteChoice,
    spares: impl Iterator<Item = &'a Geometry>,
) -> WriteChoice {
    let WriteChoice::Auto(auto) = choice else { return choice };
    WriteChoice::Auto(Auto { spares: spares.cloned().collect(), ..auto })
}

/// The profile of drives that all have the same preset.
fn profile_of_presets(presets: &[Option<String>]) -> Option<WriteProfile> {
    let (first, others) = presets.split_first()?;
    let name = first.as_deref().filter(|_| others.iter().all(|other| other == first))?;
    write_profile_of(&Preset::by_name(name).ok()?).ok()?
}

fn read_profile(path: &Path) -> Result<WriteProfile, CliError> {
    let read = |error| CliError::File { path: path.to_owned(), action: "read the profile", error };
    let text = fs::read_to_string(path).map_err(read)?;
    let samples = parse_samples(&text)
        .map_err(|error| usage("profile")(format!("{}: {error}", path.display())))?;
    let profile = write_profile(&Results { samples, ..Results::default() });
    if profile.writes.is_empty() {
        let problem = format!(
            "{} has no measurements of writes to a zone: write one with `zoneweave characterize DRIVE --out DIR`",
            path.display()
        );
        return Err(usage("profile")(problem));
    }
    Ok(profile)
}

/// Parses the samples of a characterisation. The series after them have no table.
fn parse_samples(text: &str) -> Result<Vec<Sample>, serde_json::Error> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let lines = lines.map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
    let samples = lines.into_iter().filter(|line| line.get("table").is_some());
    samples.map(serde_json::from_value).collect()
}

/// Parses a number of segments and their chunk size: `3x8KiB`, or `0` for none.
fn parse_lanes(text: &str) -> Result<Lanes, String> {
    if text == "0" {
        return Ok(Lanes::default());
    }
    let parts =
        text.split_once(['x', 'X']).and_then(|(count, size)| Some((count.parse().ok()?, size)));
    let (count, size) =
        parts.ok_or_else(|| format!("{text:?} is not COUNTxSIZE, such as 3x8KiB, or 0"))?;
    Ok(Lanes { count, chunk_blocks: parse_small_blocks(size)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drives_of_one_preset_are_known_and_others_are_not() {
        let named = |name: &str| Some(name.to_owned());
        let pays = |presets: &[Option<String>]| Some(profile_of_presets(presets)?.appends_pay());
        assert_eq!(pays(&[named("femu"), named("femu")]), Some(true));
        assert_eq!(pays(&[named("zn540-1tb"), named("zn540-1tb")]), Some(false));
        for unknown in [vec![named("femu"), None], vec![None], vec![named("no such")], vec![]] {
            assert_eq!(pays(&unknown), None, "{unknown:?}");
        }
        assert_eq!(pays(&[named("femu"), named("zn540-1tb")]), None);
    }

    #[test]
    fn lanes_are_a_number_and_a_size() {
        assert_eq!(parse_lanes("3x8K"), Ok(Lanes { count: 3, chunk_blocks: 2 }));
        assert_eq!(parse_lanes("0"), Ok(Lanes::default()));
        assert!(
            parse_lanes("3").is_err() && parse_lanes("x8K").is_err() && parse_lanes("1x7").is_err()
        );
    }
}
