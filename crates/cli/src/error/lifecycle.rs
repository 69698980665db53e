//! Errors of the verbs that stop, rename, destroy and wipe.

use std::path::PathBuf;

use thiserror::Error;

use crate::exit::Exit;
use crate::format::{word, words};

/// Why an array was not stopped, renamed or destroyed, or a drive not wiped.
#[derive(Debug, Error)]
pub(crate) enum LifecycleError {
    #[error(
        "{name} is in use by {clients} clients, whose requests would fail: disconnect them first, or \
         repeat with --force"
    )]
    HasClients { name: String, clients: u64 },
    #[error(
        "the disk {} of {name} is mounted or in use: unmount it first, or repeat with --force",
        word(disk)
    )]
    DiskInUse { name: String, disk: String },
    #[error(
        "the server of {name} was asked to stop and has not ended after {seconds} s; these drives are \
         still in use: {}; see its log",
        words(drives)
    )]
    StillStops { name: String, seconds: u64, drives: Vec<PathBuf> },
}

impl LifecycleError {
    pub(crate) const fn exit(&self) -> Exit {
        match self {
            Self::HasClients { .. } | Self::DiskInUse { .. } => Exit::Refused,
            Self::StillStops { .. } => Exit::Unreachable,
        }
    }
}
