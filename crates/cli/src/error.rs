//! Errors of commands. Each message says what failed and what to do; each error has an exit code.

mod advice;
mod lifecycle;
mod members;

use std::io;
use std::path::PathBuf;

use thiserror::Error;
use zoneweave_filestore::{FormatError, StoreError};
use zoneweave_linux::Signal;
use zoneweave_linux::fuse::FuseError;
use zoneweave_linux::nbd::{EndpointError, ExportError};
use zoneweave_linux::ublk::UblkError;
use zoneweave_linux::{DriveError, FileDriveError, RingError};
use zoneweave_raid::log::{
    AdminError, AssemblyError, CreateError, MemberHealth, OpenError, ReplaceError,
};
use zoneweave_raid::raizn;
use zoneweave_sim::characterize::CharacterizeError;
use zoneweave_sim::experiments::ExperimentError;
use zoneweave_sim::file_replay::FileReplayError;
use zoneweave_sim::replay::TraceError;
use zoneweave_sim::workload::WorkloadError;
use zoneweave_store::{Code, Failure, PlaceError};
use zoneweave_zoned::{BlockError, Lba, Status, ZoneId};

use crate::exit::Exit;
use crate::format;
use crate::status::shard::ShardStatus;
pub(crate) use advice::LeftOut;
use advice::{also, make_usable, rest_advice, zone_advice};
pub(crate) use lifecycle::LifecycleError;
pub(crate) use members::NewMemberError;

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
    Store(#[from] Failure),
    #[error(transparent)]
    OpenStore(#[from] zoneweave_filestore::OpenError),
    #[error(transparent)]
    FormatStore(#[from] FormatError),
    #[error(
        "{path} changed while the store was copied: end the writers and repeat, or let the database \
         make its own backup"
    )]
    StoreChanged { path: String },
    #[error("{error}; to overwrite them, repeat with --yes-destroy")]
    StoreInTheWay { error: FormatError },
    #[error(transparent)]
    CreateZoned(#[from] raizn::CreateError),
    #[error(transparent)]
    OpenZoned(#[from] raizn::OpenError),
    #[error(transparent)]
    ReplaceZoned(#[from] raizn::ReplaceError),
    #[error(transparent)]
    Admin(#[from] AdminError),
    #[error(
        "none of these drives has a zoned volume; create one with `zoneweave array create --kind zoned`"
    )]
    NotZoned,
    #[error("{zone} of the volume: {status}{}", zone_advice(*status))]
    Zone { zone: ZoneId, status: Status },
    #[error(
        "{zone} of the volume: {status}; the first {written_bytes} bytes of the input were written{}",
        rest_advice(*status)
    )]
    ZoneRest { zone: ZoneId, status: Status, written_bytes: u64 },
    #[error(
        "{zone} of the volume: the block at byte {at} of the zone, byte {offset} of the volume, can be \
         neither read nor rebuilt: see `zoneweave array status`"
    )]
    ZoneBlock { zone: ZoneId, at: u64, offset: u64 },
    #[error(
        "a server uses the volume and answers at {socket}: stop it first",
        socket = socket.display()
    )]
    ZonedServed { socket: PathBuf },
    #[error(
        "the volume is not served, and zones stay open only as long as a server has it: start \
         `zoneweave serve zoned`"
    )]
    ZonesNotServed,
    #[error("array {name} has a zoned volume, which this cannot use: see `zoneweave zoned`")]
    IsZoned { name: String },
    #[error(
        "array {name} has a zoned volume, and {front} has no zones: serve it with `zoneweave serve ublk` \
         as a zoned disk of the kernel, or with `zoneweave serve zoned`"
    )]
    WithoutZones { front: &'static str, name: String },
    #[error(
        "the volume is the kernel's disk {disk}, and the command could destroy what is on it: use the \
         disk, e.g. with `blkzone`, or serve the volume with `zoneweave serve zoned` alone"
    )]
    IsDisk { disk: String },
    #[error("the zones hold a file store that is served at {socket}: use `zoneweave fs`")]
    HoldsStore { socket: String },
    #[error(
        "hosts are connected to the volume by NVMe/TCP ({hosts}), and the command could destroy their data: \
         disconnect them first (`nvme disconnect -n NQN`)"
    )]
    IsConnected { hosts: usize },
    #[error("the volume took no more writes: {reason}; what was not flushed may be lost")]
    StoppedZoned { reason: String },
    #[error(transparent)]
    Export(#[from] ExportError),
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
    #[error("{}: {error}", path.display())]
    FileTrace { path: PathBuf, error: FileReplayError },
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
    #[error(
        "`zoneweave top` needs a terminal for its input and its output; for files and pipes there are \
         `zoneweave iostat` and `zoneweave array status`, with and without --json"
    )]
    NoTerminal,
    /// Each with its file and line.
    #[error("{}", problems.join("\n"))]
    Config { problems: Vec<String> },
    #[error(
        "{} has no table [volume.{name}]{}", path.display(),
        if volumes.is_empty() { String::new() } else { format!("; its volumes: {}", volumes.join(", ")) }
    )]
    NoVolume { path: PathBuf, name: String, volumes: Vec<String> },
    #[error(
        "no drive of array {array} was found among the zoned drives of this machine: name its drives, \
         or folders to search (`zoneweave array list` shows the array of each drive)"
    )]
    NoSuchArray { array: String },
    #[error(
        "{missing} drives of array {array} were not found, and a start without them would take them \
         out of service; nothing was started: wait longer for them (--wait), or start without those \
         that are gone (--without any)"
    )]
    MembersMissing { array: String, missing: usize },
    #[error("two arrays are called {name}: name one by its UUID ({})", arrays.join(", "))]
    SameName { name: String, arrays: [String; 2] },
    #[error("none of the drives could be opened: {first}")]
    NoDrives { first: DriveError },
    #[error(
        "{error}{}; the array was not started and nothing was changed: {}",
        also(others),
        make_usable(left_out)
    )]
    Unopened { error: DriveError, others: Vec<String>, left_out: Box<LeftOut> },
    #[error(
        "{}; the array was not started and nothing was changed: {}", problems.join("; "), make_usable(left_out)
    )]
    Unreadable { problems: Vec<String>, left_out: LeftOut },
    #[error(
        "this process may open {limit} files, which leaves {left} for clients and {needed} are \
         needed: raise the limit, e.g. with `ulimit -n 1024` (LimitNOFILE= of a unit)"
    )]
    FewDescriptors { limit: u64, left: u64, needed: u64 },
    /// A signal ended a start.
    #[error("stopped before the array was served")]
    Stopped { signal: Signal },
    #[error("none of these drives belongs to an array; create one with `zoneweave array create`")]
    NoArray,
    #[error(
        "{label} holds {holds}, which would be destroyed: check that this is the right drive, then \
         repeat with {option}"
    )]
    NotEmpty { label: String, holds: String, option: String },
    #[error(
        "{label} gives no access to per-block metadata: use the drive's character device, {}",
        instead.display()
    )]
    HidesMetadata { label: String, instead: PathBuf },
    #[error("the name typed is not {name}: nothing was changed")]
    NotConfirmed { name: String },
    #[error("{} is given twice: give each drive once", path.display())]
    GivenTwice { path: PathBuf },
    #[error(
        "slot {slot} is online ({drive}): replacing a working drive reduces redundancy until the new \
         one is rebuilt; take it out of service with `zoneweave array fail DRIVE... --slot {slot}` \
         first, or repeat with --yes-destroy"
    )]
    SlotInService { slot: usize, drive: String },
    #[error(
        "slot {slot} is {state} already{}",
        if drive.is_empty() { String::new() } else { format!(" ({drive})") }
    )]
    NotVacant { slot: usize, drive: String, state: MemberHealth },
    #[error("the last drive of slot {slot} is not known: name it, with --with DRIVE")]
    NoFormerDrive { slot: usize },
    #[error("no scrub runs, and none waits")]
    NoScrub,
    #[error(
        "a scrub is {state} already: `zoneweave array jobs` shows it, and `zoneweave array scrub` has \
         --resume and --stop"
    )]
    ScrubRuns { state: &'static str },
    #[error(
        "the array is starting: repeat the command when `zoneweave array status` shows that it is \
         served"
    )]
    Starting,
    #[error(
        "the array is not served, so no drive has to be taken offline or put back while clients use \
         it: leave the drive out of `zoneweave serve`, or name it again; to take it out for good, use \
         `zoneweave array fail`"
    )]
    OnlyServed,
    #[error(
        "{drive} cannot be a spare of array {name}: {error}; the array was not started: leave the \
         drive out, or give another one"
    )]
    SpareUnfit { drive: String, name: String, error: ReplaceError },
    #[error("the new drive {label} failed: {reason}")]
    NewDriveFailed { label: String, reason: String },
    #[error(
        "the volume has stopped: {reason}{}",
        if members.is_empty() { String::new() } else { format!(" ({members})") }
    )]
    VolumeStopped { reason: &'static str, members: String },
    #[error(
        "{drive} cannot be a spare of array {name}: it holds {holds}; nothing was started: give a \
         blank drive, or leave it out"
    )]
    SpareHolds { drive: String, name: String, holds: String },
    #[error("{label} is already in service in this array: give another drive")]
    InService { label: String },
    #[error(
        "{problem}, and no server answers at {}: if a server runs with another ZONEWEAVE_RUNTIME_DIR \
         or as another user, use the same here", socket.display()
    )]
    NoServer { problem: String, socket: PathBuf },
    #[error(
        "the server has too many requests in flight, some of clients that have gone: a drive may \
         hang, see `zoneweave array status`; then try again"
    )]
    Busy,
    #[error("no valid response from the server at {}: {problem}", socket.display())]
    ServerBroken { socket: PathBuf, problem: String },
    #[error(
        "the server at {} has not answered for {seconds} s: it is stopped, or hangs; see its log",
        socket.display()
    )]
    ServerSilent { socket: PathBuf, seconds: u64 },
    #[error(
        "{label} is a copy of {}, which the server at {} uses: name the drives of the running array, \
         or stop its server to use the copies",
        original.display(), socket.display()
    )]
    CopyOfServed { label: String, original: PathBuf, socket: PathBuf },
    #[error(
        "none of the drives given is in use by the server of array {name}, which continued without \
         them: name one that is{}",
        instead.as_ref().map(|path| format!(", such as {}", format::word(path.display()))).unwrap_or_default()
    )]
    FormerMembers { name: String, instead: Option<PathBuf> },
    #[error(
        "the server at {} is run by another user ({user}); refusing to trust it: repeat the command as \
         that user, or set ZONEWEAVE_RUNTIME_DIR to a directory that only you can write to",
        socket.display()
    )]
    ServerOfAnother { socket: PathBuf, user: u32 },
    #[error(
        "this user may not reach a server at {}: repeat the command as the user of the server, or as root",
        socket.display()
    )]
    ServerForbidden { socket: PathBuf },
    #[error(
        "the array is not being served, and only a running server knows {what}: start one with \
         `zoneweave serve`"
    )]
    NotServed { what: &'static str },
    #[error("{message}")]
    Remote { exit: Exit, message: String },
    #[error(
        "array {name} is being served (by the server at {}): stop the server before checking the raw \
         media", socket.display()
    )]
    Served { name: String, socket: PathBuf },
    #[error(
        "cannot check array {name}: {why}; name all of its drives, including lost ones to see which \
         blocks are lost"
    )]
    FewNamed { name: String, why: String },
    #[error(
        "slot {slot} of array {name} is missing, and changing the array without it would take it out \
         of service permanently: give its drive too, or, if it is lost, replace it with `zoneweave \
         array replace DRIVE... --slot {slot} --with NEWDRIVE`"
    )]
    Incomplete { name: String, slot: u8 },
    #[error(
        "{} of array {name} are missing, and changing the array without them would take them out of \
         service permanently: give their drives too{}", format::slots(slots), if_gone(slots, *starts)
    )]
    SeveralMissing { name: String, slots: Vec<u8>, starts: bool },
    #[error(
        "volume {name} has {of} shards, but no drive of shard {number} was given: give the drives of \
         all shards"
    )]
    MissingShard { name: String, number: usize, of: usize },
    #[error(
        "the drives belong to several shards of volume {name}, each an array of its own: give the \
         drives of one shard{shards}"
    )]
    SeveralShards { name: String, shards: String },
    #[error(
        "the drives belong to different arrays ({name}, and as many to another: {others}): give the \
         drives of one array"
    )]
    SeveralArrays { name: String, others: String },
    #[error("{shard}: {error}")]
    OfShard { shard: ShardStatus, error: Box<CliError> },
    #[error(
        "{error}; the array was not completed, and {} could not be erased: create it again with \
         --yes-destroy, or with --destroy for real drives",
        format::words(drives)
    )]
    HalfMade { error: Box<CliError>, drives: Vec<PathBuf> },
    #[error(
        "there is no space left for {}: {} has {} free, and a write takes up to {}; the array was not \
         started and nothing was changed: free some space there, and start it again",
        format::word(label), folder.display(), format::bytes(*free), format::bytes(*needed)
    )]
    NoSpace { label: String, folder: PathBuf, free: u64, needed: u64 },
    #[error(
        "the drives given for shard {number} belong to array {found}: the volume was not started"
    )]
    OtherShard { number: usize, found: String },
    #[error("{}: {problem}", path.display())]
    RuntimeDirectory { path: PathBuf, problem: String },
    #[error(
        "the path of {} is not UTF-8, so no command could name the drive: rename it, or give a link to it",
        format::word(path.display())
    )]
    Unprintable { path: PathBuf },
    #[error("{} cannot be run for events (--on-event): {error}", format::word(path.display()))]
    EventProgram { path: PathBuf, error: io::Error },
    #[error("{what} does not exist: {range}")]
    OutOfRange { what: String, range: String },
    #[error(transparent)]
    Lifecycle(#[from] LifecycleError),
    #[error(transparent)]
    NewMember(#[from] NewMemberError),
    #[error("data mismatch: block {} does not contain the data last written to it", at.0)]
    ReadWrong { at: Lba },
    #[error("step {step} of the demo failed: {problem}")]
    Demonstration { step: usize, problem: String },
}

impl From<FileDriveError> for CliError {
    fn from(error: FileDriveError) -> Self {
        DriveError::from(error).into()
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        Failure::from(error).into()
    }
}

impl From<PlaceError> for CliError {
    fn from(error: PlaceError) -> Self {
        let usage = |problem: String| Self::Usage { option: "<STORE>", problem };
        match error {
            PlaceError::NoDrive | PlaceError::NoVolume => usage(error.to_string()),
            PlaceError::GivenTwice { path } => Self::GivenTwice { path },
            PlaceError::Drive(error) => Self::Drive(error),
            PlaceError::DriveFailed { path, status } => {
                Self::DriveFailed { label: path.display().to_string(), status }
            }
            PlaceError::Missing { name, slots, starts } => {
                NewMemberError::StoreIncomplete { name, slots, starts }.into()
            }
            PlaceError::Open(error) => Self::OpenZoned(error),
            PlaceError::Random(error) => Self::System { action: "draw random numbers", error },
        }
    }
}

impl From<WorkloadError> for CliError {
    fn from(error: WorkloadError) -> Self {
        ExperimentError::from(error).into()
    }
}

impl CliError {
    /// Adds the shard, for a volume of several.
    pub(crate) fn of(self, shard: Option<ShardStatus>) -> Self {
        match shard {
            Some(shard) => Self::OfShard { shard, error: Box::new(self) },
            None => self,
        }
    }

    /// Members in service without a drive.
    pub(crate) fn missing(name: String, slots: Vec<u8>, starts: bool) -> Self {
        match slots[..] {
            [slot] => Self::Incomplete { name, slot },
            _ => Self::SeveralMissing { name, slots, starts },
        }
    }

    /// Whether a server exists and does not answer.
    pub(crate) const fn is_silence(&self) -> bool {
        matches!(self, Self::ServerSilent { .. } | Self::ServerBroken { .. })
    }

    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Drive(error) | Self::NoDrives { first: error } | Self::Unopened { error, .. } => {
                drive_exit(error)
            }
            Self::Open(OpenError::Array(AssemblyError::NoArray))
            | Self::OpenZoned(raizn::OpenError::Assembly(AssemblyError::NoArray))
            | Self::NoArray
            | Self::NoSuchArray { .. }
            | Self::NoVolume { .. }
            | Self::NotZoned
            | Self::OpenStore(zoneweave_filestore::OpenError::NoStore)
            | Self::NoScrub
            | Self::FewNamed { .. }
            | Self::OutOfRange { .. } => Exit::NotFound,
            Self::Open(
                OpenError::Array(
                    AssemblyError::NoQuorum { .. }
                    | AssemblyError::Duplicate { .. }
                    | AssemblyError::Destroyed { .. },
                )
                | OpenError::Unaccounted { .. },
            )
            | Self::OpenZoned(
                raizn::OpenError::Assembly(
                    AssemblyError::NoQuorum { .. }
                    | AssemblyError::Duplicate { .. }
                    | AssemblyError::Destroyed { .. },
                )
                | raizn::OpenError::WouldCut { .. },
            )
            | Self::Create(CreateError::NotEmpty { .. })
            | Self::CreateZoned(raizn::CreateError::NotEmpty { .. })
            | Self::Admin(AdminError::WouldLoseData { .. } | AdminError::WouldStop { .. })
            | Self::Replace(
                ReplaceError::Admin(
                    AdminError::WouldLoseData { .. } | AdminError::WouldStop { .. },
                )
                | ReplaceError::AlreadyRebuilding { .. }
                | ReplaceError::FilledMeanwhile { .. },
            )
            | Self::ReplaceZoned(
                raizn::ReplaceError::Admin(
                    AdminError::WouldLoseData { .. } | AdminError::WouldStop { .. },
                )
                | raizn::ReplaceError::AlreadyRebuilding { .. }
                | raizn::ReplaceError::FilledMeanwhile { .. },
            )
            | Self::NotEmpty { .. }
            | Self::NotConfirmed { .. }
            | Self::SpareHolds { .. }
            | Self::CopyOfServed { .. }
            | Self::FormerMembers { .. }
            | Self::InService { .. }
            | Self::SlotInService { .. }
            | Self::NotVacant { .. }
            | Self::ScrubRuns { .. }
            | Self::Replace(
                ReplaceError::NotOfSlot { .. }
                | ReplaceError::NoSuperblock
                | ReplaceError::SpareAlready,
            )
            | Self::Incomplete { .. }
            | Self::SeveralMissing { .. }
            | Self::MissingShard { .. }
            | Self::OtherShard { .. }
            | Self::SeveralShards { .. }
            | Self::SeveralArrays { .. }
            | Self::SameName { .. }
            | Self::HoldsStore { .. }
            | Self::StoreInTheWay { .. }
            | Self::ZonedServed { .. }
            | Self::IsZoned { .. }
            | Self::WithoutZones { .. }
            | Self::IsDisk { .. }
            | Self::IsConnected { .. }
            | Self::Served { .. } => Exit::Refused,
            Self::CreateZoned(error) if !matches!(error, raizn::CreateError::Failed { .. }) => {
                Exit::Usage
            }
            Self::Create(CreateError::WrongCount { .. } | CreateError::NameTooLong { .. })
            | Self::Create(CreateError::GroupRows { .. } | CreateError::Limit(_))
            | Self::Experiment(ExperimentError::Create(_) | ExperimentError::Open(_))
            | Self::Experiment(ExperimentError::Geometry(_) | ExperimentError::Preset(_))
            | Self::Usage { .. }
            | Self::NoTerminal
            | Self::Config { .. }
            | Self::HidesMetadata { .. }
            | Self::NoFormerDrive { .. }
            | Self::Unprintable { .. }
            | Self::GivenTwice { .. } => Exit::Usage,
            Self::Admin(AdminError::NoSuchSlot { .. })
            | Self::Replace(ReplaceError::Admin(AdminError::NoSuchSlot { .. })) => Exit::NotFound,
            Self::NoServer { .. }
            | Self::ServerBroken { .. }
            | Self::Busy
            | Self::ServerSilent { .. }
            | Self::ServerOfAnother { .. }
            | Self::ServerForbidden { .. }
            | Self::Endpoint(EndpointError::Hung { .. })
            | Self::OnlyServed
            | Self::Starting
            | Self::ZonesNotServed
            | Self::NotServed { .. } => Exit::Unreachable,
            Self::Block(BlockError::Unrecoverable { .. })
            | Self::ZoneBlock { .. }
            | Self::ReadWrong { .. } => Exit::DataLost,
            Self::Store(failure) => store_exit(failure.code),
            Self::Remote { exit, .. } => *exit,
            Self::OfShard { error, .. } => error.exit(),
            Self::Lifecycle(error) => error.exit(),
            Self::NewMember(error) => error.exit(),
            Self::File { error, .. } if error.kind() == io::ErrorKind::NotFound => Exit::NotFound,
            _ => Exit::Failed,
        }
    }
}

fn store_exit(code: Code) -> Exit {
    match code {
        Code::NotFound => Exit::NotFound,
        Code::Exists | Code::NotEmpty | Code::IsADirectory => Exit::Refused,
        Code::Damaged | Code::Unreadable => Exit::DataLost,
        Code::Unreachable => Exit::Unreachable,
        _ => Exit::Failed,
    }
}

/// The advice for lost drives of several slots, if the array starts without them.
fn if_gone(slots: &[u8], starts: bool) -> String {
    match slots.first().filter(|_| starts) {
        None => String::new(),
        Some(first) => format!(
            ", or, if they are lost, start a server without them, which takes them out of service, and \
             replace each slot while it runs: `zoneweave array replace DRIVE --slot {first} --with \
             NEWDRIVE`"
        ),
    }
}

/// Makes a usage error from a problem with an argument.
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
