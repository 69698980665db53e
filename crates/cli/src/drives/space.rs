//! Space for drives in files. A drive file has holes where nothing was written, so its file system
//! may be full although the drive is not.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::statvfs;
use zoneweave_zoned::{BLOCK_BYTES, ZoneInfo};

use crate::error::NewMemberError;
use crate::format::bytes;
use crate::session::NamedDrive;

/// The largest write of an emulated drive, in bytes: with less space than this it may fail.
pub(crate) const WRITE_BYTES: u64 = 1 << 20;

/// A file system without space for a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FullDisk {
    /// The folder of the drive's file.
    pub folder: PathBuf,
    /// Bytes that are free.
    pub free: u64,
}

/// The file system of a drive, if the drive needs more space than is left. `None` for real drives,
/// and where the system does not report it.
pub(crate) fn full_disk(drive: &Path) -> Option<FullDisk> {
    let file = std::fs::metadata(drive).ok().filter(std::fs::Metadata::is_file)?;
    let has_holes = file.blocks() * 512 < file.len();
    let found = statvfs(drive).ok()?;
    // Some is reserved for root.
    let blocks = if rustix::process::geteuid().is_root() { found.f_bfree } else { found.f_bavail };
    let free = blocks.saturating_mul(found.f_frsize);
    // The drive may be a link: the space is needed where its file is.
    let folder = std::fs::canonicalize(drive).ok()?.parent()?.to_owned();
    (has_holes && free < WRITE_BYTES).then_some(FullDisk { folder, free })
}

/// Which of some drives has no space for a write, and where.
pub(crate) fn no_room(drives: &[NamedDrive]) -> Option<String> {
    drives.iter().find_map(|named| {
        let FullDisk { folder, free } = full_disk(named.drive.path())?;
        let (folder, free) = (folder.display(), bytes(free));
        Some(format!("there is no space left for {}: {folder} has {free} free", named.label))
    })
}

/// Checks that a drive which is to become a member has space for its first writes, before anything
/// is given up for it. `zones` are its zones, whose contents are erased first.
///
/// # Errors
/// If its file system has less than a start asks for.
pub(crate) fn check_space(named: &NamedDrive, zones: &[ZoneInfo]) -> Result<(), NewMemberError> {
    let Some(FullDisk { folder, free }) = full_disk(named.drive.path()) else { return Ok(()) };
    let blocks: u64 = zones.iter().map(|info| u64::from(info.write_pointer.0)).sum();
    if free + blocks * BLOCK_BYTES as u64 >= WRITE_BYTES {
        return Ok(());
    }
    let label = named.label.clone();
    Err(NewMemberError::NoSpace { label, folder, free, needed: WRITE_BYTES })
}
