//! Drives that were given and cannot be used: all are named at once, and advice to start without
//! them is given only where the others are enough.

use std::collections::BTreeMap;

use zoneweave_raid::array::format::config::VolumeKind;
use zoneweave_raid::log::{DriveRole, DriveVerdict, survey};
use zoneweave_raid::raizn;

use crate::drives::membership::membership_of;
use crate::error::{CliError, LeftOut};
use crate::session::{Drives, NamedDrive, Session, Unopened, offer};
use crate::zoned;

/// Refuses drives that were given and could not be opened: the reason may pass, and the first write
/// without them takes them out of service.
///
/// # Errors
/// All of them.
pub(crate) fn refuse_unopened(session: &Session, drives: &mut Drives) -> Result<(), CliError> {
    if drives.unopened.is_empty() {
        return Ok(());
    }
    let others_start = can_start(session, &drives.opened);
    let mut unopened = std::mem::take(&mut drives.unopened);
    let left_out = unopened.iter().map(|unopened| unopened.label.clone()).collect();
    let left_out = LeftOut { drives: left_out, others_start };
    let Unopened { error, .. } = unopened.remove(0);
    let others = unopened.iter().map(|unopened| unopened.error.to_string()).collect();
    Err(CliError::Unopened { error, others, left_out: Box::new(left_out) })
}

/// Refuses drives that cannot be read. `others_start`: whether the others are enough to start.
///
/// # Errors
/// All of them.
pub(crate) fn refuse_unreadable(
    verdicts: &[DriveVerdict],
    others_start: bool,
) -> Result<(), CliError> {
    let unreadable = verdicts.iter().filter_map(|verdict| match verdict.role {
        DriveRole::Unreadable(status) => Some((verdict.label.clone(), status)),
        _ => None,
    });
    let unreadable: Vec<_> = unreadable.collect();
    if unreadable.is_empty() {
        return Ok(());
    }
    let problem = |(label, status)| format!("{label} cannot be read: {status}");
    let drives = unreadable.iter().map(|(label, _)| label.clone()).collect();
    let problems = unreadable.into_iter().map(problem).collect();
    Err(CliError::Unreadable { problems, left_out: LeftOut { drives, others_start } })
}

/// Whether the volume that most of these drives belong to would start with them, in all its shards.
/// Nothing is written.
fn can_start(session: &Session, opened: &[NamedDrive]) -> bool {
    let mut volumes: BTreeMap<_, BTreeMap<_, Vec<NamedDrive>>> = BTreeMap::new();
    let (mut shards, mut zoned_ones) = (BTreeMap::new(), BTreeMap::new());
    for named in opened {
        let Ok(Some(record)) = session.executor.run(membership_of(named)) else { continue };
        let (array, shard) = (record.config.array, record.config.shard);
        let volume = shard.volume(array).0;
        shards.insert(volume, shard.of());
        zoned_ones.insert(array.0, matches!(record.config.volume, VolumeKind::Zoned(_)));
        let of_volume = volumes.entry(volume).or_default();
        of_volume.entry(array.0).or_default().push(named.clone());
    }
    let drives = |arrays: &BTreeMap<_, Vec<_>>| arrays.values().map(Vec::len).sum::<usize>();
    let Some((volume, arrays)) = volumes.iter().max_by_key(|(_, arrays)| drives(arrays)) else {
        return false;
    };
    let starts = |(array, drives): (&[u8; 16], &Vec<NamedDrive>)| match zoned_ones[array] {
        true => session.executor.run(raizn::survey(zoned::offer(drives))).refusal.is_none(),
        false => session.executor.run(survey(offer(drives))).refusal.is_none(),
    };
    arrays.len() == shards[volume] && arrays.iter().all(starts)
}
