//! Why a drive file cannot be used, and why a drive was lost.

use std::io;
use std::path::PathBuf;

use thiserror::Error;
use zoneweave_emulator::media_format::FormatError;
use zoneweave_zoned::ImportError;

/// Why a drive file cannot be made or opened.
#[derive(Debug, Error)]
pub enum FileDriveError {
    /// The path exists already.
    #[error("{} exists: drives are never overwritten; remove it or choose another path",
        .path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The path does not exist.
    #[error(
        "{} does not exist: check the path, or create the drive first; if it was a member of an \
         array and is lost, leave it out and put a new drive into its slot with `zoneweave array \
         replace`", .path.display()
    )]
    NotFound {
        /// The file.
        path: PathBuf,
    },
    /// The path is a directory.
    #[error("{} is a directory, not a drive: give the drives in it, such as {}/drive*",
        .path.display(), .path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
    },
    /// The path is neither a file nor a device.
    #[error(
        "{} is {what}, not a drive: give a file made by `zoneweave emu create`, the character \
         device of a zoned NVMe namespace, or a zoned block device", .path.display()
    )]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// The file type, such as "a pipe".
        what: &'static str,
    },
    /// Another process is using the drive.
    #[error("{} is in use by another process: stop it first", .path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The bytes are not those of a drive.
    #[error("{}: {error}", .path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The contradiction in the format.
        #[source]
        error: FormatError,
    },
    /// The zone records contradict each other.
    #[error("{}: {error}", .path.display())]
    Records {
        /// The file.
        path: PathBuf,
        /// The damage or contradiction.
        #[source]
        error: ImportError,
    },
    /// The drive has the timing of a preset that is not there.
    #[error(
        "{}: its preset `{name}` is unknown to this program: use the version that created the \
         drive, or open it read-only", .path.display()
    )]
    UnknownPreset {
        /// The file.
        path: PathBuf,
        /// The preset.
        name: String,
    },
    /// The file system refused.
    #[error("{}: cannot {action}: {error}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The action that failed, to complete "cannot ...".
        action: &'static str,
        /// The system's error.
        #[source]
        error: io::Error,
    },
}

/// Why a drive that was open answers no more.
#[derive(Debug, Error)]
pub enum DriveFailure {
    /// An operator or a test pulled it out.
    #[error("the drive was pulled out")]
    PulledOut,
    /// The file has no name any more.
    #[error("the drive's file was removed")]
    Removed,
    /// The file is shorter than the drive.
    #[error("the drive's file was truncated: it has {found_bytes} of {needed_bytes} bytes")]
    Truncated {
        /// Bytes there are.
        found_bytes: u64,
        /// Bytes there must be.
        needed_bytes: u64,
    },
    /// The file has the header of another drive.
    #[error("the drive's file was overwritten with another drive")]
    Overwritten,
    /// The file cannot even be looked at.
    #[error("the drive's file cannot be examined: {0}")]
    Unreachable(#[source] io::Error),
    /// A zone record could not be written.
    #[error("a zone record could not be written: {0}")]
    RecordLost(#[source] io::Error),
    /// Data may not have reached the disk, and the kernel does not say which.
    #[error("the drive's file could not be synced: {0}")]
    SyncFailed(#[source] io::Error),
}
