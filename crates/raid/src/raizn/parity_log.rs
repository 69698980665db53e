//! The parity log of a member: its zones, and records to be written.
//!
//! Records go to one zone. When it is full, they go to the next one; a checkpoint of whatever still
//! counts of the full zone follows them, and then the full zone is reset (RAIZN §4.3, Fig. 4).
//! `write/log` writes records, `write/checkpoint` the checkpoint.
//!
//! Invariants: at most two zones hold records of the published mount. The checkpoint always has
//! room: other records leave space for it.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use bytes::Bytes;
use zoneweave_zoned::ZoneId;

use crate::raizn::layout::{FIRST_LOG_ZONE, LOG_ZONES};
use crate::raizn::zone::{Operation, Outstanding};

/// A record to be written: header and blocks.
pub(crate) struct LogWrite {
    pub(crate) data: Vec<Bytes>,
    pub(crate) blocks: u32,
    /// The write that waits for it; `None` for a checkpoint.
    pub(crate) operation: Option<Rc<Operation>>,
}

/// The log of one member.
pub(crate) struct ParityLog {
    /// Index of the zone being written.
    current: usize,
    /// The next block in it.
    pub(crate) next: u32,
    /// Blocks that may be written to a zone.
    capacity: u32,
    /// Records in order.
    pub(crate) queue: VecDeque<LogWrite>,
    /// Records of a checkpoint, which go first.
    pub(crate) checkpoint: VecDeque<LogWrite>,
    /// Blocks of the records of writes that have not completed. After a switch, all of them may go
    /// to the present zone, in front of the checkpoint.
    outstanding: Rc<Cell<u32>>,
    /// Relocated blocks of the member: each checkpoint has them all.
    pub(crate) relocated: u32,
    /// Whether a task writes the queue.
    pub(crate) writing: bool,
    /// Whether records of a checkpoint are being written.
    writing_checkpoint: bool,
    /// The previous zone, while records in it count, and the blocks to leave for its checkpoint.
    pub(crate) previous: Option<(usize, u32)>,
}

/// The next step of a log's writer.
pub(crate) enum LogStep {
    /// Write these records at a block of a zone.
    Write(ZoneId, u32, Vec<LogWrite>),
    /// Go on in the next zone.
    Switch,
    /// The checkpoint has to be written first.
    Wait,
    /// There is nothing to write.
    Done,
}

impl ParityLog {
    /// A log that goes on at a block of one of its zones, the others being empty.
    #[must_use]
    pub(crate) fn at(current: usize, next: u32, capacity: u32) -> Self {
        assert!(current < LOG_ZONES, "a log has {LOG_ZONES} zones");
        let (queue, checkpoint) = (VecDeque::new(), VecDeque::new());
        Self {
            current,
            next,
            capacity,
            queue,
            checkpoint,
            outstanding: Rc::default(),
            relocated: 0,
            writing: false,
            writing_checkpoint: false,
            previous: None,
        }
    }

    /// Index of the zone being written.
    #[must_use]
    pub(crate) fn current_zone(&self) -> usize {
        self.current
    }

    /// A zone of the log.
    #[must_use]
    pub(crate) fn zone(index: usize) -> ZoneId {
        ZoneId(FIRST_LOG_ZONE + u32::try_from(index).expect("a small number"))
    }

    /// Whether records of so many blocks may be added, while the checkpoint takes `reserve`: until
    /// their writes complete, the checkpoint waits.
    #[must_use]
    pub(crate) fn has_room(&self, blocks: u32, reserve: u32) -> bool {
        self.outstanding() == 0 || self.outstanding() + blocks + reserve <= self.capacity
    }

    /// Queues a record of an operation, which takes its blocks until it completes.
    pub(crate) fn enqueue(&mut self, record: LogWrite, operation: &Operation) {
        let held = Outstanding::take(&self.outstanding, record.blocks);
        operation.logged.borrow_mut().push(held);
        self.queue.push_back(record);
    }

    /// Blocks of the records of writes that have not completed.
    #[must_use]
    pub(crate) fn outstanding(&self) -> u32 {
        self.outstanding.get()
    }

    /// A log of the next drive in the slot. The operations of the one before go on.
    #[must_use]
    pub(crate) fn of_next_drive(&self) -> Self {
        Self { outstanding: self.outstanding.clone(), ..Self::at(0, 0, self.capacity) }
    }

    /// Whether records wait and no task writes them.
    #[must_use]
    pub(crate) fn needs_writer(&self) -> bool {
        !(self.writing || self.queue.is_empty() && self.checkpoint.is_empty())
    }

    /// Whether records of a checkpoint are being written.
    #[must_use]
    pub(crate) fn is_writing_checkpoint(&self) -> bool {
        self.writing_checkpoint
    }

    /// Decides what the writer does next, the last step being done. `most` is the largest write of
    /// the drive in blocks.
    pub(crate) fn step(&mut self, most: u32) -> LogStep {
        let is_checkpoint = !self.checkpoint.is_empty();
        self.writing_checkpoint = false;
        let left_free = match self.previous {
            Some((_, reserve)) if !is_checkpoint => reserve,
            _ => 0,
        };
        let room = self.capacity.saturating_sub(self.next).saturating_sub(left_free);
        let queue = if is_checkpoint { &mut self.checkpoint } else { &mut self.queue };
        let Some(first) = queue.front() else { return LogStep::Done };
        if first.blocks > room {
            assert!(!is_checkpoint, "a checkpoint has room");
            return if self.previous.is_some() { LogStep::Wait } else { LogStep::Switch };
        }
        let (mut records, mut blocks) = (Vec::new(), 0);
        while let Some(record) = queue.front()
            && (records.is_empty() || blocks + record.blocks <= most)
            && blocks + record.blocks <= room
        {
            blocks += record.blocks;
            records.extend(queue.pop_front());
        }
        self.writing_checkpoint = is_checkpoint;
        let at = self.next;
        self.next += blocks;
        LogStep::Write(Self::zone(self.current), at, records)
    }

    /// Goes on in the next zone. `reserve` is the space that the checkpoint of the current one
    /// takes at most.
    pub(crate) fn switch(&mut self, reserve: u32) {
        assert!(self.previous.is_none(), "the previous zone is still needed");
        self.previous = Some((self.current, reserve));
        self.current = (self.current + 1) % LOG_ZONES;
        self.next = 0;
    }
}

/// Relocated blocks of a member that its parity log has room for: its checkpoint, with a header
/// for each, then takes a quarter of a zone, and partial parity another one.
pub(crate) fn relocated_most(zone_capacity: u32) -> u32 {
    zone_capacity / 8
}
