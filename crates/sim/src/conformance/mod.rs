//! Conformance of zoned devices to the NVMe Zoned Namespace command set.
//!
//! One suite for every [`ZonedDevice`]: an emulated drive, or a volume that behaves like a drive.
//! The device under test is described by its [`Hardware`], which survives crashes of the process
//! that serves the device.
//!
//! - [`check`] tests each command in each zone state, each on new hardware: the status, the state
//!   and the contents afterwards, and both again after a power loss. `table` has the cells,
//!   `prepare` reaches the states. `transfers`, `reports` and `limits` test the rest.
//! - [`compare`] runs random commands with power losses against `model`, a zoned device as naive as
//!   possible. It shares no code with the state machine of real devices. `operation` draws the
//!   commands.
//! - `drive` and `volume` are the devices under test.
//! - `session` is one life of a device, from a start to a crash, and `image` the expected state.
//!
//! Invariant: a device is tested as its geometry describes it. An optional feature that it lacks
//! must be refused.

mod differential;
mod drive;
mod image;
mod limits;
mod model;
mod operation;
mod prepare;
mod reports;
mod session;
mod table;
mod transfers;
mod volume;

use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use zoneweave_runtime::Handle;
use zoneweave_zoned::{ZoneId, ZonedDevice};

pub use differential::{Compared, Plan, compare};
pub use drive::EmulatedHardware;
pub use volume::{VolumeHardware, VolumeShape};

/// The parts of a device that survive a crash.
pub trait Hardware {
    /// Starts the device: a blank one at first, later with its contents.
    fn start<'a>(&'a self, handle: &'a Handle) -> LocalBoxFuture<'a, Rc<dyn ZonedDevice>>;

    /// The power fails. Commands in flight happen or not, and volatile data is lost or not, by the
    /// seed.
    fn power_loss(&self, seed: u64);

    /// Makes a zone of the device read-only, or else offline; `false` if this is impossible.
    fn fail_zone(&self, _zone: ZoneId, _offline: bool) -> bool {
        false
    }
}

/// Makes new hardware with blank contents.
pub type Factory<'a> = &'a dyn Fn() -> Box<dyn Hardware>;

/// The result of [`check`].
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// Cases, each on new hardware.
    pub cases: u64,
    /// Cases with a result that differs from the expected one, as messages.
    pub mismatches: Vec<String>,
}

impl Checked {
    /// Counts a case.
    fn note(&mut self, name: impl FnOnce() -> String, result: Result<(), String>) {
        self.cases += 1;
        if let Err(problem) = result {
            self.mismatches.push(format!("{}: {problem}", name()));
        }
    }
}

/// Tests every command in every zone state.
///
/// # Panics
///
/// If the device has fewer than five zones of eight blocks, or transfers fewer than three blocks.
#[must_use]
pub fn check(factory: Factory<'_>) -> Checked {
    let mut checked = Checked::default();
    table::check(factory, &mut checked);
    transfers::check(factory, &mut checked);
    reports::check(factory, &mut checked);
    limits::check(factory, &mut checked);
    checked
}
