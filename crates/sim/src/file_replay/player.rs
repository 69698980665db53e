//! Makes the calls of a trace on a store.
//!
//! A trace has numbers of files and no names: each name is a number of its own here. A file lives
//! as long as it has a name or a handle, as in the store.

use std::collections::BTreeMap;

use zoneweave_filestore::trace::Event;
use zoneweave_filestore::{FileId, FileReader, FileStore, FileWriter, Hints, StoreError};

use super::{FileReplayError, FileState};

/// Bytes that are appended or read at a time.
const PIECE_BYTES: usize = 64 << 10;

/// The contents of files. An emulated drive keeps blocks of one pattern in little memory.
static ZEROS: [u8; PIECE_BYTES] = [0; PIECE_BYTES];

/// The files of a trace, in a store.
pub(super) struct Player<'a> {
    store: &'a FileStore,
    files: BTreeMap<FileId, Played>,
    next_name: u64,
    pass: u32,
    /// The number of the event in this pass.
    at: u64,
    events: u64,
    bytes: u64,
}

/// A file that has a name or a handle.
#[derive(Default)]
struct Played {
    names: Vec<String>,
    writer: Option<FileWriter>,
    readers: Vec<FileReader>,
}

impl Played {
    fn is_gone(&self) -> bool {
        self.names.is_empty() && self.writer.is_none() && self.readers.is_empty()
    }
}

impl<'a> Player<'a> {
    pub(super) fn new(store: &'a FileStore) -> Self {
        Self { store, files: BTreeMap::new(), next_name: 0, pass: 0, at: 0, events: 0, bytes: 0 }
    }

    /// Events so far.
    pub(super) const fn events(&self) -> u64 {
        self.events
    }

    /// Bytes that were appended.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Begins a pass: the files that the one before left are deleted.
    pub(super) async fn begin(&mut self, pass: u32) -> Result<(), FileReplayError> {
        assert!(pass == self.pass + 1, "passes follow one another");
        (self.pass, self.at) = (pass, 0);
        for (_, file) in std::mem::take(&mut self.files) {
            let Played { names, writer, readers } = file;
            drop((writer, readers));
            for name in names {
                let removed = self.store.remove_file(&name).await;
                removed.map_err(|error| self.failed(error))?;
            }
        }
        Ok(())
    }

    /// Makes the call of an event.
    pub(super) async fn play(&mut self, event: &Event) -> Result<(), FileReplayError> {
        self.at += 1;
        self.events += 1;
        match *event {
            Event::Exists { file, hints, bytes, links, .. } => {
                self.create(file, hints, None).await?;
                self.append(file, bytes).await?;
                let synced = self.writer(file)?.sync().await;
                synced.map_err(|error| self.failed(error))?;
                self.close(file)?;
                // A hostile number ends where the metadata of the store is full.
                for _ in 1..links {
                    self.link(file).await?;
                }
                Ok(())
            }
            Event::Create { file, hints, replaces, .. } => self.create(file, hints, replaces).await,
            Event::Rename { file, replaces, .. } => self.rename(file, replaces).await,
            Event::Link { file } => self.link(file).await,
            Event::Unlink { file } => {
                let name = self.take_name(file)?;
                self.forget_if_gone(file);
                let removed = self.store.remove_file(&name).await;
                removed.map_err(|error| self.failed(error))
            }
            Event::Append { file, bytes } => self.append(file, bytes).await,
            Event::Flush { file } => {
                let done = self.writer(file)?.flush().await;
                done.map_err(|error| self.failed(error))
            }
            Event::Sync { file } => {
                let done = self.writer(file)?.sync().await;
                done.map_err(|error| self.failed(error))
            }
            Event::Truncate { file, bytes } => {
                let done = self.writer(file)?.truncate(bytes).await;
                done.map_err(|error| self.failed(error))
            }
            Event::SetHints { file, hints } => {
                self.writer(file)?.set_hints(hints);
                Ok(())
            }
            Event::Read { file, offset, bytes } => self.read(file, offset, bytes).await,
            Event::Open { file } => self.open(file).await,
            Event::Close { file, bytes } => self.close_at(file, bytes).await,
            Event::OpenRead { file } => self.open_reader(file),
            Event::CloseRead { file } => {
                let reader = self.file_mut(file)?.readers.pop();
                reader.map(drop).ok_or_else(|| self.impossible(file, FileState::Closed))?;
                self.forget_if_gone(file);
                Ok(())
            }
            Event::Lost { events } => Err(FileReplayError::Lost { events, at: self.at }),
            Event::End => Ok(()),
        }
    }

    async fn create(
        &mut self,
        file: FileId,
        hints: Hints,
        replaces: Option<FileId>,
    ) -> Result<(), FileReplayError> {
        if self.files.contains_key(&file) {
            return Err(self.impossible(file, FileState::There));
        }
        let name = match replaces {
            Some(replaced) => self.replace(replaced)?,
            None => self.new_name(),
        };
        let created = self.store.create(&name, hints).await;
        let writer = created.map_err(|error| self.failed(error))?;
        let played = Played { names: vec![name], writer: Some(writer), readers: Vec::new() };
        let before = self.files.insert(file, played);
        assert!(before.is_none(), "{file} is there twice");
        Ok(())
    }

    async fn rename(
        &mut self,
        file: FileId,
        replaces: Option<FileId>,
    ) -> Result<(), FileReplayError> {
        let from = self.take_name(file)?;
        let to = match replaces {
            // Between two names of one file, a rename does nothing, and is not recorded.
            Some(replaced) if replaced == file => {
                return Err(self.impossible(file, FileState::There));
            }
            Some(replaced) => self.replace(replaced)?,
            None => self.new_name(),
        };
        let renamed = self.store.rename(&from, &to).await;
        renamed.map_err(|error| self.failed(error))?;
        self.file_mut(file)?.names.push(to);
        Ok(())
    }

    async fn link(&mut self, file: FileId) -> Result<(), FileReplayError> {
        let played = self.file(file)?;
        let Some(name) = played.names.first() else {
            return Err(self.impossible(file, FileState::Nameless));
        };
        let name = name.clone();
        let another = self.new_name();
        let linked = self.store.link(&name, &another).await;
        linked.map_err(|error| self.failed(error))?;
        self.file_mut(file)?.names.push(another);
        Ok(())
    }

    async fn append(&mut self, file: FileId, bytes: u64) -> Result<(), FileReplayError> {
        let writer = self.writer(file)?;
        let mut left = bytes;
        while left > 0 {
            let count = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE_BYTES);
            let appended = writer.append(&ZEROS[..count]).await;
            appended.map_err(|error| self.failed(error))?;
            left -= count as u64;
        }
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(())
    }

    /// Reads up to the end of the file, however much was asked for.
    async fn read(&self, file: FileId, offset: u64, bytes: u64) -> Result<(), FileReplayError> {
        let reader = self.file(file)?.readers.first();
        let reader = reader.ok_or_else(|| self.impossible(file, FileState::Closed))?;
        let (mut at, end) = (offset, offset.saturating_add(bytes));
        let mut piece = vec![0; PIECE_BYTES];
        while at < end {
            let count = usize::try_from(end - at).unwrap_or(usize::MAX).min(PIECE_BYTES);
            let read = reader.read_at(at, &mut piece[..count]).await;
            let read = read.map_err(|error| self.failed(error))?;
            if read < count {
                break;
            }
            at += count as u64;
        }
        Ok(())
    }

    async fn open(&mut self, file: FileId) -> Result<(), FileReplayError> {
        let played = self.file(file)?;
        if played.writer.is_some() {
            return Err(self.impossible(file, FileState::Open));
        }
        let Some(name) = played.names.first() else {
            return Err(self.impossible(file, FileState::Nameless));
        };
        let opened = self.store.append_to(name).await;
        let writer = opened.map_err(|error| self.failed(error))?;
        self.file_mut(file)?.writer = Some(writer);
        Ok(())
    }

    /// Ends a handle as it ended: bytes behind the length that was left are lost, the others were
    /// written. Their writes are awaited, as the next event may open the file again.
    async fn close_at(&mut self, file: FileId, bytes: u64) -> Result<(), FileReplayError> {
        let writer = self.writer(file)?;
        if writer.length() > bytes {
            let cut = writer.truncate(bytes).await;
            cut.map_err(|error| self.failed(error))?;
        }
        let flushed = writer.flush().await;
        flushed.map_err(|error| self.failed(error))?;
        self.close(file)
    }

    fn close(&mut self, file: FileId) -> Result<(), FileReplayError> {
        let writer = self.file_mut(file)?.writer.take();
        writer.map(drop).ok_or_else(|| self.impossible(file, FileState::Closed))?;
        self.forget_if_gone(file);
        Ok(())
    }

    fn open_reader(&mut self, file: FileId) -> Result<(), FileReplayError> {
        let Some(name) = self.file(file)?.names.first() else {
            return Err(self.impossible(file, FileState::Nameless));
        };
        let reader = self.store.open_file(name).map_err(|error| self.failed(error))?;
        self.file_mut(file)?.readers.push(reader);
        Ok(())
    }

    /// The name that a file loses to another.
    fn replace(&mut self, file: FileId) -> Result<String, FileReplayError> {
        let name = self.take_name(file)?;
        self.forget_if_gone(file);
        Ok(name)
    }

    fn take_name(&mut self, file: FileId) -> Result<String, FileReplayError> {
        let name = self.file_mut(file)?.names.pop();
        name.ok_or_else(|| self.impossible(file, FileState::Nameless))
    }

    fn new_name(&mut self) -> String {
        self.next_name += 1;
        format!("/{}", self.next_name)
    }

    fn forget_if_gone(&mut self, file: FileId) {
        if self.files.get(&file).is_some_and(Played::is_gone) {
            self.files.remove(&file);
        }
    }

    fn file(&self, file: FileId) -> Result<&Played, FileReplayError> {
        self.files.get(&file).ok_or_else(|| self.impossible(file, FileState::Missing))
    }

    fn file_mut(&mut self, file: FileId) -> Result<&mut Played, FileReplayError> {
        let missing = self.impossible(file, FileState::Missing);
        self.files.get_mut(&file).ok_or(missing)
    }

    fn writer(&self, file: FileId) -> Result<&FileWriter, FileReplayError> {
        let writer = self.file(file)?.writer.as_ref();
        writer.ok_or_else(|| self.impossible(file, FileState::Closed))
    }

    const fn impossible(&self, file: FileId, state: FileState) -> FileReplayError {
        FileReplayError::Impossible { at: self.at, file, state }
    }

    const fn failed(&self, error: StoreError) -> FileReplayError {
        FileReplayError::Store { pass: self.pass, at: self.at, error }
    }
}
