//! Files that are open for reading.

use bytes::Bytes;
use zoneweave_filestore::FileReader;

use crate::client::Client;
use crate::failure::Failure;
use crate::wire::{DATA_BYTES_MAX, FileNumber, Request};

/// A file that is open for reading, as [`FileReader`].
pub enum Reader {
    /// Of a store of this process.
    Own(FileReader),
    /// Of a served store.
    Served(ServedReader),
}

/// A file that is open for reading at a server.
pub struct ServedReader {
    client: Client,
    file: FileNumber,
}

impl Reader {
    /// Reads bytes from `offset` on; returns how many, fewer than the buffer takes only at the end
    /// of the file.
    ///
    /// # Errors
    /// As [`FileReader::read_at`].
    pub async fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize, Failure> {
        match self {
            Self::Own(reader) => Ok(reader.read_at(offset, into).await?),
            Self::Served(reader) => reader.read_at(offset, into).await,
        }
    }

    /// The length of the file.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn length(&self) -> Result<u64, Failure> {
        match self {
            Self::Own(reader) => Ok(reader.length()),
            Self::Served(reader) => {
                reader.client.length(Request::ReaderLength { file: reader.file }).await
            }
        }
    }
}

impl ServedReader {
    /// A handle of a file that the server has just opened.
    pub(super) fn new(client: &Client, file: FileNumber) -> Self {
        Self { client: client.clone(), file }
    }

    async fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize, Failure> {
        let mut done = 0;
        for piece in into.chunks_mut(DATA_BYTES_MAX) {
            let length = u32::try_from(piece.len()).expect("at most 1 MiB");
            let offset = offset.saturating_add(done as u64);
            let request = Request::ReadAt { file: self.file, offset, length };
            let (_, data) = self.client.call(request, Bytes::new()).await?;
            let Some(room) = piece.get_mut(..data.len()) else {
                return Err(self.client.nonsense());
            };
            room.copy_from_slice(&data);
            done += data.len();
            if data.len() < piece.len() {
                break;
            }
        }
        Ok(done)
    }
}

impl Drop for ServedReader {
    fn drop(&mut self) {
        self.client.tell(Request::CloseReader { file: self.file });
    }
}
