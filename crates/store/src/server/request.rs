//! One request: run on the store, turned into a reply.

use std::rc::Rc;

use bytes::Bytes;
use serde::Serialize;
use zoneweave_filestore::{FileReader, FileStore, FileWriter, Metadata, StoreError};
use zoneweave_linux::stream::Clients;

use super::{FILES_MAX, Shared};
use crate::failure::{Code, Failure};
use crate::table::Table;
use crate::wire::{
    DATA_BYTES_MAX, ENTRIES_MAX, Entry, ExtentEntry, FileNumber, Reply, Request, ZoneEntry,
};

/// The store and the open files of a connection.
pub(super) struct Session {
    store: FileStore,
    clients: Rc<Clients>,
    writers: Table<FileWriter>,
    readers: Table<FileReader>,
}

impl Session {
    pub(super) fn new(shared: &Shared) -> Self {
        let (store, clients) = (shared.store.clone(), shared.clients.clone());
        Self { store, clients, writers: Table::default(), readers: Table::default() }
    }

    /// Opens a file to append to it. Its writer may be of a client that has left: the files of a
    /// process are free once its end is known, as locks of the kernel are.
    async fn append_to(&self, path: &str) -> Result<FileWriter, StoreError> {
        match self.store.append_to(path).await {
            Err(StoreError::Busy { .. }) => {
                self.clients.leavers_gone().await;
                self.store.append_to(path).await
            }
            opened => opened,
        }
    }

    /// Refuses one more open file than there may be.
    fn check_files(&self) -> Result<(), Failure> {
        match self.writers.count() + self.readers.count() < FILES_MAX {
            true => Ok(()),
            false => {
                let message = format!("{FILES_MAX} files are open: close some");
                Err(Failure::new(Code::Busy, message))
            }
        }
    }
}

/// The reply to a request, and its data.
pub(super) async fn answer(session: &Session, request: Request, data: Bytes) -> (Reply, Bytes) {
    match run(session, request, data).await {
        Ok(answer) => answer,
        Err(failure) => (Reply::Failed(failure.shortened()), Bytes::new()),
    }
}

async fn run(session: &Session, request: Request, data: Bytes) -> Result<(Reply, Bytes), Failure> {
    let takes_data = matches!(request, Request::Append { .. } | Request::WriteAt { .. });
    if !data.is_empty() && !takes_data {
        return Err(Failure::invalid("a request with data that takes none"));
    }
    let reply = match request {
        Request::Greet { .. } => return Err(Failure::invalid("a second greeting")),
        Request::List { path, after } => return list(&session.store, &path, after.as_deref()),
        Request::Extents { path, after } => {
            let extents = session.store.extents(&path)?;
            return Ok(page::<_, ExtentEntry>(&extents, after));
        }
        Request::Zones { after } => return Ok(page::<_, ZoneEntry>(&session.store.zones(), after)),
        Request::ReadAt { file, offset, length } => {
            return read(session, file, offset, length).await;
        }
        request @ (Request::Create { .. }
        | Request::AppendTo { .. }
        | Request::OpenFile { .. }
        | Request::CloseWriter { .. }
        | Request::CloseReader { .. }) => handle(session, request).await?,
        request @ (Request::Append { .. }
        | Request::WriteAt { .. }
        | Request::Flush { .. }
        | Request::Sync { .. }
        | Request::Truncate { .. }
        | Request::Place { .. }) => write(session, request, &data).await?,
        Request::WriterLength { file } => {
            Reply::Length { bytes: session.writers.get(file.0)?.length() }
        }
        Request::ReaderLength { file } => {
            Reply::Length { bytes: session.readers.get(file.0)?.length() }
        }
        Request::Stat { path } => Reply::Stat((&session.store.metadata(&path)?).into()),
        Request::Space => Reply::Space(session.store.space()),
        request => name(&session.store, request).await?,
    };
    Ok((reply, Bytes::new()))
}

/// Opens and closes files.
async fn handle(session: &Session, request: Request) -> Result<Reply, Failure> {
    let store = &session.store;
    match request {
        Request::Create { path, is_exclusive, placement } => {
            session.check_files()?;
            let hints = placement.hints()?;
            let writer = match is_exclusive {
                true => store.create_new(&path, hints).await?,
                false => store.create(&path, hints).await?,
            };
            Ok(Reply::Opened { file: FileNumber(session.writers.add(writer)) })
        }
        Request::AppendTo { path } => {
            session.check_files()?;
            let writer = session.append_to(&path).await?;
            Ok(Reply::Opened { file: FileNumber(session.writers.add(writer)) })
        }
        Request::OpenFile { path } => {
            session.check_files()?;
            Ok(Reply::Opened { file: FileNumber(session.readers.add(store.open_file(&path)?)) })
        }
        Request::CloseWriter { file, flush } => {
            let writer = session.writers.remove(file.0)?;
            if flush {
                writer.flush().await?;
            }
            Ok(Reply::Done)
        }
        Request::CloseReader { file } => session.readers.remove(file.0).map(|_| Reply::Done),
        other => unreachable!("{other:?} opens and closes no file"),
    }
}

/// Changes files that are open for writing.
async fn write(session: &Session, request: Request, data: &[u8]) -> Result<Reply, Failure> {
    let writer = |file: FileNumber| session.writers.get(file.0);
    match request {
        Request::Append { file } => writer(file)?.append(data).await?,
        Request::WriteAt { file, offset } => writer(file)?.write_at(offset, data).await?,
        Request::Flush { file } => writer(file)?.flush().await?,
        Request::Sync { file } => writer(file)?.sync().await?,
        Request::Truncate { file, length } => writer(file)?.truncate(length).await?,
        Request::Place { file, placement } => writer(file)?.set_hints(placement.hints()?),
        other => unreachable!("{other:?} changes no open file"),
    }
    Ok(Reply::Done)
}

/// Changes names.
async fn name(store: &FileStore, request: Request) -> Result<Reply, Failure> {
    match request {
        Request::CreateDirectory { path } => store.create_directory(&path).await?,
        Request::RemoveDirectory { path } => store.remove_directory(&path).await?,
        Request::RemoveFile { path } => store.remove_file(&path).await?,
        Request::Link { file, name } => store.link(&file, &name).await?,
        Request::Rename { from, to } => store.rename(&from, &to).await?,
        other => unreachable!("{other:?} changes no name"),
    }
    Ok(Reply::Done)
}

async fn read(
    session: &Session,
    file: FileNumber,
    offset: u64,
    length: u32,
) -> Result<(Reply, Bytes), Failure> {
    let length = usize::try_from(length).ok().filter(|length| *length <= DATA_BYTES_MAX);
    let length = length.ok_or_else(|| Failure::invalid("a read of more than 1 MiB"))?;
    let reader = session.readers.get(file.0)?;
    let mut buffer = vec![0; length];
    let count = reader.read_at(offset, &mut buffer).await?;
    buffer.truncate(count);
    Ok((Reply::Done, buffer.into()))
}

/// The entries behind so many, as many as fit a frame.
fn page<T: Copy, E: From<T> + Serialize>(all: &[T], after: usize) -> (Reply, Bytes) {
    let rest = all.get(after..).unwrap_or_default();
    let entries: Vec<E> = rest.iter().take(ENTRIES_MAX).map(|entry| (*entry).into()).collect();
    let data = serde_json::to_vec(&entries).expect("entries have no maps");
    (Reply::Entries { more: rest.len() > entries.len() }, data.into())
}

/// The entries behind a name, as many as fit a frame.
fn list(store: &FileStore, path: &str, after: Option<&str>) -> Result<(Reply, Bytes), Failure> {
    let listed = store.list(path)?;
    let start = after.map_or(0, |after| listed.partition_point(|(name, _)| name.as_str() <= after));
    let rest = &listed[start..];
    let entry =
        |(name, metadata): &(String, Metadata)| Entry { name: name.clone(), stat: metadata.into() };
    let entries: Vec<Entry> = rest.iter().take(ENTRIES_MAX).map(entry).collect();
    let data = serde_json::to_vec(&entries).expect("entries have no maps");
    Ok((Reply::Entries { more: rest.len() > entries.len() }, data.into()))
}
