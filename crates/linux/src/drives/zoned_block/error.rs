//! Why a zoned block device cannot be used.

use std::io;
use std::path::PathBuf;

use thiserror::Error;
use zoneweave_zoned::{BlockCount, GeometryError};

/// Why a zoned block device cannot be opened.
#[derive(Debug, Error)]
pub enum ZonedBlockError {
    /// Another process, or the kernel, is using it.
    #[error(
        "{} is in use by another process, or mounted: stop its user (see `lsof` and `findmnt`)",
        .path.display()
    )]
    InUse {
        /// The device.
        path: PathBuf,
    },
    /// The user may not.
    #[error("{}: permission denied: disks need root, or the group `disk`", .path.display())]
    Forbidden {
        /// The device.
        path: PathBuf,
    },
    /// A part of a disk.
    #[error("{} is a partition: give the whole disk", .path.display())]
    Partition {
        /// The device.
        path: PathBuf,
    },
    /// A disk without zones.
    #[error(
        "{} has no zones, or its driver hides them (`queue/zoned` in sysfs is not `host-managed`): a \
         zoned disk is needed, or the character device of a zoned NVMe namespace, such as /dev/ng0n1",
        .path.display()
    )]
    NotZoned {
        /// The device.
        path: PathBuf,
    },
    /// A host-aware disk: its zones are a recommendation.
    #[error(
        "{} is a host-aware disk: a host-managed disk is needed",
        .path.display()
    )]
    HostAware {
        /// The device.
        path: PathBuf,
    },
    /// Blocks that ours are no whole number of.
    #[error(
        "{} has blocks of {block_bytes} bytes: 512, 1024, 2048 or 4096 are needed",
        .path.display()
    )]
    Blocks {
        /// The device.
        path: PathBuf,
        /// Bytes of a block.
        block_bytes: u64,
    },
    /// Conventional zones among the others.
    #[error(
        "{} has conventional zones between its sequential zones, first zone {zone}: a disk may \
         have them only at its start and at its end",
        .path.display()
    )]
    ConventionalBetween {
        /// The device.
        path: PathBuf,
        /// The first such zone, as the disk counts them.
        zone: usize,
    },
    /// The kernel's description contradicts itself.
    #[error("{}: the kernel's description of the disk is invalid: {error}", .path.display())]
    Nonsense {
        /// The device.
        path: PathBuf,
        /// The contradiction.
        #[source]
        error: DiskNonsense,
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
}

/// A contradiction in the kernel's description of a disk.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum DiskNonsense {
    /// No number is where one has to be.
    #[error("{name} is {text:?}")]
    Attribute {
        /// Which attribute of the disk in sysfs.
        name: &'static str,
        /// The attribute's text.
        text: String,
    },
    /// Sizes contradict each other, or are no whole blocks of 4096 bytes.
    #[error("it has {sectors} sectors in zones of {size}")]
    Zones {
        /// Sectors of the disk.
        sectors: u64,
        /// Sectors of a zone.
        size: u64,
    },
    /// The zones it reports.
    #[error("its zone report is invalid at zone {zone}")]
    Report {
        /// The first that cannot be, as the disk counts them.
        zone: usize,
    },
    /// Zones differ.
    #[error("its zones have different capacities: {} and {}", BlockCount(*one), BlockCount(*other))]
    Capacities {
        /// The capacity of one zone.
        one: u32,
        /// The capacity of another zone.
        other: u32,
    },
    /// The whole.
    #[error("{0}")]
    Geometry(#[from] GeometryError),
}
