//! Refuses an array that is being destroyed: some of its members may be erased already, and a start
//! would take them out of service and go on without them.
//!
//! A mark counts if it is on a member in service. A former member may have been marked without the
//! array, which went on.

use crate::array::error::AssemblyError;
use crate::array::format::record::VolumeBody;
use crate::array::start::quorum::{Newest, choose, has_in_service, is_same_history};
use crate::instrument::marks::{Mark, mark};

/// # Errors
/// If a member in service is marked.
pub(crate) fn refuse_destroyed<B: VolumeBody>(
    newest: &[Option<Newest<'_, B>>],
) -> Result<(), AssemblyError> {
    let present: Vec<_> = newest.iter().flatten().copied().collect();
    let mut marked = present.iter().filter(|at| at.record.body.is_destroyed()).peekable();
    if marked.peek().is_none() {
        return Ok(());
    }
    // Where even force would not know the members, that is the reason to report.
    let Ok((chosen, _)) = choose(newest, true) else { return Ok(()) };
    let is_member = |at: &Newest<'_, B>| {
        is_same_history(at.record, chosen, &present) && has_in_service(chosen, at.record.member)
    };
    if !marked.any(is_member) {
        return Ok(());
    }
    mark(Mark::DestroyedRefused);
    Err(AssemblyError::Destroyed { name: chosen.config.name.clone() })
}
