//! Why a file cannot be mounted.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why there is no file.
#[derive(Debug, Error)]
pub enum FuseError {
    /// The kernel has no FUSE, or this process is not given it.
    #[error(
        "there is no /dev/fuse: load the driver with `modprobe fuse`; in a container, start it with `--device /dev/fuse` \
         and the right to mount"
    )]
    NoDriver,
    /// Files are mounted on files.
    #[error("{} is not a file: give the path of one, which is made if it is not there", .path.display())]
    NotAFile {
        /// The mountpoint.
        path: PathBuf,
    },
    /// What it holds would be hidden.
    #[error(
        "{} holds {bytes} bytes, which nobody could read while the volume is there: choose another path, or an empty file",
        .path.display()
    )]
    NotEmpty {
        /// The mountpoint.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// Something is there already.
    #[error("{holder} is mounted at {}: unmount that first, or choose another path", .path.display())]
    InUse {
        /// The mountpoint.
        path: PathBuf,
        /// What is mounted.
        holder: String,
    },
    /// The mountpoint cannot be used.
    #[error("{}: cannot {action}: {error}", .path.display())]
    Mountpoint {
        /// The mountpoint.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the kernel said.
        error: io::Error,
    },
    /// The kernel refused the mount.
    #[error(
        "cannot mount at {}: {error}; as root it takes the right to mount (CAP_SYS_ADMIN), as another user fusermount3 \
         (Debian: `apt-get install fuse3`)", .path.display()
    )]
    Mount {
        /// The mountpoint.
        path: PathBuf,
        /// What the kernel or fusermount3 said.
        error: io::Error,
    },
}
