//! Dead segments at a start: the remaining zones are reset, and a death is remembered while blocks
//! of its segment may remain.

use std::collections::BTreeSet;
use std::rc::Rc;

use zoneweave_zoned::ZoneId;

use crate::array::health::Members;
use crate::array::io::MemberIo;
use crate::array::stop::StopReason;
use crate::instrument::marks::{Mark, mark, mark_if};
use crate::log::engine::core::Core;
use crate::log::engine::state::State;
use crate::log::format::Generation;
use crate::log::segment::dead::Unclear;
use crate::scheme::Column;

/// Keeps the deaths of segments of which blocks remain, in these zones or in zones whose content is
/// unknown.
pub(super) fn keep_deaths(
    state: &mut State,
    mut unclear: Unclear,
    left: &[(Generation, Column, ZoneId)],
) {
    let columns = state.array.scheme().columns();
    let unseen = |column: &Column| state.array.members[column.index()].device.is_none();
    unclear.unseen = state.array.scheme().iter().filter(unseen).collect();
    let kept = state.registry.dead.settle(&unclear);
    mark_if(Mark::DeadKeptForUnread, || kept);
    for (generation, column, zone) in left {
        state.registry.dead.find(*generation, columns, *column, *zone);
    }
    state.registry.unclear = unclear.columns();
}

/// Resets the zones that `find` classified as useless, and makes that durable.
pub(super) async fn reset_dead(core: &Rc<Core>) -> Result<(), StopReason> {
    let zones = std::mem::take(&mut core.state.borrow_mut().registry.zones_to_reset);
    let mut reset = BTreeSet::new();
    for (column, zone, resets) in zones {
        if core.reset_zone(column, zone).await.is_ok() {
            core.state.borrow_mut().array.members[column.index()].pool.add(zone, resets + 1);
            reset.insert((column, zone));
        } else {
            mark(Mark::DeadZoneNotReset);
            // It may hold a copy of a segment that is alive now and dies later.
            core.state.borrow_mut().registry.mark_unclear(column);
            core.record_lost_zone(column);
        }
    }
    core.flush_members().await?;
    core.state.borrow_mut().registry.dead.record_reset(&reset);
    Ok(())
}
