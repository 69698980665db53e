//! Mutants: bugs planted on purpose, one at a time, to see whether the tests find them.
//!
//! Passing tests prove little unless they fail when they should. Each mutant breaks one rule that
//! the guarantees rest on, in the place of that rule, as an engineer might break it by mistake. A
//! simulation that lets a mutant live does not test its rule.
//!
//! A mutant is selected per thread at run time, in builds with the feature `instrumented`. In other
//! builds the check is a constant, and the guarded code is not compiled.
//!
//! The engine checks for a mutant where it makes a difference, and if possible only there: a
//! history that never checked for a mutant is the same with it, and need not be run.

#[cfg(feature = "instrumented")]
use std::cell::Cell;

use crate::instrument::marks::INSTRUMENTED;

macro_rules! mutants {
    ($($(#[doc = $doc:literal])+ $mutant:ident = $name:literal,)*) => {
        /// A bug that can be planted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Mutant {
            $($(#[doc = $doc])+ $mutant,)*
        }

        impl Mutant {
            /// Every mutant.
            pub const ALL: &[Self] = &[$(Self::$mutant),*];

            /// Its name on command lines.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$mutant => $name,)* }
            }

            /// The bug, in a sentence.
            #[must_use]
            pub const fn doc(self) -> &'static str {
                match self { $(Self::$mutant => concat!($($doc),+).trim_ascii_start(),)* }
            }
        }
    };
}

mutants! {
    /// A partial frame at the end of a write is not padded.
    FrameNotFilled = "frame-not-filled",
    /// Writes of frames need not be durable when they complete.
    FrameFuaDropped = "frame-fua-dropped",
    /// A narrow segment counts columns that it is not on as missing.
    NarrowLacksColumns = "narrow-lacks-columns",
    /// Records list no narrow segment, and say that none is alive.
    RosterForgotten = "roster-forgotten",
    /// An order to clear the faults is not recorded.
    FaultsClearedInMemory = "faults-cleared-in-memory",
    /// A snapshot does not repeat the scrubs.
    ScrubsForgotten = "scrubs-forgotten",
    /// A snapshot does not repeat the recorded faults.
    FaultsForgotten = "faults-forgotten",
    /// Blocks behind the last frame of a zone are not written, so the zone never becomes full.
    RestOfZoneLeft = "rest-of-zone-left",
    /// A checkpoint ignores the blocks written to segments that are being filled.
    CheckpointSkipsOpen = "checkpoint-skips-open",
    /// A checkpoint counts although an entry points into a settled segment since.
    BrokenCheckpointCounts = "broken-checkpoint-counts",
    /// A checkpoint that breaks while its record is written is not known to count.
    BreakInRecordForgotten = "break-in-record-forgotten",
    /// Changes to a page while its checkpoint is being written are not part of the next one.
    PageFixedLate = "page-fixed-late",
    /// An entry of a page counts for any segment in the slot that it points at.
    PageEntryTrusted = "page-entry-trusted",
    /// A checkpoint does not record the oldest sequence of a segment.
    SettledSequenceForgotten = "settled-sequence-forgotten",
    /// A replayed version takes precedence over a page's, however old it is.
    ReplayedAlwaysWins = "replayed-always-wins",
    /// A start forgets that a block was written whose page entry points at a replayed segment.
    LeftOutEntryForgotten = "left-out-entry-forgotten",
    /// Valid counts of segments are taken as complete while pages are absent.
    AbsentPagesForgotten = "absent-pages-forgotten",
    /// Deferred entries near a page are not entered before the page.
    DeferredLeftAside = "deferred-left-aside",
    /// A page that is loaded late takes precedence over replayed entries.
    PageOverReplayed = "page-over-replayed",
    /// The mapping blocks of absent pages do not keep their segments from being freed.
    PagesAwayNotCounted = "pages-away-not-counted",
    /// A checkpoint that begins while a page is being written omits that page's changes.
    LeavingPageLeftOut = "leaving-page-left-out",
    /// A segment without tracked valid blocks is freed, even if other blocks in it are valid.
    LiveBitsDecide = "live-bits-decide",
    /// A segment is relocated only if it could hold more itself, regardless of the shape of new
    /// segments.
    GainByOwnSize = "gain-by-own-size",
    /// A record that a forced start abandoned before it counted makes a history of its own.
    LeftBehindCounts = "left-behind-counts",
    /// A stripe takes effect and is acknowledged when its data is written, with its parity in
    /// flight.
    AckBeforeParity = "ack-before-parity",
    /// A coalesced write is durable only if its first chunk has to be.
    GatheredFuaOfFirst = "gathered-fua-of-first",
    /// A block reconstructed while its drive is present is returned without verification.
    HedgeNotVerified = "hedge-not-verified",
    /// A spare is in service as soon as it has its slot, with nothing rebuilt.
    SpareNotRebuilt = "spare-not-rebuilt",
    /// A former member is put back with zones of segments that were reclaimed meanwhile.
    StaleColumnNotReset = "stale-column-not-reset",
    /// Decisions that a former member wrote count once its drive is a member again.
    FormerDecisionBelieved = "former-decision-believed",
    /// A former member keeps columns that are not complete.
    UnfinishedColumnKept = "unfinished-column-kept",
    /// Another segment is relocated at the same time, even if the rest of all does not fit into
    /// free space.
    MovesBesideAny = "moves-beside-any",
    /// With no free segment, copies in damaged segments are not used.
    DamagedTwinsIgnored = "damaged-twins-ignored",
    /// A segment of larger chunks is opened for many small requests, even without room for it.
    LargerWithoutRoom = "larger-without-room",
    /// Users' writes go to as many segments as suits them, beyond the active zones that drives
    /// allow.
    LanesBeyondActiveZones = "lanes-beyond-active-zones",
    /// Writes go to segments of shapes that leave too little space for the volume.
    PolicyRoomIgnored = "policy-room-ignored",
    /// A stripe that does not fill waits for others to run for as long as they may fill it.
    OthersRunForEver = "others-run-for-ever",
    /// A segment is opened though busy leftovers hold the active zones that it needs.
    ActiveZonesNotAwaited = "active-zones-not-awaited",
    /// A flush of the volume is answered without flushing a drive.
    FlushNotSent = "flush-not-sent",
    /// A drive's failed flush is taken for a good one.
    FailedFlushIgnored = "failed-flush-ignored",
    /// A group begins while stripes of the one before are in flight.
    GroupNotAwaited = "group-not-awaited",
    /// A group begins when the one before is written, but not yet durable.
    GroupNotFlushed = "group-not-flushed",
    /// Sequences start from one again after each recovery.
    SequenceRestarts = "sequence-restarts",
    /// Segment numbers and sequences are assigned above the ceiling on media.
    CeilingNotRecorded = "ceiling-not-recorded",
    /// Blocks relocated together all get the sequence of the first.
    MovedBlocksShareSequence = "moved-blocks-share-sequence",
    /// A relocated block gets a sequence of its own, like a new write.
    MovedBlockGetsNewSequence = "moved-block-gets-new-sequence",
    /// A relocated block takes effect although the index no longer points at the original.
    MoveIgnoresIndex = "move-ignores-index",
    /// A segment is declared dead before its relocated blocks are durable.
    ResetBeforeMovesFlushed = "reset-before-moves-flushed",
    /// A segment's zones are reset without a record that it is dead.
    DeadNotRecorded = "dead-not-recorded",
    /// A rebuilt member is online before it is recorded that segments without its column are dead.
    OnlineBeforeDeaths = "online-before-deaths",
    /// A dead segment's zones are used again one by one, and it is forgotten that it is dead,
    /// before all are reset.
    ZonesReusedBeforeAllReset = "zones-reused-before-all-reset",
    /// A dead segment's zones are reset while they are read.
    ReadersNotAwaited = "readers-not-awaited",
    /// A tombstone that still hides older blocks is dropped instead of relocated.
    LiveTombstoneDropped = "live-tombstone-dropped",
    /// A trim takes effect in memory only.
    TrimNotWritten = "trim-not-written",
    /// Writes do not wait for a trim of their range.
    TrimDoesNotExclude = "trim-does-not-exclude",
    /// Of writes to one block the last to complete takes effect, not the newest.
    LastCompletionWins = "last-completion-wins",
    /// A failed append is simply done again, and the chunk believed to be wherever it got.
    AppendRetriedBlindly = "append-retried-blindly",
    /// A stripe takes effect though one of its chunks failed.
    FailedChunkIgnored = "failed-chunk-ignored",
    /// A durable write makes its data durable, but not its parity.
    FuaSkipsParity = "fua-skips-parity",
    /// Of a segment's headers the newest is believed, though it lists a column under rebuild.
    NewestHeaderBelieved = "newest-header-believed",
    /// A summary is written before the blocks that it lists are durable.
    IndexRunBeforeFlush = "index-run-before-flush",
    /// A summary block is believed without checking its segment and span.
    IndexRunNotMatched = "index-run-not-matched",
    /// A segment found at a start is taken for one of the shape that the array was made with.
    SegmentShapeIgnored = "segment-shape-ignored",
    /// When a member fails only one of the open segments is given up.
    OtherLanesKept = "other-lanes-kept",
    /// Recovery discards a stripe without the chunk of a lost member.
    RecoveryDemandsAllChunks = "recovery-demands-all-chunks",
    /// Recovery discards stripes that can be read but are not whole.
    WeakStripeDropped = "weak-stripe-dropped",
    /// Recovery counts stripes that can be read but are not whole, without writing them again.
    WeakStripeServedAsIs = "weak-stripe-served-as-is",
    /// Recovery does not record which stripes count.
    DecisionNotRecorded = "decision-not-recorded",
    /// Recovery records which stripes count while users are served already.
    DecisionRecordedLate = "decision-recorded-late",
    /// Recovery records the valid stripes before its rewrites are durable.
    DecisionBeforeFlush = "decision-before-flush",
    /// Recovery resets a segment that lacks a column.
    PartialSegmentReset = "partial-segment-reset",
    /// A blank drive takes the place of a missing member at the start.
    BlankDriveAdopted = "blank-drive-adopted",
    /// A member that was evicted is let in again at the start.
    StaleMemberReadmitted = "stale-member-readmitted",
    /// Writes continue without a failed member before its eviction is on media.
    EvictionNotAwaited = "eviction-not-awaited",
    /// A superblock zone is reset before the snapshot in the other one is durable.
    SuperblockZoneResetEarly = "superblock-zone-reset-early",
    /// A superblock snapshot leaves out which stripes count and which segments are dead.
    SnapshotForgetsDecisions = "snapshot-forgets-decisions",
    /// A member under rebuild counts as redundancy.
    RebuildingMemberCounts = "rebuilding-member-counts",
    /// A column that a crash left half rebuilt is taken for whole.
    UnfinishedColumnTrusted = "unfinished-column-trusted",
    /// A rebuild continues with holes after a source has vanished.
    SourceLossIgnored = "source-loss-ignored",
    /// Two lost chunks are rebuilt with the coefficients of two others.
    WrongCoefficients = "wrong-coefficients",
    /// Blocks are returned as the drive returns them.
    ReadNotVerified = "read-not-verified",
    /// Chunks of mirrors are counted, as if any so many were enough to read a stripe.
    MirrorsCounted = "mirrors-counted",
    /// A block of an older use of its zone is taken for a current one.
    GenerationNotChecked = "generation-not-checked",
    /// A block that was written to another block's place is taken for that.
    MisdirectedBlockAccepted = "misdirected-block-accepted",
    /// The metadata of a block in an open segment is believed without its checksum.
    MetadataBelieved = "metadata-believed",
    /// Data checksums do not depend on address and sequence.
    ChecksumNotSeeded = "checksum-not-seeded",
    /// A block beyond repair reads as zeros.
    LostBlockReadsAsZeros = "lost-block-reads-as-zeros",
    /// Writes continue when more members are lost than the redundancy covers.
    WritesNotStopped = "writes-not-stopped",
    /// Zoned volume: a FUA write is acknowledged without a flush.
    ZonedFuaNotFlushed = "zoned-fua-not-flushed",
    /// Zoned volume: a FUA write does not wait for a flush in flight of blocks before it.
    ZonedFuaSkipsEarlier = "zoned-fua-skips-earlier",
    /// Zoned volume: the columns of a zone are reset before its reset is recorded.
    ZonedResetNotRecorded = "zoned-reset-not-recorded",
    /// Zoned volume: a zone that is reset keeps its generation.
    ZonedGenerationKept = "zoned-generation-kept",
    /// Zoned volume: a second reset of a zone does not wait for the first one.
    ZonedResetNotAwaited = "zoned-reset-not-awaited",
    /// Zoned volume: a write is acknowledged before its partial parity is logged.
    ZonedParityNotAwaited = "zoned-parity-not-awaited",
    /// Zoned volume: a zone of the parity log is reset before caches are flushed.
    ZonedCheckpointNotFlushed = "zoned-checkpoint-not-flushed",
    /// Zoned volume: a checkpoint of a parity log does not wait for writes with records in it.
    ZonedCheckpointNotAwaited = "zoned-checkpoint-not-awaited",
    /// Zoned volume: a zone of the parity log is reset while the reset of a logical zone is not
    /// durable.
    ZonedCheckpointForgetsReset = "zoned-checkpoint-forgets-reset",
    /// Zoned volume: a member's zone with room behind its column stays active.
    ZonedColumnLeftActive = "zoned-column-left-active",
    /// Zoned volume: a start leaves the columns of a zone that is finished on record active.
    ZonedFinishNotRepeated = "zoned-finish-not-repeated",
    /// Zoned volume: a checkpoint of a parity log leaves relocated blocks out.
    ZonedRelocatedLeftOut = "zoned-relocated-left-out",
    /// Zoned volume: a place whose damaged block was moved to the parity log is not recorded.
    ZonedRelocationNotRecorded = "zoned-relocation-not-recorded",
    /// Zoned volume: a start examines a zone only behind its longest column.
    ZonedHolesLeft = "zoned-holes-left",
    /// Zoned volume: a start publishes its mount before its repairs are durable.
    ZonedRepairNotFlushed = "zoned-repair-not-flushed",
    /// Zoned volume: a finish is recorded before the blocks of the zone are durable.
    ZonedFinishNotFlushed = "zoned-finish-not-flushed",
    /// Zoned volume: a start takes every column of a member that is being rebuilt as copied.
    ZonedRebuiltTrusted = "zoned-rebuilt-trusted",
    /// Zoned volume: a clean stop is recorded before the drives are flushed.
    ZonedStopNotFlushed = "zoned-stop-not-flushed",
    /// Zoned volume: a start without a member waits also after a kill.
    ZonedKillTakenForStop = "zoned-kill-taken-for-stop",
    /// Zoned volume: a start that is not published lets writes through.
    ZonedChangeNotHeld = "zoned-change-not-held",
    /// Zoned volume: a report shows commands that have not ended.
    ZonedReportEarly = "zoned-report-early",
    /// Users may take the last free segment.
    ReserveIgnored = "reserve-ignored",
}

impl Mutant {
    /// The mutant of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|mutant| mutant.name() == name)
    }
}

#[cfg(feature = "instrumented")]
thread_local! {
    static SELECTED: Cell<Option<Mutant>> = const { Cell::new(None) };
    /// A bit for each mutant that was checked for.
    static ASKED: Cell<u128> = const { Cell::new(0) };
}

const _: () = assert!(Mutant::ALL.len() <= 128, "a bit for each mutant");

/// Whether this thread runs a mutant.
#[cfg(feature = "instrumented")]
#[inline]
pub(crate) fn mutant(mutant: Mutant) -> bool {
    ASKED.set(ASKED.get() | 1 << mutant as u32);
    SELECTED.get() == Some(mutant)
}

/// Never.
#[cfg(not(feature = "instrumented"))]
#[inline]
pub(crate) const fn mutant(_: Mutant) -> bool {
    false
}

impl Mutant {
    /// Whether random histories of zoned volumes are to find it: only they have orders about the
    /// record of faults and scrubs.
    #[must_use]
    pub fn is_zoned(self) -> bool {
        let ordered = matches!(self, Self::FaultsClearedInMemory | Self::ScrubsForgotten);
        ordered || self.name().starts_with("zoned-")
    }
}

/// Plants a mutant for this thread from now on, or none.
///
/// # Panics
/// If this build has no mutants.
pub fn select(mutant: Option<Mutant>) {
    assert!(INSTRUMENTED || mutant.is_none(), "mutants need the feature `instrumented`");
    #[cfg(feature = "instrumented")]
    SELECTED.set(mutant);
}

/// The mutants checked by this thread since the last call; none in builds without mutants.
#[must_use]
pub fn take_asked() -> Vec<Mutant> {
    #[cfg(feature = "instrumented")]
    let asked = ASKED.take();
    #[cfg(not(feature = "instrumented"))]
    let asked = 0_u128;
    Mutant::ALL.iter().copied().filter(|mutant| asked & 1 << *mutant as u32 != 0).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_lead_back() {
        let names: BTreeSet<_> = Mutant::ALL.iter().map(|mutant| mutant.name()).collect();
        assert_eq!(names.len(), Mutant::ALL.len());
        assert!(Mutant::ALL.iter().all(|mutant| Mutant::named(mutant.name()) == Some(*mutant)));
        assert_eq!(Mutant::named("no-such-bug"), None);
    }

    #[test]
    fn nothing_is_planted_unless_selected() {
        assert!(Mutant::ALL.iter().all(|bug| !mutant(*bug)));
        if INSTRUMENTED {
            select(Some(Mutant::FlushNotSent));
            assert!(mutant(Mutant::FlushNotSent) && !mutant(Mutant::GroupNotFlushed));
            select(None);
            assert!(!mutant(Mutant::FlushNotSent));
        }
    }

    #[test]
    fn what_was_asked_for_is_told_once() {
        let _earlier = take_asked();
        let _planted = mutant(Mutant::ReserveIgnored) || mutant(Mutant::AckBeforeParity);
        let asked = [Mutant::AckBeforeParity, Mutant::ReserveIgnored];
        assert_eq!(take_asked(), if INSTRUMENTED { &asked[..] } else { &[] });
        assert_eq!(take_asked(), []);
    }
}
