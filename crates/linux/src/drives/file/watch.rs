//! A look at the file of an open drive, once a second.
//!
//! The header of a file is read when its drive is opened, and never again. A drive whose header was
//! overwritten, by `dd` or `mkfs` with the wrong path, works on and cannot be opened any more.
//!
//! Nothing is written here, although the header is in memory: only the user of the file knows
//! whether it is still the drive's. It may have been put to another use after the array gave it up,
//! and what lies behind the header may be overwritten as well.
//!
//! Fault model: the file may be removed, truncated, or overwritten with another drive, which ends
//! the drive.

use std::rc::{Rc, Weak};

use zoneweave_emulator::media_format::{DriveLayout, HEADER_BYTES};
use zoneweave_runtime::{Handle, Nanos};
use zoneweave_zoned::{AlignedBuffer, BlockCount};

use super::core::Drive;
use super::error::DriveFailure;

/// How often a drive looks whether its file is still there, with its header.
const PERIOD: Nanos = Nanos::from_secs(1);

/// Looks at the drive's file for as long as the drive is open.
pub(super) async fn watch(handle: Handle, drive: Weak<Drive>) {
    loop {
        handle.sleep(PERIOD).await;
        match drive.upgrade() {
            Some(drive) if drive.examine() => drive.look_at_header().await,
            _ => return,
        }
    }
}

impl Drive {
    /// Compares the header in the file with the one that was opened.
    pub(super) async fn look_at_header(self: &Rc<Self>) {
        let memory = AlignedBuffer::zeroed(BlockCount::of_data_bytes(HEADER_BYTES));
        // A failed read says nothing about the header.
        let read = self.ring.read_exact_at(&self.file, memory, HEADER_BYTES, 0).await;
        let Ok(found) = read.map(AlignedBuffer::freeze) else { return };
        let found = &found[..HEADER_BYTES];
        let is_lost = *found != self.header[..];
        if is_lost && DriveLayout::parse(found, u64::MAX).is_ok() {
            self.die(DriveFailure::Overwritten);
        }
        self.header_lost.set(is_lost);
    }
}
