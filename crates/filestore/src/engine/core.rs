//! The state of an open store, its drive, and what tasks wait for.

use std::cell::{Cell, Ref, RefCell, RefMut};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use bytes::Bytes;
use zoneweave_journal::{Seed, TwinLog, Uuid};
use zoneweave_runtime::{Gate, Handle, Semaphore};
use zoneweave_zoned::{AlignedBuffer, BlockCount, ZoneAddress, ZoneId, ZonedDevice};

use crate::error::{StopReason, StoreError};
use crate::format::{BlockLayout, Entry, Superblock};
use crate::ids::{FileId, Incarnation};
use crate::policy::Policy;
use crate::state::snapshot::{EXTENT_BYTES_MOST, extent_bytes, spare_bytes};
use crate::state::{BlockRun, Namespace, Phase, ZoneTable};
use crate::trace::Tape;

/// An open store.
pub(crate) struct Core {
    pub(crate) handle: Handle,
    pub(crate) device: Rc<dyn ZonedDevice>,
    pub(crate) owner: Uuid,
    pub(crate) seed: Seed,
    pub(crate) layout: BlockLayout,
    pub(crate) limits: Limits,
    pub(crate) clock: Rc<dyn Fn() -> u64>,
    state: RefCell<State>,
    /// The metadata log; the journal task alone moves it.
    pub(crate) log: RefCell<TwinLog>,
    pub(crate) next_sequence: Cell<u64>,
    /// Opened when records become durable, or the store stops.
    pub(crate) journal_moved: Gate,
    /// Opened when a write ends.
    pub(crate) writes_ended: Gate,
    /// Opened when there may be more space.
    pub(crate) space_changed: Gate,
}

/// Limits of an open store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Blocks that a file collects before it writes them.
    pub(crate) buffer: BlockCount,
    /// Data zones that may be active at once.
    pub(crate) active: usize,
    /// Empty zones that only relocation may open.
    pub(crate) reserve: usize,
    pub(crate) max_writers: usize,
    /// Bytes of entries that a snapshot may have.
    pub(crate) snapshot_bytes: u64,
}

/// Everything that decisions depend on.
pub(crate) struct State {
    pub(crate) superblock: Superblock,
    pub(crate) namespace: Namespace,
    pub(crate) zones: ZoneTable,
    pub(crate) next_incarnation: Incarnation,
    pub(crate) journal: Queue,
    pub(crate) writers: BTreeMap<FileId, Writer>,
    /// Files with blocks that are not on record.
    pub(crate) dirty: BTreeSet<FileId>,
    pub(crate) policy: Box<dyn Policy>,
    pub(crate) stopped: Option<StopReason>,
    pub(crate) reclaim: Reclaim,
    pub(crate) counters: Counters,
    /// Bytes that the extents of all files take in a snapshot, at most.
    pub(crate) extent_bytes_most: u64,
    /// Where events of files are recorded.
    pub(crate) tape: Option<Tape>,
}

/// What the journal task writes next.
#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) items: VecDeque<Item>,
    /// The ticket of the last item that was queued.
    pub(crate) last: Ticket,
    /// All items up to this ticket are durable.
    pub(crate) durable: Ticket,
    pub(crate) is_running: bool,
}

/// The place of a change in the queue of the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(pub u64);

/// A change to be recorded.
pub(crate) struct Item {
    pub(crate) ticket: Ticket,
    /// `None` if only the blocks wait for the records before.
    pub(crate) entry: Option<Entry>,
    /// Blocks that are free once the change is durable.
    pub(crate) freed: Vec<BlockRun>,
}

/// A file that is open for writing.
pub(crate) struct Writer {
    /// Orders appends, syncs and truncations.
    pub(crate) lock: Semaphore,
    /// Bytes that are not submitted yet, block by block as they are written.
    pub(crate) buffer: Option<AlignedBuffer>,
    /// Bytes of the file in it.
    pub(crate) filled: usize,
    /// The end of the bytes that were submitted.
    pub(crate) submitted: u64,
    /// Submitted bytes that are not part of the file's extents yet, by their start.
    pub(crate) pending: BTreeMap<u64, Pending>,
    /// The zone that it appends to, and the use of it.
    pub(crate) zone: Option<(ZoneId, Incarnation)>,
    pub(crate) failed: Option<StoreError>,
    /// The handle is gone: the writer ends with its last write.
    pub(crate) is_closed: bool,
}

/// A write in flight, or done behind one that is.
pub(crate) struct Pending {
    pub(crate) bytes: u64,
    /// The blocks as they were submitted.
    pub(crate) data: Bytes,
    pub(crate) run: BlockRun,
    pub(crate) is_done: bool,
    /// If the write was durable: all bytes of the file from here on are in its zone, and so durable
    /// with it.
    pub(crate) durable_from: Option<u64>,
}

/// Relocation of live blocks.
#[derive(Default)]
pub(crate) struct Reclaim {
    pub(crate) is_running: bool,
    /// Writes that wait for space.
    pub(crate) waiting: u32,
    /// Zones that could not be relocated.
    pub(crate) given_up: BTreeMap<ZoneId, GivenUp>,
    /// Writes that became part of a file, records, and resets, so far.
    pub(crate) changes: u64,
    /// The zone that the policy chose to move the files of.
    pub(crate) levelled: Option<ZoneId>,
}

/// Why a zone is not relocated now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GivenUp {
    /// A block cannot be read: in this use of the zone it stays so.
    Damaged,
    /// It failed, perhaps for want of space: until the next reset.
    Failed,
    /// Its live blocks could not move when so many changes had been made.
    Stuck(u64),
}

/// Counters of an open store, in blocks unless another unit is named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Blocks of files that users appended.
    pub written: u64,
    /// Blocks that were relocated.
    pub relocated: u64,
    /// Blocks of metadata.
    pub metadata: u64,
    /// Zones that were reset.
    pub resets: u64,
    /// Zones that were finished before they were full.
    pub finished: u64,
    /// Snapshots of the metadata.
    pub snapshots: u64,
}

/// The parts that an open store is made of.
pub(crate) struct Parts {
    pub(crate) handle: Handle,
    pub(crate) device: Rc<dyn ZonedDevice>,
    pub(crate) owner: Uuid,
    pub(crate) limits: Limits,
    pub(crate) clock: Rc<dyn Fn() -> u64>,
    pub(crate) state: State,
    pub(crate) log: TwinLog,
    pub(crate) next_sequence: u64,
}

impl Core {
    pub(crate) fn new(parts: Parts) -> Rc<Self> {
        let Parts { handle, device, owner, limits, clock, state, log, next_sequence } = parts;
        assert!(limits.active > 0, "no zone may be active");
        assert!(limits.buffer.0 > 0, "buffers of no blocks");
        Rc::new(Self {
            handle,
            device,
            owner,
            seed: Seed::of(owner),
            layout: state.superblock.layout,
            limits,
            clock,
            state: RefCell::new(state),
            log: RefCell::new(log),
            next_sequence: Cell::new(next_sequence),
            journal_moved: Gate::new(),
            writes_ended: Gate::new(),
            space_changed: Gate::new(),
        })
    }

    pub(crate) fn state(&self) -> Ref<'_, State> {
        self.state.borrow()
    }

    pub(crate) fn state_mut(&self) -> RefMut<'_, State> {
        self.state.borrow_mut()
    }

    /// Takes no more changes, and wakes all that wait.
    pub(crate) fn stop(&self, reason: StopReason) {
        self.state_mut().stopped.get_or_insert(reason);
        self.journal_moved.open();
        self.writes_ended.open();
        self.space_changed.open();
    }

    /// Whether the drive keeps metadata beside its blocks.
    pub(crate) fn has_metadata(&self) -> bool {
        self.layout == BlockLayout::Separate
    }
}

impl State {
    /// # Errors
    /// If the store takes no more changes.
    pub(crate) fn check_running(&self) -> Result<(), StoreError> {
        self.stopped.map_or(Ok(()), |reason| Err(StoreError::Stopped(reason)))
    }

    /// Looks at all files only if those that were added since may have made the difference.
    ///
    /// # Errors
    /// If a snapshot would become too large.
    pub(crate) fn check_metadata(&mut self, limits: &Limits) -> Result<(), StoreError> {
        // Every zone may be listed, and each writer adds an extent for each of its writes.
        let writers = u32::try_from(self.writers.len()).expect("a limited number");
        let spare = self.superblock.zones.saturating_add(4 * writers);
        let beside = spare_bytes(spare) + self.namespace.name_bytes();
        let fits = |extents: u64| extents.saturating_add(beside) <= limits.snapshot_bytes;
        if fits(self.extent_bytes_most) {
            return Ok(());
        }
        self.extent_bytes_most = extent_bytes(&self.namespace);
        if fits(self.extent_bytes_most) { Ok(()) } else { Err(StoreError::MetadataFull) }
    }

    /// Counts extents that files have got.
    pub(crate) fn add_extents(&mut self, count: u64) {
        self.extent_bytes_most = self.extent_bytes_most.saturating_add(count * EXTENT_BYTES_MOST);
    }

    /// Empty zones.
    pub(crate) fn empty_zones(&self) -> usize {
        self.zones.count(Phase::Empty)
    }

    /// The first block in a zone of a file's bytes from `from` on, or of writes in flight.
    pub(crate) fn first_unrecorded(&self, zone: ZoneId, bound: FromByte) -> Option<u32> {
        let mut first: Option<u32> = None;
        let mut see = |at: ZoneAddress| {
            if at.zone == zone {
                first = Some(first.map_or(at.offset.0, |first| first.min(at.offset.0)));
            }
        };
        for id in &self.dirty {
            let Some(file) = self.namespace.file(*id).filter(|file| file.links > 0) else {
                continue;
            };
            let from = match bound {
                FromByte::Recorded => file.recorded,
                FromByte::Durable => file.durable,
            };
            for extent in file.extents.iter().filter(|extent| extent.end() > from) {
                // An extent that is on record in part counts from its start: too early is safe.
                see(extent.at);
            }
            let writer = self.writers.get(id);
            writer.into_iter().flat_map(|writer| writer.pending.values()).for_each(|pending| {
                see(pending.run.at);
            });
        }
        first
    }
}

/// Which bytes of a file count as known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FromByte {
    /// Those whose extents are on record.
    Recorded,
    /// Those that a snapshot puts on record.
    Durable,
}

/// Keeps a zone from being reset while it is read.
pub(crate) struct Pin {
    core: Rc<Core>,
    zone: ZoneId,
}

impl Pin {
    /// Pins a zone; the state is borrowed by the caller.
    pub(crate) fn new(core: &Rc<Core>, state: &mut State, zone: ZoneId) -> Self {
        state.zones.get_mut(zone).readers += 1;
        Self { core: core.clone(), zone }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let is_last = {
            let mut state = self.core.state_mut();
            let zone = state.zones.get_mut(self.zone);
            assert!(zone.readers > 0, "{} has no readers", self.zone);
            zone.readers -= 1;
            zone.readers == 0
        };
        if is_last {
            self.core.reset_unneeded();
        }
    }
}
