//! Emulated drives as devices under test.

use std::rc::Rc;

use futures_util::FutureExt;
use futures_util::future::{LocalBoxFuture, ready};
use zoneweave_emulator::{Jitter, RamDrive};
use zoneweave_runtime::{Handle, Nanos};
use zoneweave_zoned::{Geometry, ZoneId, ZonedDevice};

use super::Hardware;

/// An emulated drive.
pub struct EmulatedHardware(RamDrive);

impl EmulatedHardware {
    /// A blank drive. Its commands take at most `latency`, at random by the seed, so that commands
    /// in flight together take effect in any order.
    ///
    /// # Panics
    ///
    /// If the geometry is impossible.
    #[must_use]
    pub fn new(geometry: Geometry, latency: Nanos, seed: u64) -> Self {
        let drive = RamDrive::new(geometry, Jitter::new(seed, latency));
        Self(drive.expect("the geometry of a device under test is possible"))
    }

    /// The drive, to plan faults.
    #[must_use]
    pub fn drive(&self) -> &RamDrive {
        &self.0
    }
}

impl Hardware for EmulatedHardware {
    fn start<'a>(&'a self, handle: &'a Handle) -> LocalBoxFuture<'a, Rc<dyn ZonedDevice>> {
        ready(self.0.attach(handle)).boxed_local()
    }

    fn power_loss(&self, seed: u64) {
        self.0.power_loss(seed);
    }

    fn fail_zone(&self, zone: ZoneId, offline: bool) -> bool {
        match offline {
            true => self.0.set_offline(zone),
            false => self.0.set_read_only(zone),
        }
        true
    }
}
