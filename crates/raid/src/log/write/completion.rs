//! The last share to return ends its stripe: it passes the outcomes of all chunks to `commit`.

use std::rc::Rc;

use zoneweave_zoned::Status;

use crate::log::engine::core::Core;
use crate::log::write::commit::finish_stripe;
use crate::log::write::in_flight::{ChunkUnderWay, Of, Placed, UnderWay};

impl UnderWay {
    /// Drops a share without a report; returns whether that ended the stripe.
    pub(super) fn end(self: Rc<Self>, core: &Rc<Core>) -> bool {
        let last = Rc::into_inner(self);
        let ends = last.is_some();
        if let Some(Self { plan, entries, placed }) = last {
            finish_stripe(core, plan, &entries, &placed.into_inner());
        }
        ends
    }
}

impl ChunkUnderWay {
    /// Reports the outcome of a chunk; returns whether that ended the stripe.
    pub(super) fn written(self, core: &Rc<Core>, placed: Placed) -> bool {
        let Of::Stripe(stripe) = self.of else { return false };
        let before = stripe.placed.borrow()[self.column.index()];
        assert!(
            before == Some(Err(Status::Aborted)),
            "the chunk of {} reports {placed:?} after {before:?}",
            self.column
        );
        stripe.placed.borrow_mut()[self.column.index()] = Some(placed);
        stripe.end(core)
    }

    /// As [`written`](Self::written), for a chunk that is written in place at its own address.
    pub(super) fn written_in_place(self, core: &Rc<Core>, written: Result<(), Status>) -> bool {
        let at = self.at;
        self.written(core, written.map(|()| at))
    }
}
