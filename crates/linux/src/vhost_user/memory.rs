//! The guest's memory, as the process that runs it shares it.

use std::fs::File;
use std::io;

use rustix::fs::{SealFlags, fcntl_add_seals, fstat};
use thiserror::Error;
use vhost::vhost_user::message::VhostUserMemoryRegion;
use vm_memory::mmap::MmapRegion;
use vm_memory::{
    FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionCollectionError, GuestRegionMmap,
};

/// Why memory cannot be used.
#[derive(Debug, Error)]
pub(super) enum MemoryError {
    #[error("a memory region exceeds its file or the address space")]
    OutOfBounds,
    #[error("a region's file cannot be examined: {0}")]
    File(#[from] io::Error),
    #[error("a region cannot be mapped: {0}")]
    Map(String),
    #[error("the regions do not fit together: {0}")]
    Regions(#[from] GuestRegionCollectionError),
}

/// Where a region is in the addresses of the process that runs the guest.
#[derive(Clone, Copy)]
struct Place {
    user: u64,
    guest: u64,
    bytes: u64,
}

/// All of a guest's memory.
pub(super) struct Memory {
    pub(super) guest: GuestMemoryMmap,
    places: Vec<Place>,
}

impl Memory {
    /// Maps the files of the regions.
    ///
    /// # Errors
    /// [`MemoryError`], with the fault of the regions.
    pub(super) fn map(
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
    ) -> Result<Self, MemoryError> {
        let mut places = Vec::with_capacity(regions.len());
        let mut mapped = Vec::with_capacity(regions.len());
        for (region, file) in regions.iter().zip(files) {
            // Copies: the fields of the message are not aligned.
            let (guest, bytes) = (region.guest_phys_addr, region.memory_size);
            let (user, offset) = (region.user_addr, region.mmap_offset);
            let file_end = offset.checked_add(bytes).ok_or(MemoryError::OutOfBounds)?;
            user.checked_add(bytes).ok_or(MemoryError::OutOfBounds)?;
            protect(&file, file_end)?;
            let length = usize::try_from(bytes).map_err(|_| MemoryError::OutOfBounds)?;
            let mapping = MmapRegion::from_file(FileOffset::new(file, offset), length)
                .map_err(|error| MemoryError::Map(error.to_string()))?;
            let region = GuestRegionMmap::new(mapping, GuestAddress(guest));
            mapped.push(region.ok_or(MemoryError::OutOfBounds)?);
            places.push(Place { user, guest, bytes });
        }
        // The collection wants them in order.
        mapped.sort_by_key(vm_memory::GuestMemoryRegion::start_addr);
        Ok(Self { guest: GuestMemoryMmap::from_regions(mapped)?, places })
    }

    /// The guest's address of one of the process that runs it.
    pub(super) fn guest_address(&self, user: u64) -> Option<GuestAddress> {
        self.places.iter().find_map(|place| {
            let offset = user.checked_sub(place.user).filter(|offset| *offset < place.bytes)?;
            place.guest.checked_add(offset).map(GuestAddress)
        })
    }
}

/// Refuses regions beyond the end of their file: touching them would kill this process. Seals the
/// file against shrinking, if possible.
pub(super) fn protect(file: &File, end: u64) -> Result<(), MemoryError> {
    // Fails for files on disk and huge pages, and for memory whose owner has sealed the seals.
    let _ = fcntl_add_seals(file, SealFlags::SHRINK);
    let there = fstat(file).map_err(io::Error::from)?.st_size;
    match u64::try_from(there) {
        Ok(there) if end <= there => Ok(()),
        _ => Err(MemoryError::OutOfBounds),
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use vm_memory::Bytes;

    use super::*;

    fn file(bytes: u64) -> File {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("guest", flags).unwrap();
        ftruncate(&file, bytes).unwrap();
        file.into()
    }

    fn region(guest: u64, bytes: u64, user: u64, offset: u64) -> VhostUserMemoryRegion {
        VhostUserMemoryRegion::new(guest, bytes, user, offset)
    }

    #[test]
    fn addresses_are_translated_and_memory_is_shared() {
        let shared = file(0x8000);
        let regions = [region(0x10000, 0x4000, 0x7000_0000, 0x4000), region(0, 0x4000, 0x1000, 0)];
        let files = vec![shared.try_clone().unwrap(), shared.try_clone().unwrap()];
        let memory = Memory::map(&regions, files).unwrap();
        assert_eq!(memory.guest_address(0x7000_0010), Some(GuestAddress(0x10010)));
        assert_eq!(memory.guest_address(0x4fff), Some(GuestAddress(0x3fff)));
        for nowhere in [0, 0xfff, 0x5000, 0x7000_4000, u64::MAX] {
            assert_eq!(memory.guest_address(nowhere), None, "{nowhere:#x}");
        }
        memory.guest.write_slice(b"here", GuestAddress(0x10010)).unwrap();
        let mut found = [0; 4];
        assert_eq!(rustix::io::pread(&shared, &mut found, 0x4010), Ok(4));
        assert_eq!(&found, b"here");
        // Sealed: the file cannot shrink under us.
        assert!(ftruncate(&shared, 0).is_err());
    }

    #[test]
    fn regions_that_cannot_be_are_refused() {
        let refused = |regions: &[VhostUserMemoryRegion]| {
            let files = regions.iter().map(|_| file(0x4000)).collect();
            Memory::map(regions, files).err().map(|error| error.to_string())
        };
        let overlapping = [region(0, 0x4000, 0, 0), region(0x3000, 0x4000, 0x10000, 0)];
        assert!(refused(&overlapping).unwrap().contains("fit together"));
        for odd in [
            region(0, 0x8000, 0, 0),
            region(0, 0x4000, 0, 0x1000),
            region(0, 0x4000, 0, u64::MAX - 0xfff),
            region(u64::MAX - 0xfff, 0x4000, 0, 0),
            region(0, 0x4000, u64::MAX - 0xfff, 0),
        ] {
            assert!(refused(&[odd]).unwrap().contains("exceeds"));
        }
        assert!(refused(&[region(0, 0x1000, 0, 0x123)]).unwrap().contains("mapped"));
        assert!(refused(&[]).is_some());
    }
}
