//! Coverage marks: rare branches that record when they are taken, per thread, in builds with the
//! feature `instrumented`.

#[cfg(feature = "instrumented")]
use std::cell::Cell;

macro_rules! marks {
    ($($(#[doc = $doc:literal])+ $mark:ident,)*) => {
        /// A branch that has to be taken by some test.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Mark {
            $($(#[doc = $doc])+ $mark,)*
        }

        impl Mark {
            /// Every mark.
            pub const ALL: &[Self] = &[$(Self::$mark),*];
        }
    };
}

marks! {
    /// A start finds blocks that no record knows.
    TailFound,
    /// A start finds blocks that do not continue their file.
    TailRejected,
    /// A start finds a block that does not verify.
    TailDamaged,
    /// A start finds a damaged block that is on record behind blocks that are not.
    TailDamageRecorded,
    /// A start takes a damaged block for a part of the file that its tag names.
    TailDamageKept,
    /// A start takes damaged blocks for those that a file misses in front of an intact one.
    TailGapFilled,
    /// A start takes a zone that no record knows for garbage.
    StrayZone,
    /// The metadata log changes over to its twin.
    SnapshotTaken,
    /// Several changes share a record.
    ChangesShareRecord,
    /// A write failed, and its blocks are written to another zone.
    WriteRetried,
    /// A zone takes no more blocks after a failed write.
    ZoneGivenUp,
    /// A zone is finished before it is full.
    ZoneFinished,
    /// A zone whose last blocks are not on record waits for its files before it is sealed.
    SealWaits,
    /// A write waits for free space.
    WaitsForSpace,
    /// A write finds no space, with nothing to reclaim.
    NoSpace,
    /// Blocks are relocated.
    Relocated,
    /// The files of a zone that lags behind in wear are moved.
    WearLevelled,
    /// A zone that lags behind in wear has a block that cannot be read.
    LevellingGivenUp,
    /// A zone is given up as its blocks are of writes that are not part of a file yet.
    RelocationStuck,
    /// Zones are relocated again that were given up until a write ended.
    RelocationRetried,
    /// A file was cut while its blocks were relocated, and the rest of them is in the copy.
    RelocatedInPart,
    /// A file changed while its blocks were relocated.
    RelocationStale,
    /// Blocks of a file without a name are relocated.
    OrphanRelocated,
    /// Relocation opens the zone that is kept for it.
    ReserveOpened,
    /// A reset waits for readers.
    ResetWaitsForReaders,
    /// The blocks of a sparse extent are found by their tags.
    EndsLoaded,
    /// A sparse extent has blocks that do not verify, and the others bound their bytes.
    EndsBounded,
    /// A damaged block follows one that a truncation may have cut.
    EndsUnknown,
    /// A sync is one durable write, without a flush.
    SyncByFua,
    /// A read is served from blocks in flight.
    ReadInFlight,
    /// A file is deleted while it is open.
    OrphanKept,
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

/// How often each mark was hit on this thread; never, in builds that do not count.
#[must_use]
pub fn counts() -> Vec<(Mark, u64)> {
    #[cfg(feature = "instrumented")]
    let count = |mark: Mark| COUNTS.with(|counts| counts[mark as usize].get());
    #[cfg(not(feature = "instrumented"))]
    let count = |_| 0;
    Mark::ALL.iter().map(|mark| (*mark, count(*mark))).collect()
}
