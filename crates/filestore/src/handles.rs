//! Handles of open files.

use std::rc::Rc;

use crate::engine::core::Core;
use crate::error::StoreError;
use crate::hint::Hints;
use crate::ids::FileId;
use crate::trace::Event;

/// A file that is open for writing. Bytes that are neither synced nor flushed when the handle is
/// dropped are lost.
pub struct FileWriter {
    core: Rc<Core>,
    file: FileId,
}

impl FileWriter {
    /// A handle of a file that was just opened for writing.
    pub(crate) fn new(core: &Rc<Core>, file: FileId) -> Self {
        Self { core: core.clone(), file }
    }

    /// Appends bytes. They are written when a buffer is full, and durable after [`sync`].
    ///
    /// # Errors
    /// If there is no space, the drive fails, or an earlier write has failed: the file is a prefix
    /// of its appends then.
    ///
    /// [`sync`]: FileWriter::sync
    pub async fn append(&self, data: &[u8]) -> Result<(), StoreError> {
        let _turn = self.core.lock(self.file).await?;
        self.append_in_turn(data).await
    }

    async fn append_in_turn(&self, data: &[u8]) -> Result<(), StoreError> {
        let (file, bytes) = (self.file, data.len() as u64);
        self.core.state().note(|| Event::Append { file, bytes });
        self.core.append_locked(file, data).await
    }

    /// Writes at a byte up to the end of the file: the file is cut there, then the bytes are
    /// appended. Direct writers of RocksDB write their last block again this way.
    ///
    /// # Errors
    /// [`StoreError::Hole`], or as for appends.
    pub async fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        let _turn = self.core.lock(self.file).await?;
        if offset != self.core.state().length(self.file) {
            self.core.truncate_locked(self.file, offset).await?;
        }
        self.append_in_turn(data).await
    }

    /// Writes all bytes to the drive, which may still hold them in its cache.
    ///
    /// # Errors
    /// As for appends.
    pub async fn flush(&self) -> Result<(), StoreError> {
        let _turn = self.core.lock(self.file).await?;
        self.core.state().note(|| Event::Flush { file: self.file });
        self.core.submit_buffer(self.file, false).await?;
        self.core.writes_of(self.file).await
    }

    /// Makes all bytes durable that were appended before.
    ///
    /// # Errors
    /// As for appends, or if the drive fails to flush its cache.
    pub async fn sync(&self) -> Result<(), StoreError> {
        let _turn = self.core.lock(self.file).await?;
        self.core.state().note(|| Event::Sync { file: self.file });
        self.core.sync_locked(self.file).await
    }

    /// Cuts the file, durably.
    ///
    /// # Errors
    /// [`StoreError::Hole`] if the file is shorter, or as for appends.
    pub async fn truncate(&self, size: u64) -> Result<(), StoreError> {
        let _turn = self.core.lock(self.file).await?;
        self.core.truncate_locked(self.file, size).await
    }

    /// Sets hints for the placement of later blocks. They go on record in the background.
    pub fn set_hints(&self, hints: Hints) {
        self.core.state_mut().set_hints(self.file, hints);
        self.core.run_journal();
    }

    /// The length of the file, buffered bytes included.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.core.state().length(self.file)
    }

    /// Writes all bytes to the drive and ends the handle. It does not make them durable.
    ///
    /// # Errors
    /// As for appends.
    pub async fn close(self) -> Result<(), StoreError> {
        self.flush().await
    }
}

impl Drop for FileWriter {
    fn drop(&mut self) {
        self.core.close_writer(self.file);
    }
}

/// A file that is open for reading.
pub struct FileReader {
    core: Rc<Core>,
    file: FileId,
}

impl FileReader {
    /// A handle of a file that was just opened.
    pub(crate) fn new(core: &Rc<Core>, file: FileId) -> Self {
        Self { core: core.clone(), file }
    }

    /// Reads bytes from `offset` on; returns how many, fewer than the buffer takes only at the end
    /// of the file. Bytes in the buffer of a writer are included.
    ///
    /// # Errors
    /// If a block is damaged or cannot be read. Nothing is made up.
    pub async fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize, StoreError> {
        let (file, bytes) = (self.file, into.len() as u64);
        self.core.state().note(|| Event::Read { file, offset, bytes });
        self.core.read(file, offset, into).await
    }

    /// The length of the file.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.core.state().length(self.file)
    }
}

impl Drop for FileReader {
    fn drop(&mut self) {
        self.core.state().note(|| Event::CloseRead { file: self.file });
        self.core.close(self.file);
    }
}
