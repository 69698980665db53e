//! Blocks waiting to become part of a stripe.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use zoneweave_runtime::{Permit, Receiver, Sender, oneshot};
use zoneweave_zoned::{BlockError, Lba};

use crate::log::engine::address::Pba;
use crate::log::format::{ContentKind, TrimExtent};

/// Tells whoever waits for several blocks that the last of them is done, and the first error.
#[derive(Clone)]
pub(in crate::log) struct Ticket(Rc<RefCell<TicketState>>);

struct TicketState {
    remaining: u64,
    error: Option<BlockError>,
    sender: Option<Sender<Result<(), BlockError>>>,
    request: Option<Request>,
}

/// A request of users that waits for blocks.
pub(in crate::log) struct Request {
    /// What it is admitted by, until it has its answer.
    pub admitted: Option<Permit>,
    /// Whether the blocks have to be durable.
    pub fua: bool,
}

/// The waiting end of a [`Ticket`].
pub(in crate::log) type TicketReceiver = Receiver<Result<(), BlockError>>;

impl Ticket {
    /// A ticket for `parts` parts.
    #[must_use]
    pub(in crate::log) fn new(parts: u64) -> (Self, TicketReceiver) {
        Self::with(parts, None)
    }

    /// A ticket for `parts` parts of a request.
    #[must_use]
    pub(in crate::log) fn of(request: Request, parts: u64) -> (Self, TicketReceiver) {
        Self::with(parts, Some(request))
    }

    fn with(parts: u64, request: Option<Request>) -> (Self, TicketReceiver) {
        assert!(parts > 0, "a ticket for nothing");
        let (sender, receiver) = oneshot();
        let sender = Some(sender);
        let state = TicketState { remaining: parts, error: None, sender, request };
        (Self(Rc::new(RefCell::new(state))), receiver)
    }

    /// One part is done. Returns whether a request that waited for durable blocks has its answer by
    /// that.
    #[must_use]
    pub(in crate::log) fn done(&self, result: Result<(), BlockError>) -> bool {
        let (sender, outcome, request) = {
            let mut state = self.0.borrow_mut();
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

/// Where a block comes from, which decides whether it takes effect when it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) enum Origin {
    /// A request: the newest sequence takes effect.
    User,
    /// Moved from another place: takes effect if the index still points there.
    Relocation { from: Pba },
    /// A block of a checkpoint: whoever writes that is told where it is.
    Checkpoint {
        /// Which of those that are waited for.
        piece: usize,
    },
}

/// A data block on its way into a stripe.
#[derive(Clone)]
pub(in crate::log) struct PendingData {
    /// The block of the volume.
    pub lba: Lba,
    /// Its sequence, kept when it is moved.
    pub sequence: u64,
    /// [`ContentKind::Data`], [`ContentKind::Lost`] or [`ContentKind::Mapping`].
    pub kind: ContentKind,
    /// The contents.
    pub data: Bytes,
    /// Their seeded checksum.
    pub data_checksum: u32,
    /// Where it comes from.
    pub origin: Origin,
    /// Whom to tell.
    pub ticket: Ticket,
}

/// A trimmed extent on its way into a tombstone block.
#[derive(Clone)]
pub(in crate::log) struct PendingTrim {
    /// The extent.
    pub extent: TrimExtent,
    /// Where it comes from.
    pub origin: Origin,
    /// Whom to tell.
    pub ticket: Ticket,
}

/// One block of a stripe to be.
#[derive(Clone)]
pub(in crate::log) enum PendingBlock {
    Data(PendingData),
    /// A tombstone block, while it can take more extents.
    Tombstone(Vec<PendingTrim>),
}

impl PendingBlock {
    /// The block of the volume, of a data block.
    pub(in crate::log) fn lba(&self) -> Option<Lba> {
        match self {
            Self::Data(pending) => Some(pending.lba),
            Self::Tombstone(_) => None,
        }
    }

    /// The oldest sequence in it.
    pub(in crate::log) fn oldest_sequence(&self) -> u64 {
        match self {
            Self::Data(pending) => pending.sequence,
            Self::Tombstone(trims) => {
                trims.iter().map(|trim| trim.extent.sequence).min().unwrap_or(u64::MAX)
            }
        }
    }
}
