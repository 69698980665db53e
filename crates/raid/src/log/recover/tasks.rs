//! The background tasks of a volume.

use std::rc::Rc;

use crate::array::repair::faults;
use crate::log::engine::core::Core;
use crate::log::format::StreamKind;
use crate::log::index::{cache, checkpoint, load};
use crate::log::write::writer;

/// Starts the tasks that writes of users need.
pub(super) fn start_serving(core: &Rc<Core>) {
    let user = writer::run(core.clone(), StreamKind::User);
    core.handle.spawn("user writer", user);
    core.handle.spawn("checkpoints", checkpoint::run(core.clone()));
    faults::begin(&**core);
    if core.state.borrow().mapping.offload.is_some() {
        core.handle.spawn("evictor", cache::run(core.clone()));
        core.handle.spawn("evictor beside", cache::run_beside(core.clone()));
    }
}

/// Starts to load the pages of the index that the start left on media.
pub(super) fn start_loading(core: &Rc<Core>) {
    if core.state.borrow().mapping.absent.is_some() {
        core.handle.spawn("index", load::run(core.clone()));
    }
}
