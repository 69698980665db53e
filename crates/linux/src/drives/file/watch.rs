//! A look after the file of an open drive, once a second.
//!
//! The header and the records of zones are read when a drive is opened, and never again. A drive
//! whose header was overwritten, by `dd` or `mkfs` with the wrong path, works on and cannot be
//! opened any more. Its data are whole, and everything in the front is in memory. So each look
//! compares the header with the one that was opened, and writes the front again if it differs.
//!
//! Fault model: whoever overwrites the front may be in the middle of it, so the next look after a
//! damaged header writes it once more. A file system may have no room for it: the drive stays in
//! service then, and each look tries again. The intact header of another drive ends the drive: its
//! data are those of the other one. Damage of records alone is not seen.

use std::io;
use std::rc::{Rc, Weak};

use rustix::io::pwrite;
use zoneweave_emulator::media_format::{DriveLayout, HEADER_BYTES};
use zoneweave_runtime::{Handle, Nanos};
use zoneweave_zoned::{AlignedBuffer, BlockCount, ZoneAttributes, ZoneId};

use super::core::Drive;
use super::error::DriveFailure;
use crate::drives::access::Access;

/// How often a drive looks whether its file is still there, with its header.
const PERIOD: Nanos = Nanos::from_secs(1);

/// Looks after the drive's file for as long as the drive is open.
pub(super) async fn watch(handle: Handle, drive: Weak<Drive>) {
    loop {
        handle.sleep(PERIOD).await;
        match drive.upgrade() {
            Some(drive) if drive.examine() => drive.look_at_front().await,
            _ => return,
        }
    }
}

impl Drive {
    /// Looks at the header in the file, and writes the front again if it was overwritten.
    pub(super) async fn look_at_front(self: &Rc<Self>) {
        if self.access == Access::ReadOnly {
            return;
        }
        let memory = AlignedBuffer::zeroed(BlockCount::of_data_bytes(HEADER_BYTES));
        // A failed read says nothing about the header.
        let read = self.ring.read_exact_at(&self.file, memory, HEADER_BYTES, 0).await;
        let Ok(found) = read.map(AlignedBuffer::freeze) else { return };
        let found = &found[..HEADER_BYTES];
        let is_intact = *found == self.front.header[..];
        if !is_intact && DriveLayout::parse(found, u64::MAX).is_ok() {
            self.die(DriveFailure::Overwritten);
        }
        let was_suspect = self.front.is_suspect.replace(!is_intact);
        if self.is_dead() || (is_intact && !was_suspect) {
            return;
        }
        let failure = self.write_front().err();
        let is_written = failure.is_none();
        self.front.is_written(failure.as_ref(), is_intact);
        if is_written {
            // An error ends the drive.
            let _ = self.sync().await;
        }
    }

    /// Writes header and records without waiting in between: a record that was published meanwhile
    /// would be followed by an older one.
    fn write_front(&self) -> io::Result<()> {
        let write = |bytes: &[u8], position: u64| match pwrite(&self.file, bytes, position) {
            Ok(written) if written == bytes.len() => Ok(()),
            Ok(_) => Err(io::Error::from(io::ErrorKind::WriteZero)),
            Err(error) => Err(error.into()),
        };
        let controller = self.controller.borrow();
        for zone in (0..self.geometry.zones).map(ZoneId) {
            let zones = controller.zones();
            if zones.record(zone).attributes.contains(ZoneAttributes::EXTENDED) {
                let position = self.layout.descriptor_extension(zone).start;
                write(&zones.extension(zone), position)?;
            }
            let wear = controller.wear();
            if let Some((position, bytes)) =
                wear.and_then(|wear| self.layout.encode_wear(zone, wear.zone(zone)))
            {
                write(&bytes, position)?;
            }
            // One that is being published goes to the other table.
            let (record, sequence) = self.zone(zone).queue.borrow().stored();
            let bytes = self.layout.encode_record(zone, sequence, record);
            write(&bytes, self.layout.record_position(zone, sequence))?;
        }
        if let Some(range) = self.layout.defects() {
            write(&self.front.defects, range.start)?;
        }
        // Last, as at the drive's creation: a file with a header is whole.
        write(&self.front.header, 0)
    }
}
