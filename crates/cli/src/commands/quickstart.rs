//! `zoneweave quickstart`: creates and serves an array in one command, and serves it again in the
//! next.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use zoneweave_linux::nbd::Endpoint;
use zoneweave_linux::{Drive, DriveError, FileDriveError};
use zoneweave_raid::log::format::ArrayConfig;
use zoneweave_raid::log::{DriveRole, survey};
use zoneweave_zoned::{BLOCK_BYTES, ZonedDevice};

use super::array::create::{self, Durability, Level};
use super::emu::{self, Made, create_quietly, drive_paths};
use super::serve::{ByName, Nbd, Served, serve_nbd, uri};
use crate::drives::paths::natural_order;
use crate::error::{CliError, usage};
use crate::events::EventOptions;
use crate::exit::Exit;
use crate::format::{self, VolumeSize};
use crate::output::Output;
use crate::session::{Access, Session, offer};
use crate::writing::Writing;

#[derive(Args)]
pub(crate) struct Quickstart {
    /// Directory of the drives and the socket
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Name of the array [default: vol0]
    #[arg(long)]
    name: Option<String>,
    /// Number of drives to create [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=32))]
    drives: Option<u32>,
    /// Zones per drive [default: 64]
    #[arg(long, value_name = "Z")]
    zones: Option<u32>,
    /// Capacity of a zone, e.g. 16MiB [default: 16MiB]
    #[arg(long, value_name = "SIZE", value_parser = format::parse_small_blocks)]
    zone_capacity: Option<u32>,
    /// RAID level [default: raid5]
    #[arg(long, value_enum)]
    level: Option<Level>,
}

/// Default number of drives.
const DRIVES: u32 = 4;

/// Default name of the array.
const NAME: &str = "vol0";

pub(crate) fn run(request: Quickstart, output: &Output) -> Result<Exit, CliError> {
    let (first, drives) = (
        drive_paths(&request.directory, request.drives.unwrap_or(DRIVES)),
        find_drives(&request.directory),
    );
    let name = if drives.is_empty() {
        let made = make_drives(&request)?;
        let config = make_array(&request, &first, output)?;
        output.note(format_args!(
            "created {} emulated drives in {}",
            made.drives(),
            request.directory.display()
        ));
        made.keep();
        config.name
    } else {
        take_what_is_there(&request, &first, &drives, output)?
    };
    let drives = find_drives(&request.directory);
    let socket = request.directory.join(format!("{name}.sock"));
    let array = Served {
        without: Vec::new(),
        wait: Duration::ZERO,
        no_hedging: false,
        spare: Vec::new(),
        rebuild_limit: None,
        scrub: None,
        drives: drives.clone(),
        by_name: ByName::default(),
        force: false,
        index_memory: None,
        whole_index: false,
        writing: Writing::default(),
        events: EventOptions::default(),
    };
    let socket_address = vec![format!("unix:{}", socket.display())];
    let serving = Nbd { array, socket: socket_address, export: None, ublk: None };
    serve_nbd(&serving, &hints(&drives, socket, &name), output)
}

/// Every drive in the directory and its subdirectories: a member that was replaced since the first
/// start may have any name.
fn find_drives(directory: &Path) -> Vec<PathBuf> {
    let entries = |directory: &Path| {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
        paths.sort_by(|one, other| natural_order(one, other));
        paths
    };
    let (directories, mut files): (Vec<_>, Vec<_>) =
        entries(directory).into_iter().partition(|path| path.is_dir());
    files.extend(directories.iter().flat_map(|directory| entries(directory)));
    files.retain(|path| path.is_file() && may_be_drive(path));
    files
}

/// Whether a file is a drive, or cannot be examined: leaving it out would take it out of service.
fn may_be_drive(path: &Path) -> bool {
    match Drive::inspect(path) {
        Err(DriveError::File(error)) => matches!(error, FileDriveError::File { .. }),
        inspected => inspected.is_ok(),
    }
}

fn make_drives(request: &Quickstart) -> Result<Made, CliError> {
    create_quietly(&emu::Create {
        directory: request.directory.clone(),
        drives: request.drives.unwrap_or(DRIVES),
        zones: request.zones,
        zone_capacity: request.zone_capacity,
        preset: None,
        without_metadata: false,
    })
}

/// Creates an array on blank drives, or uses the array of the drives, with warnings for options
/// that do not match. Returns the name of the array.
fn take_what_is_there(
    request: &Quickstart,
    first: &[PathBuf],
    drives: &[PathBuf],
    output: &Output,
) -> Result<String, CliError> {
    let found = look_at(drives)?;
    let directory = request.directory.display();
    let deeper = drives.iter().filter(|drive| drive.parent() != Some(&request.directory)).count();
    if deeper > 0 {
        output.note(format_args!(
            "{deeper} of {} drives are in subdirectories of {directory}",
            drives.len()
        ));
    }
    for ignored in ignored(request, &found) {
        output.warning(ignored);
    }
    if !found.blank {
        return Ok(found.array.map_or_else(|| NAME.to_owned(), |array| array.name));
    }
    if !first.iter().all(|drive| drives.contains(drive)) {
        return Err(usage("drives")(format!(
            "{directory} has {} blank drives, but {} were requested: set --drives to the number \
             there, or use another directory",
            drives.len(),
            first.len()
        )));
    }
    Ok(make_array(request, first, output)?.name)
}

/// The drives that were found.
struct Found {
    /// All are blank.
    blank: bool,
    array: Option<ArrayConfig>,
    /// Zones of the first, and blocks of a zone.
    zones: Option<(u32, u32)>,
}

fn look_at(drives: &[PathBuf]) -> Result<Found, CliError> {
    let session = Session::new()?;
    let opened = session.open_some(drives, Access::Look)?.opened;
    let survey = session.executor.run(survey(offer(&opened)));
    let geometry = opened.first().map(|named| named.drive.geometry());
    Ok(Found {
        blank: survey.drives.iter().all(|verdict| verdict.role == DriveRole::Blank),
        array: survey.membership.map(|record| record.config),
        zones: geometry.map(|geometry| (geometry.zones, geometry.zone_capacity.0)),
    })
}

/// Warnings for options that do not match the drives or the array.
fn ignored(request: &Quickstart, found: &Found) -> Vec<String> {
    let mut ignored = Vec::new();
    if let Some((zones, capacity)) = found.zones {
        let other = request.zones.filter(|asked| *asked != zones);
        ignored.extend(
            other.map(|asked| format!("--zones {asked} is ignored: the drives have {zones}")),
        );
        let other = request.zone_capacity.filter(|asked| *asked != capacity);
        let size = |blocks: u32| format::bytes(u64::from(blocks) * BLOCK_BYTES as u64);
        ignored.extend(other.map(|asked| {
            format!("--zone-capacity {} is ignored: the zones hold {}", size(asked), size(capacity))
        }));
    }
    let Some(array) = &found.array else { return ignored };
    let other = request.name.as_ref().filter(|asked| **asked != array.name);
    ignored.extend(
        other.map(|asked| format!("--name {asked} is ignored: the array is called {}", array.name)),
    );
    let columns = array.scheme.columns();
    let other = request.drives.filter(|asked| *asked as usize != columns);
    ignored
        .extend(other.map(|asked| format!("--drives {asked} is ignored: the array has {columns}")));
    if let Some(level) = request.level
        && create::scheme_of(level, columns, (None, None)).ok() != Some(array.scheme)
    {
        let level = level.to_possible_value();
        let level = level.as_ref().map_or("", |value| value.get_name());
        ignored.push(format!("--level {level} is ignored: the array is {}", array.scheme));
    }
    ignored
}

fn make_array(
    request: &Quickstart,
    drives: &[PathBuf],
    output: &Output,
) -> Result<ArrayConfig, CliError> {
    let create = create::Create {
        name: request.name.clone().unwrap_or_else(|| NAME.to_owned()),
        drives: drives.to_vec(),
        level: request.level.unwrap_or(Level::Raid5),
        data: None,
        parity: None,
        kind: create::Kind::Block,
        unit: None,
        no_checksums: false,
        size: Some(VolumeSize::Largest),
        reserve: None,
        shards: 1,
        chunk: None,
        group_rows: create::GROUP_ROWS,
        mode: None,
        durability: Durability::Auto,
        yes_destroy: false,
        dry_run: false,
        destroy: Vec::new(),
    };
    let config = create::make(&create, output)?.configs.swap_remove(0);
    output.note(format_args!("created array {} ({})", config.name, config.scheme));
    Ok(config)
}

fn hints(drives: &[PathBuf], socket: PathBuf, name: &str) -> Vec<String> {
    let first = format::words(drives.first().map(std::slice::from_ref).unwrap_or_default());
    let uri = format::word(uri(&Endpoint::Unix(socket), name));
    vec![
        "try, in another terminal:".to_owned(),
        format!("  zoneweave array status {first}"),
        format!("  qemu-io -f raw -c 'write -P 0xa5 0 1M' -c 'read -P 0xa5 0 1M' {uri}"),
        format!("  zoneweave array fail {first} --slot 1"),
    ]
}
