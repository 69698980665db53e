//! Stores and their open files, in this process or of a server.
//!
//! A call of a served store is a request to its server. Large reads and appends take several: an
//! append that fails leaves a prefix of its bytes, as in this process.

mod calls;
mod look;
mod reader;
mod writer;

use zoneweave_filestore::{FileStore, Hints};

use crate::client::Client;
use crate::failure::Failure;
use crate::wire::Request;

pub use reader::{Reader, ServedReader};
pub use writer::{ServedWriter, Writer};

/// An open store.
#[derive(Clone)]
pub enum Store {
    /// Of this process.
    Own(FileStore),
    /// Of a server.
    Served(Client),
}

impl Store {
    /// Makes a file and opens it for writing; with `is_exclusive`, unless the name is taken.
    ///
    /// # Errors
    /// As [`FileStore::create`] and [`FileStore::create_new`].
    pub async fn create(
        &self,
        path: &str,
        hints: Hints,
        is_exclusive: bool,
    ) -> Result<Writer, Failure> {
        match self {
            Self::Own(store) if is_exclusive => {
                Ok(Writer::Own(store.create_new(path, hints).await?))
            }
            Self::Own(store) => Ok(Writer::Own(store.create(path, hints).await?)),
            Self::Served(client) => {
                let placement = hints.into();
                let path = path.to_owned();
                client.writer(Request::Create { path, is_exclusive, placement }).await
            }
        }
    }

    /// Opens an existing file, to append to it.
    ///
    /// # Errors
    /// As [`FileStore::append_to`].
    pub async fn append_to(&self, path: &str) -> Result<Writer, Failure> {
        match self {
            Self::Own(store) => Ok(Writer::Own(store.append_to(path).await?)),
            Self::Served(client) => {
                client.writer(Request::AppendTo { path: path.to_owned() }).await
            }
        }
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// As [`FileStore::open_file`].
    pub async fn open_file(&self, path: &str) -> Result<Reader, Failure> {
        match self {
            Self::Own(store) => Ok(Reader::Own(store.open_file(path)?)),
            Self::Served(client) => {
                let file = client.opened(Request::OpenFile { path: path.to_owned() }).await?;
                Ok(Reader::Served(ServedReader::new(client, file)))
            }
        }
    }

    /// Makes a directory, durably.
    ///
    /// # Errors
    /// As [`FileStore::create_directory`].
    pub async fn create_directory(&self, path: &str) -> Result<(), Failure> {
        match self {
            Self::Own(store) => Ok(store.create_directory(path).await?),
            Self::Served(client) => {
                client.done(Request::CreateDirectory { path: path.to_owned() }).await
            }
        }
    }

    /// Removes an empty directory, durably.
    ///
    /// # Errors
    /// As [`FileStore::remove_directory`].
    pub async fn remove_directory(&self, path: &str) -> Result<(), Failure> {
        match self {
            Self::Own(store) => Ok(store.remove_directory(path).await?),
            Self::Served(client) => {
                client.done(Request::RemoveDirectory { path: path.to_owned() }).await
            }
        }
    }

    /// Removes a name of a file, durably.
    ///
    /// # Errors
    /// As [`FileStore::remove_file`].
    pub async fn remove_file(&self, path: &str) -> Result<(), Failure> {
        match self {
            Self::Own(store) => Ok(store.remove_file(path).await?),
            Self::Served(client) => {
                client.done(Request::RemoveFile { path: path.to_owned() }).await
            }
        }
    }

    /// Gives a file another name, durably.
    ///
    /// # Errors
    /// As [`FileStore::link`].
    pub async fn link(&self, file: &str, name: &str) -> Result<(), Failure> {
        match self {
            Self::Own(store) => Ok(store.link(file, name).await?),
            Self::Served(client) => {
                let (file, name) = (file.to_owned(), name.to_owned());
                client.done(Request::Link { file, name }).await
            }
        }
    }

    /// Moves a file or directory, durably and atomically.
    ///
    /// # Errors
    /// As [`FileStore::rename`].
    pub async fn rename(&self, from: &str, to: &str) -> Result<(), Failure> {
        match self {
            Self::Own(store) => Ok(store.rename(from, to).await?),
            Self::Served(client) => {
                let (from, to) = (from.to_owned(), to.to_owned());
                client.done(Request::Rename { from, to }).await
            }
        }
    }

    /// The label.
    #[must_use]
    pub fn label(&self) -> String {
        match self {
            Self::Own(store) => store.label(),
            Self::Served(client) => client.label().to_owned(),
        }
    }

    /// Takes no more changes, if it is a store of this process.
    pub fn close(&self) {
        if let Self::Own(store) = self {
            store.close();
        }
    }
}
