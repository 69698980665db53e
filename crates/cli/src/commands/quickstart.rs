//! `zoneweave quickstart`: from nothing to a served array in one command, and back to it in the
//! next.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use zoneweave_linux::Drive;

use super::array::create::{self, Durability, Level};
use super::emu::{self, create_quietly, drive_paths};
use super::serve::{Nbd, Served, serve_nbd};
use crate::error::{CliError, Exit};
use crate::format::{self, VolumeSize, usage};
use crate::output::Output;
use crate::session::{Access, Session, offer};
use crate::writing::Writing;

#[derive(Args)]
pub(crate) struct Quickstart {
    /// Where the drives and the socket are
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The array's name
    #[arg(long, default_value = "vol0")]
    name: String,
    /// How many drives to make
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=32))]
    drives: u32,
    /// Zones of each drive
    #[arg(long, value_name = "Z", default_value_t = 64)]
    zones: u32,
    /// What a zone holds
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = format::parse_small_blocks)]
    zone_capacity: u32,
    /// How drives back each other up
    #[arg(long, value_enum, default_value_t = Level::Raid5)]
    level: Level,
}

pub(crate) fn run(request: Quickstart, output: &Output) -> Result<Exit, CliError> {
    if find_drives(&request.directory).is_empty() {
        make_drives(&request, output)?;
    }
    let drives = find_drives(&request.directory);
    if is_blank(&drives)? {
        let first = drive_paths(&request.directory, request.drives);
        if !first.iter().all(|drive| drives.contains(drive)) {
            return Err(usage("drives")(format!(
                "{} drives that hold nothing are in {}, and an array of {} was asked for: ask for as many as there are, \
                 or for another directory",
                drives.len(),
                request.directory.display(),
                request.drives
            )));
        }
        make_array(&request, &first, output)?;
    }
    let socket = request.directory.join(format!("{}.sock", request.name));
    let array = Served {
        no_hedging: false,
        spare: Vec::new(),
        rebuild_limit: None,
        drives: drives.clone(),
        force: false,
        index_memory: None,
        writing: Writing::default(),
    };
    let socket_address = vec![format!("unix:{}", socket.display())];
    let serving = Nbd { array, socket: socket_address, export: None, ublk: None };
    serve_nbd(&serving, &hints(&drives, &socket.display().to_string(), &request.name), output)
}

/// Every drive in the directory and the directories in it: a member that was replaced since the
/// first start may be called anything.
fn find_drives(directory: &Path) -> Vec<PathBuf> {
    let entries = |directory: &Path| {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
        paths.sort();
        paths
    };
    let (directories, mut files): (Vec<_>, Vec<_>) =
        entries(directory).into_iter().partition(|path| path.is_dir());
    files.extend(directories.iter().flat_map(|directory| entries(directory)));
    files.retain(|path| path.is_file() && Drive::inspect(path).is_ok());
    files
}

fn make_drives(request: &Quickstart, output: &Output) -> Result<(), CliError> {
    let create = emu::Create {
        directory: request.directory.clone(),
        drives: request.drives,
        zones: Some(request.zones),
        zone_capacity: Some(request.zone_capacity),
        preset: None,
        without_metadata: false,
    };
    let made = create_quietly(&create)?;
    output.note(format_args!(
        "made {} emulated drives in {}",
        made.len(),
        request.directory.display()
    ));
    Ok(())
}

/// Whether no drive holds anything yet.
fn is_blank(drives: &[PathBuf]) -> Result<bool, CliError> {
    let session = Session::new()?;
    let opened = session.open_some(drives, Access::Look)?;
    let found = session.executor.run(zoneweave_raid::log::survey(offer(&opened.opened)));
    Ok(found.drives.iter().all(|verdict| verdict.role == zoneweave_raid::log::DriveRole::Blank))
}

fn make_array(request: &Quickstart, drives: &[PathBuf], output: &Output) -> Result<(), CliError> {
    let create = create::Create {
        name: request.name.clone(),
        drives: drives.to_vec(),
        level: request.level,
        data: None,
        parity: None,
        size: VolumeSize::Largest,
        chunk: None,
        group_rows: create::GROUP_ROWS,
        mode: None,
        durability: Durability::Auto,
        yes_destroy: false,
        destroy: Vec::new(),
    };
    let config = create::make(&create, output)?;
    output.note(format_args!("made array {} ({})", config.name, config.scheme));
    Ok(())
}

fn hints(drives: &[PathBuf], socket: &str, name: &str) -> Vec<String> {
    let first = drives.first().map(|path| path.display().to_string()).unwrap_or_default();
    let socket = std::path::absolute(socket).map_or(socket.to_owned(), |p| p.display().to_string());
    vec![
        "try, in another terminal:".to_owned(),
        format!("  zoneweave array status {first}"),
        format!(
            "  qemu-io -f raw -c 'write -P 0xa5 0 1M' -c 'read -P 0xa5 0 1M' \
             'nbd+unix:///{name}?socket={socket}'"
        ),
        format!("  zoneweave array fail {first} --slot 1"),
    ]
}
