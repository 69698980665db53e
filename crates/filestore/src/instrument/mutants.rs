//! Mutants: bugs planted on purpose, one at a time, to see whether the tests find them.
//!
//! Each mutant breaks one rule that the contract of a store rests on, in the place of that rule. A
//! mutant is selected per thread at run time, in builds with the feature `instrumented`; in others
//! the check is a constant.

#[cfg(feature = "instrumented")]
use std::cell::Cell;

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
        }
    };
}

mutants! {
    /// A zone is reset before the record that frees its blocks is durable.
    ResetBeforeRecord = "reset-before-record",
    /// A zone is reset before the records of relocated blocks are durable.
    ResetBeforeMoveRecorded = "reset-before-move-recorded",
    /// The metadata zone is reset before the snapshot in its twin is durable.
    SnapshotSwitchedEarly = "snapshot-switched-early",
    /// A rename is two records, one for each name.
    RenameTorn = "rename-torn",
    /// A sparse extent is read as if all its blocks were full.
    SparseMisread = "sparse-misread",
    /// A sync does not flush the drive.
    SyncNotFlushed = "sync-not-flushed",
    /// A sync does not wait for writes in flight.
    SyncNotAwaited = "sync-not-awaited",
    /// A change of names is acknowledged before its record is durable.
    AckBeforeRecord = "ack-before-record",
    /// Extents are recorded before their blocks are durable.
    ExtentsBeforeFlush = "extents-before-flush",
    /// A zone is written before it is on record that it is open.
    ZoneOpenNotRecorded = "zone-open-not-recorded",
    /// A start takes blocks behind a gap of a file.
    GapIgnored = "gap-ignored",
    /// A start takes blocks from before a truncation.
    VersionIgnored = "version-ignored",
    /// A start ends a file in front of a damaged block.
    DamageEndsFile = "damage-ends-file",
    /// A block in front of a damaged one is as long as its tag says, although it was cut.
    CutForgotten = "cut-forgotten",
    /// A zone is sealed although blocks of a file in it are not on record.
    SealedUnrecorded = "sealed-unrecorded",
    /// A zone is reset while it is read.
    ReadersNotAwaited = "readers-not-awaited",
    /// A snapshot takes all blocks of open zones for recorded.
    SnapshotKnowsAll = "snapshot-knows-all",
    /// Relocated blocks are recorded before they are durable.
    MoveBeforeFlush = "move-before-flush",
    /// A start serves users before the blocks that it found are durable.
    StartNotFlushed = "start-not-flushed",
    /// Users may open the zone that is kept for relocation.
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
}

/// Whether this thread runs a mutant.
#[cfg(feature = "instrumented")]
#[inline]
pub(crate) fn mutant(mutant: Mutant) -> bool {
    SELECTED.get() == Some(mutant)
}

/// Never.
#[cfg(not(feature = "instrumented"))]
#[inline]
pub(crate) const fn mutant(_: Mutant) -> bool {
    false
}

/// Whether this build can plant mutants and counts marks.
pub const INSTRUMENTED: bool = cfg!(feature = "instrumented");

/// Plants a mutant for this thread from now on, or none.
///
/// # Panics
/// If this build has no mutants.
pub fn select(mutant: Option<Mutant>) {
    assert!(INSTRUMENTED || mutant.is_none(), "mutants need the feature `instrumented`");
    #[cfg(feature = "instrumented")]
    SELECTED.set(mutant);
}
