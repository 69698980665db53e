//! Why a start of a zoned volume is refused.

use thiserror::Error;
use zoneweave_zoned::ImportError;

use crate::array::error::AssemblyError;
use crate::array::stop::StopReason;
use crate::raizn::recover::unread::Unread;
use crate::scheme::Column;

/// Why a zoned volume does not start.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The members cannot be determined.
    #[error("{0}")]
    Assembly(#[from] AssemblyError),
    /// The drives leave nothing for the volume.
    #[error(
        "the drives of array {name} allow too few open or active zones: the volume keeps {} for itself",
        crate::raizn::layout::ACTIVE_RESERVE
    )]
    TooFewActiveZones {
        /// Name of the array.
        name: String,
    },
    /// Members failed while the volume was being recovered.
    #[error("the volume cannot be started: {0}")]
    Stopped(StopReason),
    /// A drive failed while the start read it, and the others are not enough. Nothing was recorded.
    #[error("the volume cannot be started without the drive of slot {slot} ({failure}): {reason}")]
    StoppedBy {
        /// Why the others are not enough.
        reason: StopReason,
        /// The slot of the drive.
        slot: Column,
        /// How it failed.
        failure: String,
    },
    /// A drive gives no answer about blocks that decide how far zones are readable, or that were
    /// moved to its parity log.
    #[error("the volume cannot be started: {0}")]
    Unread(#[from] Unread),
    /// Blocks at the end of a zone are lost, unless a member has them that is missing since a clean
    /// stop.
    #[error(
        "the volume cannot be started: blocks at the end of zone {zone} are lost, unless a missing \
         drive has them: start the volume with that drive; --force gives the blocks up, for good"
    )]
    WouldCut {
        /// The zone.
        zone: u32,
    },
    /// The states of the zones contradict each other.
    #[error("the volume cannot be started: {0}")]
    Zones(#[from] ImportError),
}
