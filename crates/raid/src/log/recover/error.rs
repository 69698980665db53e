//! Why an array does not start, with the remedy.

use thiserror::Error;

use crate::array::error::AssemblyError;
use crate::array::stop::StopReason;
use crate::log::engine::limits::LimitError;
use crate::log::write::policy::lanes::PolicyError;

/// Why an array cannot be started.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The members of the array cannot be determined, or are too few.
    #[error(transparent)]
    Array(#[from] AssemblyError),
    /// The superblock describes an array that cannot be.
    #[error("the superblock describes an impossible array: {0}")]
    Impossible(#[from] LimitError),
    /// The volume cannot be written with the requested policy.
    #[error("the array does not support this write policy: {0}")]
    Policy(#[from] PolicyError),
    /// Contents are lost, and so is the record of which blocks of the volume they were.
    #[error(
        "{segments} segments of array {name} have lost parts{}, and the addresses of the lost \
         blocks are unknown: older contents could be read in their place; bring missing drives \
         back, or accept that: `serve` with --force",
        not_returned(drives)
    )]
    Unaccounted {
        /// Name of the array.
        name: String,
        /// Number of such segments.
        segments: usize,
        /// Labels of the drives that do not return them, as far as they are known.
        drives: Vec<String>,
    },
    /// Drives failed while the array was being started.
    #[error("the array could not be started: {0}")]
    Stopped(StopReason),
}

/// Drives that do not return the parts.
fn not_returned(drives: &[String]) -> String {
    match drives {
        [] => String::new(),
        [one] => format!(", which {one} does not return"),
        several => format!(", which {} do not return", several.join(" and ")),
    }
}
