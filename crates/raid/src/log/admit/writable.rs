//! Whether the volume takes writes, checked before each of them.

use std::rc::Rc;

use zoneweave_zoned::BlockError;

use crate::instrument::marks::{Mark, mark};
use crate::log::engine::core::Core;
use crate::log::segment::open;

/// Checks that the volume takes writes, and reserves sequences if necessary.
pub(in crate::log) async fn check_writable(core: &Rc<Core>) -> Result<(), BlockError> {
    let scarce = core.state.borrow().writes.has_few_sequences();
    if scarce {
        open::raise_ceilings(core).await;
    }
    if core.closing.get() || core.refusing.get() {
        mark(Mark::RefusedAtClose);
        return Err(BlockError::ShuttingDown);
    }
    Ok(core.state.borrow().array.stopped.map_or(Ok(()), Err)?)
}
