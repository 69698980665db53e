//! Why a start of a zoned volume is refused.

use thiserror::Error;
use zoneweave_zoned::ImportError;

use crate::array::error::AssemblyError;
use crate::array::stop::StopReason;
use crate::raizn::recover::unread::Unread;

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
    /// A drive gives no answer about blocks that decide how far zones are readable, or that were
    /// moved to its parity log.
    #[error("the volume cannot be started: {0}")]
    Unread(#[from] Unread),
    /// The states of the zones contradict each other.
    #[error("the volume cannot be started: {0}")]
    Zones(#[from] ImportError),
}
