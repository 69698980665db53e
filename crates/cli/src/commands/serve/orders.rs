//! Drives, spares and index memory of each shard, decided before any shard starts.

use std::path::PathBuf;

use zoneweave_raid::log::format::{ArrayConfig, ArrayUuid};
use zoneweave_raid::log::limits::check_drive;
use zoneweave_raid::log::{ReplaceError, survey};
use zoneweave_raid::shards::Shard;

use super::{LEAST_INDEX_MEMORY, Served};
use crate::drives::consent::holdings;
use crate::error::{CliError, usage};
use crate::format::bytes;
use crate::output::Output;
use crate::session::{Access, NamedDrive, Session, offer};
use crate::shards::by_shard;
use crate::status::ShardStatus;

/// An array to start.
#[derive(Clone)]
pub(super) struct Order {
    pub(super) served: Served,
    /// Drives given for it; without shards this includes drives that are not members.
    pub(super) drives: Vec<PathBuf>,
    /// Blank drives for hot spares.
    pub(super) spares: Vec<PathBuf>,
    /// Limit of the in-memory index, in bytes.
    pub(super) index_memory: Option<u64>,
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
/// If a shard would not start or a spare does not fit: starting anyway could take drives out of
/// service in vain.
pub(super) fn orders(
    session: &Session,
    request: &Served,
    output: &Output,
) -> Result<Vec<Order>, CliError> {
    let spares = sort_spares(session, &request.spare)?;
    let members = spares.iter().filter(|(_, blank)| !blank).map(|(path, _)| path);
    let drives: Vec<_> = request.drives.iter().chain(members).cloned().collect();
    let Some(sharded) = by_shard(session, &drives)? else {
        let spares = spares.into_iter().filter(|(_, blank)| *blank).map(|(path, _)| path);
        let (served, index_memory) = (request.clone(), request.index_memory);
        let spares = spares.collect();
        let order = Order { served, drives, spares, index_memory, shard: None };
        look_ahead(session, &order)?;
        return Ok(vec![order]);
    };
    sharded.tell_strangers(output);
    sharded.refuse_missing()?;
    let shards = sharded.of_shards.len();
    let index_memory = share(request.index_memory, shards)?;
    let order = |number: usize| Order {
        served: request.clone(),
        drives: sharded.of_shards[number].clone(),
        spares: spares_of(number, shards, &spares),
        index_memory,
        shard: Shard::new(number, shards).map(|shard| (shard, sharded.array(number))),
    };
    let orders: Vec<_> = (0..shards).map(order).collect();
    for order in &orders {
        look_ahead(session, order).map_err(|error| order.failed(error))?;
    }
    Ok(orders)
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
fn spares_of(number: usize, shards: usize, spares: &[(PathBuf, bool)]) -> Vec<PathBuf> {
    let own = spares.iter().skip(number).step_by(shards);
    own.filter(|(_, blank)| *blank).map(|(path, _)| path.clone()).collect()
}

/// Checks, without writing, that the array would start and that its spares fit.
fn look_ahead(session: &Session, order: &Order) -> Result<(), CliError> {
    let beside_others = order.shard.is_some() && !order.served.force;
    if !beside_others && order.spares.is_empty() {
        return Ok(());
    }
    let drives = session.open_some(&order.drives, Access::Look)?;
    let found = session.executor.run(survey(offer(&drives.opened)));
    if let Some(refusal) = found.refusal.filter(|_| beside_others) {
        return Err(refusal.into());
    }
    // The start itself refuses drives without an array.
    let Some(record) = found.membership else { return Ok(()) };
    let fits =
        |path: &PathBuf| check_spare(&record.config, &session.open(path, Access::Exclusive)?);
    order.spares.iter().try_for_each(fits)
}

/// Checks that a drive could become a member: the write layout depends on the spares too.
fn check_spare(config: &ArrayConfig, spare: &NamedDrive) -> Result<(), CliError> {
    let geometry = spare.member.geometry();
    let unfit = |error| {
        let (drive, name) = (spare.label.clone(), config.name.clone());
        CliError::SpareUnfit { drive, name, error }
    };
    check_drive(geometry, config.write_unit, config.log().chunk_blocks, config.log().tabled)
        .map_err(|error| unfit(ReplaceError::DoesNotFit(error)))?;
    if geometry.zones >= config.zones && geometry.zone_capacity >= config.zone_capacity {
        return Ok(());
    }
    Err(unfit(ReplaceError::TooSmall {
        zones: geometry.zones,
        capacity: geometry.zone_capacity,
        needed_zones: config.zones,
        needed_capacity: config.zone_capacity,
    }))
}

/// Sorts spares: `true` for a blank drive, `false` for one that is a member already.
fn sort_spares(session: &Session, paths: &[PathBuf]) -> Result<Vec<(PathBuf, bool)>, CliError> {
    let sorted = paths.iter().map(|path| {
        let named = session.open(path, Access::Exclusive)?;
        let holds = session.executor.run(holdings(&named))?;
        Ok((path.clone(), holds.is_none()))
    });
    sorted.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spares_stay_with_their_shard() {
        let spare = |name: &str, blank| (PathBuf::from(name), blank);
        let spares = [spare("a", false), spare("b", true), spare("c", true)];
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
