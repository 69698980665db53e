//! A drive without a write buffer: plain queues in front of parallel flash units.
//!
//! This is how FEMU emulates a ZNS drive: pages are striped over all units, a command completes
//! when its last page does, and a reset erases the zone's block on every unit it was written to.

use zoneweave_runtime::{Nanos, Random};
use zoneweave_zoned::{BlockCount, ZoneAction, ZoneId, ZoneOffset, ZoneSet};

use super::model::{CommandId, Schedule, Timing};
use super::parameters::{DirectParameters, Fraction, spread};
use super::stations::is_possible;
use crate::flash::{Flash, FlashConfig};
use crate::{Picos, Request, Spread};

/// A drive of plain queues.
#[derive(Clone, Debug)]
pub struct Direct {
    parameters: DirectParameters,
    flash: Flash,
    page_blocks: u32,
}

impl Direct {
    /// An idle drive.
    ///
    /// # Panics
    /// Never: no duration varies.
    #[must_use]
    pub fn new(parameters: &DirectParameters) -> Self {
        let fixed = Fraction::try_from(0.0).expect("zero is a fraction");
        let config = FlashConfig {
            dies: parameters.units.get(),
            channels: parameters.units.get(),
            sense: vec![spread(parameters.read_us, fixed)],
            transfer: Picos::ZERO,
            program: spread(parameters.program_us, fixed),
            erase: spread(parameters.erase_us, fixed),
            suspend: Spread::default(),
            resume: Picos::ZERO,
            suspends: 0,
        };
        let page_blocks = (parameters.page_kib.get() / 4).max(1);
        Self {
            parameters: parameters.clone(),
            flash: Flash::new(config, Random::new(0)),
            page_blocks,
        }
    }

    /// Uses the units of all pages that the blocks touch; returns when the last is done.
    fn pages(&mut self, from: ZoneOffset, blocks: BlockCount, each: Picos, now: Picos) -> Picos {
        let first = from.0 / self.page_blocks;
        let last = from.0.saturating_add(blocks.0).div_ceil(self.page_blocks);
        let mut end = now;
        for page in first..last {
            let unit = page % self.parameters.units.get();
            end = end.max(self.flash.occupy(unit, now, each));
        }
        end
    }

    fn reset(&mut self, zone: ZoneId, zones: &ZoneSet, now: Picos) -> Picos {
        let written = zones.record(zone).write_pointer.0.div_ceil(self.page_blocks);
        let units = written.min(self.parameters.units.get());
        let erase = self.parameters.erase_us.picos();
        (0..units).map(|unit| self.flash.occupy(unit, now, erase)).max().unwrap_or(now)
    }
}

impl Timing for Direct {
    fn schedule(
        &mut self,
        _id: CommandId,
        request: &Request,
        zones: &ZoneSet,
        now: Nanos,
    ) -> Option<Schedule> {
        let arrival = Picos::from(now) + self.parameters.command_us.picos();
        let (program, read) = (self.parameters.program_us, self.parameters.read_us);
        let completed = match *request {
            _ if !is_possible(request, zones.geometry()) => arrival,
            Request::Read { at, blocks } => self.pages(at.offset, blocks, read.picos(), arrival),
            Request::Write { at, blocks, .. } => {
                self.pages(at.offset, blocks, program.picos(), arrival)
            }
            Request::Append { zone, blocks, .. } => {
                let at = zones.record(zone).write_pointer;
                self.pages(at, blocks, program.picos(), arrival)
            }
            Request::Manage { zone, action: ZoneAction::Reset } => {
                let done = self.reset(zone, zones, arrival).to_nanos();
                return Some(Schedule { applied: done, completed: done });
            }
            Request::ManageAll { action: ZoneAction::Reset } => {
                let every = (0..zones.geometry().zones).map(ZoneId);
                let done = every.map(|zone| self.reset(zone, zones, arrival)).max();
                let done = done.unwrap_or(arrival).to_nanos();
                return Some(Schedule { applied: done, completed: done });
            }
            _ => arrival,
        };
        Some(Schedule { applied: now, completed: completed.to_nanos() })
    }

    fn clear(&mut self) {
        self.flash.clear();
    }
}
