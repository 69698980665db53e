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
        let request = |after| Request::Extents { path: path.to_owned(), after };
        let entries: Vec<ExtentEntry> = self.paged(request, EXTENTS_MOST).await?;
        Ok(entries.into_iter().map(Into::into).collect())
    }

    pub(super) async fn zones(&self) -> Result<Vec<ZoneStatus>, Failure> {
        let entries: Vec<ZoneEntry> =
            self.paged(|after| Request::Zones { after }, ZONES_MOST).await?;
        let status = entries.iter().map(ZoneEntry::status);
        status.collect::<Option<_>>().ok_or_else(|| self.nonsense())
    }

    /// All entries of a kind, of which a reply has a part; at most so many.
    async fn paged<E: DeserializeOwned>(
        &self,
        request: impl Fn(usize) -> Request,
        most: usize,
    ) -> Result<Vec<E>, Failure> {
        let mut all: Vec<E> = Vec::new();
        loop {
            let (Reply::Entries { more }, data) =
                self.call(request(all.len()), Bytes::new()).await?
            else {
                return Err(self.nonsense());
            };
            let entries: Vec<E> = serde_json::from_slice(&data).map_err(|_| self.nonsense())?;
            if (more && entries.is_empty()) || all.len() + entries.len() > most {
                return Err(self.nonsense());
            }
            all.extend(entries);
            if !more {
                return Ok(all);
            }
        }
    }

    pub(super) async fn list(&self, path: &str) -> Result<Vec<(String, Metadata)>, Failure> {
        let mut listed: Vec<(String, Metadata)> = Vec::new();
        loop {
            let after = listed.last().map(|(name, _)| name.clone());
            let request = Request::List { path: path.to_owned(), after };
            let (Reply::Entries { more }, data) = self.call(request, Bytes::new()).await? else {
                return Err(self.nonsense());
            };
            let entries: Vec<Entry> = serde_json::from_slice(&data).map_err(|_| self.nonsense())?;
            let follows = |entries: &[Entry], last: Option<&(String, Metadata)>| {
                entries.first().zip(last).is_none_or(|(first, last)| first.name > last.0)
            };
            if (more && entries.is_empty()) || !follows(&entries, listed.last()) {
                return Err(self.nonsense());
            }
            for Entry { name, stat } in entries {
                listed.push((name, stat.metadata()?));
            }
            if !more {
                return Ok(listed);
            }
        }
    }
}
