//! Spares: drives that take the place of lost members without anybody being asked.
//!
//! A spare is known to the running volume only. Nothing is on media of it, and nothing on it is
//! touched, before it becomes a member, by the same steps as any replacement. So it needs no room in
//! the format, and whoever starts the array says what its spares are.
//!
//! Invariant: a spare takes a place only while nobody is in it and what is left can be written. One
//! that fails, or is refused, is let go, and the next is tried.

use std::collections::VecDeque;
use std::rc::Rc;

use zoneweave_zoned::ZonedDevice;

use crate::layout::Column;
use crate::log::core::Core;
use crate::log::format::MemberUuid;
use crate::log::rebuild::{ReplaceError, check_fit, put_in};
use crate::marks::{Mark, mark};

/// The spares of a volume, in the order in which they are taken.
#[derive(Default)]
pub(super) struct Spares {
    waiting: VecDeque<(Rc<dyn ZonedDevice>, MemberUuid)>,
    /// Whether the task that looks for vacant places runs.
    kept: bool,
}

impl Spares {
    /// How many there are.
    #[must_use]
    pub(super) fn waiting(&self) -> u64 {
        self.waiting.len() as u64
    }
}

/// Adds a spare.
///
/// # Errors
/// If the drive does not fit.
pub(super) fn add(
    core: &Rc<Core>,
    device: Rc<dyn ZonedDevice>,
    uuid: MemberUuid,
) -> Result<(), ReplaceError> {
    check_fit(&core.state.borrow(), &*device)?;
    let kept = {
        let mut spares = core.spares.borrow_mut();
        spares.waiting.push_back((device, uuid));
        std::mem::replace(&mut spares.kept, true)
    };
    if !kept {
        core.handle.spawn("spares", keep(core.clone()));
    }
    core.changed.open();
    Ok(())
}

/// Fills vacant places, until the volume closes.
async fn keep(core: Rc<Core>) {
    while !core.closing.get() {
        let Some(column) = vacancy(&core) else {
            core.changed.wait().await;
            continue;
        };
        let _admin = core.admin.acquire().await;
        if core.closing.get() || vacancy(&core) != Some(column) {
            mark(Mark::SpareNotNeeded);
            continue;
        }
        let spare = core.spares.borrow_mut().waiting.pop_front();
        let (device, uuid) = spare.expect("there is no vacancy without a spare");
        mark(Mark::SpareTaken);
        // Why it did not do, the status of the member says.
        if put_in(&core, column, device, uuid).await.is_err() {
            mark(Mark::SpareGivenUp);
            core.handle.yield_now().await;
        }
    }
}

/// A place that a spare could take.
fn vacancy(core: &Core) -> Option<Column> {
    let state = core.state.borrow();
    let busy = state.stopped.is_some() || state.membership_dirty;
    if busy || core.spares.borrow().waiting.is_empty() {
        return None;
    }
    state.scheme().iter().find(|column| state.members[column.index()].device.is_none())
}
