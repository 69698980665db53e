//! A client: random operations on a directory of its own, one after the other.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use zoneweave_filestore::{FileStore, FileWriter, Hints, Lifetime, Phase, StoreError};
use zoneweave_runtime::Random;

use super::model::{Change, Entry, File, Model};
use crate::support::bytes;

/// A client in one life of a store.
pub(crate) struct Client {
    pub store: FileStore,
    pub root: String,
    pub model: Rc<RefCell<Model>>,
    pub random: Random,
    /// Open writers, by index of the file.
    pub writers: BTreeMap<usize, FileWriter>,
    /// Live bytes, in percent of the capacity, above which it deletes more than it writes.
    pub full_percent: u64,
    /// Whether commands of the drive fail now and then.
    pub has_faults: bool,
}

impl Client {
    /// Runs some operations. An error other than a lack of space ends it: what it did is unknown.
    pub(crate) async fn run(mut self, steps: u32) {
        for _ in 0..steps {
            match self.step().await {
                Ok(()) => {}
                Err(StoreError::NoSpace) => {
                    self.check_no_space();
                    self.model.borrow_mut().pending = None;
                    if self.free_space().await.is_err() {
                        return;
                    }
                }
                Err(StoreError::MetadataFull) => {
                    self.model.borrow_mut().pending = None;
                    if self.free_space().await.is_err() {
                        return;
                    }
                }
                Err(error) if self.has_faults => {
                    let _kept = error;
                    return;
                }
                Err(error) => panic!("{error} without a fault"),
            }
        }
    }

    /// There is no garbage when there is no space.
    fn check_no_space(&self) {
        let zones = self.store.zones();
        let garbage =
            zones.iter().find(|zone| zone.phase == Phase::Sealed && zone.live < zone.written);
        assert!(garbage.is_none() || self.has_faults, "no space with garbage: {zones:?}");
    }

    async fn free_space(&mut self) -> Result<(), StoreError> {
        // Failed writers are of no use.
        let failed: Vec<usize> = self.writers.keys().copied().collect();
        for file in failed {
            self.drop_writer(file).await;
        }
        let paths = self.model.borrow().paths();
        for path in paths.into_iter().take(2) {
            self.change(Change::Remove(path)).await?;
        }
        Ok(())
    }

    /// Ends a writer without the bytes in its buffer. What is left is any prefix.
    async fn drop_writer(&mut self, file: usize) {
        let Some(writer) = self.writers.remove(&file) else { return };
        let flushed = writer.flush().await.is_ok();
        let length = usize::try_from(writer.length()).unwrap();
        drop(writer);
        let file = &mut self.model.borrow_mut().files[file];
        if !flushed {
            let least = file.cut.take().map_or(file.synced, |cut| cut.min(file.synced));
            assert!(length >= least && length <= file.content.len(), "F1: {length}");
            file.content.truncate(length);
            file.synced = least;
        }
    }

    async fn step(&mut self) -> Result<(), StoreError> {
        let space = self.store.space();
        let is_full = space.live_bytes * 100 > space.capacity_bytes * self.full_percent;
        let choice = self.random.below(100);
        match choice {
            0..12 => self.create().await,
            12..40 => self.append(if is_full { 200 } else { 12_000 }).await,
            40..52 => self.sync().await,
            52..58 => self.truncate().await,
            58..64 => self.rename().await,
            64..67 => self.link().await,
            67..70 => self.directory().await,
            70..74 => self.close().await,
            74..82 => self.read().await,
            82..88 if !is_full => self.reopen().await,
            _ if choice < 94 || is_full => self.remove().await,
            _ => self.overwrite().await,
        }
    }

    fn full(&self, path: &str) -> String {
        format!("{}/{path}", self.root)
    }

    /// Announces a change, makes it, and notes that it is acknowledged.
    async fn change(&mut self, change: Change) -> Result<(), StoreError> {
        self.model.borrow_mut().pending = Some(change.clone());
        let store = &self.store;
        match &change {
            Change::Create(path, file) => {
                let lifetime = Lifetime::ALL[usize::try_from(self.random.below(6)).unwrap()];
                let hints = Hints { lifetime, level: Some(1), expected_bytes: 0 };
                let writer = store.create(&self.full(path), hints).await?;
                self.writers.insert(*file, writer);
            }
            Change::Directory(path) => store.create_directory(&self.full(path)).await?,
            Change::Link(from, to) => store.link(&self.full(from), &self.full(to)).await?,
            Change::Remove(path) => {
                let entry = self.model.borrow().names[path];
                match entry {
                    Entry::File(_) => store.remove_file(&self.full(path)).await?,
                    Entry::Directory => store.remove_directory(&self.full(path)).await?,
                }
            }
            Change::Rename(from, to) => store.rename(&self.full(from), &self.full(to)).await?,
        }
        self.model.borrow_mut().acknowledge();
        Ok(())
    }

    /// A path for a new name, in one of the directories.
    fn new_path(&mut self) -> String {
        let name = format!("f{}", self.random.below(8));
        let directories: Vec<String> = {
            let model = self.model.borrow();
            let is_directory = |entry: &Entry| *entry == Entry::Directory;
            let names = model.names.iter().filter(|(_, entry)| is_directory(entry));
            names.map(|(path, _)| path.clone()).collect()
        };
        match self.pick(&directories) {
            Some(directory) if self.random.per_mille(500) => format!("{directory}/{name}"),
            _ => name,
        }
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        let count = u64::try_from(from.len()).unwrap();
        (count > 0).then(|| from[usize::try_from(self.random.below(count)).unwrap()].clone())
    }

    fn pick_path(&mut self) -> Option<String> {
        let paths = self.model.borrow().paths();
        self.pick(&paths)
    }

    fn pick_writer(&mut self) -> Option<usize> {
        let open: Vec<usize> = self.writers.keys().copied().collect();
        self.pick(&open)
    }

    async fn create(&mut self) -> Result<(), StoreError> {
        if self.writers.len() >= 3 {
            return self.close().await;
        }
        let path = self.new_path();
        if self.model.borrow().names.get(&path) == Some(&Entry::Directory) {
            return Ok(());
        }
        let file = {
            let mut model = self.model.borrow_mut();
            model.files.push(File::default());
            model.files.len() - 1
        };
        self.change(Change::Create(path, file)).await
    }

    async fn append(&mut self, most: u64) -> Result<(), StoreError> {
        let Some(file) = self.pick_writer() else { return self.create().await };
        let count = usize::try_from(1 + self.random.below(most)).unwrap();
        let data = {
            let file_of = &mut self.model.borrow_mut().files[file];
            file_of.appends += 1;
            let seed = (u64::try_from(file).unwrap() << 20) + file_of.appends;
            let data = bytes(seed, u64::try_from(file_of.content.len()).unwrap(), count);
            file_of.content.extend(&data);
            data
        };
        self.writers[&file].append(&data).await
    }

    async fn sync(&mut self) -> Result<(), StoreError> {
        let Some(file) = self.pick_writer() else { return Ok(()) };
        let length = self.model.borrow().files[file].content.len();
        self.writers[&file].sync().await?;
        self.model.borrow_mut().files[file].synced = length;
        Ok(())
    }

    async fn truncate(&mut self) -> Result<(), StoreError> {
        let Some(file) = self.pick_writer() else { return Ok(()) };
        let length = self.model.borrow().files[file].content.len();
        let size = self.random.below(u64::try_from(length).unwrap() + 1);
        self.cut(file, usize::try_from(size).unwrap());
        self.writers[&file].truncate(size).await?;
        self.acknowledge_cut(file);
        Ok(())
    }

    /// As direct writers do: bytes at the end are written again, with others behind them.
    async fn overwrite(&mut self) -> Result<(), StoreError> {
        let Some(file) = self.pick_writer() else { return Ok(()) };
        let length = self.model.borrow().files[file].content.len();
        let back = usize::try_from(self.random.below(5000)).unwrap().min(length);
        let again = self.model.borrow().files[file].content[length - back..].to_vec();
        self.cut(file, length - back);
        let offset = u64::try_from(length - back).unwrap();
        self.writers[&file].write_at(offset, &again).await?;
        // The bytes are the same again, but not those that were synced.
        let file = &mut self.model.borrow_mut().files[file];
        file.synced = file.synced.min(file.cut.take().unwrap());
        Ok(())
    }

    fn cut(&self, file: usize, size: usize) {
        self.model.borrow_mut().files[file].cut = Some(size);
    }

    fn acknowledge_cut(&self, file: usize) {
        let file = &mut self.model.borrow_mut().files[file];
        let size = file.cut.take().unwrap();
        file.content.truncate(size);
        file.synced = file.synced.min(size);
    }

    async fn rename(&mut self) -> Result<(), StoreError> {
        let all: Vec<String> = self.model.borrow().names.keys().cloned().collect();
        let (Some(from), to) = (self.pick(&all), self.new_path()) else { return Ok(()) };
        let is_allowed = {
            let model = self.model.borrow();
            let (entry, target) = (model.names[&from], model.names.get(&to).copied());
            let is_inside = to == from || to.starts_with(&format!("{from}/"));
            match (entry, target) {
                _ if is_inside => false,
                (Entry::Directory, None) => true,
                (Entry::File(_), None | Some(Entry::File(_))) => true,
                _ => false,
            }
        };
        if !is_allowed {
            return Ok(());
        }
        self.change(Change::Rename(from, to)).await
    }

    async fn link(&mut self) -> Result<(), StoreError> {
        let (Some(from), to) = (self.pick_path(), self.new_path()) else { return Ok(()) };
        if self.model.borrow().names.contains_key(&to) {
            return Ok(());
        }
        self.change(Change::Link(from, to)).await
    }

    async fn directory(&mut self) -> Result<(), StoreError> {
        let path = format!("d{}", self.random.below(3));
        let (exists, is_empty) = {
            let model = self.model.borrow();
            let below = format!("{path}/");
            let is_empty = !model.names.keys().any(|other| other.starts_with(&below));
            (model.names.contains_key(&path), is_empty)
        };
        match (exists, is_empty) {
            (false, _) => self.change(Change::Directory(path)).await,
            (true, true) => self.change(Change::Remove(path)).await,
            (true, false) => Ok(()),
        }
    }

    async fn close(&mut self) -> Result<(), StoreError> {
        let Some(file) = self.pick_writer() else { return Ok(()) };
        self.writers[&file].flush().await?;
        self.writers.remove(&file).unwrap().close().await
    }

    async fn reopen(&mut self) -> Result<(), StoreError> {
        let Some(path) = self.pick_path() else { return Ok(()) };
        let Entry::File(file) = self.model.borrow().names[&path] else { return Ok(()) };
        if self.writers.contains_key(&file) {
            return Ok(());
        }
        let writer = self.store.append_to(&self.full(&path)).await?;
        self.writers.insert(file, writer);
        Ok(())
    }

    async fn remove(&mut self) -> Result<(), StoreError> {
        let Some(path) = self.pick_path() else { return Ok(()) };
        self.change(Change::Remove(path)).await
    }

    async fn read(&mut self) -> Result<(), StoreError> {
        let Some(path) = self.pick_path() else { return Ok(()) };
        let Entry::File(file) = self.model.borrow().names[&path] else { return Ok(()) };
        let expected = self.model.borrow().files[file].content.clone();
        let reader = self.store.open_file(&self.full(&path))?;
        let offset = usize::try_from(self.random.below(1 + expected.len() as u64)).unwrap();
        let mut data = vec![0; expected.len() + 10];
        let count = reader.read_at(offset as u64, &mut data).await?;
        let is_same = data[..count] == expected[offset..];
        // After a write that failed in the background, the next call of the writer says so.
        let is_prefix = self.has_faults && expected[offset..].starts_with(&data[..count]);
        assert!(
            is_same || is_prefix,
            "{path} has {count} other bytes from {offset} of {}",
            expected.len()
        );
        Ok(())
    }
}
