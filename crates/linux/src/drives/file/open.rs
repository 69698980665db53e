//! Drive files: made, opened, locked and checked.

use std::fs::{self, File, FileType, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use zoneweave_emulator::Wear;
use zoneweave_emulator::media_format::{DriveLayout, Extension, HEADER_BYTES, StoredRecord};
use zoneweave_zoned::{Geometry, ZoneAddress, ZoneAttributes, ZoneId, ZoneSet};

use super::error::{DriveFailure, FileDriveError};
use crate::drives::access::Access;
use crate::drives::nonblock_open::open_nonblocking;
use crate::host::busy;
use crate::ring::Descriptor;

/// A drive file that was read and makes sense.
pub(crate) struct OpenFile {
    pub(super) file: File,
    pub(super) path: PathBuf,
    pub(super) access: Access,
    pub(super) layout: DriveLayout,
    /// The first [`HEADER_BYTES`].
    pub(super) header: Bytes,
    pub(super) zones: ZoneSet,
    pub(super) records: Vec<StoredRecord>,
    pub(super) wear: Option<Wear>,
    pub(super) unreadable: Vec<ZoneAddress>,
}

/// Adds the path to an error of the system.
fn failed(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> FileDriveError {
    let path = path.to_owned();
    move |error| match error.kind() {
        io::ErrorKind::AlreadyExists => FileDriveError::Exists { path },
        io::ErrorKind::NotFound => FileDriveError::NotFound { path },
        io::ErrorKind::IsADirectory => FileDriveError::Directory { path },
        _ => FileDriveError::File { path, action, error },
    }
}

pub(super) fn create(
    path: &Path,
    geometry: Geometry,
    extension: Option<Extension>,
    uuid: [u8; 16],
) -> Result<(), FileDriveError> {
    let geometry = Geometry { volatile_cache: true, ..geometry };
    let layout = match extension {
        Some(extension) => DriveLayout::extended(geometry, uuid, extension),
        None => DriveLayout::new(geometry, uuid),
    };
    let layout = layout.map_err(|error| FileDriveError::Format { path: path.to_owned(), error })?;
    let mut options = OpenOptions::new();
    let options = options.write(true).create_new(true).mode(0o600);
    let file = options.open(path).map_err(failed(path, "create it"))?;
    format(&file, &layout).and_then(|()| sync_directory(path)).map_err(|error| {
        // The first error is the one to tell.
        let _ = fs::remove_file(path);
        failed(path, "write to it")(error)
    })
}

/// The header comes last: a file with a header is whole.
fn format(file: &File, layout: &DriveLayout) -> io::Result<()> {
    file.set_len(layout.file_bytes())?;
    let tables = layout.table(0).start..layout.descriptor_extensions().end;
    // Room for records must not run out when the disk is full.
    match fallocate(file, FallocateFlags::empty(), tables.start, tables.end - tables.start) {
        Ok(()) | Err(Errno::OPNOTSUPP) => {}
        Err(error) => return Err(error.into()),
    }
    file.write_all_at(&layout.initial_records(), layout.table(0).start)?;
    file.sync_all()?;
    file.write_all_at(&layout.header(), 0)?;
    file.sync_all()
}

fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    };
    File::open(directory)?.sync_all()
}

pub(super) fn open(path: &Path, access: Access) -> Result<OpenFile, FileDriveError> {
    let file = open_file(path, access)?;
    if access == Access::Exclusive {
        lock(&file, path)?;
    }
    let wrong = |error| FileDriveError::Format { path: path.to_owned(), error };
    let file_bytes = file.metadata().map_err(failed(path, "examine it"))?.len();
    let header_bytes = file_bytes.min(HEADER_BYTES as u64);
    let header = read(&file, 0, header_bytes).map_err(failed(path, "read its header"))?;
    let layout = DriveLayout::parse(&header, file_bytes).map_err(wrong)?;
    let part = |range: Range<u64>| {
        read(&file, range.start, range.end - range.start)
            .map_err(failed(path, "read its zone records"))
    };
    let tables = [part(layout.table(0))?, part(layout.table(1))?];
    let records = layout.decode_records([&tables[0], &tables[1]]).map_err(wrong)?;
    let wear = layout.decode_wear(&part(layout.wear_table())?, &records).map_err(wrong)?;
    let unreadable = match layout.defects() {
        Some(range) => layout.decode_defects(&part(range)?, &records).map_err(wrong)?,
        None => Vec::new(),
    };
    let unreadable = unreadable.into_iter().map(|defect| defect.at).collect();
    let current: Vec<_> = records.iter().map(|stored| stored.record).collect();
    let geometry = Geometry { volatile_cache: true, ..layout.geometry().clone() };
    let mut zones = ZoneSet::import(geometry, &current)
        .map_err(|error| FileDriveError::Records { path: path.to_owned(), error })?;
    for (zone, record) in (0..).map(ZoneId).zip(current) {
        if record.attributes.contains(ZoneAttributes::EXTENDED) {
            zones.store_extension(zone, part(layout.descriptor_extension(zone))?.into());
        }
    }
    let path = path.to_owned();
    let header = header.into();
    Ok(OpenFile { file, path, access, layout, header, zones, records, wear, unreadable })
}

/// Opens regular files only: opening a pipe would wait for its other end for ever.
fn open_file(path: &Path, access: Access) -> Result<File, FileDriveError> {
    // Checked before opening, which may have side effects, and fails on a socket.
    let found = fs::metadata(path).map_err(failed(path, "examine it"))?;
    refuse_other_than_file(found.file_type(), path)?;
    let file =
        open_nonblocking(path, access == Access::Exclusive).map_err(failed(path, "open it"))?;
    // Another one may have taken its place meanwhile.
    let opened = file.metadata().map_err(failed(path, "examine it"))?;
    refuse_other_than_file(opened.file_type(), path)?;
    Ok(file)
}

fn refuse_other_than_file(found: FileType, path: &Path) -> Result<(), FileDriveError> {
    let path = path.to_owned();
    let what = match found {
        _ if found.is_file() => return Ok(()),
        _ if found.is_dir() => return Err(FileDriveError::Directory { path }),
        _ if found.is_fifo() => "a pipe",
        _ if found.is_socket() => "a socket",
        _ => "no file",
    };
    Err(FileDriveError::NotAFile { path, what })
}

/// `length` is at most that of a record table, which the layout bounds.
fn read(file: &File, offset: u64, length: u64) -> io::Result<Vec<u8>> {
    let length = usize::try_from(length).map_err(|_| io::ErrorKind::FileTooLarge)?;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

fn lock(file: &File, path: &Path) -> Result<(), FileDriveError> {
    let locked = busy::lock(file).map_err(failed(path, "lock it"))?;
    locked.ok_or_else(|| FileDriveError::InUse { path: path.to_owned() })
}

/// Whether the file of an open drive is still there in full.
pub(super) fn check(file: &Descriptor, needed_bytes: u64) -> Result<(), DriveFailure> {
    let status =
        rustix::fs::fstat(file).map_err(|error| DriveFailure::Unreachable(error.into()))?;
    if status.st_nlink == 0 {
        return Err(DriveFailure::Removed);
    }
    let found_bytes = u64::try_from(status.st_size).unwrap_or(0);
    if found_bytes < needed_bytes {
        return Err(DriveFailure::Truncated { found_bytes, needed_bytes });
    }
    Ok(())
}
