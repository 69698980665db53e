//! The share of a stripe that each of its chunks carries through its write, so that no task waits
//! for a stripe.
//!
//! A share that is dropped, as when the engine is dropped, leaves the stripe unfinished, as a crash
//! would.

use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;

use zoneweave_zoned::{Status, ZoneAddress};

use crate::log::format::IndexEntry;
use crate::log::write::plan::StripePlan;
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
    pub(in crate::log) placed: RefCell<Vec<Option<Placed>>>,
}

/// A chunk's share of its stripe.
pub(in crate::log) struct ChunkUnderWay {
    pub(in crate::log) column: Column,
    /// Where it is written, if it is written in place.
    pub(in crate::log) at: ZoneAddress,
    pub(in crate::log) of: Of,
}

pub(in crate::log) enum Of {
    Stripe(Rc<UnderWay>),
    /// A stripe that has ended; its segment stays pinned until the write completes.
    Ended(#[expect(dead_code, reason = "held")] Box<dyn Any>),
}

impl UnderWay {
    /// A stripe of which nothing is written yet.
    #[must_use]
    pub(super) fn new(plan: StripePlan, entries: Vec<IndexEntry>, columns: usize) -> Rc<Self> {
        Rc::new(Self { plan, entries, placed: RefCell::new(vec![None; columns]) })
    }

    /// The share of the chunk in a column.
    #[must_use]
    pub(super) fn share(self: &Rc<Self>, column: Column, at: ZoneAddress) -> ChunkUnderWay {
        let before = self.placed.borrow()[column.index()];
        assert!(before.is_none(), "{column} has two chunks of stripe {}", self.plan.stripe);
        // A chunk without a report counts as not written.
        self.placed.borrow_mut()[column.index()] = Some(Err(Status::Aborted));
        ChunkUnderWay { column, at, of: Of::Stripe(self.clone()) }
    }
}

impl ChunkUnderWay {
    /// A share of no stripe, which only pins a segment.
    #[must_use]
    pub(super) fn beside(column: Column, at: ZoneAddress, held: Box<dyn Any>) -> Self {
        Self { column, at, of: Of::Ended(held) }
    }
}
