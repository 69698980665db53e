//! Requests to the server of a store, by the kinds of their replies.

use bytes::Bytes;
use serde::de::DeserializeOwned;
use zoneweave_filestore::{ExtentStatus, Metadata, Space, ZoneStatus};

use super::writer::{ServedWriter, Writer};
use crate::client::Client;
use crate::failure::Failure;
use crate::wire::{Entry, ExtentEntry, FileNumber, Reply, Request, ZoneEntry};

/// Most extents of a file and zones of a store that a client takes: a server that sends them
/// without end is no server. A file of 16 TiB in extents of a MiB has as many.
const EXTENTS_MOST: usize = 1 << 24;
const ZONES_MOST: usize = 1 << 20;

impl Client {
    pub(super) async fn done(&self, request: Request) -> Result<(), Failure> {
        self.done_with(request, Bytes::new()).await
    }

    pub(super) async fn done_with(&self, request: Request, data: Bytes) -> Result<(), Failure> {
        match self.call(request, data).await? {
            (Reply::Done, _) => Ok(()),
            _ => Err(self.nonsense()),
        }
    }

    pub(super) async fn opened(&self, request: Request) -> Result<FileNumber, Failure> {
        match self.call(request, Bytes::new()).await? {
            (Reply::Opened { file }, _) => Ok(file),
            _ => Err(self.nonsense()),
        }
    }

    pub(super) async fn writer(&self, request: Request) -> Result<Writer, Failure> {
        let file = self.opened(request).await?;
        Ok(Writer::Served(ServedWriter::new(self, file)))
    }

    pub(super) async fn length(&self, request: Request) -> Result<u64, Failure> {
        match self.call(request, Bytes::new()).await? {
            (Reply::Length { bytes }, _) => Ok(bytes),
            _ => Err(self.nonsense()),
        }
    }

    pub(super) async fn space(&self) -> Result<Space, Failure> {
        match self.call(Request::Space, Bytes::new()).await? {
            (Reply::Space(space), _) => Ok(space),
            _ => Err(self.nonsense()),
        }
    }

    pub(super) async fn metadata(&self, path: &str) -> Result<Metadata, Failure> {
        match self.call(Request::Stat { path: path.to_owned() }, Bytes::new()).await? {
            (Reply::Stat(stat), _) => stat.metadata(),
            _ => Err(self.nonsense()),
        }
    }

    pub(super) async fn extents(&self, path: &str) -> Result<Vec<ExtentStatus>, Failure> {
        let request =
            |all: &[ExtentEntry]| Request::Extents { path: path.to_owned(), after: all.len() };
        let entries = self.paged(request, |all, _| all.len() < EXTENTS_MOST).await?;
        Ok(entries.into_iter().map(Into::into).collect())
    }

    pub(super) async fn zones(&self) -> Result<Vec<ZoneStatus>, Failure> {
        let request = |all: &[ZoneEntry]| Request::Zones { after: all.len() };
        let entries = self.paged(request, |all, _| all.len() < ZONES_MOST).await?;
        let status = entries.iter().map(ZoneEntry::status);
        status.collect::<Option<_>>().ok_or_else(|| self.nonsense())
    }

    pub(super) async fn list(&self, path: &str) -> Result<Vec<(String, Metadata)>, Failure> {
        let name = |entry: &Entry| entry.name.clone();
        let request =
            |all: &[Entry]| Request::List { path: path.to_owned(), after: all.last().map(name) };
        // Names that ascend end some time.
        let follows =
            |all: &[Entry], next: &Entry| all.last().is_none_or(|last| last.name < next.name);
        let entries = self.paged(request, follows).await?;
        let listed = entries.into_iter().map(|Entry { name, stat }| Ok((name, stat.metadata()?)));
        listed.collect()
    }

    /// All entries of a kind, of which a reply has a part: `request` asks for those behind the
    /// entries so far, and `follows` is whether an entry may come next.
    async fn paged<E: DeserializeOwned>(
        &self,
        request: impl Fn(&[E]) -> Request,
        follows: impl Fn(&[E], &E) -> bool,
    ) -> Result<Vec<E>, Failure> {
        let mut all: Vec<E> = Vec::new();
        loop {
            let (Reply::Entries { more }, data) = self.call(request(&all), Bytes::new()).await?
            else {
                return Err(self.nonsense());
            };
            let entries: Vec<E> = serde_json::from_slice(&data).map_err(|_| self.nonsense())?;
            if more && entries.is_empty() {
                return Err(self.nonsense());
            }
            for entry in entries {
                if !follows(&all, &entry) {
                    return Err(self.nonsense());
                }
                all.push(entry);
            }
            if !more {
                return Ok(all);
            }
        }
    }
}
