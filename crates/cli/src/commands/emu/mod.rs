//! `zoneweave emu`: emulated drives in files.

mod presets;
mod serve;

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde::Serialize;
use zoneweave_emulator::media_format::PresetName;
use zoneweave_linux::{FileDrive, FileDriveError};
use zoneweave_zoned::{BlockCount, Geometry, OobKind};

use crate::error::CliError;
use crate::exit::Exit;
use crate::format;
use crate::output::Output;
use crate::session::random_uuid;

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Create emulated drives DIR/drive0, DIR/drive1, ... as sparse files
    Create(Create),
    /// List drive presets, or print one
    Presets(presets::Presets),
    /// Serve a drive as the zoned kernel disk /dev/ublkbN (needs root, Linux 6.6+ and ublk_drv)
    Serve(serve::Serve),
}

/// The drives to create.
#[derive(Args, Clone, Debug)]
pub(crate) struct Create {
    /// Directory of the drives (created if missing)
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Number of drives
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub drives: u32,
    /// Zones per drive [default: the preset's, or 64]
    #[arg(long, value_name = "Z")]
    pub zones: Option<u32>,
    /// Capacity of a zone, e.g. 16MiB [default: the preset's, or 16MiB]
    #[arg(long, value_name = "SIZE", value_parser = format::parse_small_blocks)]
    pub zone_capacity: Option<u32>,
    /// Preset of delays and wear, from `zoneweave emu presets` [default: none, as fast as the file
    /// system]
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    /// Create drives without per-block metadata; arrays store it in data blocks instead
    #[arg(long)]
    pub without_metadata: bool,
}

/// Defaults without a preset.
const ZONES: u32 = 64;
const ZONE_CAPACITY: BlockCount = BlockCount(4096);

#[derive(Serialize)]
struct Created {
    drives: Vec<CreatedDrive>,
    preset: Option<String>,
    zones: u32,
    zone_capacity_bytes: u64,
    capacity_bytes: u64,
}

#[derive(Serialize)]
struct CreatedDrive {
    path: PathBuf,
    uuid: String,
}

pub(crate) fn run(verb: Verb, output: &Output) -> Result<Exit, CliError> {
    let create = match verb {
        Verb::Create(create) => create,
        Verb::Presets(presets) => return presets::run(&presets, output),
        Verb::Serve(request) => return serve::run(&request, output),
    };
    let Kind { geometry, preset } = kind(&create)?;
    let mut made = create_drives(&create)?;
    let drives = std::mem::take(&mut made.drives);
    made.keep();
    let zone_capacity_bytes = geometry.zone_capacity.data_bytes() as u64;
    let created = Created {
        drives,
        preset: preset.map(|name| name.as_str().to_owned()),
        zones: geometry.zones,
        zone_capacity_bytes,
        capacity_bytes: zone_capacity_bytes * u64::from(geometry.zones),
    };
    output.result("emu-create", &created, |output| {
        for drive in &created.drives {
            output.line(format_args!(
                "{}  {} zones of {}, {} in all{}",
                drive.path.display(),
                created.zones,
                format::bytes(created.zone_capacity_bytes),
                format::bytes(created.capacity_bytes),
                created.preset.as_ref().map(|name| format!(", as {name}")).unwrap_or_default()
            ));
        }
    });
    Ok(Exit::Done)
}

/// Paths of the drives.
pub(crate) fn drive_paths(directory: &Path, drives: u32) -> Vec<PathBuf> {
    (0..drives).map(|number| directory.join(format!("drive{number}"))).collect()
}

/// Geometry and preset of the drives.
struct Kind {
    geometry: Geometry,
    /// `None` for drives without delays and wear.
    preset: Option<PresetName>,
}

fn kind(create: &Create) -> Result<Kind, CliError> {
    let mut kind = formatted_kind(create)?;
    if create.without_metadata {
        kind.geometry.oob = OobKind::None;
    }
    Ok(kind)
}

fn formatted_kind(create: &Create) -> Result<Kind, CliError> {
    let capacity = create.zone_capacity.map(BlockCount);
    let Some(name) = &create.preset else {
        let zones = create.zones.unwrap_or(ZONES);
        let geometry = Geometry::new(zones, capacity.unwrap_or(ZONE_CAPACITY));
        return Ok(Kind { geometry, preset: None });
    };
    let mut preset = presets::named(name)?;
    if create.zones.is_some() || capacity.is_some() {
        let zones = create.zones.unwrap_or(preset.geometry().zones);
        let capacity = capacity.unwrap_or(preset.geometry().zone_capacity);
        preset = preset.with_zones(zones, capacity).map_err(presets::refused)?;
    }
    // A preset without delays and wear makes ordinary drives.
    let plain = preset.is_instant() && preset.wear().is_none();
    let remembered = PresetName::new(name).ok().filter(|_| !plain);
    Ok(Kind { geometry: preset.geometry().clone(), preset: remembered })
}

fn create_drives(create: &Create) -> Result<Made, CliError> {
    let Kind { geometry, preset } = kind(create)?;
    let directory = &create.directory;
    let missing = directory
        .ancestors()
        .take_while(|path| !path.as_os_str().is_empty() && path.symlink_metadata().is_err());
    // Dropping this removes everything again, unless it is kept.
    let mut made = Made {
        drives: Vec::new(),
        directories: missing.map(Path::to_owned).collect(),
        kept: false,
    };
    fs::create_dir_all(directory).map_err(|error| CliError::File {
        path: directory.clone(),
        action: "create the directory",
        error,
    })?;
    let paths = drive_paths(directory, create.drives);
    // Before the first drive is created, so that a conflict leaves nothing behind.
    if let Some(path) = paths.iter().find(|path| path.symlink_metadata().is_ok()) {
        return Err(FileDriveError::Exists { path: path.clone() }.into());
    }
    for path in paths {
        let uuid = random_uuid()?;
        match preset.clone() {
            Some(preset) => FileDrive::create_as(&path, geometry.clone(), preset, uuid)?,
            None => FileDrive::create(&path, geometry.clone(), uuid)?,
        }
        made.drives.push(CreatedDrive { path, uuid: uuid_text(&uuid) });
    }
    Ok(made)
}

/// Creates the drives, for other verbs.
pub(crate) fn create_quietly(create: &Create) -> Result<Made, CliError> {
    create_drives(create)
}

/// Created drives and directories. Drop removes them unless they are kept.
#[must_use]
pub(crate) struct Made {
    drives: Vec<CreatedDrive>,
    /// Created directories, innermost first.
    directories: Vec<PathBuf>,
    kept: bool,
}

impl Made {
    /// Number of drives.
    pub(crate) fn drives(&self) -> usize {
        self.drives.len()
    }

    /// Keeps the drives.
    pub(crate) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        // The error that led here is reported. A directory with other files stays.
        for drive in &self.drives {
            let _ = fs::remove_file(&drive.path);
        }
        for directory in &self.directories {
            let _ = fs::remove_dir(directory);
        }
    }
}

/// A UUID in its usual notation.
pub(crate) fn uuid_text(uuid: &[u8; 16]) -> String {
    zoneweave_raid::log::format::MemberUuid(*uuid).to_string()
}
