//! Presets: geometry, timing and wear of a drive, in one commented file each.
//!
//! A preset is a TOML text. It may extend another one by name, and then holds only the differences.
//! Impossible values and unknown keys are refused with the key and the reason.

use std::num::NonZeroU32;

use serde::Deserialize;
use thiserror::Error;
use zoneweave_zoned::{BlockCount, Geometry, GeometryError, OobKind};

use crate::timing::parameters::{DirectParameters, StationParameters};
use crate::timing::{Direct, Immediate, Stations, Timing};
use crate::{WearError, WearSettings};

/// The presets that come with the program: name and text.
const EMBEDDED: &[(&str, &str)] = &[
    ("instant", include_str!("../presets/instant.toml")),
    ("zn540-1tb", include_str!("../presets/zn540-1tb.toml")),
    ("zn540-1tb-512", include_str!("../presets/zn540-1tb-512.toml")),
    ("zn540-1tb-volatile", include_str!("../presets/zn540-1tb-volatile.toml")),
    ("zn540-4tb", include_str!("../presets/zn540-4tb.toml")),
    ("zn540-4tb-volatile", include_str!("../presets/zn540-4tb-volatile.toml")),
    ("femu", include_str!("../presets/femu.toml")),
    ("femu-wa-zone", include_str!("../presets/femu-wa-zone.toml")),
];

/// Presets extend each other at most this deep.
const DEPTH_MAX: usize = 8;

/// A preset that cannot be used.
#[derive(Debug, Error)]
pub enum PresetError {
    /// No preset has this name.
    #[error("there is no preset `{name}`: choose one of {}, or give a file", names().join(", "))]
    UnknownName {
        /// The name.
        name: String,
    },
    /// The text is no TOML.
    #[error("the preset is not valid TOML: {0}")]
    Syntax(String),
    /// A key is unknown or missing, or its value is impossible.
    #[error("the preset is refused: {0}")]
    Refused(String),
    /// A value that is possible by itself contradicts another.
    #[error("`{key}` is refused: {reason}")]
    Contradiction {
        /// The key.
        key: &'static str,
        /// Why.
        reason: String,
    },
    /// The geometry contradicts itself.
    #[error("`geometry` is refused: {0}")]
    Geometry(#[from] GeometryError),
    /// The wear settings do not fit the geometry.
    #[error("`wear` is refused: {0}")]
    Wear(#[from] WearError),
}

/// Geometry, timing and wear of a drive.
#[derive(Clone, Debug, PartialEq)]
pub struct Preset {
    summary: String,
    geometry: Geometry,
    wear: Option<WearSettings>,
    model: Model,
}

/// How a preset times commands.
#[derive(Clone, Debug, PartialEq)]
pub enum Model {
    /// They complete as they are submitted.
    Instant,
    /// The calibrated stations.
    Stations(Box<StationParameters>),
    /// Plain queues in front of flash units.
    Direct(DirectParameters),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    summary: String,
    geometry: GeometryFile,
    stations: Option<Box<StationParameters>>,
    direct: Option<DirectParameters>,
    /// Absent: erases are not counted.
    wear: Option<WearSettings>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GeometryFile {
    zones: NonZeroU32,
    zone_size_kib: NonZeroU32,
    zone_capacity_kib: NonZeroU32,
    oob_bytes: u32,
    /// Absent: no limit.
    max_open: Option<NonZeroU32>,
    /// Absent: no limit.
    max_active: Option<NonZeroU32>,
    append_limit_kib: NonZeroU32,
    max_transfer_kib: NonZeroU32,
    volatile_cache: bool,
}

/// The names of the presets that come with the program.
#[must_use]
pub fn names() -> Vec<&'static str> {
    EMBEDDED.iter().map(|(name, _)| *name).collect()
}

impl Preset {
    /// A preset that comes with the program.
    ///
    /// # Errors
    /// If none has this name.
    pub fn by_name(name: &str) -> Result<Self, PresetError> {
        Self::parse(embedded(name)?)
    }

    /// A preset from the text of a file.
    ///
    /// # Errors
    /// If the text is not a preset, or its drive is impossible.
    pub fn parse(text: &str) -> Result<Self, PresetError> {
        let table = resolve(text, DEPTH_MAX)?;
        let file: File = table.try_into().map_err(|error: toml::de::Error| {
            PresetError::Refused(error.to_string().trim().replace('\n', " "))
        })?;
        let geometry = file.geometry.build()?;
        let model = match (file.stations, file.direct) {
            (None, None) => Model::Instant,
            (Some(stations), None) => Model::Stations(stations),
            (None, Some(direct)) => Model::Direct(direct),
            (Some(_), Some(_)) => {
                return Err(contradiction("direct", "a drive has `stations` or is `direct`"));
            }
        };
        if let Some(wear) = &file.wear {
            wear.validate(&geometry)?;
        }
        let preset = Self { summary: file.summary, geometry, wear: file.wear, model };
        preset.check_model()?;
        Ok(preset)
    }

    /// The text of a preset that comes with the program, comments included.
    ///
    /// # Errors
    /// If none has this name.
    pub fn text(name: &str) -> Result<&'static str, PresetError> {
        embedded(name)
    }

    /// A one-line description.
    #[must_use]
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// The geometry.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The structure of its zones, if it counts erases.
    #[must_use]
    pub fn wear(&self) -> Option<&WearSettings> {
        self.wear.as_ref()
    }

    /// How it times commands.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Whether commands complete as they are submitted.
    #[must_use]
    pub fn is_instant(&self) -> bool {
        self.model == Model::Instant
    }

    /// The same drive with fewer or smaller zones, for tests that need not fill it.
    ///
    /// # Errors
    /// If no drive can have that geometry.
    pub fn with_zones(mut self, zones: u32, capacity: BlockCount) -> Result<Self, PresetError> {
        self.geometry.zones = zones;
        self.geometry.zone_capacity = capacity;
        self.geometry.zone_size = BlockCount(capacity.0.next_power_of_two());
        self.geometry.validate()?;
        if let Some(wear) = &self.wear {
            wear.validate(&self.geometry)?;
        }
        Ok(self)
    }

    /// The drive's timing; the seed decides how durations vary.
    #[must_use]
    pub fn timing(&self, seed: u64) -> Box<dyn Timing> {
        self.timing_of(&self.geometry, seed)
    }

    /// The timing of a drive that was made of the preset with another geometry.
    #[must_use]
    pub fn timing_of(&self, geometry: &Geometry, seed: u64) -> Box<dyn Timing> {
        match &self.model {
            Model::Instant => Box::new(Immediate),
            Model::Stations(parameters) => Box::new(Stations::new(parameters, geometry, seed)),
            Model::Direct(parameters) => Box::new(Direct::new(parameters)),
        }
    }

    fn check_model(&self) -> Result<(), PresetError> {
        let (page_kib, key) = match &self.model {
            Model::Instant => return Ok(()),
            Model::Direct(direct) => (direct.page_kib, "direct.page_kib"),
            Model::Stations(stations) => {
                let flash = &stations.flash;
                if flash.sense_us.is_empty() {
                    return Err(contradiction("stations.flash.sense_us", "flash has pages"));
                }
                if flash.parity_dies >= flash.dies.get() {
                    let reason = format!("it must be below the {} dies of a group", flash.dies);
                    return Err(contradiction("stations.flash.parity_dies", &reason));
                }
                (flash.chunk_kib, "stations.flash.chunk_kib")
            }
        };
        match page_kib.get() % 4 {
            0 => Ok(()),
            _ => Err(contradiction(key, "it must be a multiple of the block of 4 KiB")),
        }
    }
}

impl GeometryFile {
    fn build(&self) -> Result<Geometry, PresetError> {
        let oob = match self.oob_bytes {
            0 => OobKind::None,
            64 => OobKind::Separate,
            other => {
                let reason = format!("drives have 0 or 64 bytes beside each block, not {other}");
                return Err(contradiction("geometry.oob_bytes", &reason));
            }
        };
        let capacity = blocks("geometry.zone_capacity_kib", self.zone_capacity_kib)?;
        let mut geometry = Geometry::new(self.zones.get(), capacity);
        geometry.zone_size = blocks("geometry.zone_size_kib", self.zone_size_kib)?;
        geometry.oob = oob;
        geometry.max_open = self.max_open.map(NonZeroU32::get);
        geometry.max_active = self.max_active.map(NonZeroU32::get);
        geometry.append_limit = blocks("geometry.append_limit_kib", self.append_limit_kib)?;
        geometry.max_transfer = blocks("geometry.max_transfer_kib", self.max_transfer_kib)?;
        geometry.volatile_cache = self.volatile_cache;
        geometry.validate()?;
        Ok(geometry)
    }
}

fn blocks(key: &'static str, kib: NonZeroU32) -> Result<BlockCount, PresetError> {
    match kib.get() % 4 {
        0 => Ok(BlockCount(kib.get() / 4)),
        _ => Err(contradiction(key, "it must be a multiple of the block of 4 KiB")),
    }
}

fn contradiction(key: &'static str, reason: &str) -> PresetError {
    PresetError::Contradiction { key, reason: reason.to_owned() }
}

fn embedded(name: &str) -> Result<&'static str, PresetError> {
    let found = EMBEDDED.iter().find(|(known, _)| *known == name);
    found.map(|(_, text)| *text).ok_or_else(|| PresetError::UnknownName { name: name.to_owned() })
}

/// The table of a text, with the presets it extends filled in.
fn resolve(text: &str, depth: usize) -> Result<toml::Table, PresetError> {
    let syntax = |error: toml::de::Error| PresetError::Syntax(error.to_string());
    let mut table: toml::Table = toml::from_str(text).map_err(syntax)?;
    let Some(extends) = table.remove("extends") else { return Ok(table) };
    let Some(name) = extends.as_str() else {
        return Err(contradiction("extends", "it must be the name of a preset"));
    };
    if depth == 0 {
        return Err(contradiction("extends", "presets extend each other without end"));
    }
    let mut base = resolve(embedded(name)?, depth - 1)?;
    merge(&mut base, table);
    Ok(base)
}

fn merge(base: &mut toml::Table, over: toml::Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(toml::Value::Table(base)), toml::Value::Table(over)) => merge(base, over),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests;
