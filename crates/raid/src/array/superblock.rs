//! Superblock commits: two zones per member, written in turn.
//!
//! A commit appends one record to every member in service. If a member's zone is full, a snapshot
//! of all current records goes to its other zone first. The full zone is reset only after the
//! commit is durable everywhere, so at every moment some zone of the member holds everything. A
//! member that fails a commit is evicted, which is a commit of its own on the others; a commit
//! counts when every member still in service has it. A *report* decides nothing, so a member that
//! the others cannot do without is not evicted for it, and nor is any if none takes it.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use zoneweave_journal::{Appended, TwinLog};
use zoneweave_runtime::{Permit, Semaphore};
use zoneweave_zoned::{Status, ZoneAction, ZoneId, ZonedDevice, ZonedDeviceExt};

use crate::array::error::NotRecorded;
use crate::array::format::numbers::Sequence;
use crate::array::format::record::{MemberEntry, MemberState, SuperblockRecord, VolumeBody};
use crate::array::io::MemberIo;
use crate::array::state::{Array, UNRECORDED, Version};
use crate::array::stop::StopReason;
use crate::array::superblock_logs::SuperblockLog;
use crate::array::volume::ArrayVolume;
use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::scheme::Column;

impl SuperblockLog {
    /// The log as recovery found it; `record_sequence` is above any on media.
    #[must_use]
    pub(crate) fn new(logs: Vec<Option<TwinLog>>, record_sequence: u64) -> Self {
        let record_sequence = RefCell::new(record_sequence);
        Self { logs: RefCell::new(logs), record_sequence, lock: Semaphore::new(1) }
    }

    /// Numbers records above this number from now on.
    pub(crate) fn raise_record_sequence(&self, seen: u64) {
        let mut last = self.record_sequence.borrow_mut();
        *last = seen.max(*last);
    }

    /// Sets the superblock zones of a slot's new drive.
    pub(crate) fn set_log(&self, column: Column, log: TwinLog) {
        self.logs.borrow_mut()[column.index()] = Some(log);
    }

    /// Blocks the writing of records while the permit is held.
    pub(crate) async fn hold(&self) -> Permit {
        self.lock.acquire().await
    }

    /// The superblock zones of a member.
    #[must_use]
    pub(crate) fn zones(&self, column: Column) -> Option<[ZoneId; 2]> {
        self.logs.borrow()[column.index()].as_ref().map(TwinLog::zones)
    }

    /// Writes a record to every member in service, durably.
    ///
    /// # Errors
    /// If too few members are left.
    pub(crate) async fn commit<V: ArrayVolume>(
        &self,
        volume: &Rc<V>,
        body: V::Body,
    ) -> Result<(), StopReason> {
        self.commit_latest(volume, || body).await
    }

    /// Writes a record that is made once no other commit is in flight: its contents cannot be
    /// overtaken by one that waited as well.
    ///
    /// # Errors
    /// If too few members are left.
    pub(crate) async fn commit_latest<V: ArrayVolume>(
        &self,
        volume: &Rc<V>,
        body: impl FnOnce() -> V::Body,
    ) -> Result<(), StopReason> {
        let _one_at_a_time = self.lock.acquire().await;
        let body = body();
        self.decide(volume, &body, false).await
    }

    /// Writes a record that decides nothing, made as by [`Self::commit_latest`]. One member that
    /// has it is enough where others cannot be done without.
    ///
    /// # Errors
    /// If too few members are left, or none takes it.
    pub(crate) async fn report_latest<V: ArrayVolume>(
        &self,
        volume: &Rc<V>,
        body: impl FnOnce() -> V::Body,
    ) -> Result<(), NotRecorded> {
        self.make_and_commit(volume, body, Need::Report).await
    }

    /// Writes a record by order of an operator, made as by [`Self::commit_latest`]. A member that
    /// the others cannot do without is not evicted if it does not take it: the order fails.
    ///
    /// # Errors
    /// If too few members are left, or one of them does not take it. Others may have it.
    pub(crate) async fn order_latest<V: ArrayVolume>(
        &self,
        volume: &Rc<V>,
        body: impl FnOnce() -> V::Body,
    ) -> Result<(), NotRecorded> {
        self.make_and_commit(volume, body, Need::Order).await
    }

    /// Writes a record that saves the next start a decision. A member that does not take it stays
    /// in service.
    ///
    /// # Errors
    /// If a member does not take it. Others may have it.
    pub(crate) async fn hint<V: ArrayVolume>(
        &self,
        volume: &Rc<V>,
        body: V::Body,
    ) -> Result<(), NotRecorded> {
        self.make_and_commit(volume, || body, Need::Hint).await
    }

    async fn make_and_commit<V: ArrayVolume>(
        &self,
        volume: &Rc<V>,
        body: impl FnOnce() -> V::Body,
        need: Need,
    ) -> Result<(), NotRecorded> {
        let _one_at_a_time = self.lock.acquire().await;
        let body = body();
        self.commit_locked(volume, &body, false, need).await
    }

    /// Writes a snapshot to the other zone of every member, as every start of the array does.
    ///
    /// # Errors
    /// If too few members are left.
    pub(crate) async fn commit_snapshot<V: ArrayVolume>(
        &self,
        volume: &Rc<V>,
    ) -> Result<(), StopReason> {
        let _one_at_a_time = self.lock.acquire().await;
        self.decide(volume, &V::Body::STATE, true).await
    }

    /// Gives the array another name, durably: a snapshot, as other records repeat the name.
    ///
    /// # Errors
    /// If too few members are left.
    pub(crate) async fn rename<V: ArrayVolume>(
        &self,
        volume: &Rc<V>,
        name: String,
    ) -> Result<(), StopReason> {
        let _one_at_a_time = self.lock.acquire().await;
        volume.array_mut().config.name = name;
        self.decide(volume, &V::Body::STATE, true).await
    }

    /// Records that members failed: a new epoch, on the remaining members.
    pub(crate) async fn record_membership<V: ArrayVolume>(&self, volume: &Rc<V>) {
        let _one_at_a_time = self.lock.acquire().await;
        if volume.array().membership_dirty {
            // The outcome is in the state, where all tasks look for it.
            let body = V::Body::STATE;
            let _stopped = self.decide(volume, &body, false).await;
        }
        volume.changed().open();
    }

    /// Waits until no commit is in flight.
    pub(crate) async fn commits_ended(&self) {
        drop(self.lock.acquire().await);
    }

    async fn decide<V: ArrayVolume>(
        &self,
        volume: &Rc<V>,
        body: &V::Body,
        switch: bool,
    ) -> Result<(), StopReason> {
        match self.commit_locked(volume, body, switch, Need::Decision).await {
            Ok(()) => Ok(()),
            Err(NotRecorded::Stopped(reason)) => Err(reason),
            Err(NotRecorded::Refused { slot, .. }) => {
                unreachable!("{slot} does not take a decision and stays in service")
            }
        }
    }

    async fn commit_locked<V: ArrayVolume>(
        &self,
        volume: &Rc<V>,
        body: &V::Body,
        mut switch: bool,
        need: Need,
    ) -> Result<(), NotRecorded> {
        loop {
            let next_sequence = volume.numbers().next_sequence;
            let prepared = prepare_epoch(&mut volume.array_mut(), next_sequence);
            let table = prepared.inspect_err(|_| volume.changed().open())?;
            let members = volume.array().writable_members();
            let commit = Commit { table, body, switch, snapshot: OnceCell::new() };
            let writes = members.iter().map(|(column, device)| async {
                (*column, self.write_member(volume, &commit, *column, device).await)
            });
            let results = futures_util::future::join_all(writes).await;
            let is_taken = results.iter().any(|(_, result)| result.is_ok());
            let may_stay = |status: Status, column| match need {
                // A change of membership is a decision too.
                _ if commit.table.is_new => false,
                Need::Decision => false,
                Need::Hint => true,
                Need::Report | Need::Order => {
                    !(status.is_fatal() || is_taken && volume.array().survives_without(column))
                }
            };
            let (mut all_done, mut refused) = (true, None);
            let mut switched = Vec::new();
            for (column, result) in results {
                match result {
                    Ok(Some(old)) => switched.push((column, old)),
                    Ok(None) => {}
                    Err(Refused::TooManyRecords) => {
                        let reason = StopReason::SuperblockZoneTooSmall;
                        volume.array_mut().stopped.get_or_insert(reason);
                        all_done = false;
                    }
                    Err(Refused::ByDrive(status)) if may_stay(status, column) => {
                        mark(Mark::ReportRefused);
                        mark_if(Mark::ReportTakenByNone, || !is_taken);
                        refused.get_or_insert(NotRecorded::Refused { slot: column, status });
                        volume.array_mut().members[column.index()].errors.write += 1;
                        volume.errors_counted();
                    }
                    Err(Refused::ByDrive(status)) => {
                        all_done = false;
                        volume.evict(column, &status.to_string());
                        // Requests that wait for the evicted drive's zones end before the others
                        // have this record.
                        volume.changed().open();
                    }
                }
            }
            if !all_done {
                mark(Mark::CommitWithoutMember);
                // Members that have the snapshot keep their old zone until the next switch.
                switch = false;
                continue;
            }
            self.settle(&**volume, commit.table.is_new);
            self.reset_old_zones(volume, switched).await;
            let is_enough = is_taken && need == Need::Report;
            return refused.filter(|_| !is_enough).map_or(Ok(()), Err);
        }
    }

    /// Settles a commit that every member in service has, with the membership in it.
    fn settle<V: ArrayVolume>(&self, volume: &V, carried_change: bool) {
        let mut array = volume.array_mut();
        if carried_change {
            // A member that failed during the commit is recorded by the next one.
            let unrecorded =
                array.members.iter().any(|member| member.entry.since_epoch == UNRECORDED);
            mark_if(Mark::FailedDuringRecord, || unrecorded);
            array.membership_dirty = unrecorded;
        }
        let mut members = array.members.iter();
        assert!(
            array.membership_dirty || members.all(|member| member.entry.since_epoch != UNRECORDED),
            "a change after epoch {} is not going to be recorded",
            array.version.epoch
        );
        drop(array);
        volume.changed().open();
    }

    pub(super) async fn reset_old_zones<V: ArrayVolume>(
        &self,
        volume: &Rc<V>,
        switched: Vec<(Column, ZoneId)>,
    ) {
        let resets = switched.into_iter().map(|(column, zone)| async move {
            let done = volume.reset_zone(column, zone).await.is_ok();
            mark_if(Mark::SuperblockZoneNotReset, || !done);
            if let Some(log) = &mut self.logs.borrow_mut()[column.index()]
                && done
            {
                log.old_is_reset();
            }
        });
        futures_util::future::join_all(resets).await;
    }

    /// Writes one member's records; returns the zone that a switch leaves to be reset.
    pub(super) async fn write_member<V: ArrayVolume>(
        &self,
        volume: &Rc<V>,
        commit: &Commit<'_, V::Body>,
        column: Column,
        device: &Rc<dyn ZonedDevice>,
    ) -> Result<Option<ZoneId>, Refused> {
        let state = commit.table.members[column.index()].state;
        assert!(state != MemberState::Failed, "a record for {column}, which is out of service");
        let Commit { table, switch, body, .. } = commit;
        let log = self.logs.borrow()[column.index()].clone();
        let mut log = log.ok_or(Status::DeviceGone)?;
        let geometry = device.geometry();
        let payload = |body: &V::Body| self.record(&**volume, table, column, body.clone()).sealed();
        let room = log.has_room(geometry);
        // Otherwise, no record fits behind the last one.
        if room && !switch {
            let appended = log.append(&**device, payload(body)).await;
            // Behind a failure, the next record goes to the other zone.
            self.logs.borrow_mut()[column.index()] = Some(log.clone());
            if appended? == Appended::Written {
                return Ok(None);
            }
        }
        let bodies = commit.snapshot.get_or_init(|| closed_snapshot(&**volume, body));
        let records = u32::try_from(bodies.len()).map_err(|_| Refused::TooManyRecords)?;
        if records > TwinLog::records_most(geometry) {
            return Err(Refused::TooManyRecords);
        }
        mark_if(Mark::SuperblockZoneFull, || !room && !switch);
        if mutant(Mutant::SuperblockZoneResetEarly) {
            device.manage(log.current(), ZoneAction::Reset).await?;
        }
        let old = log.switch(&**device, records, |index| payload(&bodies[index as usize])).await;
        self.logs.borrow_mut()[column.index()] = Some(log);
        Ok(Some(old?))
    }

    fn record<V: ArrayVolume>(
        &self,
        volume: &V,
        table: &MemberTable,
        column: Column,
        body: V::Body,
    ) -> SuperblockRecord<V::Body> {
        let record_sequence = {
            let mut next = self.record_sequence.borrow_mut();
            *next += 1;
            *next
        };
        let numbers = volume.numbers();
        SuperblockRecord {
            config: volume.array().config.clone(),
            lineage: table.version.lineage,
            epoch: table.version.epoch,
            epoch_tag: table.version.tag,
            record_sequence,
            slot: column,
            member: table.members[column.index()].uuid,
            members: table.members.clone(),
            sequence_ceiling: numbers.sequence_ceiling,
            segment_ceiling: numbers.segment_ceiling,
            body,
        }
    }
}

/// What depends on a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// A decision: every member in service has it.
    Decision,
    /// Nothing: it reports what happened.
    Report,
    /// The answer to an operator: every member in service has it, or the order fails.
    Order,
    /// Nothing, not even a member's service: where it lacks, the next start decides.
    Hint,
}

/// Why a member's records were not written.
pub(super) enum Refused {
    /// They do not fit into a zone of any drive.
    TooManyRecords,
    /// The drive rejected them with any status: an image file may be on a full file system.
    ByDrive(Status),
}

impl From<Status> for Refused {
    fn from(status: Status) -> Self {
        Self::ByDrive(status)
    }
}

/// The records for every member; they may be written again after one has failed.
pub(super) struct Commit<'a, B> {
    pub(super) table: MemberTable,
    pub(super) body: &'a B,
    /// Whether a snapshot is written even if the zone has space.
    pub(super) switch: bool,
    /// One snapshot for all members, of one moment. Otherwise, while a drive is slow, a zone that
    /// is reset and reused could be listed under its old segment in records behind the ones that
    /// list the new one.
    pub(super) snapshot: OnceCell<Vec<B>>,
}

/// The member table in all records of one commit. A member that fails during the commit is out in
/// the next epoch. If some records of this commit said so, that version would have an unknown set
/// of holders.
pub(super) struct MemberTable {
    pub(super) version: Version,
    pub(super) members: Vec<MemberEntry>,
    /// Whether the commit begins the epoch.
    pub(super) is_new: bool,
}

/// Starts a new epoch if the membership changed.
fn prepare_epoch(array: &mut Array, next_sequence: Sequence) -> Result<MemberTable, StopReason> {
    if let Some(reason) = array.stopped {
        mark(Mark::CommitRefused);
        return Err(reason);
    }
    if array.membership_dirty {
        mark(Mark::NewEpoch);
        array.version.epoch = array.version.epoch.next();
        // The tag distinguishes two histories that reach the same epoch; mixing their differences
        // keeps it deterministic.
        let survivors = array.members.iter().enumerate();
        let map = survivors
            .filter(|(_, member)| member.writable().is_some())
            .fold(0_u64, |map, (column, _)| map | 1 << column);
        array.version.tag = mix(array.version.tag ^ map ^ next_sequence.0.rotate_left(32));
        let epoch = array.version.epoch;
        for member in &mut array.members {
            if member.entry.since_epoch == UNRECORDED {
                member.entry.since_epoch = epoch;
            }
        }
    }
    assert!(
        array.members.iter().all(|member| member.entry.since_epoch != UNRECORDED),
        "epoch {} is recorded without a change",
        array.version.epoch
    );
    let members = array.members.iter().map(|member| member.entry).collect();
    Ok(MemberTable { version: array.version, members, is_new: array.membership_dirty })
}

/// The finaliser of `SplitMix64`: spreads every bit over the word.
fn mix(mut value: u64) -> u64 {
    value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// All current records, ending with `last` and the mark of completeness.
fn closed_snapshot<V: ArrayVolume>(volume: &V, last: &V::Body) -> Vec<V::Body> {
    let mut bodies = volume.snapshot(last);
    bodies.push(last.clone());
    let records = u32::try_from(bodies.len()).expect("a record per leftover segment");
    bodies.push(V::Body::snapshot_end(records));
    bodies
}
