//! `zoneweave emu`: emulated drives in files.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use zoneweave_linux::{FileDrive, FileDriveError};
use zoneweave_zoned::{BLOCK_BYTES, BlockCount, Geometry};

use crate::error::{CliError, Exit};
use crate::format;
use crate::output::Output;
use crate::session::random_uuid;

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Make emulated drives: DIR/drive0 and so on, one sparse file each
    Create(Create),
}

/// What drives to make.
#[derive(Args, Clone, Debug)]
pub(crate) struct Create {
    /// The directory; it is made if there is none
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// How many drives
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub drives: u32,
    /// Zones of each drive
    #[arg(long, value_name = "Z", default_value_t = 64)]
    pub zones: u32,
    /// What a zone holds, such as 16MiB
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = format::parse_small_blocks)]
    pub zone_capacity: u32,
    /// How the drives behave
    #[arg(long, value_enum, default_value_t = Preset::Instant)]
    pub preset: Preset,
}

/// How a drive behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Preset {
    /// As fast as the file system; a volatile cache, which a flush writes out
    Instant,
}

#[derive(Serialize)]
struct Created {
    drives: Vec<CreatedDrive>,
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
    let Verb::Create(create) = verb;
    let drives = create_drives(&create)?;
    let zone_capacity_bytes = u64::from(create.zone_capacity) * BLOCK_BYTES as u64;
    let created = Created {
        drives,
        zones: create.zones,
        zone_capacity_bytes,
        capacity_bytes: zone_capacity_bytes * u64::from(create.zones),
    };
    output.result("emu-create", &created, |output| {
        for drive in &created.drives {
            output.line(format_args!(
                "{}  {} zones of {}, {} in all",
                drive.path.display(),
                created.zones,
                format::bytes(created.zone_capacity_bytes),
                format::bytes(created.capacity_bytes)
            ));
        }
    });
    Ok(Exit::Done)
}

/// The files that the drives would be in.
pub(crate) fn drive_paths(directory: &Path, drives: u32) -> Vec<PathBuf> {
    (0..drives).map(|number| directory.join(format!("drive{number}"))).collect()
}

fn create_drives(create: &Create) -> Result<Vec<CreatedDrive>, CliError> {
    let directory = &create.directory;
    fs::create_dir_all(directory).map_err(|error| CliError::File {
        path: directory.clone(),
        action: "make the directory",
        error,
    })?;
    let paths = drive_paths(directory, create.drives);
    // Before the first is made, so that a name that is taken leaves nothing behind.
    if let Some(path) = paths.iter().find(|path| path.symlink_metadata().is_ok()) {
        return Err(FileDriveError::Exists { path: path.clone() }.into());
    }
    let Preset::Instant = create.preset;
    let geometry = Geometry::new(create.zones, BlockCount(create.zone_capacity));
    let mut created = Vec::new();
    for path in paths {
        let uuid = random_uuid()?;
        if let Err(error) = FileDrive::create(&path, geometry.clone(), uuid) {
            remove(&created);
            return Err(error.into());
        }
        created.push(CreatedDrive { path, uuid: uuid_text(&uuid) });
    }
    Ok(created)
}

/// Makes the drives, for other verbs.
pub(crate) fn create_quietly(create: &Create) -> Result<Vec<PathBuf>, CliError> {
    Ok(create_drives(create)?.into_iter().map(|drive| drive.path).collect())
}

/// Takes back what this call made.
fn remove(created: &[CreatedDrive]) {
    for drive in created {
        // The error that led here is the one to tell.
        let _ = fs::remove_file(&drive.path);
    }
}

/// A UUID the usual way.
pub(crate) fn uuid_text(uuid: &[u8; 16]) -> String {
    zoneweave_raid::log::format::MemberUuid(*uuid).to_string()
}
