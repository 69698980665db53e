//! The parts that all tasks of the running engine share.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::{Rc, Weak};

use zoneweave_erasure::Code;
use zoneweave_runtime::{Gate, Handle, Semaphore};
use zoneweave_zoned::Latencies;

use crate::array::repair::faults::Recorder;
use crate::array::repair::rebuild::RebuildState;
use crate::array::repair::scrub::ScrubState;
use crate::array::repair::spares::Spares;
use crate::array::stop::StopReason;
use crate::array::superblock_logs::SuperblockLog;
use crate::log::engine::not_listed::NotListed;
use crate::log::engine::state::State;
use crate::log::format::{RecordBody, SealRecord};
use crate::log::write::stripe::Padding;
use crate::scheme::Scheme;

/// Blocks of user writes that may be queued or in flight: 64 MiB.
pub(super) const QUEUED_BLOCKS: u64 = 16 * 1024;

/// The shared parts of the engine.
pub(in crate::log) struct Core {
    /// Clock and task spawner.
    pub handle: Handle,
    /// Times of users' requests.
    pub latencies: Latencies,
    /// The state for all decisions.
    pub state: RefCell<State>,
    /// The erasure codes of stripes, by number of data chunks.
    codes: Vec<OnceCell<Code>>,
    /// Padding of partial stripes.
    pub padding: Padding,
    /// The superblock zones of all members.
    pub superblock: SuperblockLog,
    /// Opened by every change that a waiting task may react to.
    pub changed: Gate,
    /// Opened when a dead segment has lost its last reader, and when the background tasks should
    /// end.
    pub unread: Gate,
    /// Opened when users have queued blocks while there is space for them: for their writer alone.
    pub queued: Gate,
    /// The task that records faults.
    pub(in crate::log) recorder: Cell<Recorder>,
    /// These parts, for tasks that are started where they are only borrowed.
    pub(in crate::log) this: Weak<Self>,
    /// Bounds the blocks that users have queued.
    pub admission: Semaphore,
    /// One membership change, rebuild or scrub at a time.
    pub admin: Semaphore,
    /// One batch of checkpoint or page blocks at a time.
    pub fixing: Semaphore,
    /// Bounds the pages of the index that users pin.
    pub holding: Semaphore,
    /// One record that raises the ceilings at a time.
    pub ceilings: Semaphore,
    /// Serialises zone resets of different drives, if resets delay reads.
    pub(in crate::log) resetting: Semaphore,
    /// Drives ready to replace lost members.
    pub spares: RefCell<Spares>,
    /// The rebuild, while one runs, and its limit.
    pub rebuild: RebuildState,
    /// The scrub, while there is one.
    pub(in crate::log) scrub: ScrubState,
    /// Seals of leftover segments that are not on media, from a start without a member until the
    /// first change.
    pub(in crate::log) unpublished: RefCell<Option<Vec<SealRecord>>>,
    /// Serialises the changes that make them durable, and orders for which a close waits.
    pub(in crate::log) publishing: Semaphore,
    /// Blocks that an order has taken off the list of lost blocks, and not read yet.
    pub(in crate::log) not_listed: RefCell<NotListed>,
    /// Whether new writes are refused, because the volume is being closed.
    pub(in crate::log) refusing: Cell<bool>,
    /// Whether the background tasks shall end.
    pub closing: Cell<bool>,
}

/// The erasure code of a scheme's stripes.
fn code_of(scheme: Scheme) -> Code {
    let code = match scheme.is_mirrored() {
        true => Code::mirrored(scheme.data()),
        false => Code::new(scheme.data(), scheme.parity()),
    };
    code.expect("a scheme has 1 to 32 chunks")
}

impl Core {
    /// The shared parts around a recovered state.
    #[must_use]
    pub(in crate::log) fn new(handle: Handle, state: State, superblock: SuperblockLog) -> Rc<Self> {
        let scheme = state.array.scheme();
        assert!(
            state.array.members.len() == scheme.columns(),
            "{} members for {scheme}",
            state.array.members.len()
        );
        let pages_held =
            state.mapping.offload.as_ref().map_or(0, |offload| offload.limit().of_users);
        let (codes, padding) =
            (vec![OnceCell::new(); scheme.data() + 1], Padding::new(state.array.seed));
        Rc::new_cyclic(|this| Self {
            latencies: Latencies::new(&handle),
            handle,
            state: RefCell::new(state),
            codes,
            padding,
            superblock,
            changed: Gate::new(),
            unread: Gate::new(),
            queued: Gate::new(),
            recorder: Cell::default(),
            this: this.clone(),
            admission: Semaphore::new(QUEUED_BLOCKS),
            admin: Semaphore::new(1),
            fixing: Semaphore::new(1),
            holding: Semaphore::new(pages_held),
            ceilings: Semaphore::new(1),
            resetting: Semaphore::new(1),
            spares: RefCell::default(),
            rebuild: RebuildState::default(),
            scrub: ScrubState::default(),
            unpublished: RefCell::default(),
            publishing: Semaphore::new(1),
            not_listed: RefCell::default(),
            refusing: Cell::new(false),
            closing: Cell::new(false),
        })
    }

    /// The erasure code of a scheme that the array admits.
    #[must_use]
    pub(in crate::log) fn code(&self, scheme: Scheme) -> &Code {
        assert!(
            scheme.data() < self.codes.len(),
            "{scheme} in an array of {} data chunks",
            self.codes.len() - 1
        );
        self.codes[scheme.data()].get_or_init(|| code_of(scheme))
    }

    /// Whether the decisions of the start are not on media yet.
    #[must_use]
    pub(in crate::log) fn is_unpublished(&self) -> bool {
        self.unpublished.borrow().is_some()
    }

    /// Tells the background tasks to end.
    pub(in crate::log) fn begin_closing(&self) {
        self.closing.set(true);
        self.changed.open();
        self.unread.open();
    }

    /// Makes the valid stripes of a segment durable.
    ///
    /// # Errors
    /// If writes have stopped.
    pub(in crate::log) async fn record_seal(
        self: &Rc<Self>,
        seal: SealRecord,
    ) -> Result<(), StopReason> {
        self.state.borrow_mut().registry.seals.insert(seal.segment, seal.clone());
        self.superblock.commit(self, RecordBody::Seals(vec![seal])).await
    }
}
