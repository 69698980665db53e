//! Blocks that wait to become part of a stripe.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use zoneweave_runtime::{Permit, Receiver, Sender, oneshot};
use zoneweave_zoned::{BlockError, Lba};

use crate::array::stop::StopReason;
use crate::log::engine::address::Pba;
use crate::log::format::{ContentKind, Sequence, TrimExtent};

/// Answers a receiver when the last of several blocks is done, with the first error.
#[derive(Clone)]
pub(in crate::log) struct Ticket(Rc<RefCell<TicketState>>);

struct TicketState {
    remaining: u64,
    error: Option<StopReason>,
    sender: Option<Sender<Result<(), StopReason>>>,
    request: Option<Request>,
}

/// A user's request that waits for blocks.
pub(super) struct Request {
    /// Permit of its admission, held until its answer.
    pub admitted: Option<Permit>,
    /// Whether the blocks have to be durable.
    pub fua: bool,
}

/// The waiting end of a [`Ticket`].
pub(in crate::log) type TicketReceiver = Receiver<Result<(), StopReason>>;

/// The answer to the request behind a ticket; `None` if the volume was closed without one.
pub(in crate::log) fn answered(outcome: Option<Result<(), StopReason>>) -> Result<(), BlockError> {
    Ok(outcome.ok_or(BlockError::ShuttingDown)??)
}

impl Ticket {
    /// A ticket for `parts` parts.
    #[must_use]
    pub(in crate::log) fn new(parts: u64) -> (Self, TicketReceiver) {
        Self::with(parts, None)
    }

    /// A ticket for `parts` parts of a request.
    #[must_use]
    pub(super) fn of(request: Request, parts: u64) -> (Self, TicketReceiver) {
        Self::with(parts, Some(request))
    }

    fn with(parts: u64, request: Option<Request>) -> (Self, TicketReceiver) {
        assert!(parts > 0, "a ticket for nothing");
        let (sender, receiver) = oneshot();
        let sender = Some(sender);
        let state = TicketState { remaining: parts, error: None, sender, request };
        (Self(Rc::new(RefCell::new(state))), receiver)
    }

    /// Completes one part. Returns whether that answered a request that waited for durable blocks.
    #[must_use]
    pub(in crate::log) fn done(&self, result: Result<(), StopReason>) -> bool {
        let (sender, outcome, request) = {
            let mut state = self.0.borrow_mut();
            assert!(state.remaining > 0, "a part of a request is answered twice");
            state.remaining -= 1;
            if let Err(error) = result {
                state.error.get_or_insert(error);
            }
            if state.remaining > 0 {
                return false;
            }
            let outcome = state.error.take().map_or(Ok(()), Err);
            (state.sender.take(), outcome, state.request.take())
        };
        if let Some(sender) = sender {
            sender.send(outcome);
        }
        let Some(Request { admitted, fua }) = request else { return false };
        drop(admitted);
        fua
    }
}

/// Origin of a block, which decides whether it takes effect when it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) enum Origin {
    /// A request: the newest sequence takes effect.
    User,
    /// Relocated: takes effect if the index still points at the former address.
    Relocation { from: Pba },
    /// A block of a checkpoint, whose writer gets its address.
    Checkpoint {
        /// Its position among the blocks in flight.
        piece: usize,
    },
}

/// A data block on its way into a stripe.
#[derive(Clone)]
pub(in crate::log) struct PendingData {
    /// The block of the volume.
    pub lba: Lba,
    /// Its sequence, kept by relocation.
    pub sequence: Sequence,
    /// [`ContentKind::Data`], [`ContentKind::Lost`] or [`ContentKind::Mapping`].
    pub kind: ContentKind,
    /// Contents of the block.
    pub data: Bytes,
    /// Checksum of the contents, with the array's seed.
    pub data_checksum: u32,
    /// Where it comes from.
    pub origin: Origin,
    /// Completed when the block is durable as promised.
    pub ticket: Ticket,
}

/// A trimmed extent on its way into a tombstone block.
#[derive(Clone)]
pub(in crate::log) struct PendingTrim {
    /// The trimmed blocks and the sequence of the trim.
    pub extent: TrimExtent,
    /// Origin of the trim.
    pub origin: Origin,
    /// Completed when the trim is durable.
    pub ticket: Ticket,
}

/// One block of a future stripe.
#[derive(Clone)]
pub(in crate::log) enum PendingBlock {
    Data(PendingData),
    /// A tombstone block, while it can take more extents.
    Tombstone(Vec<PendingTrim>),
}

impl PendingBlock {
    /// The block of the volume, for data blocks.
    pub(in crate::log) fn lba(&self) -> Option<Lba> {
        match self {
            Self::Data(pending) => Some(pending.lba),
            Self::Tombstone(_) => None,
        }
    }

    /// The oldest sequence in it.
    pub(in crate::log) fn oldest_sequence(&self) -> Sequence {
        match self {
            Self::Data(pending) => pending.sequence,
            Self::Tombstone(trims) => {
                trims.iter().map(|trim| trim.extent.sequence).min().unwrap_or(Sequence::MAX)
            }
        }
    }
}
