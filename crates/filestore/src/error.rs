//! Errors of a store.

use thiserror::Error;
use zoneweave_zoned::{BlockCount, Status, ZoneAddress, ZoneId};

use crate::ids::FileId;

/// Why an operation of a store failed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum StoreError {
    /// Nothing has this path.
    #[error("{path}: no such file or directory")]
    NotFound {
        /// The path.
        path: String,
    },
    /// The path is taken.
    #[error("{path}: exists already")]
    Exists {
        /// The path.
        path: String,
    },
    /// A part of the path is a file.
    #[error("{path}: not a directory")]
    NotADirectory {
        /// The path.
        path: String,
    },
    /// The operation is for files.
    #[error("{path}: is a directory")]
    IsADirectory {
        /// The path.
        path: String,
    },
    /// Only empty directories can be removed or replaced.
    #[error("{path}: the directory is not empty")]
    NotEmpty {
        /// The path.
        path: String,
    },
    /// A directory cannot move into itself, and the root cannot move.
    #[error("{path}: a directory cannot move there")]
    IntoItself {
        /// The path.
        path: String,
    },
    /// A part of the path is no name.
    #[error("{path:?}: use names of 1 to 255 bytes without NUL and `..`, and at most 64 of them")]
    BadPath {
        /// The path.
        path: String,
    },
    /// The file has a writer.
    #[error("{path}: is open for writing")]
    Busy {
        /// The path.
        path: String,
    },
    /// An append at a place where the file does not end.
    #[error("a write at byte {offset} of a file of {length} bytes: files have no holes")]
    Hole {
        /// The start of the write.
        offset: u64,
        /// The length of the file.
        length: u64,
    },
    /// Every block that is not live is reclaimed.
    #[error("no space left: delete files, or use a larger drive")]
    NoSpace,
    /// The metadata of so many files does not fit into a metadata zone.
    #[error("no space left for metadata: delete files, or make fewer and larger ones")]
    MetadataFull,
    /// As many files are open for writing as the options allow.
    #[error("{most} files are open for writing: close some, or raise the limit")]
    TooManyWriters {
        /// The limit.
        most: usize,
    },
    /// A block of the file does not verify.
    #[error("{file}, byte {offset}: the block at {at} is damaged")]
    Damaged {
        /// The file.
        file: FileId,
        /// The first byte of the file in the block.
        offset: u64,
        /// The block.
        at: ZoneAddress,
    },
    /// The drive failed a read.
    #[error("{file}, byte {offset}: the drive cannot read {at}: {status}")]
    Unreadable {
        /// The file.
        file: FileId,
        /// The first byte of the file that is affected.
        offset: u64,
        /// The first block of the read.
        at: ZoneAddress,
        /// The status of the drive.
        status: Status,
    },
    /// An earlier write of this writer failed, so later ones would leave a hole.
    #[error("an earlier write of this file failed: {0}")]
    WriterFailed(Box<StoreError>),
    /// The drive failed a flush or too many writes.
    #[error("the drive failed a write: {0}")]
    Device(Status),
    /// The store takes no more changes.
    #[error("the store is read-only since an error: {0}")]
    Stopped(StopReason),
}

/// Why a store takes no more changes until it is opened again.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum StopReason {
    /// A change could not be recorded in either metadata zone.
    #[error("the drive failed to write metadata: {0}")]
    Journal(Status),
    /// The state does not fit into a metadata zone.
    #[error("the metadata does not fit into a metadata zone")]
    MetadataFull,
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

/// Why a store was not opened.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum OpenError {
    /// The drive does not even report its zones, or failed while the store was opened.
    #[error("the drive failed: {0}")]
    Device(#[from] Status),
    /// No metadata zone was found.
    #[error("no file store on this drive: make one first")]
    NoStore,
    /// The metadata is of another version of the format.
    #[error("the file store has format version {found}, this release reads version {supported}")]
    Version {
        /// On media.
        found: u16,
        /// Of this release.
        supported: u16,
    },
    /// Metadata records are missing or damaged, and intact ones follow.
    #[error("a metadata record is damaged ({at}), and later ones are intact: restore a backup")]
    JournalDamaged {
        /// The first block of a record that is missing, or the record after it.
        at: ZoneAddress,
    },
    /// Records of two stores are on the drive.
    #[error("the drive holds metadata of two file stores")]
    TwoStores,
    /// Intact records that contradict each other: a bug, or a forged image.
    #[error("the metadata contradicts itself: {0}")]
    Inconsistent(#[from] Inconsistency),
    /// The drive is not the one that the store was made on.
    #[error(
        "the store was made on {zones} zones of {capacity}, this drive has {found_zones} of \
             {found_capacity}"
    )]
    OtherGeometry {
        /// Zones recorded.
        zones: u32,
        /// Zone capacity recorded.
        capacity: BlockCount,
        /// Zones of the drive.
        found_zones: u32,
        /// Zone capacity of the drive.
        found_capacity: BlockCount,
    },
    /// The drive lost or gained metadata beside its blocks.
    #[error("the store keeps checksums {recorded}, which this drive does not offer")]
    OtherLayout {
        /// Where.
        recorded: &'static str,
    },
    /// The drive cannot hold a store.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// The state does not fit into a metadata zone.
    #[error("the metadata does not fit into a metadata zone")]
    MetadataFull,
}

/// Why a store was not made.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FormatError {
    /// The drive failed.
    #[error("the drive failed: {0}")]
    Device(#[from] Status),
    /// The drive is in use.
    #[error("the drive is not empty ({zone} is written): its contents would be lost")]
    NotEmpty {
        /// The first zone that is written.
        zone: ZoneId,
    },
    /// The drive cannot hold a store.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// The label is too long.
    #[error("a label of {bytes} bytes: use at most {most}")]
    Label {
        /// Its length.
        bytes: usize,
        /// The longest.
        most: usize,
    },
}

/// Why a drive cannot hold a store.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Unfit {
    /// Too few zones that can be written.
    #[error("the drive has {found} usable zones: a file store needs {needed}")]
    Zones {
        /// Usable zones.
        found: u32,
        /// The least.
        needed: u32,
    },
    /// Zones too small for metadata.
    #[error("zones of {found}: a file store needs {needed}")]
    ZoneCapacity {
        /// Capacity of a zone.
        found: BlockCount,
        /// The least.
        needed: BlockCount,
    },
    /// Too few active zones.
    #[error("{found} active zones: a file store needs {needed}, two of them for metadata")]
    ActiveZones {
        /// Allowed by the drive.
        found: u32,
        /// The least.
        needed: u32,
    },
}

/// A contradiction between intact records.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Inconsistency {
    /// The first record is not a superblock, or a later one is.
    #[error("the superblock is missing or repeated")]
    Superblock,
    /// A record names a file that does not exist.
    #[error("{0} does not exist")]
    UnknownFile(FileId),
    /// A number is used twice.
    #[error("{0} is made twice")]
    FileTwice(FileId),
    /// A name is taken, or missing.
    #[error("a name in directory {0} is taken or missing")]
    Name(FileId),
    /// An operation for files names a directory, or the other way round.
    #[error("{0} is of the wrong kind")]
    Kind(FileId),
    /// An extent does not follow its file's end, is malformed, or outside of its zone.
    #[error("{0} has an impossible extent")]
    Extent(FileId),
    /// A zone is used as its state does not allow.
    #[error("{0} is used against its state")]
    Zone(ZoneId),
    /// Two extents share a block.
    #[error("{0} holds a block of two extents")]
    Overlap(ZoneId),
    /// A counter would run back or over.
    #[error("a counter is out of range")]
    Counter,
}
