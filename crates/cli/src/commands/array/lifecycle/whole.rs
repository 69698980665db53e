//! The members of a volume, in all its shards, as they are on media. Nothing is started or written.

use std::collections::BTreeMap;
use std::path::PathBuf;

use zoneweave_raid::array::format::config::VolumeKind;
use zoneweave_raid::array::start::membership::MembershipRecord;
use zoneweave_raid::log::format::ArrayUuid;
use zoneweave_raid::log::{DriveRole, DriveVerdict, survey};
use zoneweave_raid::{raizn, shards};
use zoneweave_store::missing_slots;
use zoneweave_zoned::BLOCK_BYTES;

use crate::control::{Client, socket_of};
use crate::drives::consent::holdings;
use crate::drives::membership::membership_of;
use crate::error::{CliError, LifecycleError};
use crate::exit::Exit;
use crate::format::slots;
use crate::session::{Access, Drives, NamedDrive, Session, offer};
use crate::zoned;

/// The members of a volume.
pub(super) struct Whole {
    pub(super) name: String,
    pub(super) uuid: ArrayUuid,
    /// Its arrays of which drives were given, by their number.
    pub(super) shards: Vec<OneArray>,
    /// Number of its arrays.
    pub(super) of: usize,
    /// Why drives were left out that could not be opened.
    pub(super) unopened: Vec<String>,
}

/// Which histories of an array are accepted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Histories {
    /// The one that counts, which has to be known.
    OneThatCounts,
    /// Any: drives that were started apart are all of the array.
    Any,
}

/// The drives of an array, and its members.
pub(super) struct OneArray {
    pub(super) membership: MembershipRecord,
    pub(super) drives: Vec<NamedDrive>,
    pub(super) verdicts: Vec<DriveVerdict>,
    /// Which drives are marked to be erased.
    marked: Vec<bool>,
}

impl OneArray {
    /// Slots of members in service that were not given.
    pub(super) fn missing(&self) -> Vec<u8> {
        missing_slots(&self.membership, &self.verdicts)
    }

    pub(super) fn paths(&self) -> Vec<PathBuf> {
        self.drives.iter().map(|named| named.drive.path().to_owned()).collect()
    }

    pub(super) fn is_zoned(&self) -> bool {
        matches!(self.membership.config.volume, VolumeKind::Zoned(_))
    }
}

impl Whole {
    /// Opens drives, all of which have to be of one volume, or blank. Those that are there and
    /// cannot be opened are left out where any history is accepted.
    ///
    /// # Errors
    /// If one cannot be opened otherwise, or read, holds something else, or is a copy of another;
    /// or if the history of the array that counts cannot be determined.
    pub(super) fn open(
        session: &Session,
        paths: &[PathBuf],
        access: Access,
        histories: Histories,
    ) -> Result<Self, CliError> {
        let Drives { opened: drives, unopened } = match histories {
            Histories::OneThatCounts => {
                let opened = session.open_all(paths, access)?;
                Drives { opened, ..Drives::default() }
            }
            Histories::Any => session.open_each(paths, access)?,
        };
        let unopened: Vec<CliError> = unopened.into_iter().map(|left| left.error.into()).collect();
        // A path to nothing is a mistake: a drive that is missing need not be named.
        if let Some(at) = unopened.iter().position(|error| error.exit() == Exit::NotFound) {
            return Err(unopened.into_iter().nth(at).expect("it was found"));
        }
        let unopened: Vec<_> = unopened.iter().map(ToString::to_string).collect();
        let mut of_arrays: BTreeMap<[u8; 16], Vec<NamedDrive>> = BTreeMap::new();
        let (mut first, mut others): (Option<MembershipRecord>, Vec<NamedDrive>) =
            (None, Vec::new());
        for named in drives {
            let failed = |status| CliError::DriveFailed { label: named.label.clone(), status };
            let record = session.executor.run(membership_of(&named)).map_err(failed)?;
            let Some(record) = record else {
                others.push(named);
                continue;
            };
            let volume =
                |record: &MembershipRecord| record.config.shard.volume(record.config.array);
            let known = first.get_or_insert_with(|| record.clone());
            if volume(known) != volume(&record) {
                let what = format!(
                    "is a member of array {} ({})",
                    record.config.name, record.config.array
                );
                let (label, name) = (named.label.clone(), known.config.name.clone());
                return Err(LifecycleError::Stranger { label, what, name }.into());
            }
            of_arrays.entry(record.config.array.0).or_default().push(named);
        }
        let no_array = || CliError::NoArray.because_of(unopened.first().cloned());
        let first = first.ok_or_else(no_array)?;
        for named in &others {
            if let Some(holds) = session.executor.run(holdings(named))? {
                let (label, name) = (named.label.clone(), first.config.name.clone());
                let what = format!("holds {}", holds.text);
                return Err(LifecycleError::Stranger { label, what, name }.into());
            }
        }
        let shards = of_arrays.into_values().map(|drives| look(session, drives, histories));
        let shards: Vec<_> = shards.collect::<Result<_, _>>()?;
        // Shards are renamed one after the other, the first of them last.
        let name = shards.first().map_or(&first, |array| &array.membership).config.name.clone();
        let uuid = first.config.shard.volume(first.config.array);
        assert!(!shards.is_empty(), "a member was found");
        Ok(Self { name, uuid, shards, of: first.config.shard.of(), unopened })
    }

    /// As [`Self::open`], of a volume that nobody else has: its drives are locked from now on.
    ///
    /// # Errors
    /// Also if it is served.
    pub(super) fn lock(
        session: &Session,
        paths: &[PathBuf],
        histories: Histories,
    ) -> Result<Self, CliError> {
        let socket = {
            let seen = Self::open(session, paths, Access::Look, histories)?;
            seen.refuse_served()?;
            socket_of(seen.uuid)
        };
        Self::open(session, paths, Access::Exclusive, histories).map_err(|error| match error {
            CliError::Drive(error) if error.is_in_use() => {
                CliError::NoServer { problem: error.to_string(), socket }
            }
            other => other,
        })
    }

    /// Refuses a volume that is served.
    ///
    /// # Errors
    /// Also if a server does not answer.
    pub(super) fn refuse_served(&self) -> Result<(), CliError> {
        for array in &self.shards {
            let socket = socket_of(array.membership.config.array);
            if Client::connect(&socket)?.is_some() {
                return Err(LifecycleError::Served { name: self.name.clone(), socket }.into());
            }
        }
        Ok(())
    }

    /// Whether all members here are marked to be erased. Then all members were, before the first
    /// was erased: those that are not here may be.
    pub(super) fn is_marked(&self) -> bool {
        let all_of = |array: &OneArray| {
            let is_member =
                |verdict: &DriveVerdict| matches!(verdict.role, DriveRole::Member { .. });
            let mut drives = array.verdicts.iter().zip(&array.marked);
            drives.all(|(verdict, marked)| *marked || !is_member(verdict))
                && array.verdicts.iter().any(is_member)
        };
        self.shards.iter().all(all_of)
    }

    /// Members and shards that were not given, in words.
    pub(super) fn absent(&self) -> Option<String> {
        let several = self.of > 1;
        let of_array = |array: &OneArray| {
            let missing = array.missing();
            let shard = array.membership.config.shard.number();
            let of = if several { format!(" of shard {shard}") } else { String::new() };
            (!missing.is_empty()).then(|| format!("{}{of}", slots(&missing)))
        };
        let mut absent: Vec<_> = self.shards.iter().filter_map(of_array).collect();
        let is_here = |number: &usize| {
            let numbers = self.shards.iter().map(|array| array.membership.config.shard.number());
            numbers.map(usize::from).any(|here| here == *number)
        };
        let gone = (0..self.of).filter(|number| !is_here(number));
        absent.extend(gone.map(|number| format!("shard {number}")));
        (!absent.is_empty()).then(|| absent.join(", "))
    }

    /// Size of the volume; `None` if its drives leave nothing for it.
    pub(super) fn size_bytes(&self) -> Option<u64> {
        let blocks = self.shards.iter().map(|array| match &array.membership.config.volume {
            VolumeKind::Log(log) => Some(log.volume_blocks),
            VolumeKind::Zoned(_) => {
                let geometries = array
                    .drives
                    .iter()
                    .map(|named| zoneweave_zoned::ZonedDevice::geometry(&*named.drive));
                let volume = raizn::geometry(&array.membership.config, geometries).ok()?;
                Some(volume.capacity_blocks())
            }
        });
        let least = blocks.min()??;
        Some(shards::volume_blocks(least, self.of) * BLOCK_BYTES as u64)
    }
}

/// Finds the members of an array among its drives.
fn look(
    session: &Session,
    drives: Vec<NamedDrive>,
    histories: Histories,
) -> Result<OneArray, CliError> {
    let mut records = Vec::new();
    for named in &drives {
        let failed = |status| CliError::DriveFailed { label: named.label.clone(), status };
        records.push(session.executor.run(membership_of(named)).map_err(failed)?);
    }
    let marked = records.iter().map(|record| record.as_ref().is_some_and(|it| it.is_destroyed));
    let marked = marked.collect();
    let mut kinds = records.iter().flatten().map(|record| &record.config.volume);
    let is_log = kinds.all(|kind| matches!(kind, VolumeKind::Log(_)));
    let (membership, verdicts, refusal) = if is_log {
        let found = session.executor.run(survey(offer(&drives)));
        let membership = found.membership.as_ref().map(MembershipRecord::of);
        (membership, found.drives, found.refusal.map(CliError::from))
    } else {
        let found = session.executor.run(raizn::survey(zoned::offer(&drives)));
        (found.membership, found.drives, found.refusal.map(CliError::from))
    };
    let is_copy = |verdict: &DriveVerdict| matches!(verdict.role, DriveRole::Copy { .. });
    let refusal = refusal.unwrap_or(CliError::NoArray);
    let newest = || {
        let of_any = records.iter().flatten().filter(|_| histories == Histories::Any);
        of_any.max_by_key(|record| (record.epoch, record.record_sequence)).cloned()
    };
    let membership = membership.or_else(newest);
    match membership {
        Some(membership) if !verdicts.iter().any(is_copy) => {
            Ok(OneArray { membership, drives, verdicts, marked })
        }
        _ => Err(refusal),
    }
}
