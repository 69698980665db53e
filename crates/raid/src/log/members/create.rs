//! Creates an array: a superblock on every drive, nothing else.

use thiserror::Error;
use zoneweave_zoned::{BlockCount, Geometry, Status, ZoneInfo};

use crate::array::create::{NewArray, Unusable, look, prepare};
use crate::array::offered::OfferedDrive;
use crate::array::repair::fit::is_usable;
use crate::log::engine::limits::{
    LimitError, check_drive, check_shape, check_size, largest_volume,
};
use crate::log::format::{
    ArrayConfig, ArrayUuid, Lineage, LogConfig, MemberUuid, RecordBody, VolumeKind,
};
use crate::scheme::{Column, Scheme};
use crate::shards::Shard;

/// Most bytes of a name.
pub const NAME_BYTES: usize = 32;

/// The array to be created.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// Name of the array.
    pub name: String,
    /// Numbers of data and parity chunks, and their columns.
    pub scheme: Scheme,
    /// Blocks of the volume; `None` for the largest.
    pub volume_blocks: Option<u64>,
    /// Blocks of a chunk.
    pub chunk_blocks: u32,
    /// Rows of a group.
    pub group_rows: u32,
    /// Whether chunks are appended (tabled) or written in place (aligned).
    pub tabled: bool,
    /// Whether writes are acknowledged only when durable; `None` decides by the drives' caches.
    pub writethrough: Option<bool>,
    /// The array's identity: random.
    pub array: ArrayUuid,
    /// The members' identities: random.
    pub members: Vec<MemberUuid>,
    /// A random number that distinguishes this history from others.
    pub lineage: Lineage,
    /// The part of a volume that it will hold.
    pub shard: Shard,
    /// Whether drives with contents are erased first.
    pub wipe: bool,
}

/// Why an array was not created.
#[derive(Debug, Error)]
pub enum CreateError {
    /// The number of drives and the scheme disagree.
    #[error("{scheme} needs {needed} drives; {given} were given")]
    WrongCount {
        /// The requested scheme.
        scheme: Scheme,
        /// Drives that the scheme needs.
        needed: usize,
        /// Drives that were given.
        given: usize,
    },
    /// The name is too long.
    #[error("the name {name:?} is longer than {NAME_BYTES} bytes: choose a shorter one")]
    NameTooLong {
        /// The requested name.
        name: String,
    },
    /// Groups are too large or too small.
    #[error(
        "groups of {rows} rows are not possible: choose 1 to {}",
        crate::log::format::MAX_SEAL_ROWS
    )]
    GroupRows {
        /// The requested number of rows.
        rows: u32,
    },
    /// The shape is impossible.
    #[error("{0}")]
    Limit(#[from] LimitError),
    /// A drive does not meet the requirements.
    #[error("{label}: {error}")]
    Drive {
        /// Label of the drive.
        label: String,
        /// The requirement that it lacks.
        error: LimitError,
    },
    /// A drive has contents.
    #[error("{label} is not empty: creating an array on it destroys what it holds")]
    NotEmpty {
        /// Label of the drive.
        label: String,
    },
    /// A drive has too few usable zones.
    #[error("{label} has fewer than two writable zones for its superblock: use another drive")]
    NoSuperblockZones {
        /// Label of the drive.
        label: String,
    },
    /// A command to a drive failed.
    #[error("{label} failed: {status}")]
    Failed {
        /// Label of the drive.
        label: String,
        /// Status of the command.
        status: Status,
    },
}

/// Creates an array that can be started from the drives afterwards.
///
/// # Errors
/// If the drives do not fit, have contents, or fail. Drives already written keep their superblock:
/// creating the array again needs `wipe`.
pub async fn create(
    drives: &[OfferedDrive],
    options: &CreateOptions,
) -> Result<ArrayConfig, CreateError> {
    let mut config = plan(drives, options)?;
    let mut reports = Vec::new();
    for drive in drives {
        let report = look(drive, options.wipe).await;
        reports.push(report.map_err(|unusable| refused(drive, unusable))?);
    }
    fit_to_usable(&mut config, &reports, options)?;
    let mut zones = Vec::new();
    for (drive, report) in drives.iter().zip(&reports) {
        let prepared = prepare(drive, report).await;
        zones.push(prepared.map_err(|unusable| refused(drive, unusable))?);
    }
    assert!(
        zones.len() == config.scheme.columns() && options.members.len() == zones.len(),
        "{} members on {} drives",
        options.members.len(),
        zones.len()
    );
    let new = NewArray { config: &config, lineage: options.lineage, members: &options.members };
    for (slot, (drive, superblocks)) in drives.iter().zip(zones).enumerate() {
        let written = new.write_to::<RecordBody>(Column::of(slot), drive, superblocks).await;
        written.map_err(|unusable| refused(drive, unusable))?;
    }
    Ok(config)
}

/// The configuration that follows from the options and drives.
///
/// # Errors
/// As [`create`], for everything that can be checked without access to the drives' contents.
pub fn plan(drives: &[OfferedDrive], options: &CreateOptions) -> Result<ArrayConfig, CreateError> {
    let named = drives.iter().map(|drive| (drive.label.as_str(), drive.device.geometry()));
    plan_on(&named.collect::<Vec<_>>(), options)
}

/// The configuration for drives of which only names and geometry are known.
///
/// # Errors
/// As [`plan`].
pub fn plan_on(
    drives: &[(&str, &Geometry)],
    options: &CreateOptions,
) -> Result<ArrayConfig, CreateError> {
    let scheme = options.scheme;
    if drives.len() != scheme.columns() || options.members.len() != drives.len() {
        let (needed, given) = (scheme.columns(), drives.len());
        return Err(CreateError::WrongCount { scheme, needed, given });
    }
    if options.name.len() > NAME_BYTES {
        return Err(CreateError::NameTooLong { name: options.name.clone() });
    }
    if !(1..=crate::log::format::MAX_SEAL_ROWS).contains(&options.group_rows) {
        return Err(CreateError::GroupRows { rows: options.group_rows });
    }
    let write_unit = drives[0].1.write_unit;
    for (label, drive) in drives {
        check_drive(drive, write_unit, options.chunk_blocks, options.tabled)
            .map_err(|error| CreateError::Drive { label: (*label).into(), error })?;
    }
    let geometries = || drives.iter().map(|(_, drive)| drive);
    let capacity = geometries().map(|g| g.zone_capacity).min().unwrap_or(BlockCount(0));
    let zones = geometries().map(|g| g.zones).min().unwrap_or(0);
    let (shape, entry_bytes) =
        check_shape(scheme, write_unit, capacity, zones, options.chunk_blocks, options.group_rows)?;
    let volume_blocks = options.volume_blocks.unwrap_or_else(|| largest_volume(&shape, zones));
    check_size(&shape, zones, volume_blocks)?;
    assert!(volume_blocks > 0, "a volume of no blocks passed its checks");
    Ok(ArrayConfig {
        array: options.array,
        name: options.name.clone(),
        scheme,
        write_unit,
        zone_capacity: capacity,
        zones,
        shard: options.shard,
        volume: VolumeKind::Log(LogConfig {
            chunk_blocks: options.chunk_blocks,
            group_rows: options.group_rows,
            tabled: options.tabled,
            volume_blocks,
            entry_bytes,
            writethrough: options.writethrough,
        }),
    })
}

fn refused(drive: &OfferedDrive, unusable: Unusable) -> CreateError {
    let label = drive.label.clone();
    match unusable {
        Unusable::NotEmpty => CreateError::NotEmpty { label },
        Unusable::NoSuperblockZones => CreateError::NoSuperblockZones { label },
        Unusable::Failed(status) => CreateError::Failed { label, status },
    }
}

/// Reduces the volume to the capacity of the drive that has lost most zones.
fn fit_to_usable(
    config: &mut ArrayConfig,
    reports: &[Vec<ZoneInfo>],
    options: &CreateOptions,
) -> Result<(), CreateError> {
    let usable = |zones: &Vec<ZoneInfo>| zones.iter().filter(|info| is_usable(info)).count();
    let fewest = reports.iter().map(usable).min().unwrap_or(0);
    let fewest = u32::try_from(fewest).unwrap_or(u32::MAX).min(config.zones);
    let (unit, capacity) = (config.write_unit, config.zone_capacity);
    let (chunk, group) = (config.log().chunk_blocks, config.log().group_rows);
    let (shape, _) = check_shape(config.scheme, unit, capacity, fewest, chunk, group)?;
    if options.volume_blocks.is_none() {
        config.log_mut().volume_blocks =
            config.log().volume_blocks.min(largest_volume(&shape, fewest));
    }
    Ok(check_size(&shape, fewest, config.log().volume_blocks)?)
}
