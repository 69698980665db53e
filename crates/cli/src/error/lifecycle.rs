//! Errors of the verbs that stop, rename, destroy and wipe.

use std::path::PathBuf;

use thiserror::Error;

use crate::exit::Exit;
use crate::format::{slots, word, words};

/// Why an array was not stopped, renamed or destroyed, or a drive not wiped.
#[derive(Debug, Error)]
pub(crate) enum LifecycleError {
    #[error(
        "{name} is in use by {clients} clients, whose requests would fail: disconnect them first, or \
         repeat with --force"
    )]
    HasClients { name: String, clients: u64 },
    #[error(
        "the server of {name} gives no status, as a drive may hang: whether clients use it is unknown; to stop it \
         nevertheless, repeat with --force"
    )]
    NoStatus { name: String },
    #[error(
        "the disk {} of {name} is mounted or in use: unmount it first, or repeat with --force",
        word(disk)
    )]
    DiskInUse { name: String, disk: String },
    #[error(
        "the next start would not have the drives of {}, which cannot be read on media any more: without slot \
         {slot} too few would be left. Replace them first, while the server can read them: `zoneweave array \
         replace DRIVE --slot {} --with NEWDRIVE --yes-destroy`; or repeat with --force",
        slots(others), others.first().copied().unwrap_or_default()
    )]
    OthersNotOnMedia { slot: usize, others: Vec<u8> },
    #[error(
        "the drive of slot {slot} cannot be read on media any more, and would not open again: replace it, \
         while the server can read it: `zoneweave array replace DRIVE --slot {slot} --with NEWDRIVE \
         --yes-destroy`; or repeat with --force"
    )]
    NotOnMedia { slot: usize },
    #[error(
        "the next start of {name} would not have the drives of {}, as the headers of their files were \
         overwritten: replace them first, while the server can read them: `zoneweave array replace DRIVE \
         --slot {} --with NEWDRIVE --yes-destroy`; or repeat with --force",
        slots(lost), lost.first().copied().unwrap_or_default()
    )]
    LosesDrives { name: String, lost: Vec<u8> },
    #[error(
        "array {name} is being served (by the server at {}): stop it first, with `zoneweave array stop {}`",
        socket.display(), word(name)
    )]
    Served { name: String, socket: PathBuf },
    #[error("{label} {what}, and is no drive of array {name}: give the drives of one array only")]
    Stranger { label: String, what: String, name: String },
    #[error(
        "{what} of array {name} not found, and would keep their superblocks: give all drives, or destroy \
         the others with --force if these are gone, or erased by an attempt that was interrupted"
    )]
    Absent { name: String, what: String },
    #[error(
        "this would destroy {what}: repeat with --yes, or see what would be erased with --dry-run"
    )]
    NotAgreed { what: String },
    #[error(
        "{}; nothing was changed: repair these drives, or destroy the others with --force",
        problems.join("; ")
    )]
    Unmarkable { problems: Vec<String> },
    #[error(
        "{}; nothing was erased. {}", problems.join("; "), match marked.is_empty() {
            true => "No drive is marked, and the array is as it was".to_owned(),
            false => format!(
                "{} marked to be erased, and the array does not start again: repeat this, or destroy the \
                 marked drives with --force", are(marked)
            ),
        }
    )]
    NotMarked { marked: Vec<String>, problems: Vec<String> },
    #[error(
        "{}; {} erased. Repeat this, or erase what can be erased of a drive that is left: `zoneweave drive \
         wipe --force DRIVE`", problems.join("; "), are(erased)
    )]
    NotErased { erased: Vec<String>, problems: Vec<String> },
    #[error(
        "{label} is a member of array {name} ({uuid}), which would lose it: `zoneweave array destroy` erases \
         all members; repeat with --force to erase this drive alone"
    )]
    IsMember { label: String, name: String, uuid: String },
    #[error("{label} holds {holds}, and a spare must be blank: `zoneweave drive wipe` erases it")]
    NotBlank { label: String, holds: String },
    #[error("{label} is no spare that waits: `zoneweave array status` lists the spares")]
    NoSpare { label: String },
    #[error("{label} was not erased: {problem}")]
    NotWiped { label: String, problem: String },
    #[error("an array called {name} is here already ({uuid}): choose another name")]
    NameTaken { name: String, uuid: String },
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
            Self::HasClients { .. }
            | Self::NoStatus { .. }
            | Self::DiskInUse { .. }
            | Self::OthersNotOnMedia { .. }
            | Self::NotOnMedia { .. }
            | Self::LosesDrives { .. }
            | Self::Served { .. }
            | Self::Stranger { .. }
            | Self::Absent { .. }
            | Self::Unmarkable { .. }
            | Self::NotAgreed { .. }
            | Self::IsMember { .. }
            | Self::NotBlank { .. }
            | Self::NameTaken { .. } => Exit::Refused,
            Self::StillStops { .. } => Exit::Unreachable,
            Self::NoSpare { .. } => Exit::NotFound,
            Self::NotMarked { .. } | Self::NotErased { .. } | Self::NotWiped { .. } => Exit::Failed,
        }
    }
}

/// The drives, and the verb that fits their number.
fn are(drives: &[String]) -> String {
    match drives {
        [] => "no drive is".to_owned(),
        [one] => format!("{one} is"),
        _ => format!("{} are", drives.join(", ")),
    }
}
