//! Resets of zones, one drive after the other if resets delay reads.

use std::rc::Rc;

use zoneweave_zoned::{Status, ZoneId};

use crate::array::health::Members;
use crate::array::io::MemberIo;
use crate::instrument::marks::{Mark, mark};
use crate::log::engine::core::Core;
use crate::scheme::Column;

impl Core {
    /// Resets a zone like [`MemberIo::reset_zone`]; drives take turns if resets delay reads.
    ///
    /// # Errors
    /// As [`MemberIo::reset_zone`].
    pub(in crate::log) async fn reset_in_turn(
        self: &Rc<Self>,
        column: Column,
        zone: ZoneId,
    ) -> Result<(), Status> {
        let device = self.device(column).ok_or(Status::DeviceGone)?;
        let in_turn = self.state.borrow().array.feels_resets();
        let _turn = if in_turn {
            mark(Mark::ResetInTurn);
            Some(self.resetting.acquire().await)
        } else {
            None
        };
        // A replacement of the drive may have written to that zone meanwhile.
        if !self.is_of_member(column, &device) {
            return Err(Status::DeviceGone);
        }
        self.reset_zone(column, zone).await
    }
}
