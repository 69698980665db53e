//! Why a volume takes no writes.

use std::fmt;

use zoneweave_zoned::BlockError;

/// Why writes are refused, or why a start, a scrub or a rebuild ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// More members are lost than the redundancy covers.
    BeyondRedundancy,
    /// Half of the members or more are lost: another host could be writing to them.
    WithoutMajority,
    /// Writes to a member keep failing, and the redundancy has to cover others already.
    WritesKeepFailing,
    /// The seals of unfinished segments do not fit into a superblock zone.
    SuperblockZoneTooSmall,
    /// A page of the index is unreadable on media.
    UnreadableIndexPage,
    /// So many zones are lost that no segment can be freed.
    NoSegmentLeft,
    /// A member failed during recovery, which begins anew.
    MemberFailedDuringRecovery,
    /// Members failed during the last attempt at recovery as well.
    RecoveryFailedTooOften,
    /// The writer of recovery ended before blocks of unfinished stripes were written again.
    BlocksNotRewritten,
    /// The zones hold more segments than the array can have.
    MoreSegmentsThanZones,
    /// The volume is being closed.
    ShuttingDown,
}

impl StopReason {
    /// The reason in words, as users see it.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::BeyondRedundancy => "more drives are lost than the redundancy covers",
            Self::WithoutMajority => {
                "half of the drives are lost: the other half could be in use elsewhere; \
                 --force goes on with these"
            }
            Self::WritesKeepFailing => {
                "writes to a drive keep failing or are misplaced, and no further drive can be spared"
            }
            Self::SuperblockZoneTooSmall => {
                "superblock zones are too small for the segments that crashes left unfinished"
            }
            Self::UnreadableIndexPage => {
                "a page of the index cannot be read: start the array again, which rebuilds the \
                 index without it"
            }
            Self::NoSegmentLeft => "too many zones are lost: no segment can be freed",
            Self::MemberFailedDuringRecovery => {
                "a drive failed while the array was being recovered"
            }
            Self::RecoveryFailedTooOften => {
                "drives kept failing while the array was being recovered; start it again"
            }
            Self::BlocksNotRewritten => "recovery could not rewrite blocks of unfinished stripes",
            Self::MoreSegmentsThanZones => "more segments than zones",
            Self::ShuttingDown => "the volume is shutting down",
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.text())
    }
}

impl From<StopReason> for BlockError {
    fn from(reason: StopReason) -> Self {
        Self::ReadOnly { reason: reason.text() }
    }
}
