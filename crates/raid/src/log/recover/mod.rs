//! Starting an array: its members, the contents of its segments, and the work that a crash cut
//! short.
//!
//! The steps, each harmless to repeat after a crash inside it (`error` says why one fails):
//!
//! 1. [`assemble`] reads superblock [`records`]; `quorum` chooses the membership that counts.
//! 2. `find/` reads headers and decides which zones form which segments, and which are of dead
//!    ones. It resets nothing.
//! 3. `judge` decides, for segments that a crash left unfinished, which stripes count. `examine`
//!    goes as far as this, and writes nothing.
//! 4. `replay` builds the index from summaries and blocks; the newest sequence wins, and
//!    `duplicates` drops copies of equal age. With a checkpoint it starts from the checkpoint's
//!    pages, most of which can be loaded after users are served.
//! 5. `publish` flushes all drives and records the membership in a snapshot. Then `dead` resets the
//!    zones of dead segments, and `rewrite` copies blocks of readable but not fully redundant
//!    stripes. `publish` flushes these copies and records which stripes count. Only then are users
//!    served.
//!
//! Invariants: no zone of a segment is reset before the snapshot is durable, as the next start may
//! choose other members until then, and need it. Users are served only when every decision is
//! durable.
//!
//! A stripe counts if every member that should hold a chunk of it has one that verifies. A *weak*
//! stripe has enough chunks to be read, but not all. It is either an unacknowledged stripe or an
//! acknowledged one with a damaged block, and these are indistinguishable. Its newest blocks are
//! written again to a new, complete stripe before anything is served, which is right in both cases.

pub mod assemble;
pub(in crate::log) mod clean_stop;
mod dead;
pub(in crate::log) mod duplicates;
mod error;
pub mod examine;
pub(in crate::log) mod find;
pub(in crate::log) mod judge;
pub(in crate::log) mod publish;
pub(in crate::log) mod readd;
pub mod records;
pub(in crate::log) mod replay;
mod rewrite;
mod tasks;
pub(in crate::log) mod unpublished;

use std::num::NonZeroU32;
use std::rc::Rc;

use zoneweave_runtime::Handle;

use crate::array::latency::hedge::{Hedge, Hedging};
use crate::array::offered::OfferedDrive;
use crate::array::state::UNRECORDED;
use crate::array::stop::StopReason;
use crate::instrument::marks::{Mark, mark};
use crate::log::engine::core::Core;
use crate::log::engine::state::{Recovering, State};
use crate::log::format::{Lineage, Sequence};
use crate::log::index::checkpoint::read::{Unusable, load as load_checkpoint};
use crate::log::recover::assemble::Assembly;
use crate::log::recover::publish::publish;
use crate::log::volume::Volume;
use crate::log::write::policy::auto::WriteChoice;
use crate::log::write::policy::lanes::PolicyError;

pub use crate::array::error::AssemblyError;
pub use crate::array::start::assemble::{DriveRole, DriveVerdict};
pub use crate::log::recover::assemble::{Survey, survey};
pub use crate::log::recover::error::OpenError;
pub(in crate::log) use crate::log::recover::find::segments::{NoHeader, read_header};

/// How to start an array.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Start with half of the members or fewer, as long as data can be read. This mints a new
    /// lineage, so members left out can join again only as new drives. Also start where data is
    /// lost and its addresses are unknown.
    pub force: bool,
    /// A random number, used where a new lineage is minted.
    pub lineage: Lineage,
    /// User blocks per block of an index checkpoint. With `None` no checkpoints are written, and
    /// every start replays the summaries of all segments.
    pub checkpoint_share: Option<u32>,
    /// Ignore the newest checkpoint and replay the summaries of all segments.
    pub ignore_checkpoint: bool,
    /// Serve users before the whole index is read: pages of the newest checkpoint are loaded on
    /// demand, and this many others at a time in the background. With `None` (the default) all are
    /// read first: an unreadable block then costs time at the start, instead of stopping a volume
    /// in use.
    pub index_on_demand: Option<NonZeroU32>,
    /// Memory for pages of the index, in bytes; `None` for no limit. Least recently used pages are
    /// then kept on media only. Pinned pages come on top
    /// ([`Memory::most`](crate::log::Memory::most) has the formula). A start that builds the whole
    /// index needs memory for all of it until it is built: without a checkpoint, with much to
    /// replay, with too little free space, or with a drive missing.
    ///
    /// Mapping blocks take space on the drives: a volume that leaves too little for them is
    /// refused.
    pub index_memory: Option<u64>,
    /// Entries of a page of the index, for tests with many pages in a small volume. `None` for as
    /// many as a block holds, the production value. Checkpoints with another page size are ignored.
    pub index_page_entries: Option<NonZeroU32>,
    /// The write policy, or how to choose it.
    pub writes: WriteChoice,
    /// When to reconstruct blocks that could also be read.
    pub hedging: Hedging,
}

/// Keeps checkpoints, with the padding of their stripes, below 2 % of user writes.
const CHECKPOINT_SHARE: u32 = 64;

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            force: false,
            lineage: Lineage::default(),
            checkpoint_share: Some(CHECKPOINT_SHARE),
            ignore_checkpoint: false,
            index_on_demand: None,
            index_memory: None,
            index_page_entries: None,
            writes: WriteChoice::default(),
            hedging: Hedging::default(),
        }
    }
}

/// Findings and actions of a start.
#[derive(Clone, Debug, Default)]
pub struct OpenReport {
    /// The role of each offered drive, in the order offered.
    pub drives: Vec<DriveVerdict>,
    /// Number of the checkpoint that the index was read from; `None` if every summary was replayed.
    pub checkpoint: Option<Sequence>,
    /// Number of segments found.
    pub segments: u64,
    /// Segments whose summaries were read: all, or only those newer than the checkpoint.
    pub replayed_segments: u64,
    /// Pages of the index that were not read before users were served.
    pub absent_pages: u64,
    /// Segments a crash left unfinished.
    pub leftover_segments: u64,
    /// Stripes that count although a chunk was missing or damaged, and were written again.
    pub rescued_stripes: u64,
    /// Stripes that do not count: none of their writes was ever acknowledged, unless the start was
    /// forced.
    pub discarded_stripes: u64,
    /// Segments with lost parts that may have held acknowledged data of unknown addresses. Only a
    /// forced start accepts any.
    pub unaccounted_segments: u64,
}

/// Attempts at recovery while drives fail during it.
const RECOVERIES: u32 = 4;

/// Starts an array from the drives offered.
///
/// # Errors
/// If the drives are no array, or too few of one.
pub async fn open(
    handle: &Handle,
    drives: Vec<OfferedDrive>,
    options: OpenOptions,
) -> Result<(Volume, OpenReport), OpenError> {
    let mut failed = None;
    let mut left = RECOVERIES;
    loop {
        assert!(left > 0, "{RECOVERIES} recoveries, and none was the last");
        left -= 1;
        let may_begin_anew = left > 0;
        let attempt = Attempt { options: options.clone(), failed: failed.clone(), may_begin_anew };
        match recover_by_any(handle, drives.clone(), attempt).await {
            Err(OpenError::Stopped(StopReason::MemberFailedDuringRecovery)) if may_begin_anew => {
                mark(Mark::RecoveryBegunAnew);
            }
            // The policy that suits the drives needs more zones than there are. The policy that the
            // array was created with is never refused.
            Err(OpenError::Policy(error)) if options.writes.may_give_way() && failed.is_none() => {
                mark(Mark::PolicyGaveWay);
                failed = Some(error);
                left += 1;
            }
            ended => return ended,
        }
    }
}

/// One try to recover.
#[derive(Clone)]
struct Attempt {
    options: OpenOptions,
    /// Why the policy that suits the drives was not used.
    failed: Option<PolicyError>,
    may_begin_anew: bool,
}

/// Recovers with the newest checkpoint, or without if that does not count.
async fn recover_by_any(
    handle: &Handle,
    drives: Vec<OfferedDrive>,
    attempt: Attempt,
) -> Result<(Volume, OpenReport), OpenError> {
    let recovered = recover(handle, drives.clone(), attempt.clone()).await?;
    match recovered {
        Ok(started) => Ok(started),
        Err(Unusable) => {
            mark(Mark::CheckpointUnusable);
            let options = OpenOptions { ignore_checkpoint: true, ..attempt.options };
            let recovered = recover(handle, drives, Attempt { options, ..attempt }).await?;
            Ok(recovered.expect("no checkpoint was read"))
        }
    }
}

async fn recover(
    handle: &Handle,
    drives: Vec<OfferedDrive>,
    Attempt { options, failed, may_begin_anew }: Attempt,
) -> Result<Result<(Volume, OpenReport), Unusable>, OpenError> {
    let Assembly { mut state, superblock, verdicts, forced, checkpoint } =
        assemble::assemble(drives, &options, failed).await?;
    let missing = state.array.members.iter().filter(|m| m.entry.since_epoch == UNRECORDED).count();
    state.recovering = Some(Recovering::new(may_begin_anew));
    let core = Core::new(handle.clone(), state, superblock);
    let mut report = OpenReport { drives: verdicts, ..OpenReport::default() };
    let mut found = find::segments::find(&core, options.force && !may_begin_anew).await?;
    let fits = check_policy(&core.state.borrow());
    if let Err(error) = fits {
        give_up(&core).await;
        return Err(OpenError::Policy(error));
    }
    report.segments = found.len() as u64;
    let mut seals = Vec::new();
    let mut weak = Vec::new();
    let mut newly_discarded = 0;
    for segment in &found {
        if segment.leftover {
            mark(Mark::Leftover);
            report.leftover_segments += 1;
            let judged = judge::judge(&core, segment).await;
            report.rescued_stripes += judged.weak_stripes;
            report.discarded_stripes += judged.discarded_stripes;
            newly_discarded += judged.newly_discarded();
            seals.extend(judged.new_seal);
            weak.extend(judged.weak);
        }
    }
    if let Some(pointer) = checkpoint.filter(|_| !options.ignore_checkpoint) {
        if load_checkpoint(&core, pointer, &mut found, &mut weak).await.is_err() {
            return Ok(Err(give_up(&core).await));
        }
        report.checkpoint = Some(pointer.number);
    }
    let replayed =
        core.state.borrow().segments.iter().filter(|(_, s)| !s.is_in_checkpoint()).count();
    report.replayed_segments = replayed as u64;
    assert!(
        report.leftover_segments <= report.segments,
        "{} of {} segments are leftovers",
        report.leftover_segments,
        report.segments
    );
    let candidates = match replay::build_index(&core, weak).await {
        Ok(candidates) => candidates,
        Err(Unusable) => return Ok(Err(give_up(&core).await)),
    };
    report.absent_pages = core.state.borrow().mapping.absent_pages();
    core.state.borrow_mut().remember_absent();
    report.unaccounted_segments = lost_segments(&core.state.borrow()) as u64;
    let accepted = {
        let state = core.state.borrow();
        accept_unaccounted(&state, &report.drives, options.force, may_begin_anew)
    };
    if report.checkpoint.is_some() && (accepted.is_err() || lost_segments(&core.state.borrow()) > 0)
    {
        // The older versions that remain are recorded in summaries only.
        return Ok(Err(give_up(&core).await));
    }
    if let Err(refused) = accepted {
        give_up(&core).await;
        return Err(refused);
    }
    if report.unaccounted_segments > 0 {
        count_unaccounted(&mut core.state.borrow_mut());
    }
    let certain = candidates.is_empty() && forced.is_none() && newly_discarded == 0;
    if certain && unpublished::may_wait(&core.state.borrow(), &seals, missing) {
        unpublished::wait(&core, seals);
    } else {
        publish(&core, candidates, seals, forced).await.map_err(OpenError::Stopped)?;
        tasks::start_serving(&core);
        tasks::start_loading(&core);
    }
    core.state.borrow_mut().array.hedge = Hedge::new(options.hedging);
    Ok(Ok((Volume::new(core), report)))
}

/// Ends a recovery that has written nothing itself. The eviction of a drive that failed meanwhile
/// may still be in flight, and the next recovery writes to the same superblock zones.
async fn give_up(core: &Rc<Core>) -> Unusable {
    core.handle.yield_now().await;
    core.superblock.commits_ended().await;
    Unusable
}

/// Members may have lost zones since the policy was chosen.
fn check_policy(state: &State) -> Result<(), PolicyError> {
    let blocks = state.array.config.log().volume_blocks;
    if !state.has_zones_for_pages() {
        mark(Mark::OffloadRefused);
        return Err(PolicyError::TooFullToOffload { blocks });
    }
    if state.has_zones_to_write() {
        return Ok(());
    }
    let chunk_blocks = state.writes.policy.largest_chunk();
    Err(PolicyError::TooFull { blocks, chunk_blocks })
}

/// If acknowledged data of unknown addresses is lost, older versions may be read in its place only
/// with the user's consent. As a drive may have erred once, recovery is tried again first. Nothing
/// was written so far.
fn accept_unaccounted(
    state: &State,
    verdicts: &[DriveVerdict],
    forced: bool,
    may_begin_anew: bool,
) -> Result<(), OpenError> {
    // If writes have already stopped, that reason is the more informative.
    if lost_segments(state) == 0 || state.array.stopped.is_some() {
        return Ok(());
    }
    if may_begin_anew {
        return Err(OpenError::Stopped(StopReason::MemberFailedDuringRecovery));
    }
    if forced {
        return Ok(());
    }
    mark(Mark::UnaccountedRefused);
    let (name, segments) = (state.array.config.name.clone(), lost_segments(state));
    let label = |verdict: &DriveVerdict| match verdict.role {
        DriveRole::Member { slot, .. } => {
            let lacks = state.registry.unaccounted.blocks.contains_key(&slot);
            lacks.then(|| verdict.label.clone())
        }
        _ => None,
    };
    let drives = verdicts.iter().filter_map(label).collect();
    Err(OpenError::Unaccounted { name, segments, drives })
}

/// The loss is on record once its start is: blocks of unknown addresses cannot be listed, and count
/// as errors of the drives that do not return them.
fn count_unaccounted(state: &mut State) {
    assert!(lost_segments(state) > 0, "nothing is lost");
    let blocks = std::mem::take(&mut state.registry.unaccounted.blocks);
    let users: u64 = blocks.values().sum();
    for (column, blocks) in blocks {
        state.array.members[column.index()].errors.unrepairable += blocks;
    }
    // How much a segment without a header held is unknown.
    if users == 0 {
        let member = state.array.members.iter_mut().find(|member| member.device.is_some());
        member.expect("the array has started").errors.unrepairable += 1;
    }
}

/// Segments for which older contents could be read.
fn lost_segments(state: &State) -> usize {
    state.registry.unaccounted.segments.len() + state.registry.hidden_segments
}
