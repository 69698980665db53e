//! A queue of requests in the guest's memory: one task takes requests out, and one task for each
//! answers it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use vhost::vhost_user::{Error as ProtocolError, Result as ProtocolResult};
use virtio_queue::{Error, Queue, QueueOwnedT, QueueT};
use vm_memory::mmap::MmapRegion;
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestRegionMmap};
use zoneweave_runtime::{Gate, Permit};

use super::config::QUEUE_SIZE_MAX;
use super::inflight::InFlight;
use super::memory::Memory;
use super::request::Request;
use super::shared::{PIECE_BYTES, REQUEST_BYTES_MIN, Shared};
use crate::host::timeout::unless;
use crate::ring::Descriptor;

/// Room for a list of as many requests as a queue may have.
const LIST_BYTES: usize = 4096;

/// Where the parts of a queue are, for the process that runs the guest.
#[derive(Clone, Copy)]
pub(super) struct Addresses {
    pub(super) descriptors: u64,
    pub(super) available: u64,
    pub(super) used: u64,
}

/// A queue. It takes requests between `resume` and `begin_rest`.
pub(super) struct Vring {
    shared: Rc<Shared>,
    queue: RefCell<Queue>,
    pub(super) addresses: Cell<Option<Addresses>>,
    pub(super) enabled: Cell<bool>,
    /// The guest does not flush, so a write must be durable when it is answered (VIRTIO 1.2,
    /// section 5.2.6.2).
    pub(super) write_through: Cell<bool>,
    /// Counts up when there are requests.
    pub(super) kick: RefCell<Option<Descriptor>>,
    /// To be counted up when there are answers.
    pub(super) call: RefCell<Option<OwnedFd>>,
    /// To be counted up when the queue is given up.
    pub(super) error: RefCell<Option<OwnedFd>>,
    /// The table of requests in flight that outlives this process, if QEMU keeps one.
    pub(super) in_flight: RefCell<Option<InFlight>>,
    /// Requests that another server had taken and not answered.
    again: RefCell<VecDeque<Taken>>,
    resting: Cell<bool>,
    /// The task that takes requests, and one for each request.
    tasks: Cell<usize>,
    changed: Gate,
}

/// The result of polling a queue.
struct Taken {
    head: u16,
    request: Option<Request>,
}

impl Vring {
    pub(super) fn new(shared: &Rc<Shared>) -> Self {
        let queue = Queue::new(QUEUE_SIZE_MAX).expect("a power of two");
        Self {
            shared: shared.clone(),
            queue: RefCell::new(queue),
            addresses: Cell::new(None),
            enabled: Cell::new(false),
            write_through: Cell::new(true),
            kick: RefCell::default(),
            call: RefCell::default(),
            error: RefCell::default(),
            in_flight: RefCell::default(),
            again: RefCell::default(),
            resting: Cell::new(true),
            tasks: Cell::new(0),
            changed: Gate::new(),
        }
    }

    pub(super) fn set_size(&self, size: u16) -> ProtocolResult<()> {
        let set = self.queue.borrow_mut().try_set_size(size);
        set.map_err(|_| ProtocolError::InvalidParam)
    }

    pub(super) fn set_event_index(&self, used: bool) {
        self.queue.borrow_mut().set_event_idx(used);
    }

    /// From where on requests are taken.
    pub(super) fn set_base(&self, base: u16) {
        self.queue.borrow_mut().set_next_avail(base);
    }

    pub(super) fn base(&self) -> u16 {
        self.queue.borrow().next_avail()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.tasks.get() == 0
    }

    pub(super) fn reset(&self) {
        assert!(self.is_idle(), "a queue is reset without requests in flight");
        self.queue.borrow_mut().reset();
        self.addresses.set(None);
        self.enabled.set(false);
        self.kick.take();
        self.call.take();
        self.error.take();
        self.in_flight.take();
        self.again.take();
    }

    /// The event counter for answers. It is signalled once at the start: a killed server may have
    /// stored answers without a signal, and the guest would wait for the earlier ones.
    pub(super) fn set_call(&self, event: Option<OwnedFd>) {
        self.call.replace(event);
        signal(&self.call);
    }

    /// Lets no more requests be taken.
    pub(super) fn begin_rest(&self) {
        self.resting.set(true);
        self.changed.open();
    }

    /// Waits until nothing is under way.
    pub(super) async fn at_rest(&self) {
        while self.tasks.get() > 0 {
            self.changed.wait().await;
        }
    }

    async fn told_to_rest(&self) {
        while !self.resting.get() {
            self.changed.wait().await;
        }
    }

    /// Starts to take requests, if the queue is complete and not started.
    pub(super) fn resume(self: &Rc<Self>, memory: Option<&Rc<Memory>>) {
        let ready = self.resting.get() && self.enabled.get() && self.tasks.get() == 0;
        let (Some(addresses), Some(memory), true) = (self.addresses.get(), memory, ready) else {
            return;
        };
        let Some(kick) = self.kick.borrow().clone() else { return };
        if self.place(addresses, memory).is_none() {
            self.give_up();
            return;
        }
        self.resting.set(false);
        self.tasks.set(1);
        let (vring, memory) = (self.clone(), memory.clone());
        self.shared.handle.spawn("vhost-user queue", async move {
            if vring.take_requests(&memory, &kick).await.is_err() {
                vring.give_up();
            }
            vring.end_task();
        });
    }

    /// Finds the queue in the guest's memory; `None` if it is not there.
    fn place(&self, addresses: Addresses, memory: &Memory) -> Option<()> {
        let mut queue = self.queue.borrow_mut();
        queue.try_set_desc_table_address(memory.guest_address(addresses.descriptors)?).ok()?;
        queue.try_set_avail_ring_address(memory.guest_address(addresses.available)?).ok()?;
        queue.try_set_used_ring_address(memory.guest_address(addresses.used)?).ok()?;
        queue.set_ready(true);
        if !queue.is_valid(&memory.guest) {
            queue.set_ready(false);
            return None;
        }
        let used = queue.used_idx(&memory.guest, Ordering::Acquire).ok()?;
        queue.set_next_used(used.0);
        self.again.take();
        // Without a table, all taken requests count as answered.
        if let Some(table) = &*self.in_flight.borrow() {
            if table.size() < queue.size() {
                return None;
            }
            let left = table.left_over(used.0);
            let taken = used.0.wrapping_add(u16::try_from(left.len()).ok()?);
            queue.set_next_avail(taken);
            self.again.replace(requests_of(&queue, &memory.guest, &left)?);
        }
        // As `set_call` does, which may have come before.
        signal(&self.call);
        Some(())
    }

    async fn take_requests(
        self: &Rc<Self>,
        memory: &Rc<Memory>,
        kick: &Descriptor,
    ) -> Result<(), Error> {
        // Requests of another server run first: the queue position does not show that they are
        // open.
        while !self.resting.get() || !self.again.borrow().is_empty() {
            let Some(Taken { head, request }) = self.take(&memory.guest)? else {
                match unless(self.told_to_rest(), self.shared.ring.readable(kick)).await {
                    None => return Ok(()),
                    Some(Err(_)) => return Err(Error::QueueNotReady),
                    Some(Ok(())) => {}
                }
                // How often does not matter; somebody else may have been faster.
                let _ = rustix::io::read(kick, &mut [0; 8]);
                continue;
            };
            let Some(request) = request else {
                // Without a place for its status, a request can only be returned.
                self.shared.count_request(true);
                self.answer(&memory.guest, head, 0)?;
                // A guest may put such chains in for ever.
                self.shared.handle.yield_now().await;
                continue;
            };
            let share = request.data_bytes().clamp(REQUEST_BYTES_MIN, u64::from(PIECE_BYTES));
            let budget = self.shared.budget.acquire_many(share).await;
            self.tasks.set(self.tasks.get() + 1);
            let (vring, memory) = (self.clone(), memory.clone());
            self.shared.handle.spawn("vhost-user request", async move {
                vring.serve(&memory.guest, head, request, budget).await;
                vring.end_task();
            });
        }
        Ok(())
    }

    /// The next request; `None` if the queue is empty, and the guest will signal the next one.
    fn take(&self, memory: &GuestMemoryMmap) -> Result<Option<Taken>, Error> {
        if let Some(taken) = self.again.borrow_mut().pop_front() {
            return Ok(Some(taken));
        }
        let mut queue = self.queue.borrow_mut();
        // Between the two the guest may have put in more.
        for _ in 0..2 {
            if let Some(chain) = queue.iter(memory)?.next() {
                let head = chain.head_index();
                if let Some(table) = &*self.in_flight.borrow() {
                    table.begin(head);
                }
                return Ok(Some(Taken { head, request: Request::of_chain(chain) }));
            }
            if !queue.enable_notification(memory)? {
                break;
            }
        }
        Ok(None)
    }

    async fn serve(&self, memory: &GuestMemoryMmap, head: u16, request: Request, budget: Permit) {
        let shared = &self.shared;
        let fua = self.write_through.get();
        let (failed, written) =
            request.serve(&shared.device, &shared.options.serial, memory, fua).await;
        drop(budget);
        shared.count_request(failed);
        if self.answer(memory, head, written).is_err() {
            self.give_up();
        }
    }

    fn answer(&self, memory: &GuestMemoryMmap, head: u16, written: u32) -> Result<(), Error> {
        let mut queue = self.queue.borrow_mut();
        let table = self.in_flight.borrow();
        if let Some(table) = &*table {
            table.answering(head);
        }
        queue.add_used(memory, head, written)?;
        if let Some(table) = &*table {
            table.answered(head, queue.next_used());
        }
        if queue.needs_notification(memory)? {
            signal(&self.call);
        }
        Ok(())
    }

    /// Reports an invalid queue, and takes no more requests until the counter is replaced.
    fn give_up(&self) {
        self.shared.count_misbehaviour();
        self.kick.take();
        self.again.take();
        self.begin_rest();
        signal(&self.error);
    }

    fn end_task(&self) {
        assert!(self.tasks.get() > 0, "a task in flight is counted");
        self.tasks.set(self.tasks.get() - 1);
        self.changed.open();
    }
}

/// Requests by their heads alone. The guest's ring may name others by now, so a private ring lists
/// them, in memory that the library sees behind the guest's.
fn requests_of(queue: &Queue, guest: &GuestMemoryMmap, heads: &[u16]) -> Option<VecDeque<Taken>> {
    if heads.is_empty() {
        return Some(VecDeque::new());
    }
    let list = guest.last_addr().0.checked_add(1)?.checked_next_multiple_of(LIST_BYTES as u64)?;
    let region = GuestRegionMmap::new(MmapRegion::new(LIST_BYTES).ok()?, GuestAddress(list))?;
    let memory = guest.insert_region(Arc::new(region)).ok()?;
    let mut offered = Queue::new(QUEUE_SIZE_MAX).ok()?;
    offered.try_set_size(queue.size()).ok()?;
    offered.try_set_desc_table_address(GuestAddress(queue.desc_table())).ok()?;
    offered.try_set_used_ring_address(GuestAddress(queue.used_ring())).ok()?;
    offered.try_set_avail_ring_address(GuestAddress(list)).ok()?;
    offered.set_ready(true);
    // Flags, how many, and which.
    let words = [0, u16::try_from(heads.len()).ok()?].into_iter().chain(heads.iter().copied());
    let bytes: Vec<u8> = words.flat_map(u16::to_le_bytes).collect();
    memory.write_slice(&bytes, GuestAddress(list)).ok()?;
    let chains = offered.iter(&memory).ok()?;
    Some(
        chains
            .map(|chain| Taken { head: chain.head_index(), request: Request::of_chain(chain) })
            .collect(),
    )
}

fn signal(event: &RefCell<Option<OwnedFd>>) {
    if let Some(event) = event.borrow().as_ref() {
        // A full counter was not read yet: then it need not be incremented.
        let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
    }
}
