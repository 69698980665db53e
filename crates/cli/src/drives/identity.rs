//! The file or device behind a path, under any of its names.
//!
//! Two paths may lead to one drive: a hard link, a bind mount, two controllers. And a path may lead
//! to another file than yesterday: a copy has the same superblock, and is not the drive that a
//! server uses. So drives are compared by device and inode, and real ones also by the identity that
//! they have from the factory.

use std::fmt;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use serde::{Deserialize, Serialize};
use zoneweave_linux::Drive;

/// A file or device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct FileIdentity {
    /// The file system of a file, or the number of a device.
    device: u64,
    /// Inode of a file; zero for a device, which may have several nodes.
    inode: u64,
}

impl FileIdentity {
    /// The identity of the file or device at a path, if one is there.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        let found = fs::metadata(path).ok()?;
        let kind = found.file_type();
        Some(match kind.is_char_device() || kind.is_block_device() {
            true => Self { device: found.rdev(), inode: 0 },
            false => Self { device: found.dev(), inode: found.ino() },
        })
    }
}

/// A word for it, for names of files.
impl fmt::Display for FileIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{:x}", self.device, self.inode)
    }
}

/// A drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DriveIdentity {
    file: Option<FileIdentity>,
    /// UUID of a real drive. Drives in files may be copies with the same one.
    uuid: Option<[u8; 16]>,
}

impl DriveIdentity {
    /// The identity of a drive that was just opened.
    pub(crate) fn of(drive: &Drive) -> Self {
        let uuid = Some(drive.uuid()).filter(|uuid| drive.is_real() && *uuid != [0; 16]);
        Self { file: FileIdentity::at(drive.path()), uuid }
    }

    /// The identity of a drive in a file.
    #[cfg(test)]
    pub(crate) fn at(path: &Path) -> Self {
        Self { file: FileIdentity::at(path), uuid: None }
    }

    /// Whether both are one drive.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let same_file = self.file.is_some() && self.file == other.file;
        same_file || (self.uuid.is_some() && self.uuid == other.uuid)
    }

    /// Whether a path leads to this drive.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        self.file.is_some() && self.file == FileIdentity::at(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Copies were taken for the drives of the running array, as they have its superblock.
    #[test]
    fn a_link_is_the_same_file_and_a_copy_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("drive"), "x").unwrap();
        fs::copy(path("drive"), path("copy")).unwrap();
        fs::hard_link(path("drive"), path("link")).unwrap();
        let identity = FileIdentity::at(&path("drive"));
        assert!(identity.is_some());
        assert_eq!(FileIdentity::at(&path("link")), identity);
        assert_ne!(FileIdentity::at(&path("copy")), identity);
        assert_eq!(FileIdentity::at(&path("gone")), None);
        // The path is taken by another file; the drive stays the file that was opened.
        fs::rename(path("copy"), path("drive")).unwrap();
        assert_ne!(FileIdentity::at(&path("drive")), identity);
        assert_eq!(FileIdentity::at(&path("link")), identity);
    }

    #[test]
    fn real_drives_are_one_if_their_uuid_is() {
        let file = |inode| Some(FileIdentity { device: 1, inode });
        let real = |inode, uuid| DriveIdentity { file: file(inode), uuid };
        assert!(real(1, Some([7; 16])).is_same(&real(2, Some([7; 16]))));
        assert!(!real(1, Some([7; 16])).is_same(&real(2, Some([8; 16]))));
        assert!(!real(1, None).is_same(&real(2, None)));
        let gone = DriveIdentity { file: None, uuid: None };
        assert!(!gone.is_same(&gone), "nothing is known of either");
    }
}
