//! What goes wrong, in words that say what to do, and the exit code that scripts see.

use std::io;
use std::path::PathBuf;

use thiserror::Error;
use zoneweave_linux::fuse::FuseError;
use zoneweave_linux::nbd::{EndpointError, ServeError};
use zoneweave_linux::ublk::UblkError;
use zoneweave_linux::{DriveError, FileDriveError, RingError};
use zoneweave_raid::log::{AdminError, CreateError, OpenError, ReplaceError};
use zoneweave_sim::characterize::CharacterizeError;
use zoneweave_sim::experiments::ExperimentError;
use zoneweave_sim::replay::TraceError;
use zoneweave_sim::workload::WorkloadError;
use zoneweave_zoned::{BlockError, Lba, Status};

use crate::exit::Exit;
use crate::format;
use crate::status::shard::ShardStatus;

/// Why a command ended early.
#[derive(Debug, Error)]
pub(crate) enum CliError {
    #[error(transparent)]
    Drive(#[from] DriveError),
    #[error(transparent)]
    Ring(#[from] RingError),
    #[error(transparent)]
    Create(#[from] CreateError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Replace(#[from] ReplaceError),
    #[error(transparent)]
    Admin(#[from] AdminError),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    #[error(transparent)]
    Ublk(#[from] UblkError),
    #[error(transparent)]
    Fuse(#[from] FuseError),
    #[error(transparent)]
    Characterize(#[from] CharacterizeError),
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    #[error("{}: {error}", path.display())]
    Trace { path: PathBuf, error: TraceError },
    #[error("the volume failed: {0}")]
    Block(#[from] BlockError),
    #[error("{label} failed: {status}")]
    DriveFailed { label: String, status: Status },
    #[error("{}: cannot {action}: {error}", path.display())]
    File { path: PathBuf, action: &'static str, error: io::Error },
    #[error("cannot {action}: {error}")]
    System { action: &'static str, error: io::Error },
    /// `option` is without its dashes, or an argument in angle brackets.
    #[error("{}{option}: {problem}", if option.starts_with('<') { "" } else { "--" })]
    Usage { option: &'static str, problem: String },
    #[error("none of the drives could be opened: {first}")]
    NoDrives { first: DriveError },
    #[error("none of these drives belongs to an array; `zoneweave array create` makes one")]
    NoArray,
    #[error(
        "{label} holds {holds}: it would be destroyed; check that this is the drive you mean, then \
         repeat with {option}"
    )]
    NotEmpty { label: String, holds: String, option: String },
    #[error(
        "{label} hides the metadata beside the drive's blocks: name its character device, {}",
        instead.display()
    )]
    HidesMetadata { label: String, instead: PathBuf },
    #[error("nothing was changed: the name typed was not {name}")]
    NotConfirmed { name: String },
    #[error("{} is given twice: name each drive once", path.display())]
    GivenTwice { path: PathBuf },
    #[error(
        "slot {slot} is {state} ({drive}): a new drive would take the place of one that works, and until it \
         is rebuilt the array would have less redundancy; take the old one out with `zoneweave \
         array fail DRIVE... --slot {slot}` first, or repeat with --yes-destroy"
    )]
    SlotInService { slot: usize, state: &'static str, drive: String },
    #[error(
        "{drive} cannot be a spare of array {name}: {error}; nothing was started: leave it out, or give another one"
    )]
    SpareUnfit { drive: String, name: String, error: ReplaceError },
    #[error("{label} is in service in this array: choose a drive that is not")]
    InService { label: String },
    #[error(
        "{problem}; no server answers at {}: if one was started with another ZONEWEAVE_RUNTIME_DIR or by \
         another user, use the same here", socket.display()
    )]
    NoServer { problem: String, socket: PathBuf },
    #[error("the server at {} does not answer as it should: {problem}", socket.display())]
    ServerBroken { socket: PathBuf, problem: String },
    #[error(
        "the server at {} is run by user {user}, and is not believed: repeat this as that user if the server is \
         to be trusted, or set ZONEWEAVE_RUNTIME_DIR to a directory that only you can write to",
        socket.display()
    )]
    ServerOfAnother { socket: PathBuf, user: u32 },
    #[error(
        "this array is not being served, and only a running server knows {what}: start \
         `zoneweave serve nbd`"
    )]
    NotServed { what: &'static str },
    #[error("{message}")]
    Remote { exit: Exit, message: String },
    #[error(
        "array {name} is being served (its server answers at {}): the checker reads raw media; stop the \
         server first", socket.display()
    )]
    Served { name: String, socket: PathBuf },
    #[error(
        "whether array {name} is whole cannot be told: {why}; name all of its drives, also those that are gone if \
         you want to know what of it is lost"
    )]
    FewNamed { name: String, why: String },
    #[error(
        "slot {slot} of array {name} is missing: changing the array without it would put it out \
         of service for good; give its drive too, or, if it is gone, replace it with `zoneweave \
         array replace DRIVE... --slot {slot} --with NEWDRIVE`"
    )]
    Incomplete { name: String, slot: u8 },
    #[error(
        "{} of array {name} are missing: changing the array without them would put them out of service for good; \
         give their drives too{}", format::slots(slots), if_gone(slots, *starts)
    )]
    SeveralMissing { name: String, slots: Vec<u8>, starts: bool },
    #[error(
        "volume {name} has {of} shards, and no drive of shard {number} is named: name the drives of all of them"
    )]
    MissingShard { name: String, number: usize, of: usize },
    #[error(
        "these drives are of several shards of volume {name}, each an array of its own: name those of one{shards}"
    )]
    SeveralShards { name: String, shards: String },
    #[error(
        "these drives are of several arrays, as many of another as of {name}: {others}; name those of one array"
    )]
    SeveralArrays { name: String, others: String },
    #[error("{shard}: {error}")]
    OfShard { shard: ShardStatus, error: Box<CliError> },
    #[error(
        "{shard}: {error}; the shards before it were made, and there is no volume: make it again with --yes-destroy, or --destroy for real drives"
    )]
    HalfMade { shard: ShardStatus, error: CreateError },
    #[error("the drives given as shard {number} are of array {found}: nothing was started")]
    OtherShard { number: usize, found: String },
    #[error("{}: {problem}", path.display())]
    RuntimeDirectory { path: PathBuf, problem: String },
    #[error("{what} does not exist: {range}")]
    OutOfRange { what: String, range: String },
    #[error("the volume is broken: block {} is read, and not as it was written", at.0)]
    ReadWrong { at: Lba },
    #[error("step {step} of the demonstration found something wrong: {problem}")]
    Demonstration { step: usize, problem: String },
}

impl From<FileDriveError> for CliError {
    fn from(error: FileDriveError) -> Self {
        DriveError::from(error).into()
    }
}

impl From<WorkloadError> for CliError {
    fn from(error: WorkloadError) -> Self {
        ExperimentError::from(error).into()
    }
}

impl CliError {
    /// The same, told of a shard where a volume has several.
    pub(crate) fn of(self, shard: Option<ShardStatus>) -> Self {
        match shard {
            Some(shard) => Self::OfShard { shard, error: Box::new(self) },
            None => self,
        }
    }

    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Drive(error) | Self::NoDrives { first: error } => drive_exit(error),
            Self::Open(OpenError::NoArray)
            | Self::NoArray
            | Self::FewNamed { .. }
            | Self::OutOfRange { .. } => Exit::NotFound,
            Self::Open(
                OpenError::NoQuorum { .. }
                | OpenError::Duplicate { .. }
                | OpenError::Unaccounted { .. },
            )
            | Self::Create(CreateError::NotEmpty { .. })
            | Self::Admin(AdminError::WouldLoseData { .. } | AdminError::WouldStop { .. })
            | Self::Replace(
                ReplaceError::Admin(
                    AdminError::WouldLoseData { .. } | AdminError::WouldStop { .. },
                )
                | ReplaceError::AlreadyRebuilding { .. }
                | ReplaceError::FilledMeanwhile { .. },
            )
            | Self::NotEmpty { .. }
            | Self::NotConfirmed { .. }
            | Self::InService { .. }
            | Self::SlotInService { .. }
            | Self::Incomplete { .. }
            | Self::SeveralMissing { .. }
            | Self::MissingShard { .. }
            | Self::OtherShard { .. }
            | Self::SeveralShards { .. }
            | Self::SeveralArrays { .. }
            | Self::Served { .. } => Exit::Refused,
            Self::Create(CreateError::WrongCount { .. } | CreateError::NameTooLong { .. })
            | Self::Create(CreateError::GroupRows { .. } | CreateError::Limit(_))
            | Self::Experiment(ExperimentError::Create(_) | ExperimentError::Open(_))
            | Self::Experiment(ExperimentError::Geometry(_) | ExperimentError::Preset(_))
            | Self::Usage { .. }
            | Self::HidesMetadata { .. }
            | Self::GivenTwice { .. } => Exit::Usage,
            Self::Admin(AdminError::NoSuchSlot { .. })
            | Self::Replace(ReplaceError::Admin(AdminError::NoSuchSlot { .. })) => Exit::NotFound,
            Self::NoServer { .. }
            | Self::ServerBroken { .. }
            | Self::ServerOfAnother { .. }
            | Self::NotServed { .. } => Exit::Unreachable,
            Self::Block(BlockError::Unrecoverable { .. }) | Self::ReadWrong { .. } => {
                Exit::DataLost
            }
            Self::Remote { exit, .. } => *exit,
            Self::OfShard { error, .. } => error.exit(),
            Self::File { error, .. } if error.kind() == io::ErrorKind::NotFound => Exit::NotFound,
            _ => Exit::Failed,
        }
    }
}

/// What to do without the drives of several slots, where the array starts without them.
fn if_gone(slots: &[u8], starts: bool) -> String {
    match slots.first().filter(|_| starts) {
        None => String::new(),
        Some(first) => format!(
            ", or, if they are gone, start a server without them, which puts them out of service, and give each slot a new \
             drive while it runs: `zoneweave array replace DRIVE --slot {first} --with NEWDRIVE`"
        ),
    }
}

/// Turns a complaint about an argument into an error.
pub(crate) fn usage(option: &'static str) -> impl FnOnce(String) -> CliError {
    move |problem| CliError::Usage { option, problem }
}

fn drive_exit(error: &DriveError) -> Exit {
    if error.is_not_found() {
        Exit::NotFound
    } else if error.is_refusal() {
        Exit::Refused
    } else {
        Exit::Failed
    }
}
