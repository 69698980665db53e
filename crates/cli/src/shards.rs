//! Sorts drives by the shard of a volume that they belong to.
//!
//! Invariant: a shard is only ever shown or started with drives whose own superblock names it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use zoneweave_raid::log::format::{ArrayConfig, ArrayUuid};
use zoneweave_raid::log::recover::records::read_records;
use zoneweave_raid::shards::Shard;

use crate::error::CliError;
use crate::format::words;
use crate::output::Output;
use crate::session::{Access, Drives, Session};

/// The drives of a sharded volume.
pub(crate) struct ShardedDrives {
    /// Name of the volume.
    pub(crate) name: String,
    /// The array of the first shard, which identifies the volume.
    first: ArrayUuid,
    /// The drives of each shard.
    pub(crate) of_shards: Vec<Vec<PathBuf>>,
    /// The other drives given: what each holds, or the error of its opening.
    strangers: Vec<(String, String)>,
}

impl ShardedDrives {
    /// The array of a shard.
    pub(crate) fn array(&self, number: usize) -> ArrayUuid {
        let shard = Shard::new(number, self.of_shards.len()).expect("a shard of the volume");
        shard.array(self.first)
    }

    /// Warns of drives that do not belong to the volume.
    pub(crate) fn tell_strangers(&self, output: &Output) {
        for (label, holds) in &self.strangers {
            output.warning(format_args!("{label} {holds}: ignored"));
        }
    }

    /// The first drive that does not belong to the volume.
    pub(crate) fn stranger(&self) -> Option<&(String, String)> {
        self.strangers.first()
    }

    /// Checks that drives of every shard were given.
    pub(crate) fn refuse_missing(&self) -> Result<(), CliError> {
        let (name, of) = (self.name.clone(), self.of_shards.len());
        match self.of_shards.iter().position(Vec::is_empty) {
            Some(number) => Err(CliError::MissingShard { name, number, of }),
            None => Ok(()),
        }
    }

    /// Checks that the drives belong to one shard only.
    fn refuse_several(self) -> Result<(), CliError> {
        let named = self.of_shards.iter().enumerate().filter(|(_, drives)| !drives.is_empty());
        let named: Vec<_> = named
            .map(|(number, drives)| format!("\n  shard {number}  {}", words(drives)))
            .collect();
        match named.len() {
            0 | 1 => Ok(()),
            _ => Err(CliError::SeveralShards { name: self.name, shards: named.concat() }),
        }
    }
}

/// Sorts drives by shard; `None` if they belong to no array, or most of them to a volume without
/// shards.
pub(crate) fn by_shard(
    session: &Session,
    paths: &[PathBuf],
) -> Result<Option<ShardedDrives>, CliError> {
    let drives = session.open_some(paths, Access::Look)?;
    sorted(session, paths, &drives)
}

/// A drive that was given.
enum Named {
    Member(ArrayConfig),
    /// What it holds.
    Other(String),
}

/// As [`by_shard`], of drives that are open.
pub(crate) fn sorted(
    session: &Session,
    paths: &[PathBuf],
    drives: &Drives,
) -> Result<Option<ShardedDrives>, CliError> {
    let named = paths.iter().map(|path| Ok((path, look_at(session, path, drives)?)));
    let named: Vec<_> = named.collect::<Result<_, CliError>>()?;
    let mut counts = BTreeMap::<_, usize>::new();
    for (_, what) in &named {
        if let Named::Member(config) = what {
            *counts.entry(volume_of(config)).or_default() += 1;
        }
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    let Some((volume @ (first, shards), _)) = most.filter(|((_, shards), _)| *shards > 1) else {
        return Ok(None);
    };
    let (mut of_shards, mut strangers) = (vec![Vec::new(); shards], Vec::new());
    let mut name = String::new();
    for (path, what) in named {
        match what {
            Named::Member(config) if volume_of(&config) == volume => {
                of_shards[usize::from(config.shard.number())].push(path.clone());
                name = config.name;
            }
            Named::Member(ArrayConfig { name, array, .. }) => {
                let holds = format!("belongs to another array, {name} ({array})");
                strangers.push((path.display().to_string(), holds));
            }
            Named::Other(holds) => strangers.push((path.display().to_string(), holds)),
        }
    }
    Ok(Some(ShardedDrives { name, first, of_shards, strangers }))
}

/// The identity of a volume: its first array, and the number of shards.
fn volume_of(config: &ArrayConfig) -> (ArrayUuid, usize) {
    (config.shard.volume(config.array), config.shard.of())
}

/// Reads the array of a drive from its newest record.
fn look_at(session: &Session, path: &Path, drives: &Drives) -> Result<Named, CliError> {
    let label = path.display().to_string();
    let Some(named) = drives.opened.iter().find(|named| named.drive.path() == path) else {
        let unopened = drives.unopened.iter().find(|unopened| unopened.label == label);
        let error = unopened.map(|unopened| unopened.error.to_string());
        return Ok(Named::Other(format!("cannot be opened ({})", error.unwrap_or_default())));
    };
    // A drive that cannot be read is described, and is not an error.
    Ok(match session.executor.run(read_records(&*named.member)) {
        Ok(records) => match records.newest() {
            Some(record) => Named::Member(record.config.clone()),
            None => Named::Other("belongs to no array".to_owned()),
        },
        Err(status) => Named::Other(format!("failed: {status}")),
    })
}

/// Refuses drives of several shards of a volume.
pub(crate) fn refuse_several(
    session: &Session,
    paths: &[PathBuf],
    drives: &Drives,
) -> Result<(), CliError> {
    sorted(session, paths, drives)?.map_or(Ok(()), ShardedDrives::refuse_several)
}
