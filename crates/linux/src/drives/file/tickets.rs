//! The order in which the active-zone limit allows records of different zones to be published.
//!
//! When one zone becomes full another may be opened at once, though the record of the first is
//! still on its way. Were the second zone's record in the file first and the process killed, the
//! file would hold more active zones than the drive may have. So every change that frees an
//! active-zone resource draws a ticket when it is admitted and redeems it when it is published,
//! and a zone that becomes active waits for the tickets drawn before.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use zoneweave_runtime::Gate;

use super::zone_queue::Ticket;

/// The tickets of one drive.
#[derive(Default)]
pub(super) struct Tickets {
    drawn: Cell<Ticket>,
    open: RefCell<BTreeSet<Ticket>>,
    changed: Gate,
}

impl Tickets {
    pub(super) fn draw(&self) -> Ticket {
        let ticket = Ticket(self.drawn.get().0 + 1);
        self.drawn.set(ticket);
        self.open.borrow_mut().insert(ticket);
        ticket
    }

    /// The latest ticket drawn.
    pub(super) fn latest(&self) -> Ticket {
        self.drawn.get()
    }

    pub(super) fn redeem(&self, tickets: &[Ticket]) {
        if tickets.is_empty() {
            return;
        }
        let mut open = self.open.borrow_mut();
        for ticket in tickets {
            assert!(open.remove(ticket), "a ticket is redeemed once");
        }
        drop(open);
        self.changed.open();
    }

    /// The drive is lost: wakes all waiters.
    pub(super) fn abandon(&self) {
        self.open.take();
        self.changed.open();
    }

    /// Waits until every ticket up to `last` is redeemed.
    pub(super) async fn redeemed(&self, last: Ticket) {
        while self.open.borrow().first().is_some_and(|ticket| *ticket <= last) {
            self.changed.wait().await;
        }
    }
}
