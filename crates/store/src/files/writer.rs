//! Files that are open for writing.

use bytes::Bytes;
use zoneweave_filestore::{FileWriter, Hints};
use zoneweave_runtime::Semaphore;

use crate::client::Client;
use crate::failure::Failure;
use crate::wire::{DATA_BYTES_MAX, FileNumber, Request};

/// A file that is open for writing, as [`FileWriter`].
pub enum Writer {
    /// Of a store of this process.
    Own(FileWriter),
    /// Of a served store.
    Served(ServedWriter),
}

/// A file that is open for writing at a server.
pub struct ServedWriter {
    client: Client,
    file: FileNumber,
    /// Held by a call of several requests, which no other may separate.
    turn: Semaphore,
    /// Whether the server has closed it.
    is_closed: bool,
}

impl Writer {
    /// Appends bytes.
    ///
    /// # Errors
    /// As [`FileWriter::append`].
    pub async fn append(&self, data: &[u8]) -> Result<(), Failure> {
        match self {
            Self::Own(writer) => Ok(writer.append(data).await?),
            Self::Served(writer) => {
                let _turn = writer.turn.acquire().await;
                writer.append_pieces(data).await
            }
        }
    }

    /// Cuts the file at a byte, and appends bytes.
    ///
    /// # Errors
    /// As [`FileWriter::write_at`].
    pub async fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), Failure> {
        match self {
            Self::Own(writer) => Ok(writer.write_at(offset, data).await?),
            Self::Served(writer) => {
                let _turn = writer.turn.acquire().await;
                let (first, rest) = data.split_at(data.len().min(DATA_BYTES_MAX));
                let request = Request::WriteAt { file: writer.file, offset };
                writer.client.done_with(request, Bytes::copy_from_slice(first)).await?;
                writer.append_pieces(rest).await
            }
        }
    }

    /// Hands all bytes to the drive.
    ///
    /// # Errors
    /// As [`FileWriter::flush`].
    pub async fn flush(&self) -> Result<(), Failure> {
        match self {
            Self::Own(writer) => Ok(writer.flush().await?),
            Self::Served(writer) => writer.done(Request::Flush { file: writer.file }).await,
        }
    }

    /// Makes all bytes durable.
    ///
    /// # Errors
    /// As [`FileWriter::sync`].
    pub async fn sync(&self) -> Result<(), Failure> {
        match self {
            Self::Own(writer) => Ok(writer.sync().await?),
            Self::Served(writer) => writer.done(Request::Sync { file: writer.file }).await,
        }
    }

    /// Cuts the file, durably.
    ///
    /// # Errors
    /// As [`FileWriter::truncate`].
    pub async fn truncate(&self, length: u64) -> Result<(), Failure> {
        match self {
            Self::Own(writer) => Ok(writer.truncate(length).await?),
            Self::Served(writer) => {
                writer.done(Request::Truncate { file: writer.file, length }).await
            }
        }
    }

    /// Sets hints for the placement of later blocks.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn set_hints(&self, hints: Hints) -> Result<(), Failure> {
        match self {
            Self::Own(writer) => {
                writer.set_hints(hints);
                Ok(())
            }
            Self::Served(writer) => {
                let placement = hints.into();
                writer.done(Request::Place { file: writer.file, placement }).await
            }
        }
    }

    /// The length of the file, buffered bytes included.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn length(&self) -> Result<u64, Failure> {
        match self {
            Self::Own(writer) => Ok(writer.length()),
            Self::Served(writer) => {
                let _turn = writer.turn.acquire().await;
                writer.client.length(Request::WriterLength { file: writer.file }).await
            }
        }
    }

    /// Writes all bytes to the drive and ends the handle. It does not make them durable.
    ///
    /// # Errors
    /// As [`FileWriter::close`].
    pub async fn close(self) -> Result<(), Failure> {
        match self {
            Self::Own(writer) => Ok(writer.close().await?),
            Self::Served(mut writer) => {
                writer.is_closed = true;
                writer.done(Request::CloseWriter { file: writer.file, flush: true }).await
            }
        }
    }
}

impl ServedWriter {
    /// A handle of a file that the server has just opened.
    pub(super) fn new(client: &Client, file: FileNumber) -> Self {
        Self { client: client.clone(), file, turn: Semaphore::new(1), is_closed: false }
    }

    async fn done(&self, request: Request) -> Result<(), Failure> {
        let _turn = self.turn.acquire().await;
        self.client.done(request).await
    }

    async fn append_pieces(&self, data: &[u8]) -> Result<(), Failure> {
        for piece in data.chunks(DATA_BYTES_MAX) {
            let request = Request::Append { file: self.file };
            self.client.done_with(request, Bytes::copy_from_slice(piece)).await?;
        }
        Ok(())
    }
}

impl Drop for ServedWriter {
    fn drop(&mut self) {
        if !self.is_closed {
            self.client.tell(Request::CloseWriter { file: self.file, flush: false });
        }
    }
}
