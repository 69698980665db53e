//! Finds the drives of arrays by what they carry: superblocks name their array.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use zoneweave_raid::array::start::membership::MembershipRecord;
use zoneweave_raid::log::format::{ArrayUuid, MemberState, MemberUuid};

use super::candidates::{devices, files};
use super::identity::FileIdentity;
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

/// Looks for members, at each path once. A folder may have links to drives, and each drive is found
/// under one of its names.
#[derive(Default)]
pub(crate) struct Search {
    folders: Vec<PathBuf>,
    examined: BTreeSet<PathBuf>,
    known: BTreeSet<FileIdentity>,
}

impl Search {
    /// A search of the zoned devices of this machine, and of the files in folders.
    pub(crate) fn of(folders: &[PathBuf]) -> Self {
        Self { folders: folders.to_vec(), ..Self::default() }
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
            let Some(record) = record else { continue };
            if FileIdentity::at(&path).is_none_or(|identity| self.known.insert(identity)) {
                found.push(FoundMember { path, record });
            }
        }
        Ok(found)
    }
}

/// The members of one array.
pub(crate) struct ArraySearch {
    /// Name or UUID.
    array: String,
    search: Search,
    /// All members of any array that were found.
    found: Vec<FoundMember>,
    /// Members of the array that were returned.
    returned: BTreeSet<PathBuf>,
}

impl ArraySearch {
    pub(crate) fn of(array: &str, folders: &[PathBuf]) -> Self {
        Self {
            array: array.to_owned(),
            search: Search::of(folders),
            found: Vec::new(),
            returned: BTreeSet::new(),
        }
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
        self.found.extend(self.search.next(session)?);
        let members = of_array(&self.found, &self.array)?.into_iter().map(|member| member.path);
        let new: Vec<_> = members.filter(|path| !self.returned.contains(path)).collect();
        self.returned.extend(new.iter().cloned());
        Ok(new)
    }
}

/// The members of the volume with this name or UUID, in all its shards. A volume has the name in
/// the newest record of any shard: members may know a former one, where a change of the name was
/// interrupted, or they missed it.
///
/// # Errors
/// If several volumes have this name.
pub(crate) fn of_array(members: &[FoundMember], array: &str) -> Result<Vec<FoundMember>, CliError> {
    let mut newest: BTreeMap<ArrayUuid, &FoundMember> = BTreeMap::new();
    for member in members {
        let age = |of: &FoundMember| (of.record.epoch, of.record.record_sequence);
        let known = newest.entry(member.record.config.array).or_insert(member);
        if age(member) > age(known) {
            *known = member;
        }
    }
    let called = newest.values().filter(|member| is_called(member, array));
    let mut volumes: BTreeSet<_> = called.map(|member| member.volume()).collect();
    if volumes.len() > 1 {
        // A drive that was left behind by a volume of that name makes no second one.
        let is_whole = |volume: &ArrayUuid| {
            let mut arrays = newest.values().filter(|newest| newest.volume() == *volume);
            arrays.all(|newest| has_majority(newest, members))
        };
        let whole: BTreeSet<_> = volumes.iter().copied().filter(is_whole).collect();
        if whole.len() == 1 {
            volumes = whole;
        }
    }
    let mut volumes = volumes.into_iter();
    match (volumes.next(), volumes.next()) {
        (Some(one), Some(other)) => {
            let arrays = [one, other].map(|array| array.to_string());
            Err(CliError::SameName { name: array.to_owned(), arrays })
        }
        (volume, _) => {
            let own = members.iter().filter(|member| Some(member.volume()) == volume);
            Ok(own.cloned().collect())
        }
    }
}

/// Whether more than half of the members are here that the newest record of an array has in
/// service.
fn has_majority(newest: &FoundMember, members: &[FoundMember]) -> bool {
    let table = &newest.record.members;
    let in_service = table.iter().filter(|entry| entry.state != MemberState::Failed);
    let is_here = |uuid: MemberUuid| members.iter().any(|member| member.record.member == uuid);
    in_service.filter(|entry| is_here(entry.uuid)).count() * 2 > table.len()
}

/// Whether the array of a member has this name or UUID.
fn is_called(member: &FoundMember, array: &str) -> bool {
    let config = &member.record.config;
    let uuids = [member.volume(), config.array];
    config.name == array || uuids.iter().any(|uuid| uuid.to_string().eq_ignore_ascii_case(array))
}
