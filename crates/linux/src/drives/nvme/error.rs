//! Why an NVMe drive cannot be used.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::identify::NonsenseError;
use crate::ring::RingError;

/// Why an NVMe drive cannot be opened.
#[derive(Debug, Error)]
pub enum NvmeDriveError {
    /// Another process, or the kernel, is using the drive.
    #[error(
        "{} is in use by another process, or mounted: stop its user (see `lsof` and `findmnt`)",
        .path.display()
    )]
    InUse {
        /// The device.
        path: PathBuf,
    },
    /// The user may not.
    #[error(
        "{}: permission denied: NVMe commands need root, or CAP_SYS_ADMIN and access to the device",
        .path.display()
    )]
    Forbidden {
        /// The device.
        path: PathBuf,
    },
    /// Another kind of device.
    #[error("{} is not an NVMe namespace: give a device such as /dev/ng0n1", .path.display())]
    NotNvme {
        /// The device.
        path: PathBuf,
    },
    /// The block device of a namespace, or of another drive.
    #[error(
        "{} is a block device, which offers neither metadata of blocks nor Zone Append: give the character \
         device of the namespace{}", .path.display(),
        .instead.as_ref().map(|path| format!(", {}", path.display())).unwrap_or_default()
    )]
    BlockDevice {
        /// The device.
        path: PathBuf,
        /// The character device of the same namespace, where that is known.
        instead: Option<PathBuf>,
    },
    /// A drive without zones.
    #[error("{} has no zones: a drive with Zoned Namespaces (ZNS) is needed", .path.display())]
    NotZoned {
        /// The device.
        path: PathBuf,
    },
    /// Blocks of another size, or without room for metadata.
    #[error(
        "{} is formatted with blocks of {block_bytes} bytes and {metadata_bytes} of metadata{how}; \
         4096 and 64 are needed, with metadata in a buffer of its own and without protection \
         information: {remedy}", .path.display()
    )]
    Format {
        /// The device.
        path: PathBuf,
        /// Bytes of a block.
        block_bytes: u64,
        /// Bytes of metadata.
        metadata_bytes: u16,
        /// How metadata is kept, if not as it has to be.
        how: &'static str,
        /// The remedy.
        remedy: String,
    },
    /// The drive's description contradicts itself.
    #[error("{}: the drive's description of itself is invalid: {error}", .path.display())]
    Nonsense {
        /// The device.
        path: PathBuf,
        /// The contradiction.
        #[source]
        error: NonsenseError,
    },
    /// The drive answers with an error.
    #[error("{}: the drive refuses to return {what}: status {status:#05x}", .path.display())]
    Refused {
        /// The device.
        path: PathBuf,
        /// The page requested, to complete "refuses to return ...".
        what: &'static str,
        /// The NVMe status.
        status: u16,
    },
    /// The kernel refused.
    #[error("{}: cannot {action}: {error}", .path.display())]
    System {
        /// The device.
        path: PathBuf,
        /// The action that failed, to complete "cannot ...".
        action: &'static str,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// This program has something in the first 4 GiB of its address space.
    #[error(
        "{}: this program is not position-independent, so the kernel could write wrong memory to \
         the drive: build it without `relocation-model=static`", .path.display()
    )]
    LowMemory {
        /// The device.
        path: PathBuf,
    },
    /// Commands cannot be submitted.
    #[error(transparent)]
    Ring(#[from] RingError),
}
