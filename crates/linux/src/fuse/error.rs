//! Why a file cannot be mounted.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why the file cannot be mounted.
#[derive(Debug, Error)]
pub enum FuseError {
    /// The kernel has no FUSE, or this process is not given it.
    #[error(
        "there is no /dev/fuse: load the driver with `modprobe fuse`; in a container, \
         start it with `--device /dev/fuse` and CAP_SYS_ADMIN"
    )]
    NoDriver,
    /// Files are mounted on files.
    #[error("{} is not a regular file: give the path of a file, which is created if missing", .path.display())]
    NotAFile {
        /// The mountpoint.
        path: PathBuf,
    },
    /// The file has contents, which the mount would hide.
    #[error(
        "{} has {bytes} bytes, which the mount would hide: choose another path, or an empty file",
        .path.display()
    )]
    NotEmpty {
        /// The mountpoint.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// Another file system is mounted there.
    #[error("{holder} is mounted at {}: unmount that first, or choose another path", .path.display())]
    InUse {
        /// The mountpoint.
        path: PathBuf,
        /// The source of that mount.
        holder: String,
    },
    /// The mountpoint cannot be used.
    #[error("{}: cannot {action}: {error}", .path.display())]
    Mountpoint {
        /// The mountpoint.
        path: PathBuf,
        /// The action that failed, to complete "cannot ...".
        action: &'static str,
        /// The kernel's error.
        error: io::Error,
    },
    /// The kernel refused the mount.
    #[error(
        "cannot mount at {}: {error}; root needs CAP_SYS_ADMIN, other users need fusermount3 \
         (Debian: `apt-get install fuse3`)", .path.display()
    )]
    Mount {
        /// The mountpoint.
        path: PathBuf,
        /// The error of the kernel or of fusermount3.
        error: io::Error,
    },
}
