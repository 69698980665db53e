//! Coverage marks: rare branches that record when they are taken.
//!
//! A simulation that never takes a branch proves nothing about it. Therefore every branch that
//! matters for a guarantee, and that ordinary work takes rarely, carries a mark named after its
//! meaning. A run counts the marks, and a mark that no run hits is a failure: of the simulation, or
//! of unreachable code.
//!
//! Marks are counted per thread, only in builds with the feature `instrumented`; in others they
//! compile to nothing.

#[cfg(feature = "instrumented")]
use std::cell::Cell;

/// Whether this build counts marks and can plant mutants.
pub const INSTRUMENTED: bool = cfg!(feature = "instrumented");

macro_rules! marks {
    ($($(#[doc = $doc:literal])+ $mark:ident = $name:literal,)*) => {
        /// A branch that has to be taken by some test.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Mark {
            $($(#[doc = $doc])+ $mark,)*
        }

        impl Mark {
            /// Every mark.
            pub const ALL: &[Self] = &[$(Self::$mark),*];

            /// Its name: the part of the engine, a dot, and the event.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$mark => $name,)* }
            }

            /// When the branch is taken, in a sentence.
            #[must_use]
            pub const fn doc(self) -> &'static str {
                match self { $(Self::$mark => concat!($($doc),+).trim_ascii_start(),)* }
            }
        }
    };
}

marks! {
    /// A zone ends inside a frame.
    FrameCutOff = "inline.frame_cut_off",
    /// A block is read with only the header of its frame.
    BlockReadWithHeaderAlone = "inline.block_read_with_header_alone",
    /// The header of a frame does not verify.
    FrameHeaderDamaged = "inline.frame_header_damaged",
    /// A policy that suits the drives has more segments than the array's zones allow.
    PolicyOfFewerLanes = "policy.fewer_lanes",
    /// The best policy for the drives has chunks that are too large for the array's zones or its
    /// volume.
    PolicyOfSmallerChunks = "policy.smaller_chunks",
    /// No policy that suits the drives fits: segments have the array's own shape.
    PolicyOfArray = "policy.of_array",
    /// Zones were lost that the policy for the drives needs: the start begins anew without it.
    PolicyGaveWay = "policy.gave_way",
    /// A checkpoint is begun that fixes every page that has changed.
    CheckpointBegun = "checkpoint.begun",
    /// A checkpoint is begun only to move its blocks out of segments that are to be freed.
    CheckpointForRemoval = "checkpoint.for_removal",
    /// A page that has not changed is written again, because its segment is to be freed.
    CheckpointPageMoved = "checkpoint.page_moved",
    /// A checkpoint becomes the newest one.
    CheckpointTaken = "checkpoint.taken",
    /// A checkpoint that was begun is not completed.
    CheckpointAbandoned = "checkpoint.abandoned",
    /// Blocks of a checkpoint in progress have become invalid.
    CheckpointBroken = "checkpoint.broken",
    /// A checkpoint is broken by something that happens while its record is written.
    CheckpointBrokenInRecord = "checkpoint.broken_in_record",
    /// An entry is redirected into a settled segment.
    CheckpointMisses = "checkpoint.misses",
    /// It is recorded that no checkpoint counts.
    CheckpointVoided = "checkpoint.voided",
    /// A segment has no valid blocks except those of a checkpoint.
    CheckpointHoldsSegment = "checkpoint.holds_segment",
    /// The checkpoint breaks while a segment is about to be freed.
    CheckpointBrokenMeanwhile = "checkpoint.broken_meanwhile",
    /// Recovery has read a checkpoint, up to its pages.
    CheckpointRead = "recovery.checkpoint_read",
    /// Recovery replays everything, because something of the checkpoint is gone or damaged.
    CheckpointUnusable = "recovery.checkpoint_unusable",
    /// The sequence of an unreadable block is found in a summary.
    LookedUpInList = "recovery.looked_up_in_list",
    /// Recovery replays everything, because a record that cannot be read may say that the
    /// checkpoint is void.
    CheckpointMayBeVoid = "recovery.checkpoint_may_be_void",
    /// Recovery leaves pages of the index to be loaded on demand.
    IndexOnDemand = "recovery.index_on_demand",
    /// Recovery replays everything, because a page that would be loaded later is not where the
    /// checkpoint lists it.
    PageElsewhere = "recovery.page_elsewhere",
    /// A request waits for a page of the index.
    PageAskedFor = "index.page_asked_for",
    /// Deferred entries are entered when a page near them is requested.
    DeferredEntered = "index.deferred_entered",
    /// Deferred entries are entered that are near no absent page.
    DeferredWithoutPage = "index.deferred_without_page",
    /// All pages of the index are in memory.
    IndexResident = "index.resident",
    /// A page that is loaded late has a newer version than the replayed one.
    PageOvertookReplayed = "index.page_overtook_replayed",
    /// A page of the index cannot be read after users were served.
    PageUnreadable = "index.page_unreadable",
    /// A segment is replayed although the checkpoint lists it.
    ListedSegmentReplayed = "recovery.listed_segment_replayed",
    /// An entry of a page points at a segment that is gone, or replayed.
    PageEntryLeftOut = "recovery.page_entry_left_out",
    /// Page entries were counted when they were entered.
    CountedByPages = "recovery.counted_by_pages",
    /// Page entries are counted again, as there are tombstones where they point.
    CountedAgain = "recovery.counted_again",
    /// A replayed version is newer than the page.
    PageEntrySuperseded = "recovery.page_entry_superseded",
    /// A page does not show whether its entry is newer than the replayed version.
    PageUnclear = "recovery.page_unclear",
    /// A page does not show whether its entry is newer than a weak block.
    WeakBlockUnclear = "recovery.weak_block_unclear",
    /// Start: drives carry records of two arrays; the one with most drives is started.
    OtherArrayLeftOut = "assemble.other_array_left_out",
    /// Start: the drives carry an array in another version of the format; refused.
    OtherVersionRefused = "assemble.other_version_refused",
    /// Start: a drive's records belong to a history that a forced start abandoned.
    OtherLineageLeftOut = "assemble.other_lineage_left_out",
    /// Start: a forced start was cut short before one of its members had the new history; that
    /// history counts.
    LineageNotReached = "assemble.lineage_not_reached",
    /// Start: drives carry a version of the membership that a forced start abandoned before it
    /// counted.
    VersionLeftBehind = "assemble.version_left_behind",
    /// Start: two histories reached the same epoch, or the further one is unknown; refused.
    TwoHistoriesRefused = "assemble.two_histories_refused",
    /// Start: a member in service is marked to be erased.
    DestroyedRefused = "assemble.destroyed_refused",
    /// Start: no version of the membership is carried by a majority; the newest whose members are
    /// here in one is taken.
    VersionOfPresentMajority = "assemble.version_of_present_majority",
    /// Start: the newest version never counted, for some that it lists do not carry it; an older
    /// one is taken.
    OlderVersionTaken = "assemble.older_version_taken",
    /// Start: an older version could have been taken, but the newest may have counted; refused.
    NoWayBackBehindVersion = "assemble.no_way_back_behind_version",
    /// Start: too few members for a majority, started on the user's word.
    ForcedStart = "assemble.forced_start",
    /// Start: too few members for reading everything; refused.
    TooFewMembersRefused = "assemble.too_few_members_refused",
    /// Start: enough members for reading, none in the majority; refused.
    NoQuorumRefused = "assemble.no_quorum_refused",
    /// Start: an evicted member comes back and is ignored.
    StaleMemberLeftOut = "assemble.stale_member_left_out",
    /// Start: a drive without records is offered and is not made a member.
    DriveWithoutRecordsLeftOut = "assemble.drive_without_records_left_out",
    /// Start: two drives say that they are the same member; refused.
    DuplicateRefused = "assemble.duplicate_refused",
    /// Start: a member is smaller than when it joined; refused.
    ShrunkMemberRefused = "assemble.shrunk_member_refused",
    /// Start: a listed member is not here and is to be put out of service before anything is
    /// acknowledged without it.
    MissingMemberFailed = "assemble.missing_member_failed",
    /// Start: the chosen membership is older than the newest epoch seen; the next one is above
    /// both.
    EpochAboveAllSeen = "assemble.epoch_above_all_seen",
    /// Start: a drive's newest zone has no complete snapshot, so the other one is kept.
    OtherSuperblockZoneKept = "assemble.other_superblock_zone_kept",
    /// A block in a superblock zone is damaged and skipped.
    DamagedRecordSkipped = "superblock.damaged_record_skipped",
    /// Records of a former membership, in a zone that could not be erased, are left out.
    FormerRecordsLeftOut = "superblock.former_records_left_out",
    /// Decisions of a former membership, on a drive that was re-added, count for nothing.
    FormerDecisionLeftOut = "superblock.former_decision_left_out",
    /// A drive's newest record may be in a block that cannot be read.
    NewerRecordMayBeHidden = "superblock.newer_record_may_be_hidden",
    /// Start: most drives seem to carry a version of the membership that a newer one has replaced.
    CarriedVersionOvertaken = "assemble.carried_version_overtaken",
    /// A block looks like a record, but its block metadata denies that.
    RecordWithoutMetadata = "superblock.record_without_metadata",
    /// Superblock records cannot be read together and are read one by one.
    RecordsReadOneByOne = "superblock.records_read_one_by_one",
    /// A record's write failed, and the drive is asked how much was written.
    RecordWrittenAgain = "superblock.record_written_again",
    /// Some blocks of a record were written: the other zone is used next, or this one is begun
    /// anew.
    RecordInPart = "superblock.record_in_part",
    /// A superblock zone is full, and the other one is used.
    SuperblockZoneFull = "superblock.zone_full",
    /// The other superblock zone still has contents and is reset first.
    SuperblockZoneResetLate = "superblock.zone_reset_late",
    /// The superblock zone that was left cannot be reset, and stays dirty.
    SuperblockZoneNotReset = "superblock.zone_not_reset",
    /// A member that the others cannot do without fails a record that decides nothing.
    ReportRefused = "superblock.report_refused",
    /// A report is refused by every member, and none is evicted for it.
    ReportTakenByNone = "superblock.report_taken_by_none",
    /// A member does not repeat what it has on record, before an eviction is recorded.
    ProbeRefused = "superblock.probe_refused",
    /// A member fails a commit and is put out of service by another one on the rest.
    CommitWithoutMember = "superblock.commit_without_member",
    /// A member fails while a membership is being recorded, and waits for the next record.
    FailedDuringRecord = "superblock.member_failed_during_record",
    /// A commit finds the array stopped.
    CommitRefused = "superblock.commit_refused",
    /// Everything completed is made durable on drives that have a volatile cache.
    DrivesFlushed = "flush.drives_flushed",
    /// A change of membership gets an epoch of its own.
    NewEpoch = "membership.new_epoch",
    /// Something waits until the record that a member is out is on media.
    WaitedForMembership = "membership.waited_for_record",
    /// A stream needs a segment, and gets none before the membership is on media.
    SegmentWaitsForMembership = "membership.segment_waits_for_record",
    /// A drive answers that it is gone when it is read.
    EvictedByRead = "membership.evicted_by_read",
    /// A drive answers that it is gone when it is written.
    EvictedByWrite = "membership.evicted_by_write",
    /// A drive fails several writes in a row.
    EvictedByFailuresInRow = "membership.evicted_by_failures_in_row",
    /// A drive fails a flush: it is put out, durably, before the flush is answered.
    EvictedByFlush = "membership.evicted_by_flush",
    /// A member fails while segments with a chunk on it are open.
    FailedWithOpenSegment = "membership.failed_with_open_segment",
    /// More members are lost than the redundancy covers: writes stop.
    StoppedBeyondRedundancy = "membership.stopped_beyond_redundancy",
    /// Too many zones of a member have failed for the volume to stay writable: it is put out.
    EvictedForZones = "membership.evicted_for_zones",
    /// A member is evicted because its write errors prevent every segment from being filled.
    EvictedForSpoiling = "membership.evicted_for_spoiling",
    /// The write errors of a needed member prevent every segment from being filled: writes stop.
    StoppedBySpoiling = "membership.stopped_by_spoiling",
    /// Half of the members are left, within the redundancy: writes stop.
    StoppedWithoutMajority = "membership.stopped_without_majority",
    /// A request to fail or replace a member is refused, as data would be lost.
    TakingOutWouldLose = "membership.taking_out_would_lose",
    /// A request to fail or replace a member is refused, as half of the members would be left.
    TakingOutWouldStop = "membership.taking_out_would_stop",
    /// Recovery: the zones of a segment recorded dead are reset again.
    DeadSegmentResetAgain = "recovery.dead_segment_reset_again",
    /// Start: more members than may be wrong have nothing of a segment: a drive skipped a reset.
    LeftBehindSegmentReset = "recovery.left_behind_segment_reset",
    /// A segment is opened while the stream fills another one.
    LaneOpenedBeside = "lanes.opened_beside_another",
    /// Relocated blocks of different lifetimes get segments of their own.
    MovedApart = "lanes.moved_apart",
    /// After losing zones, relocated blocks of all lifetimes go to one segment again.
    LaneGivenUp = "lanes.moved_together_again",
    /// There is no room for a segment of a class: its blocks go to a segment of another class.
    LaneOfOtherClass = "lanes.other_class_used",
    /// A segment with larger chunks is opened for small requests, as enough of them wait.
    LargerOpened = "lanes.opened_for_many",
    /// Lone writes: a narrow segment is opened for them.
    NarrowOpened = "lanes.narrow_opened",
    /// Small requests fill a stripe of larger chunks.
    LargerFilled = "lanes.larger_filled",
    /// Small requests that fill a stripe wait, as one of larger chunks is in flight.
    WaitedForLarger = "lanes.waited_for_larger",
    /// A segment took no stripe, as segments like it have enough writes in flight.
    EnoughBeside = "lanes.enough_beside",
    /// A segment took no stripe, as enough segments like it have writes in flight.
    ManyBeside = "lanes.many_beside",
    /// A partial stripe is closed while others are in flight: as many went ahead of it.
    ClosedBesideOthers = "lanes.closed_beside_others",
    /// Recovery: a segment has another shape than those at the array's creation.
    SegmentOfOtherShape = "recovery.segment_of_other_shape",
    /// Start: a member in service has nothing of a segment: copies of its blocks elsewhere are
    /// preferred.
    DoubtfulSegment = "recovery.doubtful_segment",
    /// A drive says that a zone is reset, and it is not.
    ResetNotDone = "gc.reset_not_done",
    /// A drive does not finish a zone, and is asked again.
    FinishRetried = "members.finish_retried",
    /// Recovery: a crash reset some of a dead segment's zones; the rest follows.
    PartialResetFinished = "recovery.partial_reset_finished",
    /// Recovery: a useless zone cannot be reset, so the record of the death stays.
    DeadZoneNotReset = "recovery.dead_zone_not_reset",
    /// Recovery: a member does not report its zones and is put out.
    MemberWithoutReport = "recovery.member_without_report",
    /// Recovery: a zone is offline and left out.
    OfflineZoneLeftOut = "recovery.offline_zone_left_out",
    /// Recovery: a zone with only a damaged header is reset.
    HeaderlessZoneReset = "recovery.headerless_zone_reset",
    /// Recovery: a zone is open, and a power loss took all of its first write.
    UntouchedZone = "recovery.untouched_zone",
    /// Recovery: a zone without header is reset, for its blocks carry the generation of a dead
    /// segment.
    DeadZoneWithoutHeader = "recovery.dead_zone_without_header_reset",
    /// Recovery: a zone has unexplained contents, and is left alone.
    OrphanZoneLeftAlone = "recovery.orphan_zone_left_alone",
    /// Recovery: a zone without header belongs to the segment whose generation its blocks carry.
    AdoptedByGeneration = "recovery.zone_adopted_by_generation",
    /// Recovery: a zone without header belongs to the segment whose other headers list it.
    AdoptedByHeader = "recovery.zone_adopted_by_header",
    /// Recovery: an incomplete copy of a column under rebuild is ignored.
    UnfinishedCopyDropped = "recovery.unfinished_copy_dropped",
    /// Recovery: a rebuilt column is complete and counts, although its member's rebuild continues.
    RebuiltColumnCounts = "recovery.rebuilt_column_counts",
    /// Recovery: a segment that should have a column of a member in full service has none.
    ColumnLost = "recovery.column_lost",
    /// Recovery: a column of an unfinished segment ends before rows that are complete elsewhere.
    ColumnShort = "recovery.column_short",
    /// Recovery: a seal proves that a segment is a leftover, although zones of it are full.
    FullLeftoverKnownBySeal = "recovery.full_leftover_known_by_seal",
    /// Recovery: a segment is found that a crash left unfinished.
    Leftover = "recovery.leftover",
    /// Recovery: an unfinished segment holds no chunk at all.
    EmptyLeftover = "recovery.empty_leftover",
    /// Recovery: groups before the last one touched are whole.
    EarlierGroupsWhole = "recovery.earlier_groups_whole",
    /// Recovery: a zone has become read-only, and how far it is written is found out by reading.
    ReadOnlyZoneProbed = "recovery.read_only_zone_probed",
    /// Recovery: so few columns have touched the last group that they may be wrong about it.
    GroupOfFewIgnored = "recovery.group_of_few_ignored",
    /// Recovery: a seal of an earlier start says which stripes count.
    SealDecides = "recovery.seal_decides",
    /// Recovery: a seal excludes a stripe although every chunk of it is readable now.
    SealOverruledChunks = "recovery.seal_overruled_chunks",
    /// Recovery: a seal includes a stripe that could no longer be judged complete.
    SealKeptStripe = "recovery.seal_kept_stripe",
    /// Recovery: a stripe is complete though columns are missing, for their members are lost.
    DegradedStripeComplete = "recovery.degraded_stripe_complete",
    /// Recovery: a stripe has enough chunks to be read, but not all.
    WeakStripe = "recovery.weak_stripe",
    /// Recovery: there may be a segment without a header that can be read.
    HiddenSegment = "recovery.hidden_segment",
    /// Recovery: a stripe has too few chunks to be read and is left out.
    DiscardedStripe = "recovery.stripe_discarded",
    /// Recovery: a stripe with too few chunks to be read may have been acknowledged.
    DiscardedMayHaveCounted = "recovery.discarded_may_have_counted",
    /// Recovery: rows hold chunks displaced by a torn append, and none of their own.
    DisplacedRows = "recovery.displaced_rows",
    /// Recovery: a narrow segment is found.
    NarrowFound = "recovery.narrow_found",
    /// Recovery: a narrow segment is found that a crash left unfinished.
    NarrowLeftover = "recovery.narrow_leftover",
    /// Recovery: a zone without a header belongs to a listed narrow segment.
    ListedWithoutHeader = "recovery.listed_without_header",
    /// Recovery: nothing is found of a listed segment, and no drive proves that it never had a
    /// part.
    ListedLost = "recovery.listed_lost",
    /// Recovery: zones of a narrow segment that is not listed are reset.
    UnlistedReset = "recovery.unlisted_reset",
    /// Recovery: a mirrored stripe has enough chunks by number, but twins are missing.
    TwinsDiscarded = "recovery.twins_discarded",
    /// Recovery: the newest block of a weak stripe is written again.
    WeakBlockRewritten = "recovery.weak_block_rewritten",
    /// Recovery: a trim in a weak stripe is written again.
    WeakTrimRewritten = "recovery.weak_trim_rewritten",
    /// Recovery: a block of a weak stripe is older than the valid version.
    WeakBlockSuperseded = "recovery.weak_block_superseded",
    /// A block can be neither read nor rebuilt, and is tried again: a drive may err now and then.
    BlockTriedAgain = "read.block_tried_again",
    /// A block can be neither read nor rebuilt, and a drive that is out of service may have what is
    /// missing: it is not listed as lost.
    BlockMayReturn = "read.block_may_return",
    /// Recovery: a block of a weak stripe has become unreadable.
    WeakBlockGone = "recovery.weak_block_gone",
    /// Blocks read together cannot be read, and are read one by one.
    RunReadOneByOne = "read.run_read_one_by_one",
    /// So many zones are lost that no segment can be freed: requests fail.
    NoRoomLeft = "limits.no_room_left",
    /// Recovery: rewritten blocks become valid.
    RescueSealed = "recovery.rescue_sealed",
    /// Recovery: a zone cannot be read, so that every segment recorded dead stays so.
    DeadKeptForUnread = "recovery.dead_kept_for_unread_zone",
    /// Recovery: valid blocks of unknown addresses are lost.
    Unaccounted = "recovery.unaccounted",
    /// Start: valid blocks of unknown addresses are lost; refused.
    UnaccountedRefused = "recovery.unaccounted_refused",
    /// Recovery: rewrites took the last free segment, and another is relocated behind them.
    RecoveryMadeRoom = "recovery.room_made",
    /// Recovery: a write fails, and recovery begins anew.
    RecoveryBegunAnew = "recovery.begun_anew",
    /// Recovery: a leftover is gone before its seal is written.
    SealNotNeeded = "recovery.seal_not_needed",
    /// Recovery: of two copies with the same sequence the later one seen is preferred.
    EqualCopyPreferred = "recovery.equal_copy_preferred",
    /// Recovery: duplicates elsewhere replace all valid blocks of a segment.
    FreedByTwins = "recovery.freed_by_twins",
    /// Recovery: with no free segment, duplicates in damaged segments replace all valid blocks of
    /// one.
    FreedByDamagedTwins = "recovery.freed_by_damaged_twins",
    /// Recovery: a tombstone no longer hides anything and is dropped.
    TombstoneForgotten = "recovery.tombstone_forgotten",
    /// Recovery: a tombstone block cannot be read.
    TombstoneUnreadable = "recovery.tombstone_unreadable",
    /// A column's list is damaged and its copy on another member is read.
    ListCopyUsed = "index_run.other_copy_used",
    /// A block is a summary block, but of another place.
    ListOfOtherPlace = "index_run.block_of_other_place",
    /// Every copy of a summary is damaged, and the blocks' own metadata is read.
    ListsFromBlocks = "scan.lists_taken_from_blocks",
    /// A range of chunks cannot be read at once and is read chunk by chunk.
    ScanChunkByChunk = "scan.chunk_by_chunk",
    /// Scan: without a stripe table, a row holds the chunk of another row.
    ChunkOfOtherRow = "scan.chunk_of_other_row",
    /// A chunk does not verify and takes the stripe that no other chunk of its column has.
    UnreadChunkAssigned = "scan.unread_chunk_assigned",
    /// A column holds two chunks of the same stripe; the first counts.
    StripeTwice = "scan.stripe_twice",
    /// The entries of a chunk that does not verify are reconstructed from its stripe.
    ChunkEntriesRebuilt = "scan.chunk_entries_rebuilt",
    /// A chunk that counts can neither be read nor rebuilt.
    ChunkBeyondRebuild = "scan.chunk_beyond_rebuild",
    /// The ceilings on media are raised before more numbers are assigned.
    CeilingsRaised = "open.ceilings_raised",
    /// A segment's header cannot be written everywhere, and the segment is given up.
    HeaderNotWritten = "open.header_not_written",
    /// The conditions for opening a segment have changed when its zones are taken.
    OpeningOvertaken = "open.overtaken",
    /// Crashes have left so many zones active that leftovers are finished.
    LeftoverFinished = "limits.leftover_finished",
    /// An absent page is loaded on demand.
    PageTakenIn = "offload.page_taken_in",
    /// A page is evicted.
    PageLeftOut = "offload.page_left_out",
    /// Clean pages are dropped while others are being written.
    PageLeftOutBeside = "offload.page_left_out_beside",
    /// The mapping block of an absent page is relocated.
    PageMoved = "offload.page_moved",
    /// A page changes while it is written for eviction: it stays.
    PageChangedWhileLeaving = "offload.page_changed_while_leaving",
    /// A checkpoint adopts a page that was written for eviction.
    PageAdopted = "offload.page_adopted",
    /// Users wait for evictions.
    FramesAwaited = "offload.frames_awaited",
    /// Requests for pages that a start has not loaded wait for evictions.
    FramesAwaitedByAbsent = "offload.frames_awaited_by_absent",
    /// Relocations into an abandoned segment are undone when their pages are loaded.
    MovesTakenBackLate = "offload.moves_taken_back",
    /// The only space is in abandoned segments whose relocations are yet to be undone.
    RoomByTakingBack = "offload.room_by_taking_back",
    /// A volume that leaves too little space for mapping blocks is not started with a memory limit.
    OffloadRefused = "offload.refused",
    /// An absent page cannot be read: no checkpoint counts any more.
    PageAwayUnreadable = "offload.page_unreadable",
    /// A segment is rebuilt while another one is.
    RebuiltBeside = "rebuild.beside",
    /// A leftover is finished while another task works on it.
    BusyLeftoverFinished = "limits.busy_leftover_finished",
    /// A segment is opened only when zones of others are no longer active.
    ActiveZonesAwaited = "limits.active_zones_awaited",
    /// A leftover of this life is sealed, so that it can be finished.
    LeftoverSealed = "limits.leftover_sealed",
    /// Finishing a leftover's zones fails: they still count as active.
    LeftoverNotFinished = "limits.leftover_not_finished",
    /// Users wait for a segment, as only the reserve is free.
    UsersWaitForSegment = "limits.users_wait_for_segment",
    /// A drive is refused as a member because too many of its zones have failed.
    WornDriveRefused = "limits.worn_drive_refused",
    /// A drive is refused as a member because it is too small.
    SmallDriveRefused = "limits.small_drive_refused",
    /// A sealed segment's zone is larger than the array uses by so much that it is finished.
    LargerZoneFinished = "limits.larger_zone_finished",
    /// A sealed segment's zone is filled up to its capacity.
    ZoneFilled = "limits.zone_filled",
    /// A group ends and all its stripes are durable before the next begins.
    GroupEnded = "group.ended",
    /// A segment was given up while the end of its group was made durable.
    GroupGivenUp = "group.given_up_at_its_end",
    /// The volume stopped while the end of a group was made durable.
    GroupEndStopped = "group.stopped_at_its_end",
    /// A segment was given up before or while its summary was written.
    SpanGivenUp = "group.given_up_at_index_run",
    /// A summary cannot be written to every column, and the segment is given up.
    IndexRunNotWritten = "group.index_run_not_written",
    /// A replaced drive answers late: nothing is recorded for its replacement.
    LateAnswer = "membership.late_answer",
    /// A segment is relocated although another has fewer valid blocks: it is older.
    OlderVictim = "gc.older_victim",
    /// One write of a zone holds several chunks.
    ChunksGathered = "write.chunks_gathered",
    /// A write is kept small, so that successive writes have similar sizes.
    WritesOfLikeSize = "write.of_like_size",
    /// A chunk is not written, for the write before it in its zone failed.
    BehindFailedWrite = "write.behind_failed_write",
    /// A stripe does not fill and is padded.
    StripePadded = "write.stripe_padded",
    /// A lone write is written in a narrow stripe.
    StripeNarrow = "write.stripe_narrow",
    /// A stripe is written without the chunks of lost members.
    DegradedStripe = "write.degraded_stripe",
    /// A chunk of a stripe fails: its blocks go to another segment, with their sequences.
    StripeElsewhere = "write.stripe_written_elsewhere",
    /// A chunk is answered with an address at which it cannot be.
    ChunkMisplaced = "write.chunk_misplaced",
    /// A member fails between the writing of a stripe and its end: its chunk is not missed.
    MemberFailedMeanwhile = "write.member_failed_meanwhile",
    /// A stripe ends well in a segment that was given up meanwhile.
    StripeInGivenUpSegment = "write.stripe_ends_in_given_up_segment",
    /// A segment is given up.
    SegmentGivenUp = "write.segment_given_up",
    /// A write completes after a newer one of the same block and takes no effect.
    OvertakenByNewer = "write.overtaken_by_newer",
    /// Queued blocks are refused, as the volume has stopped.
    QueueRefused = "write.queue_refused",
    /// A write waits for a trim of its range.
    WriteWaitsForTrim = "request.write_waits_for_trim",
    /// A trim waits for writes of its range.
    TrimWaits = "request.trim_waits",
    /// A request is refused because the volume is being closed.
    RefusedAtClose = "request.refused_at_close",
    /// A trim has nothing to hide and writes nothing.
    TrimOfNothing = "request.trim_of_nothing",
    /// A block of a missing member is rebuilt for a reader.
    MissingBlockRebuilt = "read.missing_block_rebuilt",
    /// A block that the drive cannot read is rebuilt, and its segment will be renewed.
    UnreadableBlockRebuilt = "read.unreadable_block_rebuilt",
    /// A block that does not verify is rebuilt, and its segment will be renewed.
    DamagedBlockRebuilt = "read.damaged_block_rebuilt",
    /// A block can neither be read nor rebuilt: an error, never something else.
    BlockBeyondRepair = "read.block_beyond_repair",
    /// A block known to be lost is read: an error.
    LostBlockRefused = "read.lost_block_refused",
    /// A block verifies, but is of another stripe than belongs there.
    BlockOfOtherStripe = "read.block_of_other_stripe",
    /// A block verifies, but is another block of its chunk.
    BlockOfOtherPlaceInChunk = "read.block_of_other_place_in_chunk",
    /// A block verifies, but is of an older use of its zone or of another column.
    StaleBlock = "read.stale_block",
    /// A read goes around a drive that is held up.
    ReadAround = "hedge.read_around",
    /// A read of a drive that others go around: to see how it is.
    HeldUpDriveProbed = "hedge.drive_probed",
    /// A read is late, and rebuilt, too.
    ReadHedged = "hedge.read_hedged",
    /// It is rebuilt before its drive answers.
    HedgeWon = "hedge.won",
    /// Reconstruction without a drive fails: the drive is waited for.
    HedgeFailed = "hedge.failed",
    /// More reads would be rebuilt than their share.
    HedgeBeyondShare = "hedge.beyond_share",
    /// Reads wait for resets: zones are reset on one drive after the other.
    ResetInTurn = "hedge.reset_in_turn",
    /// Fewer columns are left than a stripe needs.
    TooFewSources = "reconstruct.too_few_columns",
    /// Fewer chunks of a stripe are intact than are needed.
    TooFewIntact = "reconstruct.too_few_intact",
    /// Two or more chunks of a stripe are rebuilt around, which takes more than plain parity.
    TwoMissing = "reconstruct.two_missing",
    /// A block of mirrors is read from its twin.
    RebuiltFromTwin = "reconstruct.from_twin",
    /// A segment is relocated because it is a leftover.
    LeftoverMoved = "gc.leftover_moved",
    /// A segment is relocated because a block in it is damaged.
    DamagedMoved = "gc.damaged_moved",
    /// A segment is relocated to free space.
    MovedForRoom = "gc.moved_for_room",
    /// A relocated block was overwritten or trimmed meanwhile, and takes no effect.
    MoveOvertaken = "gc.move_overtaken",
    /// A block died between being listed and being read.
    DiedBeforeMove = "gc.died_before_move",
    /// The last entries that point at a tombstone were overwritten between listing and reading it.
    TombstoneDiedBeforeMove = "gc.tombstone_died_before_move",
    /// Relocations into an abandoned segment are undone.
    MovesTakenBack = "gc.moves_taken_back",
    /// A block relocated into an abandoned segment has a newer version, and is not restored.
    NewerNotTakenBack = "gc.newer_not_taken_back",
    /// A segment is relocated while another one is.
    MovedBeside = "gc.moved_beside",
    /// Several segments are freed at a time.
    FreedTogether = "gc.freed_together",
    /// Users wait for relocation, to share writes according to the free space.
    UsersYield = "gc.users_yield",
    /// Relocation waits for users, to share writes according to the free space.
    MovesYield = "gc.moves_yield",
    /// Blocks are separated by lifetime again: lifetimes are predictive.
    LifetimesKeptApart = "lifetime.kept_apart",
    /// Blocks are no longer separated by lifetime: lifetimes are not predictive.
    LifetimesMixed = "lifetime.mixed",
    /// The lists do not name all live blocks; the index is searched for them.
    UnlistedSearched = "gc.unlisted_searched",
    /// A block beyond repair is relocated as lost.
    LostBlockMoved = "gc.lost_block_moved",
    /// The contents of an unreadable block are unknown: the entries that point at it become lost.
    UnknownBlockLost = "gc.unknown_block_lost",
    /// A segment about to be freed has got something live again.
    CameBackToLife = "gc.came_back_to_life",
    /// A dead segment's zones are not reset while they have readers.
    WaitedForReaders = "gc.waited_for_readers",
    /// A dead segment's zone cannot be reset, so the record that it is dead stays.
    ZoneNotReset = "gc.zone_not_reset",
    /// A member was lost while a dead segment's zones were reset.
    MemberLostWhileFreeing = "gc.member_lost_while_freeing",
    /// A segment is freed.
    SegmentFreed = "gc.segment_freed",
    /// A block under relocation is not found, and a drive that may have it gives no answer.
    MovedBlockAwaited = "gc.moved_block_awaited",
    /// A block stays in a segment that is relocated: only a member that is out of service can give
    /// it.
    AwaitedBlockLeft = "gc.awaited_block_left",
    /// Users wait for space that only segments yield which wait for a member: what is left in them
    /// is given up.
    AwaitedBlocksGivenUp = "gc.awaited_blocks_given_up",
    /// Segments that wait for a member have taken the reserve of relocation: the one with the
    /// fewest blocks is given up.
    AwaitedBlocksGivenUpEarly = "gc.awaited_blocks_given_up_early",
    /// A trim is relocated, as older blocks that it hides may exist.
    TombstoneMoved = "tombstone.moved",
    /// A trim is older than everything left, and is dropped.
    TombstoneDropped = "tombstone.dropped",
    /// A tombstone block takes effect, but no entry points at it any more.
    TombstoneUnused = "tombstone.unused",
    /// A tombstone block is damaged when it is relocated.
    TombstoneLost = "tombstone.lost",
    /// A drive that works is taken out to be replaced.
    WorkingDriveRetired = "rebuild.working_drive_retired",
    /// A replacement request has waited for its turn, and another drive works in the slot by then.
    SlotFilledMeanwhile = "rebuild.slot_filled_meanwhile",
    /// A replacement was a member before: its commands of that time are awaited.
    FormerMembershipAwaited = "rebuild.former_membership_awaited",
    /// A new drive acknowledged resets and still holds something.
    DriveNotEmptied = "rebuild.drive_not_emptied",
    /// A replacement that was a member before has contents of that time that cannot be erased, and
    /// is refused.
    FormerMemberRefused = "rebuild.former_member_refused",
    /// A replacement has a volatile cache in an array that promised to have none.
    ReplacementWithCache = "rebuild.replacement_with_cache",
    /// A rebuild takes no more zones of its drive, so that relocation remains possible.
    RebuildLeavesReserve = "rebuild.leaves_reserve",
    /// The contents of a segment are not completely known: it is relocated instead of getting new
    /// summaries.
    ListsIncomplete = "rebuild.lists_incomplete",
    /// A rebuild that a restart interrupted continues.
    RebuildResumed = "rebuild.resumed",
    /// A segment has its column again.
    ColumnRebuilt = "rebuild.column_rebuilt",
    /// A segment's column could not be written, and its zone is given back.
    ColumnNotRebuilt = "rebuild.column_not_rebuilt",
    /// A rebuild waits for segments to be reclaimed, or for a zone.
    RebuildWaits = "rebuild.waits",
    /// A source vanished: nothing made without it enters a column.
    SourceVanished = "rebuild.source_vanished",
    /// A block that cannot be rebuilt becomes a hole.
    HoleWritten = "rebuild.hole_written",
    /// A rebuild asks a drive again that gives no answer about blocks that no other has.
    RebuildSourceAwaited = "rebuild.source_awaited",
    /// A rebuild ends with units left out because of such a drive.
    RebuildSourceFailed = "rebuild.source_failed",
    /// A rebuild writes a hole that another member, which is out of service, may fill.
    HoleAwaitsMember = "rebuild.hole_awaits_member",
    /// A rebuild waits because it would write more than it may.
    RebuildThrottled = "rebuild.throttled",
    /// A relocation that a rebuild makes is slowed down to its limit.
    RelocationPaced = "rebuild.relocation_paced",
    /// A start without a member serves reads with decisions that are not on media.
    StartUnpublished = "recovery.unpublished",
    /// The first change makes them durable, with the eviction.
    PublishedLate = "recovery.published_late",
    /// A clean stop records which stripes of incomplete segments count.
    CleanStopSealed = "recovery.clean_stop_sealed",
    /// A former member is put back, and has columns that still count.
    ReaddedWithColumns = "readd.with_columns",
    /// A former member is put back, but all that it has was reclaimed meanwhile.
    ReaddedWithNothing = "readd.with_nothing",
    /// A former member's column is not complete, and is rebuilt.
    UnfinishedColumnLeftOut = "readd.unfinished_column",
    /// A former member's column has its chunks in another order than was assumed, and is rebuilt.
    OtherOrderLeftOut = "readd.other_order",
    /// A segment was reclaimed while a former member's zones were read.
    ReclaimedWhileAway = "readd.reclaimed_meanwhile",
    /// A scrub gives way to a rebuild or another change of membership.
    ScrubGaveWay = "scrub.gave_way",
    /// A scrub is paused.
    ScrubPaused = "scrub.paused",
    /// A scrub is stopped.
    ScrubStopped = "scrub.stopped",
    /// A drive is lost while a scrub runs, and its columns are not read.
    ScrubIncomplete = "scrub.incomplete",
    /// A drive was not in this slot in the history that went on, and is not put back.
    ReaddRefused = "readd.refused",
    /// A spare takes the place of a lost member.
    SpareTaken = "spare.taken",
    /// It cannot be rebuilt: the next one is taken.
    SpareGivenUp = "spare.given_up",
    /// Somebody else filled the place while the spare waited for its turn.
    SpareNotNeeded = "spare.not_needed",
    /// The new drive failed before the end of its rebuild.
    RebuildGivenUp = "rebuild.given_up",
    /// A rebuild ended, and its member is in full service.
    RebuildEnded = "rebuild.ended",
    /// A scrub closes open segments to look at them.
    ScrubClosedSegment = "scrub.open_segment_closed",
    /// A scrub waits for stripes in flight, or for a relocation or rebuild.
    ScrubWaited = "scrub.waited_for_stripes",
    /// A scrub begins after earlier relocations of damage.
    ScrubAwaitedRelocation = "scrub.awaited_relocation",
    /// A scrub meets a lost block that is no longer on record.
    ScrubListedLoss = "scrub.listed_loss",
    /// A scrub skips a segment that is being reset, or was opened since.
    ScrubPassedOver = "scrub.segment_passed_over",
    /// An order, or a change of membership, interrupts a scrub within a unit.
    ScrubUnitInterrupted = "scrub.unit_interrupted",
    /// A scrub counts a loss that a reader met first, in a segment that is gone.
    ScrubMissedLoss = "scrub.loss_missed",
    /// A scrub leaves a damaged block as it is: a member that is out of service has what restores
    /// it.
    ScrubLeftDamage = "scrub.left_damage",
    /// A scrub finds the mark of a lost block damaged.
    ScrubFoundRottenMark = "scrub.rotten_mark",
    /// A scrub finds damage.
    ScrubFoundDamage = "scrub.damage_found",
    /// A scrub finds parity that does not match data that verifies.
    ScrubFoundParity = "scrub.parity_mismatch",
    /// A scrub finds damaged superblock records and writes them anew.
    ScrubRenewedRecords = "scrub.records_renewed",
    /// A scrub cannot read a group at once and reads it chunk by chunk.
    ScrubChunkByChunk = "scrub.chunk_by_chunk",
    /// Errors and lost ranges are recorded.
    FaultsRecorded = "faults.recorded",
    /// A start finds errors and lost ranges on record.
    FaultsRead = "faults.read",
    /// Start: a record of faults or scrubs is of another configuration, and is left out.
    OtherHistoryLeftOut = "faults.other_history_left_out",
    /// Ranges of lost blocks are joined, as a record does not hold more.
    LostRangesJoined = "faults.ranges_joined",
    /// Faults could not be cleared, and members may have the record that they were.
    ClearFailed = "faults.clear_failed",
    /// A volume closes while blocks are read of which the faults were cleared: it lists them.
    ClearCutShort = "faults.clear_cut_short",
    /// Start: lost ranges are listed that the newest record of some members no longer has.
    ClearNotBelieved = "faults.clear_not_believed",
    /// Zoned volume: a lost block is decoded from the parity of a complete stripe.
    ZonedDecodedWhole = "zoned.decoded_whole",
    /// Zoned volume: a lost block is decoded from logged parity.
    ZonedDecodedPartial = "zoned.decoded_partial",
    /// Zoned volume: a crash left blocks behind the readable part of a zone.
    ZonedJunkLeft = "zoned.junk_left",
    /// Zoned volume: a start replaces a few damaged blocks by relocated ones.
    ZonedDamageReplaced = "zoned.damage_replaced",
    /// Zoned volume: a start completes a reset.
    ZonedResetCompleted = "zoned.reset_completed",
    /// Zoned volume: a crash left nothing readable of a zone, but something in its columns.
    ZonedNothingReadable = "zoned.nothing_readable",
    /// Zoned volume: a start completes a finish.
    ZonedFinishCompleted = "zoned.finish_completed",
    /// Zoned volume: a start finishes a zone with too much junk.
    ZonedFinishedForJunk = "zoned.finished_for_junk",
    /// Zoned volume: a start finishes a zone with too many ranges of junk for its record.
    ZonedFinishedForRanges = "zoned.finished_for_ranges",
    /// Zoned volume: a start finishes a zone for want of active zones.
    ZonedFinishedForActive = "zoned.finished_for_active",
    /// Zoned volume: a drive gives no answer about blocks of its parity log.
    ZonedLogUnread = "zoned.log_unread",
    /// Zoned volume: a drive gives no answer about a block where a zone seems to end.
    ZonedTailUnread = "zoned.tail_unread",
    /// Zoned volume: a drive gives no answer about a relocated block of a finished zone.
    ZonedRelocatedUnread = "zoned.relocated_unread",
    /// Zoned volume: a start relocates parity of a finished zone's last stripe.
    ZonedLastParityRelocated = "zoned.last_parity_relocated",
    /// Zoned volume: a start finishes columns whose last parity cannot be computed any more.
    ZonedFinishedWithLoss = "zoned.finished_with_loss",
    /// Zoned volume: a column ends before a place with junk, as its drive has lost blocks.
    ZonedColumnFellBack = "zoned.column_fell_back",
    /// Zoned volume: a complete zone is finished on record before it gets junk, or by a start.
    ZonedFinishedWithJunk = "zoned.finished_with_junk",
    /// Zoned volume: a parity log has records of a mount that does not count.
    ZonedOtherMount = "zoned.other_mount",
    /// Zoned volume: a block goes to the parity log, since its place holds junk.
    ZonedBlockRelocated = "zoned.block_relocated",
    /// Zoned volume: a checkpoint of a parity log repeats relocated blocks.
    ZonedRelocatedRepeated = "zoned.relocated_repeated",
    /// Zoned volume: a parity log goes on in its next zone.
    ZonedLogSwitched = "zoned.log_switched",
    /// Zoned volume: a checkpoint of a parity log waits for writes with records in it.
    ZonedCheckpointAwaits = "zoned.checkpoint_awaits",
    /// Zoned volume: a checkpoint of a parity log waits for the record of a reset.
    ZonedCheckpointAwaitsReset = "zoned.checkpoint_awaits_reset",
    /// Zoned volume: a member that does not finish its zone is evicted.
    ZonedFinishRefused = "zoned.finish_refused",
    /// Zoned volume: a drive finds fault with the command to finish a zone, which stays active.
    ZoneLeftActive = "zoned.zone_left_active",
    /// Zoned volume: a drive leaves zones active that the volume needs.
    ZonedShortOfActive = "zoned.short_of_active",
    /// Zoned volume: a start finishes the columns of a zone that is finished on record.
    ZonedFinishRepeated = "zoned.finish_repeated",
    /// Zoned volume: a member's zone is finished behind the last block of a column.
    ZonedColumnEnded = "zoned.column_ended",
    /// Zoned volume: a zone is flushed so that its next write leaves little junk.
    ZonedFlushedBehind = "zoned.flushed_behind",
    /// Zoned volume: a FUA write waits for a flush that another task began.
    ZonedFlushAwaited = "zoned.flush_awaited",
    /// Zoned volume: a write waits for active zones of the drives.
    ZonedActiveAwaited = "zoned.active_awaited",
    /// Zoned volume: a write to an empty zone waits for an earlier one to another empty zone.
    ZonedActivationOrdered = "zoned.activation_ordered",
    /// Zoned volume: a write waits for space in a parity log.
    ZonedLogAwaited = "zoned.log_awaited",
    /// Zoned volume: a reset waits for reads.
    ZonedReadersAwaited = "zoned.readers_awaited",
    /// Zoned volume: a read reconstructs a block.
    ZonedReadDecoded = "zoned.read_decoded",
    /// Zoned volume: a read reconstructs a block from others that it returns.
    ZonedReadShared = "zoned.read_shared",
    /// Zoned volume: a read misses a block that it wanted, and reads more of its stripe.
    ZonedReadExtended = "zoned.read_extended",
    /// Zoned volume: a report waits for commands that it shows.
    ZonedReportAwaited = "zoned.report_awaited",
    /// Zoned volume: an empty zone is reset while its last reset is in flight.
    ZonedResetAwaited = "zoned.reset_awaited",
    /// Zoned volume: a scrub pauses for users.
    ZonedScrubGaveWay = "zoned.scrub_gave_way",
    /// Zoned volume: a scrub moves a damaged block to the parity log.
    ZonedScrubRelocated = "zoned.scrub_relocated",
    /// Zoned volume: a block that a scrub could not read at first is sound.
    ZonedScrubFailurePassed = "zoned.scrub_failure_passed",
    /// Zoned volume: a scrub cannot read a block for another reason than damage.
    ZonedScrubReadFailed = "zoned.scrub_read_failed",
    /// Zoned volume: a scrub finds a block that cannot be rebuilt.
    ZonedScrubLost = "zoned.scrub_lost",
    /// Zoned volume: a clean stop is on record.
    ZonedStopRecorded = "zoned.stop_recorded",
    /// Zoned volume: a start without a member serves reads, and has written nothing.
    ZonedStartUnpublished = "zoned.unpublished",
    /// Zoned volume: a start without a member publishes at once, as the last run was killed.
    ZonedMissingAfterKill = "zoned.missing_after_kill",
    /// Zoned volume: a start without a member finds something to be written behind a clean stop.
    ZonedWaitGivenUp = "zoned.wait_given_up",
    /// Zoned volume: a member fails while a start reads it, which waits without it all the same.
    ZonedWaitsWithoutMore = "zoned.waits_without_more",
    /// Zoned volume: the first change has a start published.
    ZonedPublishedLate = "zoned.published_late",
    /// Zoned volume: a volume that was never published is closed, and writes nothing.
    ZonedClosedUnpublished = "zoned.closed_unpublished",
    /// Zoned volume: a start repeats reads without an answer.
    ZonedStartRepeated = "zoned.start_repeated",
    /// Zoned volume: the task that waited for a record of the parity log was dropped.
    ZonedLoggedForNone = "zoned.logged_for_none",
    /// Zoned volume: a block that can be neither read nor rebuilt is listed as lost.
    ZonedLostListed = "zoned.lost_listed",
    /// Zoned volume: a reset takes lost blocks off the list.
    ZonedLostForgotten = "zoned.lost_forgotten",
    /// Zoned volume: a scrub finds parity that differs.
    ZonedScrubMismatch = "zoned.scrub_mismatch",
    /// Zoned volume: a rebuild has read a batch of a column while it wrote the one before.
    ZonedBatchAhead = "zoned.batch_ahead",
    /// Zoned volume: a rebuild cannot reconstruct a batch that it reads ahead.
    ZonedAheadFailed = "zoned.ahead_failed",
    /// Zoned volume: a rebuild drops a batch that it has read ahead, as its zone is reset or the
    /// volume ends.
    ZonedBatchDropped = "zoned.batch_dropped",
    /// Zoned volume: a start empties a zone that an interrupted rebuild has begun.
    ZonedUncountedEmptied = "zoned.uncounted_emptied",
    /// Zoned volume: a block that a rebuild cannot make becomes a hole.
    ZonedHoleWritten = "zoned.hole_written",
    /// Zoned volume: the column of a rebuilt member is complete.
    ZonedColumnJoined = "zoned.column_joined",
    /// Zoned volume: a start continues a rebuild some of whose columns are copied.
    ZonedRebuiltListed = "zoned.rebuilt_listed",
}

#[cfg(feature = "instrumented")]
thread_local! {
    static COUNTS: [Cell<u64>; Mark::ALL.len()] =
        const { [const { Cell::new(0) }; Mark::ALL.len()] };
}

/// Records that a branch was taken.
#[inline]
pub(crate) fn mark(mark: Mark) {
    #[cfg(feature = "instrumented")]
    COUNTS.with(|counts| {
        let count = &counts[mark as usize];
        count.set(count.get() + 1);
    });
    #[cfg(not(feature = "instrumented"))]
    let _ = mark;
}

/// Records that a branch was taken if `holds`, which is evaluated only in builds that count.
#[inline]
pub(crate) fn mark_if(mark: Mark, holds: impl FnOnce() -> bool) {
    if INSTRUMENTED && holds() {
        self::mark(mark);
    }
}

/// How often each mark was hit on this thread since the last [`reset`], in the order of
/// [`Mark::ALL`]; never, in builds that do not count.
#[must_use]
pub fn counts() -> Vec<(Mark, u64)> {
    #[cfg(feature = "instrumented")]
    let count = |mark: Mark| COUNTS.with(|counts| counts[mark as usize].get());
    #[cfg(not(feature = "instrumented"))]
    let count = |_| 0;
    Mark::ALL.iter().map(|mark| (*mark, count(*mark))).collect()
}

/// Resets the counts of this thread.
pub fn reset() {
    #[cfg(feature = "instrumented")]
    COUNTS.with(|counts| counts.iter().for_each(|count| count.set(0)));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_have_two_parts() {
        let names: BTreeSet<_> = Mark::ALL.iter().map(|mark| mark.name()).collect();
        assert_eq!(names.len(), Mark::ALL.len());
        for name in names {
            let word = |c: char| c.is_ascii_lowercase() || c == '_';
            let parts: Vec<_> = name.split('.').collect();
            assert!(parts.len() == 2 && parts.iter().all(|part| part.chars().all(word)), "{name}");
        }
    }

    #[test]
    fn marks_are_counted_where_they_are_compiled_in() {
        reset();
        mark(Mark::NewEpoch);
        mark_if(Mark::NewEpoch, || true);
        mark_if(Mark::NewEpoch, || false);
        let hit: Vec<_> = counts().into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(hit, if INSTRUMENTED { vec![(Mark::NewEpoch, 2)] } else { Vec::new() });
        reset();
        assert!(counts().iter().all(|(_, count)| *count == 0));
    }

    /// A mark that is missing in the engine could never be hit.
    #[test]
    fn every_mark_is_in_the_code() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut sources = String::new();
        ["array", "log", "raizn", "inline"]
            .iter()
            .for_each(|part| read_sources(&root.join(part), &mut sources));
        let used: BTreeSet<_> = sources
            .split("Mark::")
            .skip(1)
            .map(|rest| rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default())
            .collect();
        for mark in Mark::ALL {
            assert!(used.contains(&format!("{mark:?}")[..]), "{} is nowhere", mark.name());
        }
    }

    fn read_sources(folder: &std::path::Path, into: &mut String) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                read_sources(&path, into);
            } else {
                into.push_str(&std::fs::read_to_string(path).unwrap());
            }
        }
    }
}
