//! Why a zoned block device cannot be used.

use std::io;
use std::path::PathBuf;

use thiserror::Error;
use zoneweave_zoned::GeometryError;

/// Why a zoned block device cannot be opened.
#[derive(Debug, Error)]
pub enum ZonedBlockError {
    /// Another process, or the kernel, is using it.
    #[error(
        "{} is in use by another process, or mounted: stop what uses it (`lsof` and `findmnt` tell)",
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
    #[error("{} is a partition: name the whole disk", .path.display())]
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
    /// A disk whose zones are a recommendation.
    #[error(
        "{} is a host-aware disk, whose zones may be written in any order: a host-managed one is needed",
        .path.display()
    )]
    HostAware {
        /// The device.
        path: PathBuf,
    },
    /// Blocks that ours are no whole number of.
    #[error(
        "{} has blocks of {block_bytes} bytes: 4096, or 512 and powers of two between, are needed",
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
        "{} has conventional zones between those that are written from front to back, the first \
         of them zone {zone}: they can be left out only at the start and at the end of a disk",
        .path.display()
    )]
    ConventionalBetween {
        /// The device.
        path: PathBuf,
        /// The first such zone, as the disk counts them.
        zone: usize,
    },
    /// The kernel tells what cannot be.
    #[error("{}: the disk is described in a way that cannot be: {error}", .path.display())]
    Nonsense {
        /// The device.
        path: PathBuf,
        /// What is wrong.
        #[source]
        error: DiskNonsense,
    },
    /// The kernel refused.
    #[error("{}: cannot {action}: {error}", .path.display())]
    System {
        /// The device.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the system said.
        #[source]
        error: io::Error,
    },
}

/// What the kernel told of a disk cannot be.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum DiskNonsense {
    /// No number is where one has to be.
    #[error("{name} is {text:?}")]
    Attribute {
        /// Which attribute of the disk in sysfs.
        name: &'static str,
        /// What it says.
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
    #[error("its report of zones makes no sense at zone {zone}")]
    Report {
        /// The first that cannot be, as the disk counts them.
        zone: usize,
    },
    /// Zones differ.
    #[error("its zones do not all hold the same: one {one} blocks and another {other}")]
    Capacities {
        /// What one zone holds.
        one: u32,
        /// What another one does.
        other: u32,
    },
    /// The whole.
    #[error("{0}")]
    Geometry(#[from] GeometryError),
}
