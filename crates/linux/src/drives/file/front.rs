//! The front of an open drive's file: its header and the records of zones, of which the parts that
//! never change are kept in memory, to be written again by `watch`.

use std::cell::{Cell, RefCell};
use std::io;

use bytes::Bytes;
use zoneweave_emulator::media_format::HEADER_BYTES;

/// What became of the header of a drive's file since the drive was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderRepairs {
    /// Times that it was overwritten, and restored from memory.
    pub restored: u64,
    /// Why it is overwritten still, if it is: the drive cannot be opened again.
    pub failure: Option<String>,
}

/// Parts of a file that never change while the drive is open, and what became of them.
pub(super) struct Front {
    pub(super) header: Bytes,
    /// The list of unreadable blocks; empty if the file has none.
    pub(super) defects: Bytes,
    repairs: RefCell<HeaderRepairs>,
    /// Whether the next look writes the front again, whatever it finds.
    pub(super) is_suspect: Cell<bool>,
}

impl Front {
    pub(super) fn new(header: Bytes, defects: Bytes) -> Self {
        assert!(header.len() == HEADER_BYTES, "a drive with another header does not open");
        Self { header, defects, repairs: RefCell::default(), is_suspect: Cell::new(false) }
    }

    pub(super) fn repairs(&self) -> HeaderRepairs {
        self.repairs.borrow().clone()
    }

    /// Notes that the front was written again, after a look that found the header intact or not.
    pub(super) fn is_written(&self, failure: Option<&io::Error>, was_intact: bool) {
        let mut repairs = self.repairs.borrow_mut();
        match failure {
            Some(_) => self.is_suspect.set(true),
            None => repairs.restored += u64::from(!was_intact),
        }
        repairs.failure = failure.map(ToString::to_string);
    }
}
