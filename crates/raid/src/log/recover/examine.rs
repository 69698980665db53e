//! Whether a start would be refused because parts of segments are lost, found without writing.
//!
//! Only segments that the last stop or crash left open are judged, and those without a header
//! sought: a few reads of each zone. Losses that only the summaries of complete segments show are
//! left to the start.

use std::rc::Rc;

use zoneweave_runtime::Handle;
use zoneweave_zoned::{Command, Completion, Geometry, Status, ZoneAddress, ZonedDevice};

use crate::array::offered::OfferedDrive;
use crate::log::engine::core::Core;
use crate::log::engine::state::Recovering;
use crate::log::recover::assemble::{Assembly, assemble};
use crate::log::recover::{OpenError, OpenOptions, accept_unaccounted, find, give_up, judge};

/// A drive to which nothing is written: an examination may evict a member, and not record it.
struct ReadOnly(Rc<dyn ZonedDevice>);

impl ZonedDevice for ReadOnly {
    fn geometry(&self) -> &Geometry {
        self.0.geometry()
    }

    fn submit(&self, command: Command) -> Completion {
        match command {
            Command::Read { .. } | Command::Report { .. } => self.0.submit(command),
            _ => Completion::ready(Err(Status::Aborted)),
        }
    }

    fn hint_read(&self, at: ZoneAddress) {
        self.0.hint_read(at);
    }
}

/// Looks at a loss: a drive may err once.
const LOOKS: u32 = 2;

/// Why a start would be refused for lost parts; `None` if it would not, or for another reason.
pub async fn lost_parts(handle: &Handle, drives: &[OfferedDrive]) -> Option<OpenError> {
    let mut found = None;
    for _ in 0..LOOKS {
        found = Some(look(handle, drives).await?);
    }
    found
}

async fn look(handle: &Handle, drives: &[OfferedDrive]) -> Option<OpenError> {
    let read_only = |drive: &OfferedDrive| OfferedDrive {
        device: Rc::new(ReadOnly(drive.device.clone())),
        label: drive.label.clone(),
    };
    let options = OpenOptions::default();
    let assembled = assemble(drives.iter().map(read_only).collect(), &options, None).await;
    let Assembly { mut state, superblock, verdicts, .. } = assembled.ok()?;
    state.recovering = Some(Recovering::new(false));
    let core = Core::new(handle.clone(), state, superblock);
    let found = find::segments::find(&core, false).await.ok()?;
    for segment in found.iter().filter(|segment| segment.leftover) {
        judge::judge(&core, segment).await;
    }
    let accepted = accept_unaccounted(&core.state.borrow(), &verdicts, false, false);
    give_up(&core).await;
    accepted.err()
}
