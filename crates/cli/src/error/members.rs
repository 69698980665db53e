//! Errors of drives that are no members: to become some, or by mistake.

use std::path::PathBuf;

use thiserror::Error;
use zoneweave_zoned::Status;

use super::advice::{also, without};
use crate::exit::Exit;
use crate::format::{self, bytes, word};

/// Why a drive does not become a member, or an array is not made of new ones.
#[derive(Debug, Error)]
pub(crate) enum NewMemberError {
    #[error(
        "there is no space left for {}: {} has {} free, and a write takes up to {}; nothing was changed: \
         free some space there, and repeat this",
        word(label), folder.display(), bytes(*free), bytes(*needed)
    )]
    NoSpace { label: String, folder: PathBuf, free: u64, needed: u64 },
    #[error(
        "{}, and the drive of slot {slot} of array {name} is missing; the array was not started \
         and nothing was changed: give the right drive (is its file system mounted?), or start without \
         it, and the first write takes slot {slot} out of service: {}",
        strangers.iter().map(|(label, holds)| format!("{label} {holds}")).collect::<Vec<_>>().join("; "),
        without(&strangers.iter().map(|(label, _)| label.clone()).collect::<Vec<_>>())
    )]
    Strangers { strangers: Vec<(String, String)>, name: String, slot: usize },
    #[error(
        "the drive of slot {slot} ({drive}) does not return blocks that the rebuild needs ({status}): the new \
         drive keeps its place, and the rebuild is tried again"
    )]
    SourceFailed { slot: usize, drive: String, status: Status },
    #[error("{error}{}", also(others))]
    Several { error: Box<super::CliError>, others: Vec<String> },
    #[error(
        "array {name} has a zoned volume, whose drives cannot be put back: take a drive out with \
         `zoneweave array fail`, and replace it with `zoneweave array replace`, which takes the same drive \
         too and rebuilds it"
    )]
    NoReturn { name: String },
    #[error(
        "no drive of {} of array {name} was given: name all drives of the store's volume{}",
        format::slots(slots),
        if *starts {
            ", or, if some are lost, serve the store without them, and the first write takes them out \
             of service: `zoneweave fs serve STORE --without any`"
        } else {
            "; without them too few are left"
        }
    )]
    StoreIncomplete { name: String, slots: Vec<u8>, starts: bool },
    #[error(
        "shard {shard} of this volume has {label} {}",
        if *in_service {
            "in service: give another drive"
        } else {
            "open, as a spare or a drive that has failed: give another drive, or take a spare back with \
             `zoneweave array spare remove`"
        }
    )]
    OfSibling { label: String, shard: u8, in_service: bool },
    #[error(
        "{label} is the drive of slot {slot} of this array, which was not given at the start and has missed \
         no write yet: give another drive{}",
        match is_zoned {
            true => format!(", or restart the server with it, and slot {slot} is whole again"),
            false => format!(
                ", or put it back: `zoneweave array online DRIVE --slot {slot} --with {}`", word(label)
            ),
        }
    )]
    OfOtherSlot { label: String, slot: u8, is_zoned: bool },
    #[error("{reason}; {error}")]
    Unopened { reason: String, error: Box<super::CliError> },
    #[error("{error}; what these drives held was erased: {}", erased.join("; "))]
    Erased { error: Box<super::CliError>, erased: Vec<String> },
}

impl NewMemberError {
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::NoSpace { .. } | Self::SourceFailed { .. } => Exit::Failed,
            Self::Strangers { .. }
            | Self::NoReturn { .. }
            | Self::StoreIncomplete { .. }
            | Self::OfOtherSlot { .. }
            | Self::OfSibling { .. } => Exit::Refused,
            Self::Unopened { error, .. }
            | Self::Erased { error, .. }
            | Self::Several { error, .. } => error.exit(),
        }
    }
}

impl super::CliError {
    /// Adds why a drive that was given could not be opened: it may be the one that is missing.
    pub(crate) fn because_of(self, unopened: Option<String>) -> Self {
        match unopened {
            None => self,
            Some(reason) => NewMemberError::Unopened { reason, error: Box::new(self) }.into(),
        }
    }
}
