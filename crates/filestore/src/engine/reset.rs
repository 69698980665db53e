//! Resets of zones that nothing needs.

use std::rc::Rc;

use zoneweave_zoned::{ZoneAction, ZoneId, ZonedDeviceExt};

use super::core::Core;
use crate::instrument::marks::{Mark, mark};
use crate::instrument::mutants::{Mutant, mutant};
use crate::state::Phase;

impl Core {
    /// Starts the reset of every sealed zone without live blocks and readers.
    pub(crate) fn reset_unneeded(self: &Rc<Self>) {
        let zones: Vec<ZoneId> = {
            let mut state = self.state_mut();
            if state.stopped.is_some() {
                return;
            }
            let unneeded = state.zones.iter().filter(|(zone, entry)| {
                let waits = entry.phase == Phase::Sealed && entry.live == 0 && entry.readers > 0;
                if waits {
                    mark(Mark::ResetWaitsForReaders);
                }
                let ignores = mutant(Mutant::ReadersNotAwaited) && waits;
                state.zones.is_reclaimable(*zone) || ignores
            });
            let zones: Vec<ZoneId> = unneeded.map(|(zone, _)| zone).collect();
            for zone in &zones {
                state.zones.get_mut(*zone).phase = Phase::Resetting;
            }
            zones
        };
        for zone in zones {
            let core = self.clone();
            self.handle.spawn_alone("zone reset", async move {
                core.clone().reset(zone).await;
                core.run_reclaim();
            });
        }
    }

    /// Resets a zone. If that fails, the zone is used no more.
    pub(crate) async fn reset(self: Rc<Self>, zone: ZoneId) {
        let done = self.device.manage(zone, ZoneAction::Reset).await;
        {
            let mut state = self.state_mut();
            // There is more space: others may be relocated that were given up for want of it.
            state.reclaim.record_reset(zone);
            if mutant(Mutant::ReadersNotAwaited) {
                state.zones.get_mut(zone).readers = 0;
            }
            match done {
                Ok(()) => {
                    state.zones.clear(zone);
                    state.counters.resets += 1;
                }
                Err(_) => state.zones.get_mut(zone).phase = Phase::Unusable,
            }
        }
        self.space_changed.open();
    }
}
