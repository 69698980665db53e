//! Changes of names: checked and applied under one borrow, acknowledged once they are durable.

use std::collections::BTreeMap;
use std::rc::Rc;

use zoneweave_runtime::Semaphore;
use zoneweave_zoned::ZoneAddress;

use super::core::{Core, Pin, State, Ticket, Writer};
use crate::error::StoreError;
use crate::format::{Entry, Kind};
use crate::hint::Hints;
use crate::ids::{FileId, Version};
use crate::instrument::marks::{Mark, mark};
use crate::instrument::mutants::{Mutant, mutant};
use crate::name::{Name, split_path};
use crate::state::BlockRun;
use crate::trace::Event;

/// What a path leads to.
pub(crate) struct Resolved {
    pub(crate) parent: FileId,
    /// `None` for the root.
    pub(crate) name: Option<Name>,
    pub(crate) node: Option<FileId>,
}

impl State {
    /// Follows a path up to its last name, which need not exist.
    ///
    /// # Errors
    /// If the path is malformed, or a directory of it is missing.
    pub(crate) fn resolve(&self, path: &str) -> Result<Resolved, StoreError> {
        let owned = || path.to_owned();
        let names = split_path(path).ok_or_else(|| StoreError::BadPath { path: owned() })?;
        let Some((last, directories)) = names.split_last() else {
            let node = Some(FileId::ROOT);
            return Ok(Resolved { parent: FileId::ROOT, name: None, node });
        };
        let mut parent = FileId::ROOT;
        for name in directories {
            let next = self.namespace.lookup(parent, name);
            parent = next.ok_or_else(|| StoreError::NotFound { path: owned() })?;
            if self.namespace.directory(parent).is_none() {
                return Err(StoreError::NotADirectory { path: owned() });
            }
        }
        let node = self.namespace.lookup(parent, last);
        Ok(Resolved { parent, name: Some(last.clone()), node })
    }

    /// The file or directory of a path.
    pub(crate) fn find(&self, path: &str) -> Result<FileId, StoreError> {
        let missing = || StoreError::NotFound { path: path.to_owned() };
        self.resolve(path)?.node.ok_or_else(missing)
    }

    /// The file of a path.
    pub(crate) fn find_file(&self, path: &str) -> Result<FileId, StoreError> {
        let id = self.find(path)?;
        match self.namespace.file(id) {
            Some(_) => Ok(id),
            None => Err(StoreError::IsADirectory { path: path.to_owned() }),
        }
    }

    /// Applies a change that was checked, and queues its record.
    fn change(&mut self, entry: Entry) -> Ticket {
        self.note_change(&entry);
        let freed = self.namespace.apply(&entry).expect("the change was checked");
        self.record(Some(entry), freed)
    }

    /// Sets the hints of a file. Its next extents may be on record as late as at the next start.
    pub(crate) fn set_hints(&mut self, id: FileId, hints: Hints) {
        let file = self.namespace.file_mut(id).expect("the file is open");
        let is_new = file.hints != hints && file.links > 0;
        file.hints = hints;
        let (offset, modified, extents) = (file.recorded, file.modified, Vec::new());
        self.note(|| Event::SetHints { file: id, hints });
        if is_new && self.stopped.is_none() {
            self.record(Some(Entry::Extents { id, offset, hints, modified, extents }), Vec::new());
        }
    }

    fn add_writer(&mut self, file: FileId, submitted: u64) {
        let writer = Writer {
            lock: Semaphore::new(1),
            buffer: None,
            filled: 0,
            submitted,
            pending: BTreeMap::new(),
            zone: None,
            failed: None,
            is_closed: false,
        };
        let before = self.writers.insert(file, writer);
        assert!(before.is_none(), "{file} has two writers");
        self.namespace.file_mut(file).expect("a file").opens += 1;
    }

    fn check_writers(&self, most: usize) -> Result<(), StoreError> {
        if self.writers.len() >= most { Err(StoreError::TooManyWriters { most }) } else { Ok(()) }
    }
}

impl Core {
    /// Makes a file and opens it for writing. An existing file of that name is replaced. The caller
    /// has a handle at once, and waits until the change is durable.
    pub(crate) fn begin_create(
        self: &Rc<Self>,
        path: &str,
        hints: Hints,
        is_exclusive: bool,
    ) -> Result<(FileId, Ticket), StoreError> {
        let mut state = self.state_mut();
        state.check_running()?;
        state.check_writers(self.limits.max_writers)?;
        let Resolved { parent, name, node } = state.resolve(path)?;
        let owned = || path.to_owned();
        let name = name.ok_or_else(|| StoreError::IsADirectory { path: owned() })?;
        if let Some(node) = node {
            if state.namespace.directory(node).is_some() {
                return Err(StoreError::IsADirectory { path: owned() });
            }
            if is_exclusive {
                return Err(StoreError::Exists { path: owned() });
            }
        }
        state.check_metadata(&self.limits)?;
        node.into_iter().for_each(|node| state.mark_if_orphaned(node));
        let id = state.namespace.next_file;
        let (version, modified) = (Version(0), (self.clock)());
        let (kind, replaces) = (Kind::File, node.is_some());
        let entry = Entry::Create { parent, name, id, kind, version, hints, modified, replaces };
        let ticket = state.change(entry);
        state.add_writer(id, 0);
        Ok((id, ticket))
    }

    /// Opens an existing file, to append to it. The caller has a handle at once, and then calls
    /// [`Core::finish_reopen`].
    pub(crate) fn begin_reopen(self: &Rc<Self>, path: &str) -> Result<FileId, StoreError> {
        let mut state = self.state_mut();
        state.check_running()?;
        state.check_writers(self.limits.max_writers)?;
        let id = state.find_file(path)?;
        if state.writers.contains_key(&id) {
            return Err(StoreError::Busy { path: path.to_owned() });
        }
        let length = state.length(id);
        state.add_writer(id, length);
        state.note(|| Event::Open { file: id });
        Ok(id)
    }

    /// Makes sure that no block of a failed write can continue a file that was just opened.
    pub(crate) async fn finish_reopen(self: &Rc<Self>, file: FileId) -> Result<(), StoreError> {
        let strays = {
            let state = self.state();
            let node = state.namespace.file(file).expect("the file is open");
            node.has_strays.then(|| state.length(file))
        };
        match strays {
            Some(length) => self.cut(file, length).await,
            None => Ok(()),
        }
    }

    /// Makes a directory.
    pub(crate) async fn mkdir(self: &Rc<Self>, path: &str) -> Result<(), StoreError> {
        let ticket = {
            let mut state = self.state_mut();
            state.check_running()?;
            let exists = || StoreError::Exists { path: path.to_owned() };
            let Resolved { parent, name, node } = state.resolve(path)?;
            if node.is_some() {
                return Err(exists());
            }
            let name = name.ok_or_else(exists)?;
            state.check_metadata(&self.limits)?;
            let id = state.namespace.next_file;
            let (version, hints) = Default::default();
            let (kind, modified) = (Kind::Directory, (self.clock)());
            let replaces = false;
            let entry =
                Entry::Create { parent, name, id, kind, version, hints, modified, replaces };
            state.change(entry)
        };
        self.until_durable(ticket).await
    }

    /// Gives a file another name.
    pub(crate) async fn link(self: &Rc<Self>, from: &str, to: &str) -> Result<(), StoreError> {
        let ticket = {
            let mut state = self.state_mut();
            state.check_running()?;
            let id = state.find_file(from)?;
            let exists = || StoreError::Exists { path: to.to_owned() };
            let Resolved { parent, name, node } = state.resolve(to)?;
            if node.is_some() {
                return Err(exists());
            }
            let name = name.ok_or_else(exists)?;
            state.check_metadata(&self.limits)?;
            state.change(Entry::Link { parent, name, id })
        };
        self.until_durable(ticket).await
    }

    /// Removes a name of a file.
    pub(crate) async fn unlink(self: &Rc<Self>, path: &str) -> Result<(), StoreError> {
        let ticket = {
            let mut state = self.state_mut();
            state.check_running()?;
            let id = state.find_file(path)?;
            state.mark_if_orphaned(id);
            let Resolved { parent, name, .. } = state.resolve(path)?;
            let name = name.expect("a file has a name");
            state.change(Entry::Unlink { parent, name })
        };
        self.until_durable(ticket).await
    }

    /// Removes an empty directory.
    pub(crate) async fn rmdir(self: &Rc<Self>, path: &str) -> Result<(), StoreError> {
        let ticket = {
            let mut state = self.state_mut();
            state.check_running()?;
            let id = state.find(path)?;
            let owned = || path.to_owned();
            let directory = state.namespace.directory(id);
            let directory = directory.ok_or_else(|| StoreError::NotADirectory { path: owned() })?;
            if !directory.names.is_empty() {
                return Err(StoreError::NotEmpty { path: owned() });
            }
            let Resolved { parent, name, .. } = state.resolve(path)?;
            let name = name.ok_or_else(|| StoreError::IntoItself { path: owned() })?;
            state.change(Entry::Unlink { parent, name })
        };
        self.until_durable(ticket).await
    }

    /// Moves a name, and replaces the file or empty directory that has the new name.
    pub(crate) async fn rename(self: &Rc<Self>, from: &str, to: &str) -> Result<(), StoreError> {
        if mutant(Mutant::RenameTorn) {
            let ticket = self.state_mut().unlink_target(from, to)?;
            self.until_durable(ticket).await?;
        }
        let ticket = {
            let mut state = self.state_mut();
            state.check_running()?;
            let entry = state.check_rename(from, to)?;
            if let Some(target) = state.resolve(to)?.node {
                state.mark_if_orphaned(target);
            }
            state.change(entry)
        };
        self.until_durable(ticket).await
    }

    /// Cuts a file that is open for writing; the caller has its turn.
    pub(crate) async fn truncate_locked(
        self: &Rc<Self>,
        file: FileId,
        size: u64,
    ) -> Result<(), StoreError> {
        {
            let mut state = self.state_mut();
            let writer = state.writers.get_mut(&file).expect("the file is open for writing");
            let length = writer.length();
            if size > length {
                return Err(StoreError::Hole { offset: size, length });
            }
            let submitted = writer.submitted;
            writer.filled = usize::try_from(size.saturating_sub(submitted)).expect("below filled");
            if size >= submitted {
                state.note(|| Event::Truncate { file, bytes: size });
                return Ok(());
            }
        }
        let cut = self.cut(file, size).await;
        if let Err(error) = &cut {
            // Buffered bytes in front of later ones are gone.
            self.fail_writer(file, error);
        }
        cut
    }

    /// Cuts a file to a size, at most its length, and gives it a new version.
    async fn cut(self: &Rc<Self>, file: FileId, size: u64) -> Result<(), StoreError> {
        // Blocks behind the cut must not be found by their tags: all blocks before it go on record
        // first, and later ones have another version.
        self.writes_of(file).await?;
        self.make_durable().await.map_err(StoreError::Device)?;
        let behind = self.cut_point(file, size).await?;
        let ticket = {
            let mut state = self.state_mut();
            state.check_running()?;
            state.record_extents(file);
            let node = state.namespace.file(file).expect("the file is open");
            let has_name = node.links > 0;
            assert!(!has_name || node.recorded == node.extents.length(), "{file} is not durable");
            let version = node.version.next();
            let entry = Entry::Truncate { id: file, size, version, behind };
            let freed = state.namespace.apply(&entry).expect("the cut was checked");
            state.note(|| Event::Truncate { file, bytes: size });
            let writer = state.writers.get_mut(&file).expect("the file is open for writing");
            writer.submitted = size;
            state.forget_if_clean(file);
            state.record(has_name.then_some(entry), freed)
        };
        self.until_durable(ticket).await
    }

    /// The block behind a cut, once the tags that it takes are read.
    async fn cut_point(
        self: &Rc<Self>,
        file: FileId,
        size: u64,
    ) -> Result<ZoneAddress, StoreError> {
        loop {
            let (extent, incarnation, _pin) = {
                let mut state = self.state_mut();
                let node = state.namespace.file(file).expect("the file is open");
                let extent = match node.extents.cut_point(size) {
                    Ok(behind) => return Ok(behind),
                    Err(extent) => extent.clone(),
                };
                let zone = extent.at.zone;
                let pin = Pin::new(self, &mut state, zone);
                (extent, state.zones.get(zone).incarnation, pin)
            };
            self.load_ends(file, &extent, incarnation).await?;
        }
    }

    /// Ends a handle for writing. Bytes in the buffer are lost, writes in flight go on.
    pub(crate) fn close_writer(self: &Rc<Self>, file: FileId) {
        {
            let mut state = self.state_mut();
            let writer = state.writers.get_mut(&file).expect("the file is open for writing");
            writer.is_closed = true;
            // At once, not when its writes end: the next writer must not see them, and then lose
            // them.
            writer.buffer = None;
            writer.filled = 0;
            let bytes = state.length(file);
            state.note(|| Event::Close { file, bytes });
        }
        self.end_if_closed(file);
    }

    /// Removes a writer without handle and writes.
    pub(crate) fn end_if_closed(self: &Rc<Self>, file: FileId) {
        {
            let mut state = self.state_mut();
            let ends = state
                .writers
                .get(&file)
                .is_some_and(|writer| writer.is_closed && writer.pending.is_empty());
            if !ends {
                return;
            }
            let writer = state.writers.remove(&file).expect("it was just there");
            if let Some(held) = writer.zone {
                state.release_zone(held);
            }
            state.forget_if_clean(file);
        }
        self.close(file);
    }

    /// Ends a handle. A file without names ends with its last.
    pub(crate) fn close(self: &Rc<Self>, file: FileId) {
        {
            let mut state = self.state_mut();
            let node = state.namespace.file_mut(file).expect("the file is open");
            assert!(node.opens > 0, "{file} is closed twice");
            node.opens -= 1;
            let freed: Vec<BlockRun> = state.namespace.drop_if_unused(file);
            if state.namespace.file(file).is_some() {
                return;
            }
            state.dirty.remove(&file);
            // The record that took its last name may not be durable yet.
            state.record(None, freed);
        }
        self.run_journal();
    }

    /// Opens a file for reading.
    pub(crate) fn open_file(self: &Rc<Self>, path: &str) -> Result<FileId, StoreError> {
        let mut state = self.state_mut();
        let id = state.find_file(path)?;
        state.namespace.file_mut(id).expect("a file").opens += 1;
        state.note(|| Event::OpenRead { file: id });
        Ok(id)
    }
}

impl State {
    fn mark_if_orphaned(&self, file: FileId) {
        if self.namespace.file(file).is_some_and(|node| node.opens > 0 && node.links == 1) {
            mark(Mark::OrphanKept);
        }
    }

    fn check_rename(&self, from: &str, to: &str) -> Result<Entry, StoreError> {
        let into_itself = |path: &str| StoreError::IntoItself { path: path.to_owned() };
        let source = self.resolve(from)?;
        let missing = || StoreError::NotFound { path: from.to_owned() };
        let id = source.node.ok_or_else(missing)?;
        let target = self.resolve(to)?;
        let from_name = source.name.ok_or_else(|| into_itself(from))?;
        let to_name = target.name.ok_or_else(|| into_itself(to))?;
        let is_directory = self.namespace.directory(id).is_some();
        if is_directory && self.namespace.is_within(target.parent, id) {
            return Err(into_itself(to));
        }
        if let Some(old) = target.node.filter(|old| *old != id) {
            let path = to.to_owned();
            match (self.namespace.directory(old), is_directory) {
                (Some(_), false) => return Err(StoreError::IsADirectory { path }),
                (None, true) => return Err(StoreError::NotADirectory { path }),
                (Some(old), true) if !old.names.is_empty() => {
                    return Err(StoreError::NotEmpty { path });
                }
                _ => {}
            }
        }
        Ok(Entry::Rename { from: source.parent, from_name, to: target.parent, to_name })
    }

    /// The mutant of a rename: the target is removed by a record of its own.
    fn unlink_target(&mut self, from: &str, to: &str) -> Result<Ticket, StoreError> {
        let entry = self.check_rename(from, to)?;
        if let Entry::Rename { from, from_name, to, to_name } = entry
            && let Some(target) = self.namespace.lookup(to, &to_name)
            && self.namespace.lookup(from, &from_name) != Some(target)
        {
            return Ok(self.change(Entry::Unlink { parent: to, name: to_name }));
        }
        Ok(self.journal.last)
    }
}
