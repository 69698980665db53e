//! Drives as offered to an engine; drives without metadata store it inline, in frames.

use std::rc::Rc;

use zoneweave_emulator::RamDrive;
use zoneweave_raid::inline::{FrameShape, InlineDrive};
use zoneweave_runtime::Handle;
use zoneweave_zoned::{OobKind, ZonedDevice};

use crate::simulate::scenario::Shape;

/// Frames of drives without metadata: the smallest, since zones are small.
pub(crate) const FRAME: FrameShape = match FrameShape::of_exponent(2) {
    Some(shape) => shape,
    None => panic!("frames of four blocks are possible"),
};

/// The device for the engine of an array of this shape. A zoned volume needs no metadata.
pub(crate) fn attach_to(shape: &Shape, ram: &RamDrive, handle: &Handle) -> Rc<dyn ZonedDevice> {
    match shape.zoned {
        Some(_) => ram.attach(handle),
        None => attach(ram, handle),
    }
}

/// The device for the engine of a log.
///
/// # Panics
/// If the zones of a drive without metadata are too small for frames.
pub(crate) fn attach(ram: &RamDrive, handle: &Handle) -> Rc<dyn ZonedDevice> {
    let device = ram.attach(handle);
    match ram.geometry().oob {
        OobKind::None => Rc::new(
            InlineDrive::new(handle, device, FRAME).expect("a scenario's drives are possible"),
        ),
        _ => device,
    }
}
