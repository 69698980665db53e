//! Which of the drives that are named belong to which shard of a volume.
//!
//! Invariant: what is told of a shard, and started as one, are drives whose own superblock says that they belong to it. Others
//! are never among them, however many there are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use zoneweave_raid::log::format::{ArrayConfig, ArrayUuid};
use zoneweave_raid::log::recover::records::read_records;
use zoneweave_raid::shards::Shard;

use crate::error::CliError;
use crate::session::{Access, Drives, Session};

/// Drives of a volume that several arrays hold.
pub(crate) struct ShardedDrives {
    /// What people call the volume.
    pub(crate) name: String,
    /// The first shard, whose identity is the volume's.
    first: ArrayUuid,
    /// The drives of each shard, by its number.
    pub(crate) of_shards: Vec<Vec<PathBuf>>,
    /// Drives that belong to none of them, or are not there.
    pub(crate) strangers: Vec<PathBuf>,
}

impl ShardedDrives {
    /// The array that is a shard.
    pub(crate) fn array(&self, number: usize) -> ArrayUuid {
        let shard = Shard::new(number, self.of_shards.len()).expect("one of the volume's shards");
        shard.array(self.first)
    }

    /// Shards of which drives are named.
    fn named(&self) -> impl Iterator<Item = &Vec<PathBuf>> {
        self.of_shards.iter().filter(|drives| !drives.is_empty())
    }
}

/// The drives by shard; `None` where they are no array, or more are of one that is a volume by itself than of any other volume.
pub(crate) fn by_shard(
    session: &Session,
    paths: &[PathBuf],
) -> Result<Option<ShardedDrives>, CliError> {
    let drives = session.open_some(paths, Access::Look)?;
    sorted(session, paths, &drives)
}

fn sorted(
    session: &Session,
    paths: &[PathBuf],
    drives: &Drives,
) -> Result<Option<ShardedDrives>, CliError> {
    let configs = paths.iter().map(|path| Ok((path, config_of(session, path, drives)?)));
    let configs: Vec<_> = configs.collect::<Result<_, CliError>>()?;
    let mut counts = BTreeMap::<_, usize>::new();
    for config in configs.iter().filter_map(|(_, config)| config.as_ref()) {
        *counts.entry(volume_of(config)).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    let Some((volume @ (first, shards), _)) = most.filter(|((_, shards), _)| *shards > 1) else {
        return Ok(None);
    };
    let (mut of_shards, mut strangers) = (vec![Vec::new(); shards], Vec::new());
    let mut name = String::new();
    for (path, config) in configs {
        match config.filter(|config| volume_of(config) == volume) {
            Some(config) => {
                of_shards[usize::from(config.shard.number())].push(path.clone());
                name = config.name;
            }
            None => strangers.push(path.clone()),
        }
    }
    Ok(Some(ShardedDrives { name, first, of_shards, strangers }))
}

/// What tells a volume from others: its first array, and how many there are.
fn volume_of(config: &ArrayConfig) -> (ArrayUuid, usize) {
    (config.shard.volume(config.array), config.shard.of())
}

/// What a drive's newest record says that its array is.
fn config_of(
    session: &Session,
    path: &Path,
    drives: &Drives,
) -> Result<Option<ArrayConfig>, CliError> {
    let Some(named) = drives.opened.iter().find(|named| named.drive.path() == path) else {
        return Ok(None);
    };
    let records = session.executor.run(read_records(&*named.member));
    let records =
        records.map_err(|status| CliError::DriveFailed { label: named.label.clone(), status })?;
    Ok(records.newest().map(|record| record.config.clone()))
}

/// As [`by_shard`], of all shards of the volume.
///
/// # Errors
/// If there are shards of which no drive is named.
pub(crate) fn of_all_shards(
    session: &Session,
    paths: &[PathBuf],
) -> Result<Option<ShardedDrives>, CliError> {
    let Some(sharded) = by_shard(session, paths)? else { return Ok(None) };
    match sharded.of_shards.iter().position(Vec::is_empty) {
        Some(number) => {
            let of = sharded.of_shards.len();
            Err(CliError::MissingShard { name: sharded.name, number, of })
        }
        None => Ok(Some(sharded)),
    }
}

/// Makes sure which array is meant, where a volume has several.
pub(crate) fn refuse_several(
    session: &Session,
    paths: &[PathBuf],
    drives: &Drives,
) -> Result<(), CliError> {
    let Some(sharded) = sorted(session, paths, drives)? else { return Ok(()) };
    let mut named = sharded.named();
    match (named.next(), named.next()) {
        (Some(first), Some(_)) => {
            Err(CliError::SeveralShards { name: sharded.name.clone(), drives: first.clone() })
        }
        _ => Ok(()),
    }
}
