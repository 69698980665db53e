//! The parts that all tasks of a running zoned volume share.

use std::cell::{Cell, Ref, RefCell, RefMut};
use std::collections::BTreeSet;
use std::rc::{Rc, Weak};

use zoneweave_erasure::Code;
use zoneweave_journal::Seed;
use zoneweave_runtime::{Gate, Handle, Semaphore};
use zoneweave_zoned::{Latencies, Status, ZoneSet};

use crate::array::format::config::Checksums;
use crate::array::format::envelope::ArrayUuid;
use crate::array::format::faults::Faults;
use crate::array::format::numbers::{Generation, SegmentId, Sequence};
use crate::array::format::record::MemberState;
use crate::array::repair::faults::{Recorder, RecordsFaults, in_snapshot};
use crate::array::repair::rebuild::RebuildState;
use crate::array::repair::scrub::ScrubState;
use crate::array::state::Array;
use crate::array::superblock_logs::SuperblockLog;
use crate::array::volume::{ArrayVolume, VolumeNumbers};
use crate::raizn::doubtful::DoubtfulPlaces;
use crate::raizn::format::body::{Mount, PublishedMount, REBUILT_ZONES, RebuiltZones, ZonedBody};
use crate::raizn::layout::Layout;
use crate::raizn::parity_log::ParityLog;
use crate::raizn::recover::media::Unpublished;
use crate::raizn::zone::LogicalZone;
use crate::scheme::{Column, ColumnSet};

/// Everything that decisions are made from.
pub(crate) struct State {
    pub(crate) array: Array,
    /// The states of the logical zones, as users see them.
    pub(crate) zones: ZoneSet,
    /// By number.
    pub(crate) logical: Vec<LogicalZone>,
    /// The parity log of each member.
    pub(crate) logs: Vec<ParityLog>,
    /// The mount whose parity log counts.
    pub(crate) published: Mount,
    /// The next mount.
    pub(crate) next_mount: u64,
    /// Zones whose next write waits for resources of the drives.
    pub(crate) starved: BTreeSet<u32>,
    /// Commands that change zones admitted since the start.
    pub(crate) admitted: u64,
    /// Reads of users since the start.
    pub(crate) reads: u64,
    /// Places of columns that reads did not get: their blocks may be lost.
    pub(crate) doubtful: DoubtfulPlaces,
    /// Lost ranges that an order has taken off the list, of which it has not looked at all blocks.
    pub(crate) unlisted: Faults,
    /// Numbers of admitted writes to empty zones that are not submitted yet: each takes an active
    /// zone of the drives, in this order.
    pub(crate) activations: BTreeSet<u64>,
}

/// The shared parts of a zoned volume.
pub(crate) struct Core {
    /// Clock and task spawner.
    pub(crate) handle: Handle,
    /// Times of users' commands.
    pub(crate) latencies: Rc<Latencies>,
    /// The state for all decisions.
    pub(crate) state: RefCell<State>,
    pub(crate) layout: Layout,
    pub(crate) code: Code,
    pub(crate) array: ArrayUuid,
    pub(crate) seed: Seed,
    pub(crate) checksums: Checksums,
    /// The superblock zones of all members.
    pub(crate) superblock: SuperblockLog,
    /// Opened by every change that a waiting task may react to.
    pub(crate) changed: Gate,
    /// One membership change, rebuild or scrub at a time.
    pub(crate) admin: Semaphore,
    /// Orders to clear the faults, for which a close waits.
    pub(crate) clearing: Semaphore,
    /// The rebuild, while one runs, and its limit.
    pub(crate) rebuild: RebuildState,
    /// The scrub, while there is one.
    pub(crate) scrub: ScrubState,
    /// Whether the volume is being closed.
    pub(crate) closing: Cell<bool>,
    /// What a start without a member has not made durable yet.
    pub(crate) unpublished: RefCell<Option<Unpublished>>,
    /// The task that records faults.
    pub(crate) recorder: Cell<Recorder>,
    /// These parts, for tasks that are started where they are only borrowed.
    pub(crate) this: Weak<Self>,
}

impl State {
    /// The members without the column of a zone.
    #[must_use]
    pub(crate) fn lost_columns(&self, zone: u32) -> ColumnSet {
        self.missing().union(self.logical[zone as usize].absent)
    }

    /// The members without a drive.
    #[must_use]
    pub(crate) fn missing(&self) -> ColumnSet {
        let members = self.array.scheme().iter().zip(&self.array.members);
        members.filter(|(_, member)| member.device.is_none()).map(|(column, _)| column).collect()
    }

    /// Takes a member out. Returns whether it was in service.
    pub(crate) fn evict(&mut self, column: Column, reason: &str) -> bool {
        if !self.array.evict(column, reason) {
            return false;
        }
        self.array.stop_if_too_few();
        assert!(self.missing().contains(column), "{column} is evicted and still attached");
        true
    }

    /// The zones that have the column of a member that is being rebuilt.
    pub(crate) fn rebuilt_of(&self, column: Column) -> Vec<ZonedBody> {
        let chunks = self.logical.chunks(REBUILT_ZONES as usize);
        let records = (0..).step_by(REBUILT_ZONES as usize).zip(chunks).map(|(first, zones)| {
            let mut bits = vec![0; zones.len().div_ceil(8)];
            for (at, zone) in zones.iter().enumerate() {
                bits[at / 8] |= u8::from(!zone.absent.contains(column)) << (at % 8);
            }
            ZonedBody::Rebuilt(RebuiltZones { column, first, bits })
        });
        records.collect()
    }

    /// All current records, without the one that `last` replaces.
    fn snapshot(&self, last: &ZonedBody) -> Vec<ZonedBody> {
        let records = self.logical.iter().map(|zone| &zone.record);
        let known = records.filter(|record| {
            record.generation > Generation::NONE
                || record.finished.is_some()
                || !record.junk.is_empty()
        });
        let mut bodies = ZonedBody::of_zones(known.cloned());
        for (column, member) in self.array.scheme().iter().zip(&self.array.members) {
            if member.entry.state == MemberState::Rebuilding {
                bodies.extend(self.rebuilt_of(column));
            }
        }
        bodies.extend(in_snapshot(&self.array, last));
        let (published, next) = (self.published.0, self.next_mount);
        assert!(published < next, "mount {published} is published, and {next} is next");
        bodies.push(ZonedBody::Published(PublishedMount(self.published)));
        bodies
    }
}

impl Core {
    /// The status with which commands end once writes have stopped.
    pub(crate) const STOPPED: Status = Status::WriteFault;

    /// Whether writes have stopped.
    #[must_use]
    pub(crate) fn is_stopped(&self) -> bool {
        self.state.borrow().array.stopped.is_some()
    }
}

impl ArrayVolume for Core {
    type Body = ZonedBody;

    fn array(&self) -> Ref<'_, Array> {
        Ref::map(self.state.borrow(), |state| &state.array)
    }

    fn array_mut(&self) -> RefMut<'_, Array> {
        RefMut::map(self.state.borrow_mut(), |state| &mut state.array)
    }

    fn superblock(&self) -> &SuperblockLog {
        &self.superblock
    }

    fn handle(&self) -> &Handle {
        &self.handle
    }

    fn changed(&self) -> &Gate {
        &self.changed
    }

    fn numbers(&self) -> VolumeNumbers {
        let next_mount = self.state.borrow().next_mount;
        VolumeNumbers {
            next_sequence: Sequence(next_mount),
            sequence_ceiling: Sequence(next_mount),
            segment_ceiling: SegmentId::FIRST,
        }
    }

    fn snapshot(&self, last: &ZonedBody) -> Vec<ZonedBody> {
        self.state.borrow().snapshot(last)
    }

    fn evict(&self, column: Column, reason: &str) -> bool {
        self.state.borrow_mut().evict(column, reason)
    }

    fn errors_counted(&self) {
        self.schedule_fault_record();
    }
}

impl RecordsFaults for Core {
    fn recorder(&self) -> &Cell<Recorder> {
        &self.recorder
    }

    fn shared(&self) -> Option<Rc<Self>> {
        self.this.upgrade()
    }

    fn is_closing(&self) -> bool {
        self.closing.get()
    }

    /// A lost block that is met again is listed again.
    fn forget_damage(&self) {}
}
