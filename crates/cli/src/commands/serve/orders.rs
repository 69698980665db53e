//! Drives, spares and index memory of each shard, decided before any shard starts.

use std::path::PathBuf;

use zoneweave_raid::log::format::{ArrayConfig, ArrayUuid};
use zoneweave_raid::log::{DriveRole, Survey, survey};
use zoneweave_raid::shards::Shard;
use zoneweave_zoned::ZonedDeviceExt;

use super::options::{LEAST_INDEX_MEMORY, Served};
use crate::conditions::check_fit;
use crate::drives::consent::holdings;
use crate::drives::space::check_space;
use crate::drives::strangers::first_missing;
use crate::error::{CliError, NewMemberError, usage};
use crate::events::Receivers;
use crate::format::bytes;
use crate::output::Output;
use crate::session::{Access, NamedDrive, Session, offer, refuse_twice};
use crate::shards::sorted;
use crate::start::{Unusable, refuse_unopened};
use crate::status::ShardStatus;

/// An array to start.
#[derive(Clone)]
pub(super) struct Order {
    pub(super) served: Served,
    /// Drives given for it; without shards this includes drives that are not members.
    pub(super) drives: Vec<PathBuf>,
    /// Blank drives for hot spares.
    pub(super) spares: Vec<PathBuf>,
    /// Drives given as spares that hold something, with a description.
    written_spares: Vec<(PathBuf, String)>,
    /// Those of them that were members of this array, and missed writes.
    pub(super) useless_spares: Vec<PathBuf>,
    /// Limit of the in-memory index, in bytes.
    pub(super) index_memory: Option<u64>,
    /// A drive given that belongs to no shard, with what it holds.
    stranger: Option<(String, String)>,
    /// Those of the events of all shards.
    pub(super) receivers: Receivers,
    /// Its shard and UUID, for a sharded volume.
    shard: Option<(Shard, ArrayUuid)>,
}

impl Order {
    /// Checks that the drives belong to the expected array.
    pub(super) fn accept(&self, found: &ArrayConfig) -> Result<(), CliError> {
        let (shard, array) = self.shard.unwrap_or((Shard::WHOLE, found.array));
        if (found.shard, found.array) == (shard, array) {
            return Ok(());
        }
        let (number, found) = (shard.number().into(), found.array.to_string());
        Err(CliError::OtherShard { number, found })
    }

    /// Output with the shard as prefix.
    pub(super) fn output(&self, output: &Output) -> Output {
        match self.shard() {
            Some(shard) => output.about(format_args!("shard {}", shard.number)),
            None => output.clone(),
        }
    }

    /// Adds the shard to an error.
    pub(super) fn failed(&self, error: CliError) -> CliError {
        error.of(self.shard())
    }

    fn shard(&self) -> Option<ShardStatus> {
        self.shard.and_then(|(shard, _)| ShardStatus::of(shard))
    }
}

/// One order per array of the volume. Spares are dealt to shards in turn; index memory is divided
/// evenly.
///
/// # Errors
/// If drives are no members or a spare does not fit: starting anyway could take drives out of
/// service in vain.
pub(super) fn orders(
    session: &Session,
    request: &Served,
    drives: &[PathBuf],
    receivers: &Receivers,
    output: &Output,
) -> Result<Vec<Order>, CliError> {
    refuse_twice(&request.spare)?;
    let spares = sort_spares(session, &request.spare)?;
    let members = spares.iter().filter(|(_, holds)| holds.is_some()).map(|(path, _)| path);
    let drives: Vec<_> = drives.iter().chain(members).cloned().collect();
    let mut opened = session.open_some(&drives, Access::Look)?;
    if request.unusable() == Unusable::Refuse {
        refuse_unopened(session, &mut opened)?;
    }
    let Some(sharded) = sorted(session, &drives, &opened)? else {
        let order = Order {
            served: request.clone(),
            drives,
            spares: spares_of(0, 1, &spares),
            written_spares: written(&spares),
            useless_spares: Vec::new(),
            stranger: None,
            index_memory: request.index_memory,
            receivers: receivers.clone(),
            shard: None,
        };
        return Ok(vec![look_ahead(session, order)?]);
    };
    sharded.tell_strangers(output);
    sharded.refuse_missing()?;
    for (path, holds) in written(&spares) {
        if !sharded.of_shards.iter().any(|drives| drives.contains(&path)) {
            let (drive, name) = (path.display().to_string(), sharded.name.clone());
            return Err(CliError::SpareHolds { drive, name, holds });
        }
    }
    let shards = sharded.of_shards.len();
    let index_memory = share(request.index_memory, shards)?;
    let order = |number: usize| Order {
        served: request.clone(),
        drives: sharded.of_shards[number].clone(),
        spares: spares_of(number, shards, &spares),
        written_spares: written(&spares),
        useless_spares: Vec::new(),
        stranger: sharded.stranger().cloned(),
        index_memory,
        receivers: receivers.clone(),
        shard: Shard::new(number, shards).map(|shard| (shard, sharded.array(number))),
    };
    let looked = (0..shards)
        .map(order)
        .map(|order| look_ahead(session, order.clone()).map_err(|error| order.failed(error)));
    looked.collect()
}

/// Spares with contents.
fn written(spares: &[GivenSpare]) -> Vec<(PathBuf, String)> {
    spares.iter().filter_map(|(path, holds)| Some((path.clone(), holds.clone()?))).collect()
}

/// Index memory of each shard, in bytes.
fn share(index_memory: Option<u64>, shards: usize) -> Result<Option<u64>, CliError> {
    let Some(all) = index_memory else { return Ok(None) };
    let least = LEAST_INDEX_MEMORY * shards as u64;
    if all >= least {
        return Ok(Some(all / shards as u64));
    }
    let problem = format!("{shards} shards need at least {}", bytes(least));
    Err(usage("index-memory")(problem))
}

/// Blank spares of this shard. Spares that are members keep their turn, so that the others stay
/// with their shard.
fn spares_of(number: usize, shards: usize, spares: &[GivenSpare]) -> Vec<PathBuf> {
    let own = spares.iter().skip(number).step_by(shards);
    own.filter(|(_, holds)| holds.is_none()).map(|(path, _)| path.clone()).collect()
}

/// Checks, without writing, that the drives given belong together and that spares can be spares.
fn look_ahead(session: &Session, mut order: Order) -> Result<Order, CliError> {
    let beside_others = order.shard.is_some();
    if !beside_others && order.spares.is_empty() && order.written_spares.is_empty() {
        return Ok(order);
    }
    let drives = session.open_some(&order.drives, Access::Look)?;
    let found = session.executor.run(survey(offer(&drives.opened)));
    if beside_others {
        refuse_beside(&order, &found)?;
    }
    // The start itself refuses drives without an array.
    let Some(record) = found.membership else { return Ok(order) };
    for path in &order.spares {
        check_spare(session, &record.config, &session.open(path, Access::Exclusive)?)?;
    }
    for (verdict, named) in found.drives.iter().zip(&drives.opened) {
        let is_it = |(path, _): &&(PathBuf, String)| path == named.drive.path();
        let Some((path, holds)) = order.written_spares.iter().find(is_it) else { continue };
        match verdict.role {
            DriveRole::Member { .. } => {}
            // A spare became a member and was lost again: the command of the server is the same.
            DriveRole::Stale { .. } | DriveRole::Replaced { .. } => {
                order.useless_spares.push(path.clone());
            }
            DriveRole::Foreign { array } if array == record.config.array => {
                order.useless_spares.push(path.clone());
            }
            _ => {
                let (drive, name) = (named.label.clone(), record.config.name.clone());
                return Err(CliError::SpareHolds { drive, name, holds: holds.clone() });
            }
        }
    }
    Ok(order)
}

/// Refuses drives that belong to no shard while a member of this shard is missing.
fn refuse_beside(order: &Order, found: &Survey) -> Result<(), CliError> {
    let is_asked = order.served.force || order.served.unusable() == Unusable::LeaveOut;
    let (Some(record), Some((label, holds))) = (&found.membership, &order.stranger) else {
        return Ok(());
    };
    match first_missing(&record.members, &found.drives).filter(|_| !is_asked) {
        None => Ok(()),
        Some(slot) => {
            let (label, holds, name) = (label.clone(), holds.clone(), record.config.name.clone());
            let strangers = vec![(label, holds)];
            Err(NewMemberError::Strangers { strangers, name, slot }.into())
        }
    }
}

/// Checks that a drive could become a member: the write layout depends on the spares too.
fn check_spare(
    session: &Session,
    config: &ArrayConfig,
    spare: &NamedDrive,
) -> Result<(), CliError> {
    let zones = session.executor.run(spare.member.report());
    let zones =
        zones.map_err(|status| CliError::DriveFailed { label: spare.label.clone(), status })?;
    check_fit(config, spare, &zones).map_err(|error| {
        let (drive, name) = (spare.label.clone(), config.name.clone());
        CliError::SpareUnfit { drive, name, error }
    })?;
    Ok(check_space(spare, &zones)?)
}

/// A drive given as a spare, and a description of its contents; `None` if it is blank.
type GivenSpare = (PathBuf, Option<String>);

/// Examines the drives given as spares.
fn sort_spares(session: &Session, paths: &[PathBuf]) -> Result<Vec<GivenSpare>, CliError> {
    let sorted = paths.iter().map(|path| {
        let named = session.open(path, Access::Exclusive)?;
        let holds = session.executor.run(holdings(&named))?;
        Ok((path.clone(), holds.map(|holds| holds.text)))
    });
    sorted.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spares_stay_with_their_shard() {
        let spare =
            |name: &str, holds: Option<&str>| (PathBuf::from(name), holds.map(str::to_owned));
        let spares = [spare("a", Some("data")), spare("b", None), spare("c", None)];
        assert_eq!(spares_of(0, 2, &spares), [PathBuf::from("c")]);
        assert_eq!(spares_of(1, 2, &spares), [PathBuf::from("b")]);
    }

    #[test]
    fn each_shard_needs_some_memory() {
        assert_eq!(share(None, 4).unwrap(), None);
        assert_eq!(share(Some(LEAST_INDEX_MEMORY * 4), 4).unwrap(), Some(LEAST_INDEX_MEMORY));
        assert!(share(Some(LEAST_INDEX_MEMORY * 4 - 1), 4).is_err());
    }
}
