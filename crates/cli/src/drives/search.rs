//! Finds the drives of arrays by what they carry: superblocks name their array.

use std::collections::BTreeSet;
use std::path::PathBuf;

use zoneweave_raid::array::start::membership::MembershipRecord;
use zoneweave_raid::log::format::ArrayUuid;

use super::candidates::{devices, files};
use super::membership::membership_of;
use crate::error::CliError;
use crate::session::{Access, Session};

/// A member of an array, in service or not.
#[derive(Clone)]
pub(crate) struct FoundMember {
    pub(crate) path: PathBuf,
    pub(crate) record: MembershipRecord,
}

impl FoundMember {
    /// The volume that its array is, or is a shard of.
    pub(crate) fn volume(&self) -> ArrayUuid {
        self.record.config.shard.volume(self.record.config.array)
    }
}

/// Looks for members, at each path once.
#[derive(Default)]
pub(crate) struct Search {
    folders: Vec<PathBuf>,
    examined: BTreeSet<PathBuf>,
}

impl Search {
    /// A search of the zoned devices of this machine, and of the files in folders.
    pub(crate) fn of(folders: &[PathBuf]) -> Self {
        Self { folders: folders.to_vec(), examined: BTreeSet::new() }
    }

    /// Members that were not found before. A path that cannot be opened now is tried again.
    ///
    /// # Errors
    /// If a folder cannot be listed.
    pub(crate) fn next(&mut self, session: &Session) -> Result<Vec<FoundMember>, CliError> {
        let mut found = Vec::new();
        for path in devices().into_iter().chain(files(&self.folders)?) {
            if self.examined.contains(&path) {
                continue;
            }
            let Ok(named) = session.open(&path, Access::Look) else { continue };
            let Ok(record) = session.executor.run(membership_of(&named)) else { continue };
            self.examined.insert(path.clone());
            found.extend(record.map(|record| FoundMember { path, record }));
        }
        Ok(found)
    }
}

/// The members of one array.
pub(crate) struct ArraySearch {
    /// Name or UUID.
    array: String,
    search: Search,
    /// The volume, once a member was found.
    volume: Option<ArrayUuid>,
}

impl ArraySearch {
    pub(crate) fn of(array: &str, folders: &[PathBuf]) -> Self {
        Self { array: array.to_owned(), search: Search::of(folders), volume: None }
    }

    /// Name or UUID of the array.
    pub(crate) fn array(&self) -> &str {
        &self.array
    }

    /// Members of the array that were not found before, in all its shards.
    ///
    /// # Errors
    /// If several arrays have this name.
    pub(crate) fn next(&mut self, session: &Session) -> Result<Vec<PathBuf>, CliError> {
        let mut members = self.search.next(session)?;
        members.retain(|member| is_called(member, &self.array));
        for member in &members {
            let volume = *self.volume.get_or_insert(member.volume());
            if volume != member.volume() {
                let arrays = [volume, member.volume()];
                let arrays = arrays.map(|array| array.to_string());
                return Err(CliError::SameName { name: self.array.clone(), arrays });
            }
        }
        Ok(members.into_iter().map(|member| member.path).collect())
    }
}

/// Whether the array of a member has this name or UUID.
pub(crate) fn is_called(member: &FoundMember, array: &str) -> bool {
    let config = &member.record.config;
    let uuids = [member.volume(), config.array];
    config.name == array || uuids.iter().any(|uuid| uuid.to_string().eq_ignore_ascii_case(array))
}
