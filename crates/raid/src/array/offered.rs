//! A drive offered to a start, a creation or a replacement.

use std::rc::Rc;

use zoneweave_zoned::ZonedDevice;

/// A drive offered to an array, with its label.
#[derive(Clone)]
pub struct OfferedDrive {
    /// The device to read and write.
    pub device: Rc<dyn ZonedDevice>,
    /// Its path or name, for messages.
    pub label: String,
}
