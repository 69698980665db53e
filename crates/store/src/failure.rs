//! Errors that leave the process: to C, or to the client of a served store. A code for programs, a
//! message for people.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use zoneweave_filestore::{OpenError, StoreError};

use crate::error::PlaceError;

/// The codes of `enum zw_fs_code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(i32)]
pub enum Code {
    /// No such file, directory, drive or store.
    NotFound = 1,
    /// The path is taken.
    Exists = 2,
    /// A part of the path is a file.
    NotADirectory = 3,
    /// The operation is for files.
    IsADirectory = 4,
    /// The directory has names.
    NotEmpty = 5,
    /// An argument is wrong.
    Invalid = 6,
    /// A drive or file is in use, or too many files are open.
    Busy = 7,
    /// No space is left that could be reclaimed.
    NoSpace = 8,
    /// A block does not verify.
    Damaged = 9,
    /// A drive failed.
    Io = 10,
    /// The store takes no more changes, or is closed.
    Stopped = 11,
    /// A bug in the library.
    Bug = 12,
    /// The server of the store does not answer, or broke the connection.
    Unreachable = 13,
    /// A drive cannot read a block.
    Unreadable = 14,
}

/// The most bytes of a message that another process is told.
const MESSAGE_BYTES_MAX: usize = 4096;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct Failure {
    /// For programs.
    pub code: Code,
    /// For people.
    pub message: String,
}

impl Failure {
    /// A failure.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// The failure with a message that fits a reply: paths in messages may be long.
    #[must_use]
    pub(crate) fn shortened(mut self) -> Self {
        if self.message.len() > MESSAGE_BYTES_MAX {
            let end = self.message.floor_char_boundary(MESSAGE_BYTES_MAX);
            self.message.truncate(end);
            self.message.push_str(" ...");
        }
        self
    }

    /// An argument is wrong.
    #[must_use]
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::Invalid, message)
    }

    /// After a panic.
    #[must_use]
    pub fn bug() -> Self {
        Self::new(Code::Bug, "a bug in zoneweave stopped this store: close it and open it again")
    }

    /// After the store was closed.
    #[must_use]
    pub fn closed() -> Self {
        Self::new(Code::Stopped, "the store is closed")
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::new(code_of(&error), error.to_string())
    }
}

fn code_of(error: &StoreError) -> Code {
    match error {
        StoreError::NotFound { .. } => Code::NotFound,
        StoreError::Exists { .. } => Code::Exists,
        StoreError::NotADirectory { .. } => Code::NotADirectory,
        StoreError::IsADirectory { .. } => Code::IsADirectory,
        StoreError::NotEmpty { .. } => Code::NotEmpty,
        StoreError::IntoItself { .. } | StoreError::BadPath { .. } | StoreError::Hole { .. } => {
            Code::Invalid
        }
        StoreError::Busy { .. } | StoreError::TooManyWriters { .. } => Code::Busy,
        StoreError::NoSpace | StoreError::MetadataFull => Code::NoSpace,
        StoreError::Damaged { .. } => Code::Damaged,
        StoreError::Unreadable { .. } => Code::Unreadable,
        StoreError::Device(_) => Code::Io,
        StoreError::WriterFailed(first) => code_of(first),
        StoreError::Stopped(_) => Code::Stopped,
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        let code = match error {
            OpenError::NoStore => Code::NotFound,
            OpenError::Device(_) => Code::Io,
            OpenError::JournalDamaged { .. } | OpenError::Inconsistent(_) => Code::Damaged,
            OpenError::MetadataFull => Code::NoSpace,
            OpenError::Version { .. }
            | OpenError::TwoStores
            | OpenError::OtherGeometry { .. }
            | OpenError::OtherLayout { .. }
            | OpenError::Unfit(_) => Code::Invalid,
        };
        Self::new(code, error.to_string())
    }
}

impl From<PlaceError> for Failure {
    fn from(error: PlaceError) -> Self {
        let code = match &error {
            error if error.is_in_use() => Code::Busy,
            PlaceError::Drive(error) if error.is_not_found() => Code::NotFound,
            PlaceError::Missing { .. } => Code::NotFound,
            PlaceError::NoDrive | PlaceError::GivenTwice { .. } | PlaceError::NoVolume => {
                Code::Invalid
            }
            PlaceError::Drive(_)
            | PlaceError::DriveFailed { .. }
            | PlaceError::Open(_)
            | PlaceError::Random(_) => Code::Io,
        };
        Self::new(code, error.to_string())
    }
}
