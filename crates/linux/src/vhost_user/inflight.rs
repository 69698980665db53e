//! Which requests of a queue are in flight, in memory that outlives this process (vhost-user
//! protocol, "Inflight I/O tracking", split virtqueues). QEMU keeps it, and gives it to the next
//! server, which runs the requests that the last one had taken and not answered.
//!
//! A killed server has answered requests in any order, so the queue position does not show which
//! are left. The table does at any moment: a request is marked when it is taken, and unmarked after
//! its answer is stored. Between the two, the position in the used ring shows for one request that
//! it was answered.
//!
//! Fault model: the memory may hold anything. Its claims are limited to possible requests, once
//! each.

use std::fs::File;
use std::io;
use std::rc::Rc;
use std::sync::atomic::{Ordering, compiler_fence};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use vhost::vhost_user::message::VhostUserInflight;
use vm_memory::mmap::MmapRegion;
use vm_memory::{FileOffset, VolatileMemory};

use super::config::{QUEUE_SIZE_MAX, QUEUES_MAX};
use super::memory::{MemoryError, protect};

/// Before the entries of a queue: features, version, how many entries, the last head that was
/// answered, and how many answers there were.
const HEADER_BYTES: usize = 16;
const VERSION_AT: usize = 8;
const ENTRIES_AT: usize = 10;
const LAST_HEAD_AT: usize = 12;
const ANSWERS_AT: usize = 14;
/// An entry for each head: whether it is under way, and when it was taken.
const ENTRY_BYTES: usize = 16;
const TAKEN_AT: usize = 8;
const VERSION: u16 = 1;
/// Queues begin at multiples of this.
const ALIGNMENT: usize = 64;

fn queue_bytes(size: u16) -> usize {
    (HEADER_BYTES + usize::from(size) * ENTRY_BYTES).next_multiple_of(ALIGNMENT)
}

/// The table of one queue.
pub(super) struct InFlight {
    memory: Rc<MmapRegion>,
    start: usize,
    size: u16,
    /// Of the next request.
    counter: std::cell::Cell<u64>,
}

/// Creates memory for the tables of some queues, and returns their position in it.
///
/// # Errors
/// If there is no memory, or the number or size of the queues is out of range.
pub(super) fn make(asked: &VhostUserInflight) -> Result<(VhostUserInflight, File), MemoryError> {
    let (queues, size) = (asked.num_queues, asked.queue_size);
    let bytes = checked_bytes(queues, size)?;
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(memfd_create("in flight", flags).map_err(io::Error::from)?);
    ftruncate(&file, bytes as u64).map_err(io::Error::from)?;
    let told = VhostUserInflight::new(bytes as u64, 0, queues, size);
    for table in map(&told, file.try_clone()?)? {
        table.put(VERSION_AT, VERSION);
        table.put(ENTRIES_AT, size);
    }
    Ok((told, file))
}

/// The tables in some memory, one for each queue.
///
/// # Errors
/// If they are not there.
pub(super) fn map(told: &VhostUserInflight, file: File) -> Result<Vec<InFlight>, MemoryError> {
    let (queues, size) = (told.num_queues, told.queue_size);
    let bytes = checked_bytes(queues, size)?;
    let end = told.mmap_offset.checked_add(bytes as u64).ok_or(MemoryError::OutOfBounds)?;
    protect(&file, end)?;
    let memory = MmapRegion::from_file(FileOffset::new(file, told.mmap_offset), bytes)
        .map_err(|error| MemoryError::Map(error.to_string()))?;
    let memory = Rc::new(memory);
    let table = |queue: u16| InFlight {
        memory: memory.clone(),
        start: usize::from(queue) * queue_bytes(size),
        size,
        counter: std::cell::Cell::new(0),
    };
    Ok((0..queues).map(table).collect())
}

fn checked_bytes(queues: u16, size: u16) -> Result<usize, MemoryError> {
    let fits = queues > 0 && queues <= QUEUES_MAX && size > 0 && size <= QUEUE_SIZE_MAX;
    fits.then(|| usize::from(queues) * queue_bytes(size)).ok_or(MemoryError::OutOfBounds)
}

impl InFlight {
    /// How long a queue may be.
    pub(super) fn size(&self) -> u16 {
        self.size
    }

    /// The requests that a server had taken and not answered, in the order in which it took them,
    /// given the number of answers in the used ring. Repairs the table.
    pub(super) fn left_over(&self, answers: u16) -> Vec<u16> {
        if self.get::<u16>(ANSWERS_AT) != answers {
            // It was killed between the answer and the end of the mark.
            let last: u16 = self.get(LAST_HEAD_AT);
            if last < self.size {
                self.mark(last, false);
            }
            self.put(ANSWERS_AT, answers);
        }
        let marked = (0..self.size).filter(|head| self.get::<u8>(entry_at(*head)) == 1);
        let mut left: Vec<(u64, u16)> =
            marked.map(|head| (self.get(entry_at(head) + TAKEN_AT), head)).collect();
        left.sort_unstable();
        self.counter.set(left.last().map_or(0, |(counter, _)| counter.wrapping_add(1)));
        left.into_iter().map(|(_, head)| head).collect()
    }

    /// A request is taken.
    pub(super) fn begin(&self, head: u16) {
        if head < self.size {
            self.put(entry_at(head) + TAKEN_AT, self.counter.get());
            self.counter.set(self.counter.get().wrapping_add(1));
            compiler_fence(Ordering::SeqCst);
            self.mark(head, true);
        }
    }

    /// A request is about to be answered.
    pub(super) fn answering(&self, head: u16) {
        self.put(LAST_HEAD_AT, head);
        compiler_fence(Ordering::SeqCst);
    }

    /// It is answered, and there are so many answers now.
    pub(super) fn answered(&self, head: u16, answers: u16) {
        compiler_fence(Ordering::SeqCst);
        if head < self.size {
            self.mark(head, false);
        }
        compiler_fence(Ordering::SeqCst);
        self.put(ANSWERS_AT, answers);
    }

    fn mark(&self, head: u16, under_way: bool) {
        self.put(entry_at(head), u8::from(under_way));
    }

    fn get<T: vm_memory::ByteValued>(&self, at: usize) -> T {
        self.memory.get_ref(self.start + at).expect("the table is mapped").load()
    }

    fn put<T: vm_memory::ByteValued>(&self, at: usize, value: T) {
        self.memory.get_ref(self.start + at).expect("the table is mapped").store(value);
    }
}

fn entry_at(head: u16) -> usize {
    HEADER_BYTES + usize::from(head) * ENTRY_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(queues: u16, size: u16) -> Result<Vec<InFlight>, MemoryError> {
        let (told, file) = make(&VhostUserInflight::new(0, 0, queues, size))?;
        map(&told, file)
    }

    #[test]
    fn what_was_taken_and_not_answered_is_left_in_its_order() {
        let tables = tables(2, 8).unwrap();
        let table = &tables[1];
        assert!(table.left_over(0).is_empty());
        for head in [5, 2, 7, 0] {
            table.begin(head);
        }
        for (head, answers) in [(2, 1), (7, 2)] {
            table.answering(head);
            table.answered(head, answers);
        }
        assert_eq!(table.left_over(2), [5, 0]);
        // One was answered just before the end, and one was not.
        table.answering(5);
        assert_eq!(table.left_over(2), [5, 0]);
        table.answering(0);
        assert_eq!(table.left_over(3), [5]);
        assert_eq!(table.left_over(3), [5]);
        table.begin(3);
        assert_eq!(table.left_over(3), [5, 3]);
        assert!(tables[0].left_over(0).is_empty());
    }

    #[test]
    fn tables_that_cannot_be_are_refused() {
        for (queues, size) in [(0, 8), (8, 0), (QUEUES_MAX + 1, 8), (1, QUEUE_SIZE_MAX + 1)] {
            assert!(tables(queues, size).is_err());
        }
        let (told, file) = make(&VhostUserInflight::new(0, 0, 1, 8)).unwrap();
        let beyond = VhostUserInflight::new(told.mmap_size, 4096, 1, 8);
        assert!(map(&beyond, file.try_clone().unwrap()).is_err());
        let more = VhostUserInflight::new(told.mmap_size, 0, 64, QUEUE_SIZE_MAX);
        assert!(map(&more, file).is_err());
    }

    #[test]
    fn whatever_is_in_a_table_names_requests_that_there_can_be() {
        let tables = tables(1, 8).unwrap();
        let table = &tables[0];
        for at in 0..queue_bytes(8) {
            table.put(at, 0xFF_u8);
        }
        assert!(table.left_over(1).is_empty(), "a mark is 1");
        for head in 0..8 {
            table.mark(head, true);
        }
        assert_eq!(table.left_over(1).len(), 8);
        table.begin(60_000);
        table.answered(60_000, 2);
    }
}
