//! Creates an array with a zoned volume.

use thiserror::Error;
use zoneweave_zoned::{BlockCount, OobKind, Status, ZoneInfo};

use crate::array::create::{NewArray, Unusable, look, prepare};
use crate::array::format::config::{ArrayConfig, Checksums, VolumeKind, ZonedConfig};
use crate::array::format::envelope::ArrayUuid;
use crate::array::format::numbers::Lineage;
use crate::array::format::record::MemberUuid;
use crate::array::offered::OfferedDrive;
use crate::array::repair::fit::is_usable;
use crate::raizn::format::body::ZonedBody;
use crate::raizn::layout::{
    ACTIVE_RESERVE, Layout, RESERVED_ZONES, UNIT_BLOCKS_MOST, volume_geometry,
};
use crate::scheme::{Column, Scheme};
use crate::shards::Shard;

/// Longest name of an array.
pub(crate) const NAME_BYTES: usize = 32;

/// A zoned volume to be created.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// UUID of the array: random.
    pub array: ArrayUuid,
    /// Name of the array, at most 32 bytes.
    pub name: String,
    /// The members' identities, by slot: random.
    pub members: Vec<MemberUuid>,
    /// Distinguishes this history from others: random.
    pub lineage: Lineage,
    /// Data and parity units of a stripe.
    pub scheme: Scheme,
    /// A stripe unit: 1 to 32 blocks.
    pub unit: BlockCount,
    /// Whether blocks get checksums, on drives that have metadata for them.
    pub checksums: bool,
    /// Whether drives with contents are erased first.
    pub wipe: bool,
}

/// Why a zoned volume was not created.
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
    /// A zoned volume has parity.
    #[error(
        "a zoned volume has 1 or 2 parity units per stripe and at least 3 drives, not {scheme}"
    )]
    Scheme {
        /// The requested scheme.
        scheme: Scheme,
    },
    /// The stripe unit is too large, or larger than a zone.
    #[error(
        "stripe units of {unit} are not possible: choose 1 to {UNIT_BLOCKS_MOST}, and at most a zone of {capacity}"
    )]
    Unit {
        /// The requested stripe unit.
        unit: BlockCount,
        /// Capacity of the zones.
        capacity: BlockCount,
    },
    /// The name is too long.
    #[error("the name {name:?} is longer than {NAME_BYTES} bytes: choose a shorter one")]
    NameTooLong {
        /// The requested name.
        name: String,
    },
    /// Drives have too few zones.
    #[error(
        "{label} has {zones} zones: a zoned volume keeps {RESERVED_ZONES} of each drive for itself"
    )]
    TooFewZones {
        /// Label of the drive.
        label: String,
        /// Its zones.
        zones: u32,
    },
    /// A zone that the volume needs cannot be written.
    #[error(
        "{label} has a read-only or offline zone ({zone}): the zones of a zoned volume are fixed"
    )]
    UnusableZone {
        /// Label of the drive.
        label: String,
        /// The zone.
        zone: u32,
    },
    /// Drives allow too few open or active zones.
    #[error(
        "the drives allow too few open or active zones: the volume keeps {ACTIVE_RESERVE} for itself"
    )]
    TooFewActiveZones,
    /// The parity log cannot hold a stripe unit for every active zone twice.
    #[error(
        "zones of {capacity} are too small for the parity log: it needs {needed}; use smaller stripe units"
    )]
    ZonesTooSmall {
        /// Capacity of the zones.
        capacity: BlockCount,
        /// Blocks that the log needs.
        needed: u64,
    },
    /// A drive writes units of several blocks.
    #[error("{label} keeps metadata among its blocks, which a zoned volume cannot use")]
    WriteUnit {
        /// Label of the drive.
        label: String,
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

/// Creates an array with a zoned volume, which can be opened from the drives afterwards.
///
/// # Errors
/// If the drives do not fit, have contents, or fail. Nothing is written before all were checked.
pub async fn create(
    drives: &[OfferedDrive],
    options: &CreateOptions,
) -> Result<ArrayConfig, CreateError> {
    let config = plan(drives, options)?;
    let mut reports = Vec::new();
    for drive in drives {
        let report =
            look(drive, options.wipe).await.map_err(|unusable| refused(drive, unusable))?;
        check_zones(drive, &report, config.zones)?;
        reports.push(report);
    }
    let mut zones = Vec::new();
    for (drive, report) in drives.iter().zip(&reports) {
        let prepared = prepare(drive, report).await;
        zones.push(prepared.map_err(|unusable| refused(drive, unusable))?);
    }
    assert!(zones.len() == config.scheme.columns(), "superblock zones on every drive");
    let new = NewArray { config: &config, lineage: options.lineage, members: &options.members };
    for (slot, (drive, superblocks)) in drives.iter().zip(zones).enumerate() {
        let written = new.write_to::<ZonedBody>(Column::of(slot), drive, superblocks).await;
        written.map_err(|unusable| refused(drive, unusable))?;
    }
    Ok(config)
}

/// The configuration that follows from the options and drives.
///
/// # Errors
/// As [`create`], for everything that can be checked without access to the drives' contents.
pub fn plan(drives: &[OfferedDrive], options: &CreateOptions) -> Result<ArrayConfig, CreateError> {
    let (scheme, unit) = (options.scheme, options.unit);
    if drives.len() != scheme.columns() || options.members.len() != drives.len() {
        let (needed, given) = (scheme.columns(), drives.len());
        return Err(CreateError::WrongCount { scheme, needed, given });
    }
    if !(1..=2).contains(&scheme.parity()) || scheme.columns() < 3 || scheme.is_mirrored() {
        return Err(CreateError::Scheme { scheme });
    }
    if options.name.len() > NAME_BYTES {
        return Err(CreateError::NameTooLong { name: options.name.clone() });
    }
    let geometries = || drives.iter().map(|drive| drive.device.geometry());
    let capacity = geometries().map(|g| g.zone_capacity).min().unwrap_or(BlockCount(0));
    if !(1..=UNIT_BLOCKS_MOST).contains(&unit.0) || unit > capacity {
        return Err(CreateError::Unit { unit, capacity });
    }
    for drive in drives {
        let (label, geometry) = (drive.label.clone(), drive.device.geometry());
        if geometry.write_unit.0 != 1 {
            return Err(CreateError::WriteUnit { label });
        }
        if geometry.zones <= RESERVED_ZONES {
            return Err(CreateError::TooFewZones { label, zones: geometry.zones });
        }
    }
    let zones = geometries().map(|g| g.zones).min().unwrap_or(0);
    let layout = Layout::new(scheme, unit.0, capacity, zones);
    let layout = layout.ok_or(CreateError::Unit { unit, capacity })?;
    let volume = volume_geometry(&layout, geometries()).ok_or(CreateError::TooFewActiveZones)?;
    let active = volume.max_active.unwrap_or(volume.zones).min(volume.zones);
    let needed = 4 * u64::from(active + 1) * u64::from(unit.0 + 1);
    if active > layout.active_most(capacity) {
        return Err(CreateError::ZonesTooSmall { capacity, needed });
    }
    assert!(zones > RESERVED_ZONES && layout.zones() == zones - RESERVED_ZONES, "{zones} zones");
    let has_metadata = geometries().all(|geometry| geometry.oob != OobKind::None);
    let checksums = match options.checksums && has_metadata {
        true => Checksums::Metadata,
        false => Checksums::None,
    };
    Ok(ArrayConfig {
        array: options.array,
        name: options.name.clone(),
        scheme,
        write_unit: BlockCount(1),
        zone_capacity: capacity,
        zones,
        shard: Shard::WHOLE,
        volume: VolumeKind::Zoned(ZonedConfig { unit_blocks: unit.0, checksums }),
    })
}

/// Checks that all zones of the volume can be written.
fn check_zones(drive: &OfferedDrive, report: &[ZoneInfo], zones: u32) -> Result<(), CreateError> {
    let mut used = report.iter().take(zones as usize);
    match used.find(|info| !is_usable(info)) {
        Some(info) => {
            Err(CreateError::UnusableZone { label: drive.label.clone(), zone: info.zone.0 })
        }
        None => Ok(()),
    }
}

fn refused(drive: &OfferedDrive, unusable: Unusable) -> CreateError {
    let label = drive.label.clone();
    match unusable {
        Unusable::NotEmpty => CreateError::NotEmpty { label },
        Unusable::NoSuperblockZones => CreateError::NoSuperblockZones { label },
        Unusable::Failed(status) => CreateError::Failed { label, status },
    }
}
