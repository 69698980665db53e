//! The volume: the interface for users and administrators.

use std::num::NonZeroU64;
use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use futures_util::TryFutureExt;
use zoneweave_runtime::JoinHandle;
use zoneweave_zoned::{
    BlockDevice, BlockDeviceInfo, BlockError, BlockFuture, Extent, ExtentState, Histogram, Lba,
    Operation, Status, ZonedDevice,
};

use crate::array::error::AdminError;
use crate::array::format::faults::Faults;
use crate::array::format::scrubs::ScrubRun;
use crate::array::health::Members;
use crate::array::repair::faults;
use crate::array::repair::scrub::ScrubOrder;
use crate::array::stop::StopReason;
use crate::log::admit::pending::answered;
use crate::log::admit::requests;
use crate::log::engine::core::Core;
use crate::log::engine::status::{SegmentStatus, VolumeStatus, segment_statuses, volume_status};
use crate::log::format::{MemberUuid, StreamKind};
use crate::log::index::cache::{For, hold_range};
use crate::log::index::steps::Looks;
use crate::log::members::create::NAME_BYTES;
use crate::log::members::replace;
use crate::log::recover::clean_stop;
use crate::log::recover::readd;
use crate::log::recover::unpublished::publish_now;
use crate::log::repair::{clear, rebuild, scrub};
use crate::scheme::Column;

pub use crate::log::members::error::ReplaceError;
pub use crate::log::repair::scrub::ScrubReport;

/// A log-structured RAID volume, running.
///
/// Cloning makes another handle to the same volume. Dropping all handles does not stop the
/// background tasks; [`Volume::close`] does.
#[derive(Clone)]
pub struct Volume {
    core: Rc<Core>,
}

impl Volume {
    /// A volume around a recovered engine, whose tasks run.
    #[must_use]
    pub(super) fn new(core: Rc<Core>) -> Self {
        assert!(
            core.state.borrow().recovering.is_none(),
            "users are served before the decisions of recovery are made"
        );
        Self { core }
    }

    /// The status report of the volume.
    #[must_use]
    pub fn status(&self) -> VolumeStatus {
        volume_status(&self.core)
    }

    /// Users' requests that succeeded since the start, by operation, with their times.
    #[must_use]
    pub fn latencies(&self) -> Vec<(Operation, Histogram)> {
        self.core.latencies.counted()
    }

    /// The zones of each segment and its number of valid blocks.
    #[must_use]
    pub fn segments(&self) -> Vec<SegmentStatus> {
        segment_statuses(&self.core)
    }

    /// Takes a member out of service, durably.
    ///
    /// # Errors
    /// If there is no such slot, or data would be lost, or writes would stop.
    pub async fn fail(&self, slot: usize) -> Result<(), AdminError> {
        let column = self.column(slot)?;
        // Also an earlier eviction of the member has to be durable.
        self.publish().await?;
        {
            let state = self.core.state.borrow();
            if state.array.members[column.index()].writable().is_none() {
                return Ok(());
            }
            state.array.check_spared(column)?;
        }
        self.core.fail_member(column, Status::Aborted);
        self.core.state.borrow_mut().array.members[column.index()].failure =
            Some("taken out of service by the administrator".to_owned());
        self.core.membership_settled().await;
        self.core.state.borrow().array.stopped.map_or(Ok(()), |why| Err(AdminError::Stopped(why)))
    }

    /// Takes a member out whose drive is known to be gone, before a request fails on it. The
    /// remaining redundancy makes no difference: the drive is lost either way.
    ///
    /// # Errors
    /// If there is no such slot.
    pub fn drive_lost(&self, slot: usize, reason: &str) -> Result<(), AdminError> {
        let column = self.column(slot)?;
        if self.core.state.borrow().array.members[column.index()].writable().is_some() {
            self.core.fail_member(column, Status::DeviceGone);
            let member = &mut self.core.state.borrow_mut().array.members[column.index()];
            member.failure = Some(reason.to_owned());
        }
        Ok(())
    }

    /// Puts a new drive into a slot and rebuilds it; done when every segment has its column
    /// again. Users are served meanwhile.
    ///
    /// # Errors
    /// If the drive does not fit, or fails, or the volume stops.
    pub async fn replace(
        &self,
        slot: usize,
        device: Rc<dyn ZonedDevice>,
        uuid: MemberUuid,
    ) -> Result<(), ReplaceError> {
        let column = self.column(slot)?;
        self.publish().await?;
        replace::replace(&self.core, column, device, uuid).await
    }

    /// Puts a former member back into its vacant slot, and rebuilds the columns that it missed. The
    /// columns that it still has are kept; done when every segment has its column again.
    ///
    /// # Errors
    /// If the drive is no former member of this slot, does not fit, or fails, or the volume stops.
    pub async fn readd(
        &self,
        slot: usize,
        device: Rc<dyn ZonedDevice>,
        uuid: MemberUuid,
    ) -> Result<(), ReplaceError> {
        let column = self.column(slot)?;
        self.publish().await?;
        readd::readd(&self.core, column, device, uuid).await
    }

    /// Adds a spare. As soon as a member is lost and the others are enough, the spare takes its
    /// place and is rebuilt. Its contents are destroyed then, not before. It is known to this start
    /// only.
    ///
    /// # Errors
    /// If the drive does not fit.
    pub fn add_spare(
        &self,
        device: Rc<dyn ZonedDevice>,
        uuid: MemberUuid,
    ) -> Result<(), ReplaceError> {
        crate::log::members::refill::add(&self.core, device, uuid)
    }

    /// Gives back a spare that was not used; returns whether it still waited.
    #[must_use]
    pub fn remove_spare(&self, uuid: MemberUuid) -> bool {
        self.core.spares.borrow_mut().remove(uuid)
    }

    /// Limits the writes of a rebuild per second, so that users have the rest; from the next batch
    /// on.
    pub fn limit_rebuild(&self, bytes_per_second: Option<NonZeroU64>) {
        self.core.rebuild.limit.set(bytes_per_second);
    }

    /// Continues a rebuild that a restart interrupted, if there is one.
    ///
    /// # Errors
    /// As [`Volume::replace`].
    pub async fn resume_rebuild(&self) -> Result<(), ReplaceError> {
        if rebuild::is_interrupted(&self.core) {
            self.publish().await?;
        }
        rebuild::resume(&self.core).await
    }

    /// Reads and verifies everything, and relocates damaged blocks.
    ///
    /// # Errors
    /// If the volume stops.
    pub async fn scrub(&self) -> Result<ScrubReport, AdminError> {
        self.publish().await?;
        scrub::scrub(&self.core).await.map_err(AdminError::Stopped)
    }

    /// Gives an order to the scrub; returns whether there is one.
    pub fn order_scrub(&self, order: ScrubOrder) -> bool {
        self.core.scrub.order(&*self.core, order)
    }

    /// The faults on media, if there ever were any.
    #[must_use]
    pub fn recorded_faults(&self) -> Option<Faults> {
        self.core.state.borrow().array.recorded_faults.clone()
    }

    /// Forgets the errors of all members and the lost ranges, durably. Reading a block that is lost
    /// lists it again: that is done for the first listed ones, so that the status has those which
    /// were not written since.
    ///
    /// # Errors
    /// If too few members are left, one of them does not take the record, or the volume is closing.
    /// Nothing is forgotten.
    pub async fn clear_faults(&self) -> Result<(), AdminError> {
        self.publish().await?;
        Ok(clear::clear(&self.core).await?)
    }

    /// Records a scrub, or what became of the one that began last, durably. A volume has no clock:
    /// the caller, who ordered it, knows its times.
    ///
    /// # Errors
    /// If too few members are left, or none takes the record.
    pub async fn record_scrub(&self, run: ScrubRun) -> Result<(), AdminError> {
        self.publish().await?;
        if self.core.refusing.get() || self.core.closing.get() {
            return Err(AdminError::Stopped(StopReason::ShuttingDown));
        }
        self.core.state.borrow_mut().array.scrubs.note(run);
        Ok(faults::record_scrubs(&self.core).await?)
    }

    /// Gives the array another name, durably. After a crash in between, members may have either.
    ///
    /// # Errors
    /// If too few members are left.
    ///
    /// # Panics
    /// If the name is longer than [`NAME_BYTES`](crate::log::create::NAME_BYTES).
    pub async fn rename(&self, name: String) -> Result<(), AdminError> {
        assert!(name.len() <= NAME_BYTES, "a name of {} bytes", name.len());
        self.publish().await?;
        self.core.superblock.rename(&self.core, name).await.map_err(AdminError::Stopped)
    }

    /// Stops taking requests, waits for requests in flight, and makes everything durable. Nothing
    /// depends on this call.
    ///
    /// # Errors
    /// If the last flush failed.
    pub async fn close(&self) -> Result<(), BlockError> {
        self.core.refusing.set(true);
        // A change that makes the decisions of the start durable, or clears the faults, ends first.
        drop(self.core.publishing.acquire().await);
        while !self.core.state.borrow().writes.inflight.is_empty() {
            self.core.changed.wait().await;
        }
        let flushed = requests::flush(&self.core).await;
        clear::list_unread(&self.core);
        faults::record_last(&self.core).await;
        self.core.superblock.commits_ended().await;
        self.core.begin_closing();
        let writing = |kind| self.core.state.borrow().is_writing(kind);
        let checkpoint = || self.core.state.borrow().checkpoints.is_under_way();
        let pages = || {
            let state = self.core.state.borrow();
            state.mapping.is_paging() || state.mapping.takes_pages_in()
        };
        let others = || checkpoint() || pages();
        while writing(StreamKind::User) || writing(StreamKind::Relocation) || others() {
            self.core.changed.wait().await;
        }
        assert!(
            self.core.state.borrow().writes.inflight.is_empty(),
            "a request was admitted after the volume closed"
        );
        if flushed.is_ok() {
            // Without these seals the next start decides for itself.
            let _not_recorded = clean_stop::record_seals(&self.core).await;
        }
        flushed
    }

    #[cfg(test)]
    pub(in crate::log) fn core(&self) -> &Rc<Core> {
        &self.core
    }

    /// Dumps the engine's state as text, to debug a task that waits for ever.
    #[must_use]
    pub fn describe(&self) -> String {
        let state = self.core.state.borrow();
        let mut text = format!(
            "free {} stopped {:?} dirty {} queued {}/{} open {:?}/{:?} in flight {}\n",
            state.free_segments(),
            state.array.stopped,
            state.array.membership_dirty,
            state.writes.user.queued(),
            state.writes.relocation.queued(),
            state.writes.user.open_segments().collect::<Vec<_>>(),
            state.writes.relocation.open_segments().collect::<Vec<_>>(),
            !state.writes.inflight.is_empty(),
        );
        for (slot, segment) in state.segments.iter() {
            text += &format!(
                "slot {} segment {} {:?} {:?} valid {} readers {} stripes {} damaged {} {:?}\n",
                slot.0,
                segment.id,
                segment.stream,
                segment.phase(),
                segment.valid(),
                segment.readers(),
                segment.in_flight(),
                segment.is_damaged(),
                segment.life,
            );
        }
        text
    }

    /// Checks the engine's bookkeeping, for tests.
    ///
    /// # Panics
    /// If it is wrong.
    pub fn assert_consistent(&self) {
        self.core.state.borrow().assert_consistent();
    }

    /// Makes the decisions of the start durable, before the first change.
    async fn publish(&self) -> Result<(), AdminError> {
        publish_now(&self.core).await.map_err(AdminError::Stopped)
    }

    /// A request that begins now; its time is counted if it succeeds.
    fn timed<T: 'static>(
        &self,
        operation: Operation,
        request: impl Future<Output = Result<T, BlockError>> + 'static,
    ) -> BlockFuture<T> {
        let (core, begun) = (self.core.clone(), self.core.handle.recent());
        // An async block would hold the request twice: captured and awaited.
        Box::pin(request.inspect_ok(move |_| core.latencies.note(operation, begun)))
    }

    /// Makes a range read as zeros, in a task of its own.
    fn unmap(&self, lba: Lba, blocks: u64, fua: bool) -> JoinHandle<Result<(), BlockError>> {
        let core = self.core.clone();
        self.core.handle.spawn("trim", async move {
            publish_now(&core).await?;
            requests::trim(&core, lba, blocks, fua).await
        })
    }

    fn column(&self, slot: usize) -> Result<Column, AdminError> {
        let columns = self.core.state.borrow().array.scheme().columns();
        if slot < columns {
            Ok(Column::of(slot))
        } else {
            Err(AdminError::NoSuchSlot { slot, columns })
        }
    }
}

impl BlockDevice for Volume {
    fn info(&self) -> BlockDeviceInfo {
        let state = self.core.state.borrow();
        BlockDeviceInfo {
            blocks: state.array.config.log().volume_blocks,
            volatile_cache: state.array.volatile && !state.array.fua_always,
            read_only: state.array.stopped.is_some(),
        }
    }

    fn read(&self, lba: Lba, blocks: u32) -> BlockFuture<Vec<Bytes>> {
        let core = self.core.clone();
        self.timed(Operation::Read, async move {
            requests::check_range(&core, lba, blocks.into())?;
            crate::log::read::range::read_range(&core, lba, blocks).await
        })
    }

    fn write(&self, lba: Lba, data: Vec<Bytes>, fua: bool) -> BlockFuture<()> {
        if let Some(done) = requests::write_at_once(&self.core, lba, &data, fua) {
            return self.timed(Operation::Write, async { answered(done.await) });
        }
        let core = self.core.clone();
        // A task of its own: a dropped request must not leave a write half admitted.
        let write = async move {
            publish_now(&core).await?;
            requests::write(&core, lba, data, fua).await
        };
        self.timed(Operation::Write, self.core.handle.spawn("write", write))
    }

    fn write_zeroes(&self, lba: Lba, blocks: u64, fua: bool) -> BlockFuture<()> {
        self.timed(Operation::WriteZeroes, self.unmap(lba, blocks, fua))
    }

    fn trim(&self, lba: Lba, blocks: u64, fua: bool) -> BlockFuture<()> {
        self.timed(Operation::Trim, self.unmap(lba, blocks, fua))
    }

    fn flush(&self) -> BlockFuture<()> {
        let core = self.core.clone();
        self.timed(Operation::Flush, async move { requests::flush(&core).await })
    }

    fn extents(&self, lba: Lba, blocks: u64, limit: usize) -> BlockFuture<Vec<Extent>> {
        let core = self.core.clone();
        Box::pin(async move {
            requests::check_range(&core, lba, blocks)?;
            extents_of(&core, lba.0..lba.0 + blocks, limit).await
        })
    }
}

/// The states of a range, at most `limit` extents.
async fn extents_of(
    core: &Rc<Core>,
    range: Range<u64>,
    limit: usize,
) -> Result<Vec<Extent>, BlockError> {
    let (mut extents, mut looks) = (Vec::new(), Looks::default());
    let (mut start, end) = (range.start, range.end);
    while start < end {
        let held = start..end.min(start + crate::log::index::steps::step_of(core, For::Users));
        start = held.end;
        let _held = hold_range(core, For::Users, held.clone()).await?;
        for part in Looks::parts(held) {
            if !extend(core, &mut extents, part.clone(), limit) {
                return Ok(extents);
            }
            looks.add(core, &part).await;
        }
    }
    Ok(extents)
}

/// Extends the list by a range; returns `false` if the limit does not permit it.
fn extend(core: &Core, extents: &mut Vec<Extent>, range: Range<u64>, limit: usize) -> bool {
    let state = core.state.borrow();
    for lba in range {
        let data = state.data_place(Lba(lba)).is_some();
        let here = if data { ExtentState::Data } else { ExtentState::Hole };
        let room = extents.len() < limit;
        match extents.last_mut() {
            Some(last) if last.state == here => last.blocks += 1,
            _ if room => extents.push(Extent { blocks: 1, state: here }),
            _ => return false,
        }
    }
    true
}
