//! Stripes in flight: the last chunk to complete ends the stripe.
//!
//! No task waits for a stripe. Each chunk carries a share of it through its write, and the last
//! share to return passes the outcome of all chunks to the writer. A share that is dropped, as when
//! the engine is dropped, leaves the stripe unfinished, as a crash would.

use std::cell::RefCell;
use std::rc::Rc;

use zoneweave_zoned::{Status, ZoneAddress};

use crate::log::engine::core::Core;
use crate::log::format::IndexEntry;
use crate::log::segment::pin::Hold;
use crate::log::write::plan::StripePlan;
use crate::log::write::writer::{self};
use crate::scheme::Column;

/// Address of a written chunk, or the error of its write.
pub(in crate::log) type Placed = Result<ZoneAddress, Status>;

/// A stripe whose chunks are being written.
pub(in crate::log) struct UnderWay {
    /// Segment, stripe number and blocks.
    pub plan: StripePlan,
    /// Summary entries of its blocks, column by column.
    pub entries: Vec<IndexEntry>,
    /// Outcome by column; `None` for columns that are not written.
    placed: RefCell<Vec<Option<Placed>>>,
}

/// A chunk's share of its stripe.
pub(in crate::log) struct ChunkUnderWay {
    column: Column,
    /// Where it is written, if it is written in place.
    at: ZoneAddress,
    of: Of,
}

enum Of {
    Stripe(Rc<UnderWay>),
    /// A stripe that has ended; its segment stays pinned until the write completes.
    Ended(#[expect(dead_code, reason = "held")] Hold),
}

impl UnderWay {
    /// A stripe of which nothing is written yet.
    #[must_use]
    pub(in crate::log) fn new(
        plan: StripePlan,
        entries: Vec<IndexEntry>,
        columns: usize,
    ) -> Rc<Self> {
        Rc::new(Self { plan, entries, placed: RefCell::new(vec![None; columns]) })
    }

    /// The share of the chunk in a column.
    #[must_use]
    pub(in crate::log) fn share(self: &Rc<Self>, column: Column, at: ZoneAddress) -> ChunkUnderWay {
        // A chunk without a report counts as not written.
        self.placed.borrow_mut()[column.index()] = Some(Err(Status::Aborted));
        ChunkUnderWay { column, at, of: Of::Stripe(self.clone()) }
    }

    /// Drops a share without a report; returns whether that ended the stripe.
    pub(in crate::log) fn end(self: Rc<Self>, core: &Rc<Core>) -> bool {
        let last = Rc::into_inner(self);
        let ends = last.is_some();
        if let Some(Self { plan, entries, placed }) = last {
            writer::finish_stripe(core, plan, &entries, &placed.into_inner());
        }
        ends
    }
}

impl ChunkUnderWay {
    /// A share of no stripe, which only pins a segment.
    #[must_use]
    pub(in crate::log) fn beside(column: Column, at: ZoneAddress, held: Hold) -> Self {
        Self { column, at, of: Of::Ended(held) }
    }

    /// Reports the outcome of a chunk; returns whether that ended the stripe.
    pub(in crate::log) fn written(self, core: &Rc<Core>, placed: Placed) -> bool {
        let Of::Stripe(stripe) = self.of else { return false };
        stripe.placed.borrow_mut()[self.column.index()] = Some(placed);
        stripe.end(core)
    }

    /// As [`written`](Self::written), for a chunk that is written in place at its own address.
    pub(in crate::log) fn written_in_place(
        self,
        core: &Rc<Core>,
        written: Result<(), Status>,
    ) -> bool {
        let at = self.at;
        self.written(core, written.map(|()| at))
    }
}
