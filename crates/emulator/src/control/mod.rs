//! The deciding half of an emulated drive, without media: zone states, planned faults, counters.
//!
//! A [`Request`] (`request`: a command without its data) goes to [`Controller::admit`]
//! (`controller`), which returns an [`Admission`] (`admission`): the outcome, and the [`Work`] to
//! do on the media. `counters` adds it up.
//!
//! Drives in RAM and in files share this code, so that they behave alike.

mod admission;
mod controller;
mod counters;
mod request;

pub use admission::{Admission, Placement, Work, ZonePart};
pub use controller::Controller;
pub use counters::DriveCounters;
pub use request::{CommandKind, Request};
