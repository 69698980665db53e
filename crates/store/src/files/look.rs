//! Calls that look at a store and change nothing.

use zoneweave_filestore::{ExtentStatus, Metadata, Space, ZoneStatus};

use super::Store;
use crate::failure::Failure;

impl Store {
    /// The names in a directory, sorted. Of a served store it is no snapshot: names that come or go
    /// meanwhile may be there or not.
    ///
    /// # Errors
    /// As [`FileStore::list`](zoneweave_filestore::FileStore::list).
    pub async fn list(&self, path: &str) -> Result<Vec<(String, Metadata)>, Failure> {
        match self {
            Self::Own(store) => Ok(store.list(path)?),
            Self::Served(client) => client.list(path).await,
        }
    }

    /// The file or directory of a path.
    ///
    /// # Errors
    /// As [`FileStore::metadata`](zoneweave_filestore::FileStore::metadata).
    pub async fn metadata(&self, path: &str) -> Result<Metadata, Failure> {
        match self {
            Self::Own(store) => Ok(store.metadata(path)?),
            Self::Served(client) => client.metadata(path).await,
        }
    }

    /// The extents of a file.
    ///
    /// # Errors
    /// As [`FileStore::extents`](zoneweave_filestore::FileStore::extents).
    pub async fn extents(&self, path: &str) -> Result<Vec<ExtentStatus>, Failure> {
        match self {
            Self::Own(store) => Ok(store.extents(path)?),
            Self::Served(client) => client.extents(path).await,
        }
    }

    /// Every zone.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn zones(&self) -> Result<Vec<ZoneStatus>, Failure> {
        match self {
            Self::Own(store) => Ok(store.zones()),
            Self::Served(client) => client.zones().await,
        }
    }

    /// Space used and free.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn space(&self) -> Result<Space, Failure> {
        match self {
            Self::Own(store) => Ok(store.space()),
            Self::Served(client) => client.space().await,
        }
    }
}
