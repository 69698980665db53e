//! Connections whose request has not come. The oldest one gives its place to a new client when all
//! places are taken, so silent connections keep no client out.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use zoneweave_runtime::Gate;

use crate::wait::until;

/// The silent connections, by age.
#[derive(Clone, Default)]
pub(super) struct Silent(Rc<RefCell<BTreeMap<u64, Gate>>>);

impl Silent {
    /// Waits for the request of a connection; `None` if the connection had to give way.
    pub(super) async fn request<T>(&self, receiving: impl Future<Output = T>) -> Option<T> {
        let gate = Gate::new();
        let number = {
            let mut connections = self.0.borrow_mut();
            let number = connections.last_key_value().map_or(0, |(last, _)| last + 1);
            connections.insert(number, gate.clone());
            number
        };
        let received = until(gate.wait(), receiving).await;
        self.0.borrow_mut().remove(&number);
        received
    }

    /// Ends the connection that has been silent for longest, if there is one.
    pub(super) fn end_oldest(&self) {
        let oldest = self.0.borrow_mut().pop_first();
        if let Some((_, gate)) = oldest {
            gate.open();
        }
    }
}
