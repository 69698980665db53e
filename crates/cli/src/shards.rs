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
use crate::format::words;
use crate::output::Output;
use crate::session::{Access, Drives, Session};

/// Drives of a volume that several arrays hold.
pub(crate) struct ShardedDrives {
    /// What people call the volume.
    pub(crate) name: String,
    /// The first shard, whose identity is the volume's.
    first: ArrayUuid,
    /// The drives of each shard, by its number.
    pub(crate) of_shards: Vec<Vec<PathBuf>>,
    /// What the others are that are named, in words.
    strangers: Vec<String>,
}

impl ShardedDrives {
    /// The array that is a shard.
    pub(crate) fn array(&self, number: usize) -> ArrayUuid {
        let shard = Shard::new(number, self.of_shards.len()).expect("one of the volume's shards");
        shard.array(self.first)
    }

    /// Tells which drives that are named do not belong to the volume.
    pub(crate) fn tell_strangers(&self, output: &Output) {
        for stranger in &self.strangers {
            output.warning(format_args!("{stranger}: left alone"));
        }
    }

    /// Makes sure that drives of every shard are named.
    pub(crate) fn refuse_missing(&self) -> Result<(), CliError> {
        let (name, of) = (self.name.clone(), self.of_shards.len());
        match self.of_shards.iter().position(Vec::is_empty) {
            Some(number) => Err(CliError::MissingShard { name, number, of }),
            None => Ok(()),
        }
    }

    /// Makes sure that drives of one shard are named, and of no other.
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

/// The drives by shard; `None` where they are no array, or more are of one that is a volume by itself than of any other volume.
pub(crate) fn by_shard(
    session: &Session,
    paths: &[PathBuf],
) -> Result<Option<ShardedDrives>, CliError> {
    let drives = session.open_some(paths, Access::Look)?;
    sorted(session, paths, &drives)
}

/// What a drive that is named is.
enum Named {
    Member(ArrayConfig),
    /// In words.
    Other(String),
}

fn sorted(
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
            Named::Member(ArrayConfig { name, array, .. }) => strangers
                .push(format!("{} is a member of another array, {name} ({array})", path.display())),
            Named::Other(text) => strangers.push(text),
        }
    }
    Ok(Some(ShardedDrives { name, first, of_shards, strangers }))
}

/// What tells a volume from others: its first array, and how many there are.
fn volume_of(config: &ArrayConfig) -> (ArrayUuid, usize) {
    (config.shard.volume(config.array), config.shard.of())
}

/// What a drive's newest record says that its array is.
fn look_at(session: &Session, path: &Path, drives: &Drives) -> Result<Named, CliError> {
    let label = path.display().to_string();
    let Some(named) = drives.opened.iter().find(|named| named.drive.path() == path) else {
        let unopened = drives.unopened.iter().find(|unopened| unopened.label == label);
        return Ok(Named::Other(unopened.map_or(label, |unopened| unopened.error.to_string())));
    };
    // A drive that tells nothing costs no more than itself.
    Ok(match session.executor.run(read_records(&*named.member)) {
        Ok(records) => match records.newest() {
            Some(record) => Named::Member(record.config.clone()),
            None => Named::Other(format!("{label} is no member of an array")),
        },
        Err(status) => Named::Other(CliError::DriveFailed { label, status }.to_string()),
    })
}

/// Makes sure which array is meant, where a volume has several.
pub(crate) fn refuse_several(
    session: &Session,
    paths: &[PathBuf],
    drives: &Drives,
) -> Result<(), CliError> {
    sorted(session, paths, drives)?.map_or(Ok(()), ShardedDrives::refuse_several)
}
