//! A logical zone in the running volume.
//!
//! Invariants: data below `completed` is on every member in service, with parity that makes it
//! survive their loss; it was acknowledged, or is about to be. Operations complete in the order in
//! which they were admitted: a write behind a hole would be lost with the hole.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use bytes::Bytes;
use zoneweave_runtime::{Gate, Semaphore};
use zoneweave_zoned::{Payload, Responder, ZonedDevice};

use crate::array::format::numbers::Generation;
use crate::array::repair::source::FailedSource;
use crate::raizn::format::zone_record::{Junk, ZoneRecord};
use crate::raizn::stripe::{Block, StripeBuffer};
use crate::scheme::{Column, ColumnSet, StripeId};

/// A write that was submitted to the drives.
pub(crate) struct Operation {
    /// The logical zone.
    pub(crate) zone: u32,
    /// Logical block behind its last one.
    pub(crate) end: u32,
    /// Drive writes to wait for.
    pub(crate) waiting: Cell<u32>,
    /// Durable when it completes, with everything before it in the zone.
    pub(crate) fua: bool,
    /// Room that its records take in the members' parity logs.
    pub(crate) logged: RefCell<Vec<Outstanding>>,
}

impl Operation {
    /// An operation that waits for nothing but its own submission.
    #[must_use]
    pub(crate) fn new(zone: u32, end: u32, fua: bool) -> Self {
        // One more than the drive writes, until all are queued.
        Self { zone, end, waiting: Cell::new(1), fua, logged: RefCell::default() }
    }
}

/// Blocks of a log that an operation takes, until this is dropped: when the operation completes, or
/// when the last of its records is written after its task was dropped.
pub(crate) struct Outstanding {
    of_log: Rc<Cell<u32>>,
    blocks: u32,
}

impl Outstanding {
    /// Takes blocks of a log, which counts them.
    pub(crate) fn take(of_log: &Rc<Cell<u32>>, blocks: u32) -> Self {
        of_log.set(of_log.get() + blocks);
        Self { of_log: of_log.clone(), blocks }
    }
}

impl Drop for Outstanding {
    fn drop(&mut self) {
        self.of_log.set(self.of_log.get() - self.blocks);
    }
}

/// A write before it is submitted to the drives.
pub(crate) struct PendingWrite {
    pub(crate) start: u32,
    pub(crate) payload: Payload,
    pub(crate) fua: bool,
    pub(crate) responder: Responder,
}

impl PendingWrite {
    /// Whether it makes an empty zone an active one.
    #[must_use]
    pub(crate) fn activates(&self) -> bool {
        self.start == 0
    }
}

/// A column that is being rebuilt.
#[derive(Clone)]
pub(crate) struct Joining {
    pub(crate) column: Column,
    pub(crate) device: Rc<dyn ZonedDevice>,
    /// Whether its zone was found empty, or reset.
    pub(crate) is_emptied: bool,
    /// Column offset behind the last block that was copied.
    pub(crate) copied: u32,
    /// What the end of the copy leaves to be done without the zone held.
    pub(crate) rest: Rc<Cell<Option<Rest>>>,
}

/// Why the end of a copy was put off.
#[derive(Clone, Copy)]
pub(crate) struct Rest {
    /// Column offset behind the last block that was copied.
    pub(crate) copied: u32,
    /// The drive that failed to return a block, if the others have been asked.
    pub(crate) source: Option<FailedSource>,
}

/// An admitted command, in order.
pub(crate) enum Pending {
    Write(PendingWrite),
    Reset(Responder),
    Finish(Responder),
    /// The end of a rebuild of the zone's column.
    Join(Joining, Responder),
}

/// Blocks to be written to a column, in order.
pub(crate) struct ColumnWrite {
    /// Column offset of the first.
    pub(crate) at: u32,
    pub(crate) data: Vec<Bytes>,
    pub(crate) oob: Vec<u8>,
    pub(crate) blocks: u32,
    pub(crate) operation: Rc<Operation>,
}

/// A column of the zone.
#[derive(Default)]
pub(crate) struct ColumnState {
    /// Column offset behind the last block that was submitted.
    pub(crate) next: u32,
    /// Writes in order, the first of which is next.
    pub(crate) queue: VecDeque<ColumnWrite>,
    /// Whether a task writes the queue.
    pub(crate) writing: bool,
    /// Blocks whose places hold junk, by column offset.
    pub(crate) relocated: BTreeMap<u32, Block>,
}

/// A logical zone.
pub(crate) struct LogicalZone {
    /// What the superblock has of it.
    pub(crate) record: ZoneRecord,
    /// The generation that is durable: lower than the record's until a reset is.
    pub(crate) recorded: Generation,
    /// Logical blocks submitted to the drives.
    pub(crate) submitted: u32,
    /// Logical blocks that completed.
    pub(crate) completed: u32,
    /// Resets that completed since the start; reads of data behind `completed` wait for their own.
    pub(crate) resets_done: u64,
    /// Resets admitted since the start.
    pub(crate) resets_admitted: u64,
    /// Commands that change the zone: admitted, and ended. They end in order.
    pub(crate) admitted: u64,
    pub(crate) ended: u64,
    /// Admitted commands that are not submitted yet, with their numbers in the volume.
    pub(crate) pending: VecDeque<(u64, Pending)>,
    /// Submitted writes, with their responders.
    pub(crate) operations: VecDeque<(Rc<Operation>, Responder, u32)>,
    /// The stripes of submitted, incomplete data.
    pub(crate) stripes: VecDeque<StripeBuffer>,
    /// A reset, a finish or the end of a rebuild is under way: nothing is submitted.
    pub(crate) blocked: bool,
    /// A task completes operations.
    pub(crate) completing: bool,
    /// Reads in flight, by the resets that were admitted before them.
    pub(crate) readers: BTreeMap<u64, u32>,
    /// Members with completed writes of the zone that no flush followed.
    pub(crate) unflushed: ColumnSet,
    /// One flush of the columns at a time: the next one waits until `unflushed` of the first
    /// is durable.
    pub(crate) flush: Semaphore,
    /// Logical blocks that a flush has made durable, with drives that need one.
    pub(crate) persisted: u32,
    /// A task flushes the zone's columns so that writes may go on.
    pub(crate) flushing: bool,
    /// Members without their column.
    pub(crate) absent: ColumnSet,
    /// Whether the last rebuild left the zone out because of a drive that it read.
    pub(crate) left_out: bool,
    /// By slot.
    pub(crate) columns: Vec<ColumnState>,
    /// Opened by every change that a waiting task may react to.
    pub(crate) changed: Gate,
}

impl LogicalZone {
    /// A zone with `completed` blocks.
    #[must_use]
    pub(crate) fn new(record: ZoneRecord, completed: u32, columns: usize) -> Self {
        Self {
            recorded: record.generation,
            record,
            submitted: completed,
            completed,
            resets_done: 0,
            resets_admitted: 0,
            admitted: 0,
            ended: 0,
            pending: VecDeque::new(),
            operations: VecDeque::new(),
            stripes: VecDeque::new(),
            blocked: false,
            completing: false,
            readers: BTreeMap::new(),
            unflushed: ColumnSet::default(),
            flush: Semaphore::new(1),
            persisted: completed,
            flushing: false,
            absent: ColumnSet::default(),
            left_out: false,
            columns: (0..columns).map(|_| ColumnState::default()).collect(),
            changed: Gate::new(),
        }
    }

    /// Whether commands that change the zone have not ended.
    #[must_use]
    pub(crate) fn is_busy(&self) -> bool {
        self.blocked || !self.pending.is_empty() || !self.operations.is_empty()
    }

    /// Whether its columns take active zones of the drives: from its first write on, until they are
    /// full, finished or reset.
    #[must_use]
    pub(crate) fn is_active(&self, zone_blocks: u32) -> bool {
        let is_finished = self.record.finished.is_some() && !self.blocked;
        let is_partial = self.submitted > 0 && self.completed < zone_blocks && !is_finished;
        is_partial || self.record.resetting
    }

    /// The junk ranges of a column.
    pub(crate) fn junk_of(&self, column: Column) -> impl Iterator<Item = &Junk> {
        self.record.junk.iter().filter(move |junk| junk.column == column)
    }

    /// Whether a place in a column holds junk, and behind it the next place that differs.
    #[must_use]
    pub(crate) fn is_junk(&self, column: Column, at: u32) -> (bool, u32) {
        for junk in self.junk_of(column) {
            assert!(junk.start < junk.end, "junk {}..{} of {column}", junk.start, junk.end);
            if at < junk.start {
                return (false, junk.start);
            }
            if at < junk.end {
                return (true, junk.end);
            }
        }
        (false, u32::MAX)
    }

    /// The buffer of a stripe, if its data is in memory.
    #[must_use]
    pub(crate) fn stripe(&self, stripe: StripeId) -> Option<&StripeBuffer> {
        let first = self.stripes.front()?.stripe;
        let last = self.stripes.back()?.stripe;
        let held = self.stripes.len();
        assert!(
            (last.0 - first.0) as usize + 1 == held,
            "stripes {first} to {last} in {held} buffers"
        );
        let at = stripe.0.checked_sub(first.0)?;
        self.stripes.get(usize::try_from(at).expect("a small number"))
    }

    /// Forgets everything but the generation, for a reset. Returns how many blocks of each column
    /// were relocated.
    pub(crate) fn make_empty(&mut self) -> Vec<u32> {
        assert!(self.operations.is_empty(), "a reset of a zone with writes in flight");
        assert!(self.columns.iter().all(|c| c.queue.is_empty()), "writes to a zone that is reset");
        assert!(self.completed <= self.submitted, "more is complete than was submitted");
        self.record.junk.clear();
        self.record.finished = None;
        self.record.by_volume = false;
        self.submitted = 0;
        self.completed = 0;
        self.stripes.clear();
        self.unflushed = ColumnSet::default();
        self.persisted = 0;
        self.absent = ColumnSet::default();
        self.left_out = false;
        let columns = self.columns.iter_mut().map(|column| {
            column.next = 0;
            let relocated = std::mem::take(&mut column.relocated);
            u32::try_from(relocated.len()).expect("a column has fewer blocks")
        });
        columns.collect()
    }
}
