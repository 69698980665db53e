//! Stripes under way: whoever learns last how the write of a chunk went ends the stripe.
//!
//! Nobody waits for a stripe. Each of its chunks carries a share of it to wherever it is written,
//! and the last share that comes back tells the writer how all of them went. A share that is
//! dropped, as all are when the engine is, leaves the stripe without an end, as a crash would.

use std::cell::RefCell;
use std::rc::Rc;

use zoneweave_zoned::{Status, ZoneAddress};

use crate::log::engine::core::Core;
use crate::log::format::IndexEntry;
use crate::log::write::schedule::StripePlan;
use crate::log::write::writer::{self, Hold};
use crate::scheme::Column;

/// Where a chunk went.
pub(in crate::log) type Placed = Result<ZoneAddress, Status>;

/// A stripe whose chunks are being written.
pub(in crate::log) struct UnderWay {
    /// The stripe.
    pub plan: StripePlan,
    /// What the index will say of its blocks, column by column.
    pub entries: Vec<IndexEntry>,
    /// Where chunks went, by column; `None` for those that are not written.
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
    /// One that has ended before, and whose segment stays nevertheless.
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
        // Nothing counts that nobody told of.
        self.placed.borrow_mut()[column.index()] = Some(Err(Status::Aborted));
        ChunkUnderWay { column, at, of: Of::Stripe(self.clone()) }
    }

    /// Gives a share up without a word; whether the stripe ended by that.
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
    /// A share of nothing, that keeps a segment where it is.
    #[must_use]
    pub(in crate::log) fn beside(column: Column, at: ZoneAddress, held: Hold) -> Self {
        Self { column, at, of: Of::Ended(held) }
    }

    /// Tells where the chunk went; whether the stripe ended by that.
    pub(in crate::log) fn written(self, core: &Rc<Core>, placed: Placed) -> bool {
        let Of::Stripe(stripe) = self.of else { return false };
        stripe.placed.borrow_mut()[self.column.index()] = Some(placed);
        stripe.end(core)
    }

    /// Tells how the write went, of a chunk that is written in place; whether the stripe ended by
    /// that.
    pub(in crate::log) fn written_in_place(
        self,
        core: &Rc<Core>,
        written: Result<(), Status>,
    ) -> bool {
        let at = self.at;
        self.written(core, written.map(|()| at))
    }
}
