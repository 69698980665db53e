//! The interface of a store.

use std::rc::Rc;

use zoneweave_journal::Uuid;
use zoneweave_runtime::Handle;
use zoneweave_zoned::{BLOCK_BYTES, BlockCount, ZoneAddress, ZoneId, ZonedDevice};

use crate::engine::core::{Core, Counters};
use crate::engine::create;
use crate::engine::recover::OpenReport;
use crate::error::{FormatError, OpenError, StopReason, StoreError};
use crate::handles::{FileReader, FileWriter};
use crate::hint::{Hints, Lifetime};
use crate::ids::FileId;
use crate::options::{FormatOptions, OpenOptions};
use crate::state::{Node, Phase};

/// An open store. Clones are the same store.
///
/// One store of a drive is open at a time: the caller opens the drive exclusively.
#[derive(Clone)]
pub struct FileStore {
    core: Rc<Core>,
}

/// A file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Its number.
    pub id: FileId,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Length in bytes; 0 for directories.
    pub length: u64,
    /// Seconds since 1970 of the last change of its length.
    pub modified: u64,
    /// Names that it has.
    pub links: u32,
    /// Hints for placement; none for directories.
    pub hints: Hints,
    /// Extents that it is made of.
    pub extents: usize,
}

/// Space of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes of all data zones that can be written, apart from those kept for relocation.
    pub capacity_bytes: u64,
    /// Bytes of blocks that files need.
    pub live_bytes: u64,
    /// Bytes of empty zones, and of open zones behind what is written, without the zones kept for
    /// relocation.
    pub free_bytes: u64,
    /// Zones of the drive.
    pub zones: usize,
    /// Zones of metadata.
    pub metadata_zones: usize,
    /// Zones that are empty.
    pub empty_zones: usize,
    /// Zones that are open.
    pub open_zones: usize,
    /// Zones that are lost.
    pub unusable_zones: usize,
}

/// Consecutive blocks of a file in a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentStatus {
    /// The first byte of the file.
    pub offset: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// The first block.
    pub at: ZoneAddress,
    /// Blocks.
    pub blocks: BlockCount,
}

/// A zone of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneStatus {
    /// The zone.
    pub zone: ZoneId,
    /// Its phase.
    pub phase: Phase,
    /// Blocks written.
    pub written: u32,
    /// Blocks that files need.
    pub live: u32,
    /// The lifetime that it was opened for.
    pub lifetime: Lifetime,
    /// Resets, if the drive counts them, since then otherwise.
    pub resets: u64,
}

impl FileStore {
    /// Makes a store on a drive.
    ///
    /// # Errors
    /// If the drive fails, is in use, or cannot hold a store.
    pub async fn format(
        device: &dyn ZonedDevice,
        options: &FormatOptions,
    ) -> Result<(), FormatError> {
        create::format(device, options).await
    }

    /// Opens the store of a drive, after any end of the last run.
    ///
    /// # Errors
    /// If there is none, or it cannot be understood.
    pub async fn open(
        handle: Handle,
        device: Rc<dyn ZonedDevice>,
        options: OpenOptions,
    ) -> Result<(Self, OpenReport), OpenError> {
        let (core, report) = Core::open(handle, device, options).await?;
        Ok((Self { core }, report))
    }

    /// The UUID.
    #[must_use]
    pub fn uuid(&self) -> Uuid {
        self.core.uuid()
    }

    /// The label.
    #[must_use]
    pub fn label(&self) -> String {
        self.core.label()
    }

    /// Makes a file and opens it for writing. An existing file of that name is replaced: the name
    /// changes over atomically, and other names keep the old file.
    ///
    /// # Errors
    /// If the path is taken by a directory, or the store has no room for it.
    pub async fn create(&self, path: &str, hints: Hints) -> Result<FileWriter, StoreError> {
        self.create_as(path, hints, false).await
    }

    /// As [`FileStore::create`], unless the name is taken.
    ///
    /// # Errors
    /// [`StoreError::Exists`], or as for `create`.
    pub async fn create_new(&self, path: &str, hints: Hints) -> Result<FileWriter, StoreError> {
        self.create_as(path, hints, true).await
    }

    async fn create_as(
        &self,
        path: &str,
        hints: Hints,
        is_exclusive: bool,
    ) -> Result<FileWriter, StoreError> {
        let (file, ticket) = self.core.begin_create(path, hints, is_exclusive)?;
        let writer = FileWriter::new(&self.core, file);
        self.core.until_durable(ticket).await?;
        Ok(writer)
    }

    /// Opens an existing file, to append to it.
    ///
    /// # Errors
    /// If there is none, or it is open for writing.
    pub async fn append_to(&self, path: &str) -> Result<FileWriter, StoreError> {
        let file = self.core.begin_reopen(path)?;
        let writer = FileWriter::new(&self.core, file);
        self.core.finish_reopen(file).await?;
        Ok(writer)
    }

    /// Opens a file for reading. It can be read until the handle ends, even if it is deleted.
    ///
    /// # Errors
    /// If there is none.
    pub fn open_file(&self, path: &str) -> Result<FileReader, StoreError> {
        let file = self.core.open_file(path)?;
        Ok(FileReader::new(&self.core, file))
    }

    /// Makes a directory, durably.
    ///
    /// # Errors
    /// If the path is taken, or the directory above it is missing.
    pub async fn create_directory(&self, path: &str) -> Result<(), StoreError> {
        self.core.mkdir(path).await
    }

    /// Removes an empty directory, durably.
    ///
    /// # Errors
    /// If it is missing, or not empty.
    pub async fn remove_directory(&self, path: &str) -> Result<(), StoreError> {
        self.core.rmdir(path).await
    }

    /// Removes a name of a file, durably. Its space is free once its last name and handle are gone.
    ///
    /// # Errors
    /// If there is no such file.
    pub async fn remove_file(&self, path: &str) -> Result<(), StoreError> {
        self.core.unlink(path).await
    }

    /// Gives a file another name, durably.
    ///
    /// # Errors
    /// If there is no such file, or the new name is taken.
    pub async fn link(&self, file: &str, name: &str) -> Result<(), StoreError> {
        self.core.link(file, name).await
    }

    /// Moves a file or directory, durably and atomically. A file or empty directory that has the
    /// new name is replaced.
    ///
    /// # Errors
    /// If there is nothing to move, or the new name is taken by another kind.
    pub async fn rename(&self, from: &str, to: &str) -> Result<(), StoreError> {
        self.core.rename(from, to).await
    }

    /// The names in a directory, sorted.
    ///
    /// # Errors
    /// If there is no such directory.
    pub fn list(&self, path: &str) -> Result<Vec<(String, Metadata)>, StoreError> {
        let state = self.core.state();
        let id = state.find(path)?;
        let directory = state.namespace.directory(id);
        let directory =
            directory.ok_or_else(|| StoreError::NotADirectory { path: path.to_owned() })?;
        let entry = |(name, id): (&crate::name::Name, &FileId)| {
            (name.to_string(), self.core.metadata(&state, *id))
        };
        Ok(directory.names.iter().map(entry).collect())
    }

    /// What a path leads to.
    ///
    /// # Errors
    /// If nothing has the path.
    pub fn metadata(&self, path: &str) -> Result<Metadata, StoreError> {
        let state = self.core.state();
        let id = state.find(path)?;
        Ok(self.core.metadata(&state, id))
    }

    /// The extents of a file, in its order. Bytes that a writer holds back have none.
    ///
    /// # Errors
    /// If nothing has the path, or a directory.
    pub fn extents(&self, path: &str) -> Result<Vec<ExtentStatus>, StoreError> {
        let state = self.core.state();
        let file = state.namespace.file(state.find(path)?);
        let file = file.ok_or_else(|| StoreError::IsADirectory { path: path.to_owned() })?;
        let status = |extent: &crate::state::Extent| ExtentStatus {
            offset: extent.offset,
            bytes: extent.bytes,
            at: extent.at,
            blocks: extent.blocks,
        };
        Ok(file.extents.iter().map(status).collect())
    }

    /// Space used and free.
    #[must_use]
    pub fn space(&self) -> Space {
        self.core.space()
    }

    /// Every zone.
    #[must_use]
    pub fn zones(&self) -> Vec<ZoneStatus> {
        let state = self.core.state();
        let status = |(zone, entry): (ZoneId, &crate::state::Zone)| ZoneStatus {
            zone,
            phase: entry.phase,
            written: entry.next.0,
            live: entry.live,
            lifetime: entry.lifetime,
            resets: entry.resets,
        };
        state.zones.iter().map(status).collect()
    }

    /// Counters since the store was opened.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.core.state().counters
    }

    /// Takes no more changes: later ones fail. Nothing needs this before the end of a process.
    pub fn close(&self) {
        self.core.stop(StopReason::Closed);
    }
}

impl Core {
    fn metadata(&self, state: &crate::engine::core::State, id: FileId) -> Metadata {
        match state.namespace.node(id) {
            Some(Node::File(file)) => Metadata {
                id,
                is_directory: false,
                length: state.length(id),
                modified: file.modified,
                links: file.links,
                hints: file.hints,
                extents: file.extents.count(),
            },
            Some(Node::Directory(directory)) => Metadata {
                id,
                is_directory: true,
                length: 0,
                modified: directory.modified,
                links: 1,
                hints: Hints::default(),
                extents: 0,
            },
            None => unreachable!("a name has a file or directory"),
        }
    }

    fn space(&self) -> Space {
        let state = self.state();
        let bytes = |blocks: u64| blocks * BLOCK_BYTES as u64;
        let capacity = u64::from(state.zones.capacity().0);
        let usable = |phase| !matches!(phase, Phase::Metadata | Phase::Unusable);
        let data_zones = state.zones.iter().filter(|(_, entry)| usable(entry.phase)).count();
        let data_zones = data_zones.saturating_sub(self.limits.reserve);
        let empty = state.empty_zones().saturating_sub(self.limits.reserve);
        let room = |zone| u64::from(state.zones.room(zone).0);
        assert!(capacity > 0, "zones of no blocks");
        let room: u64 = state.zones.iter().map(|(zone, _)| room(zone)).sum();
        let live: u64 = state.zones.iter().map(|(_, entry)| u64::from(entry.live)).sum();
        let zones = state.zones.iter().count() as u64;
        assert!(live <= capacity * zones, "{live} live blocks in {zones} zones");
        Space {
            capacity_bytes: bytes(capacity * data_zones as u64),
            live_bytes: bytes(live),
            free_bytes: bytes(capacity * empty as u64 + room),
            zones: state.zones.iter().count(),
            metadata_zones: state.zones.count(Phase::Metadata),
            empty_zones: state.empty_zones(),
            open_zones: state.zones.count(Phase::Open),
            unusable_zones: state.zones.count(Phase::Unusable),
        }
    }

    fn uuid(&self) -> Uuid {
        self.owner
    }

    fn label(&self) -> String {
        self.state().superblock.label.clone()
    }
}
