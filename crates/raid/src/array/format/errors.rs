//! Counts of a member's errors, as statuses and superblock records have them.

use serde::Serialize;

/// Errors of a member since they were last cleared, and repairs. Each damaged block counts once, by
/// its place, however often it is met: as repaired or as unrepairable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemberErrors {
    /// Reads the drive failed.
    pub read: u64,
    /// Writes, resets and flushes the drive failed.
    pub write: u64,
    /// Blocks that the drive returned without an error, but with wrong contents.
    pub checksum: u64,
    /// Damaged or unreadable blocks whose contents were restored from other members.
    pub repaired: u64,
    /// Blocks that could not be restored.
    pub unrepairable: u64,
}

impl MemberErrors {
    fn counts(&self) -> [u64; 5] {
        let Self { read, write, checksum, repaired, unrepairable } = *self;
        [read, write, checksum, repaired, unrepairable]
    }

    /// The higher count of each kind.
    pub(crate) fn most(&self, other: &Self) -> Self {
        let Self { read, write, checksum, repaired, unrepairable } = *self;
        Self {
            read: read.max(other.read),
            write: write.max(other.write),
            checksum: checksum.max(other.checksum),
            repaired: repaired.max(other.repaired),
            unrepairable: unrepairable.max(other.unrepairable),
        }
    }

    /// The errors counted after `seen`.
    pub(crate) fn since(&self, seen: &Self) -> Self {
        let Self { read, write, checksum, repaired, unrepairable } = *self;
        Self {
            read: read.saturating_sub(seen.read),
            write: write.saturating_sub(seen.write),
            checksum: checksum.saturating_sub(seen.checksum),
            repaired: repaired.saturating_sub(seen.repaired),
            unrepairable: unrepairable.saturating_sub(seen.unrepairable),
        }
    }

    /// Whether one of `known` is the first of its kind, or has doubled.
    pub(crate) fn are_outdated_by(&self, known: &Self) -> bool {
        let mut counts = self.counts().into_iter().zip(known.counts());
        counts.any(|(on_record, known)| known > 0 && known / 2 >= on_record)
    }
}
