//! The zones of a volume, as its drives have them.
//!
//! What a start reads comes before what it writes, so that a start without a member can look
//! whether anything is to be written at all ([`unpublished`](super::unpublished)).

use std::rc::Rc;

use zoneweave_zoned::{
    Geometry, ImportError, ZoneAttributes, ZoneId, ZoneInfo, ZoneOffset,
    ZoneRecord as ZoneStateRecord, ZoneSet, ZoneState,
};

use crate::array::format::record::MemberState;
use crate::array::health::Members;
use crate::array::io::MemberIo;
use crate::array::stop::StopReason;
use crate::instrument::marks::{Mark, mark, mark_if};
use crate::raizn::core::{Core, State};
use crate::raizn::format::body::Mount;
use crate::raizn::layout::Layout;
use crate::raizn::recover::error::OpenError;
use crate::raizn::recover::media::{LogScan, Media};
use crate::raizn::recover::repair::{Leftover, report};
use crate::raizn::recover::unread::{Gaps, GivenUp, Unread, UnreadPart};
use crate::scheme::ColumnSet;

/// Reads the zones and the parity logs of all members. One that does not answer is evicted.
pub(super) async fn read_media(core: &Rc<Core>, published: Mount) -> Media {
    let members = core.state.borrow().array.writable_members();
    let mut reports: Vec<Option<Vec<ZoneInfo>>> = vec![None; core.layout.scheme().columns()];
    let mut logs: Vec<LogScan> = reports.iter().map(|_| LogScan::default()).collect();
    let scans = members.iter().map(|(column, device)| async move {
        let scan = core.scan_log_in_tries(&**device, published).await;
        (*column, device, report(&**device).await, scan)
    });
    for (column, device, report, log) in futures_util::future::join_all(scans).await {
        match (report, log) {
            (Ok(report), Ok(log)) => {
                reports[column.index()] = Some(report);
                logs[column.index()] = log;
            }
            (Err(status), _) | (_, Err(status)) if core.is_of_member(column, device) => {
                core.fail_member(column, status);
            }
            _ => {}
        }
    }
    Media { reports, logs }
}

/// Recovers all zones and publishes the mount. Returns the places given up.
pub(super) async fn recover(
    core: &Rc<Core>,
    mount: Mount,
    published: Mount,
    force: bool,
) -> Result<Vec<GivenUp>, OpenError> {
    let mut gaps = Gaps::begin(force);
    let media = read_media(core, published).await;
    if !force {
        check_logs(core, &media.logs)?;
    }
    let mut leftovers = Vec::new();
    for zone in 0..core.layout.zones() {
        leftovers.push(core.recover_zone(zone, &media, &mut gaps).await?);
    }
    assert!(leftovers.len() == core.layout.zones() as usize, "every zone was recovered");
    let excess = core.finish_excess();
    for zone in &excess {
        leftovers[*zone as usize] = Leftover::Finish;
    }
    empty_uncounted(core, &media).await;
    core.publish(mount, &media.logs).await.map_err(OpenError::Stopped)?;
    for (zone, leftover) in (0..).zip(leftovers) {
        let done = match leftover {
            Leftover::Nothing => Ok(()),
            Leftover::Reset => core.reset_columns(zone).await,
            Leftover::Finish => core.complete_finish(zone).await,
        };
        if done.is_err() {
            let stopped = core.state.borrow().array.stopped;
            return Err(OpenError::Stopped(stopped.unwrap_or(StopReason::BeyondRedundancy)));
        }
    }
    let zones = zone_states(&core.state.borrow(), core.layout.zone_blocks())?;
    core.state.borrow_mut().zones = zones;
    Ok(gaps.given_up)
}

/// Empties zones that an interrupted rebuild has begun to write: their blocks count for nothing,
/// and each takes an active zone that the drive may need. The membership is on record.
async fn empty_uncounted(core: &Rc<Core>, media: &Media) {
    let members = core.state.borrow().array.writable_members();
    for (column, _) in members {
        let Some(report) = &media.reports[column.index()] else { continue };
        let begun: Vec<_> = {
            let state = core.state.borrow();
            let is_rebuilt =
                state.array.members[column.index()].entry.state == MemberState::Rebuilding;
            let lacking = state.logical.iter().filter(|zone| zone.absent.contains(column));
            let zones = lacking.map(|zone| Layout::column_zone(zone.record.zone));
            let is_active =
                |zone: &ZoneId| report.get(zone.index()).is_some_and(|info| info.state.is_active());
            zones.filter(|zone| is_rebuilt && is_active(zone)).collect()
        };
        for zone in begun {
            mark(Mark::ZonedUncountedEmptied);
            // If it fails, the rebuild resets it, or evicts the member.
            let _done = core.reset_zone(column, zone).await;
        }
    }
}

/// Checks that the volume can do without what was not read of parity logs. A start decides how far
/// zones are readable, for good.
pub(super) fn check_logs(core: &Core, logs: &[LogScan]) -> Result<(), Unread> {
    let scheme = core.layout.scheme();
    assert!(logs.len() == scheme.columns(), "{} parity logs of {scheme}", logs.len());
    let unread = || scheme.iter().zip(logs).filter_map(|(slot, log)| Some((slot, log.unread?)));
    let of_unread: ColumnSet = unread().map(|(slot, _)| slot).collect();
    let lost = core.state.borrow().array.lost_members();
    mark_if(Mark::ZonedLogUnread, || !of_unread.is_empty());
    match unread().next() {
        Some((slot, status)) if !scheme.survives(lost.union(of_unread)) => {
            Err(Unread { part: UnreadPart::ParityLog, slot, status })
        }
        _ => Ok(()),
    }
}

/// The states of the zones, as users see them.
pub(super) fn zone_states(state: &State, zone_blocks: u32) -> Result<ZoneSet, ImportError> {
    let geometry: Geometry = state.zones.geometry().clone();
    let records = state.logical.iter().map(|zone| {
        let (end, finished) = (zone.completed, zone.record.finished.is_some());
        ZoneStateRecord {
            state: match end {
                _ if finished || end == zone_blocks => ZoneState::Full,
                0 => ZoneState::Empty,
                _ => ZoneState::Closed,
            },
            write_pointer: ZoneOffset(end),
            resets: zone.record.generation.0,
            attributes: match zone.record.by_volume {
                true => ZoneAttributes::FINISHED_BY_DRIVE,
                false => ZoneAttributes::NONE,
            },
        }
    });
    let records: Vec<_> = records.collect();
    assert!(records.len() == geometry.zones as usize, "a state for each zone");
    ZoneSet::import(geometry, &records)
}
