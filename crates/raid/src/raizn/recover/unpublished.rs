//! A start without a member, before the first change: it writes nothing.
//!
//! A member that is missing at a start is evicted before the first write that it misses, not by the
//! start: at the next start it may be back, and another may be missing.
//!
//! How far a zone is readable behind its last complete stripe is a decision, which the members that
//! are there make for good. After a crash, each set of members may decide otherwise, so such a
//! start publishes at once. After a clean stop ([`stop`](crate::raizn::stop)) they all decide the
//! same: every command had ended, and all members in service were flushed. A start that then finds
//! nothing to be written serves reads. The first command that changes a zone, and the first order
//! of an operator, have the mount published, with the eviction.
//!
//! Invariant: until the mount is published nothing is written to any drive, and no command that
//! changes a zone leaves the queue of its zone. Right before, zones whose columns are complete are
//! finished.

use std::rc::Rc;

use futures_util::future::join_all;
use zoneweave_zoned::{ZoneInfo, ZoneState};

use crate::array::format::record::{MemberState, SuperblockRecord, VolumeBody};
use crate::array::health::Members;
use crate::array::member::Member;
use crate::array::probe::Probe;
use crate::array::repair::faults;
use crate::array::start::assemble::Drive;
use crate::array::state::UNRECORDED;
use crate::array::stop::StopReason;
use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::raizn::core::Core;
use crate::raizn::format::body::{Mount, ZonedBody};
use crate::raizn::layout::Layout;
use crate::raizn::parity_log::ParityLog;
use crate::raizn::recover::error::OpenError;
use crate::raizn::recover::judge::{Readable, ZoneTail};
use crate::raizn::recover::media::{LogScan, Media, Unpublished};
use crate::raizn::recover::repair::Leftover;
use crate::raizn::recover::unread::{Gaps, Patience};
use crate::raizn::recover::zones::{check_logs, read_media, zone_states};
use crate::raizn::write::column::write_pointer;
use crate::scheme::Column;

/// Whether the start may wait by what is on record: members are missing, and the volume was closed
/// by a clean stop.
pub(super) fn may_wait(
    core: &Core,
    chosen: &SuperblockRecord<ZonedBody>,
    drives: &[Option<Drive<ZonedBody>>],
    slots: &[Option<usize>],
    published: Mount,
) -> bool {
    let is_settled = {
        let array = &core.state.borrow().array;
        !array.forced && array.stopped.is_none() && array.version.epoch == chosen.epoch
    };
    let is_rebuilding = chosen.members.iter().any(|entry| entry.state == MemberState::Rebuilding);
    let mut placed = slots.iter().flatten().filter_map(|at| drives[*at].as_ref());
    let is_clean = placed.all(|drive| has_clean_stop(drive, published));
    mark_if(Mark::ZonedMissingAfterKill, || missing(core) > 0 && !is_clean);
    missing(core) > 0
        && is_settled
        && !is_rebuilding
        && (is_clean || mutant(Mutant::ZonedKillTakenForStop))
}

/// The members whose absence is not on record.
pub(super) fn missing(core: &Core) -> usize {
    let members = &core.state.borrow().array.members;
    members.iter().filter(|member| member.entry.since_epoch == UNRECORDED).count()
}

/// Whether the newest record of a drive is the clean stop of the published mount: no start has
/// written since. In a zone that was full, it is the last one of a snapshot.
fn has_clean_stop(drive: &Drive<ZonedBody>, published: Mount) -> bool {
    let scan = &drive.records.scan;
    let newest = drive.records.newest().map(|record| record.record_sequence);
    let records = scan.since_snapshot().unwrap_or_default();
    let is_newest = records.last().map(|record| record.record_sequence) == newest;
    let mut decisions = records.iter().rev().map(|record| &record.body);
    let last = decisions.find(|body| body.snapshot_records().is_none());
    is_newest && !scan.may_hide_newer() && last == Some(&ZonedBody::Stopped(published))
}

/// Looks at all zones, and has the volume serve reads if nothing is to be written. Otherwise what
/// was found is in the state, and the start has to begin again.
///
/// # Errors
/// As the start. No drive was written.
pub(super) async fn wait(
    core: &Rc<Core>,
    mount: Mount,
    published: Mount,
    probe: Option<&Rc<Probe<ZonedBody>>>,
) -> Result<bool, OpenError> {
    core.state.borrow_mut().array.defers_records = true;
    let media = read_media(core, published).await;
    // A start that is refused expels nobody.
    check_going_on(core)?;
    check_logs(core, &media.logs)?;
    let is_whole = look_at_zones(core, &media).await? && is_read(core, &media);
    check_going_on(core)?;
    if !is_whole {
        return Ok(false);
    }
    // Members that were lost meanwhile are unrecorded, as the missing ones are.
    mark_if(Mark::ZonedWaitsWithoutMore, || failed_while_read(core).is_some());
    mark(Mark::ZonedStartUnpublished);
    assert!(mount > published, "{mount:?} waits, and {published:?} is published");
    let zones = zone_states(&core.state.borrow(), core.layout.zone_blocks())?;
    core.state.borrow_mut().zones = zones;
    // Whatever counts is in the state.
    let logs = media.logs.into_iter().map(|log| LogScan { records: Vec::new(), ..log }).collect();
    let (logs, probe) = (Rc::new(logs), probe.cloned());
    core.unpublished.replace(Some(Unpublished { mount, probe, logs, begun: false }));
    Ok(true)
}

/// Refuses a start that has met too many lost members: it began with enough of them.
fn check_going_on(core: &Core) -> Result<(), OpenError> {
    let Some(reason) = core.state.borrow().array.stopped else { return Ok(()) };
    Err(match failed_while_read(core) {
        Some((slot, failure)) => OpenError::StoppedBy { reason, slot, failure },
        None => OpenError::Stopped(reason),
    })
}

/// The first member that has failed since the start began, and why.
fn failed_while_read(core: &Core) -> Option<(Column, String)> {
    let state = core.state.borrow();
    let mut members = state.array.scheme().iter().zip(&state.array.members);
    // A member that was missing from the beginning has no membership.
    let is_new =
        |member: &Member| member.entry.since_epoch == UNRECORDED && member.membership.is_some();
    let (slot, member) = members.find(|(_, member)| is_new(member))?;
    Some((slot, member.failure.clone().unwrap_or_default()))
}

/// Has evictions of missing members recorded, before a start that does not wait writes anything
/// else: not if too many others take no record.
///
/// # Errors
/// If writes stop. No membership was recorded then.
pub(super) async fn evict_missing(
    core: &Rc<Core>,
    probe: Option<&Rc<Probe<ZonedBody>>>,
) -> Result<(), OpenError> {
    assert!(missing(core) > 0, "an eviction of nobody");
    core.prepare_eviction(probe.map(|probe| &**probe)).await;
    check_going_on(core)
}

/// Whether all members were read.
fn is_read(core: &Core, media: &Media) -> bool {
    let (read, members) = (media.reports.len(), core.layout.scheme().columns());
    assert!(
        read == members && media.logs.len() == members,
        "{read} of {members} members were read"
    );
    media.logs.iter().all(|log| log.unread.is_none() && !log.is_damaged)
}

/// Enters all zones in the state. Returns whether nothing is to be written to the drives.
///
/// # Errors
/// Reads without an answer, or a zone that would be cut: no zone is decided before all are looked
/// at.
async fn look_at_zones(core: &Rc<Core>, media: &Media) -> Result<bool, OpenError> {
    let (mut gaps, mut is_whole) = (Gaps::begin(false), true);
    for zone in 0..core.layout.zones() {
        let record = || core.state.borrow().logical[zone as usize].record.clone();
        let before = record();
        let leftover = core.survey_zone(zone, media, &mut gaps).await?;
        let is_done = match leftover {
            Some(Leftover::Nothing) => true,
            // Nothing more can be written to zones that the drives have finished.
            Some(Leftover::Finish) => is_finished(zone, media),
            Some(Leftover::Reset) | None => false,
        };
        is_whole &= is_done && record() == before;
    }
    Ok(is_whole && core.finish_excess().is_empty())
}

/// Whether all columns of a zone are finished.
fn is_finished(zone: u32, media: &Media) -> bool {
    let at = Layout::column_zone(zone).index();
    let mut columns = media.reports.iter().flatten().map(|report: &Vec<ZoneInfo>| report.get(at));
    columns.all(|info| info.is_some_and(|info| info.state == ZoneState::Full))
}

impl Core {
    /// Whether a member holds blocks behind the readable part that are not on record as junk.
    /// Before a clean stop, they were acknowledged, as were the blocks that are missing before
    /// them: a missing member may have these.
    pub(super) fn is_cut(&self, tail: &ZoneTail, readable: &Readable) -> bool {
        let state = self.state.borrow();
        let logical = &state.logical[tail.zone as usize];
        let mut columns = self.layout.scheme().iter().zip(&tail.columns);
        tail.finished.is_none()
            && columns.any(|(column, own)| {
                let end = self.layout.column_end(tail.zone, column, readable.end);
                let is_left = |at: u32| !logical.is_junk(column, at).0;
                own.is_present && (end..own.write_pointer).any(is_left)
            })
    }

    /// Whether the start has not made its decisions durable yet.
    #[must_use]
    pub(crate) fn is_unpublished(&self) -> bool {
        self.unpublished.borrow().is_some()
    }

    /// Whether the start is being published.
    #[must_use]
    pub(crate) fn is_publishing(&self) -> bool {
        self.unpublished.borrow().as_ref().is_some_and(|waits| waits.begun)
    }

    /// Has a start that waits published, in a task that no user's can end.
    pub(crate) fn publish_soon(self: &Rc<Self>) {
        let (mount, probe, logs) = match &mut *self.unpublished.borrow_mut() {
            Some(waits) if !waits.begun => {
                waits.begun = true;
                (waits.mount, waits.probe.clone(), waits.logs.clone())
            }
            _ => return,
        };
        self.handle.spawn_alone("publish", self.clone().publish_late(mount, probe, logs));
    }

    /// Makes the decisions of the start durable, if they are not, before an order of an operator.
    ///
    /// # Errors
    /// If writes stop, or the volume is being closed.
    pub(crate) async fn published(self: &Rc<Self>) -> Result<(), StopReason> {
        if !self.is_unpublished() {
            return Ok(());
        }
        if self.closing.get() {
            return Err(StopReason::ShuttingDown);
        }
        self.publish_soon();
        while self.is_unpublished() {
            self.changed.wait().await;
        }
        self.state.borrow().array.stopped.map_or(Ok(()), Err)
    }

    /// Evicts members that do not report their zones any more: no command may have met that yet.
    /// The first change records it, if the others are enough for one.
    async fn look_for_lost(self: &Rc<Self>) {
        assert!(self.state.borrow().array.defers_records, "an eviction would be recorded at once");
        let members = self.state.borrow().array.writable_members();
        let looks = members.iter().map(|(column, device)| async move {
            let look = || write_pointer(&**device, ParityLog::zone(0));
            let (mut looked, mut patience) = (look().await, Patience::default());
            // As a start, it gives a drive without a path some time.
            while looked.is_err_and(|status| !status.is_fatal())
                && patience.wait(&self.handle).await
            {
                looked = look().await;
            }
            if let Err(status) = looked
                && self.is_of_member(*column, device)
            {
                self.fail_member(*column, status);
            }
        });
        join_all(looks).await;
    }

    /// Evicts members that do not answer, or take no record, before missing ones are put on record
    /// as evicted: a record that only some take would expel the missing members, for good.
    async fn prepare_eviction(self: &Rc<Self>, probe: Option<&Probe<ZonedBody>>) {
        self.state.borrow_mut().array.defers_records = true;
        self.look_for_lost().await;
        if !self.is_stopped() {
            // Records need active zones themselves.
            self.end_columns().await;
        }
        if let Some(probe) = probe
            && !self.is_stopped()
        {
            self.superblock.probe(self, probe).await;
        }
        self.state.borrow_mut().array.defers_records = false;
    }

    async fn publish_late(
        self: Rc<Self>,
        mount: Mount,
        probe: Option<Rc<Probe<ZonedBody>>>,
        logs: Rc<Vec<LogScan>>,
    ) {
        mark(Mark::ZonedPublishedLate);
        assert!(self.is_publishing(), "{mount:?} is published once");
        self.prepare_eviction(probe.as_deref()).await;
        let published = match self.superblock.commit_snapshot(&self).await {
            Ok(()) => self.publish(mount, &logs).await,
            Err(reason) => Err(reason),
        };
        if let Err(reason) = published {
            self.state.borrow_mut().array.stopped.get_or_insert(reason);
        }
        self.unpublished.replace(None);
        if published.is_ok() {
            faults::begin(&*self);
        }
        self.changed.open();
        for zone in 0..self.layout.zones() {
            self.pump(zone);
        }
    }
}
