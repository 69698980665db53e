//! Levels of events, and their words.

use std::fmt;

use super::{Level, Place, What};
use crate::format::{bytes, slots};
use crate::job::JobPhase;
use crate::status::{HEADER_LOST, Health};
use zoneweave_raid::log::MemberHealth;

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.drive {
            None => write!(f, "slot {}", self.slot),
            Some(drive) => write!(f, "slot {} ({drive})", self.slot),
        }
    }
}

impl What {
    /// How much it matters.
    pub(crate) const fn level(&self) -> Level {
        match self {
            Self::Started { .. } | Self::Stopping | Self::JobProgress { .. } => Level::Info,
            Self::JobBegan { .. }
            | Self::DriveOffline { .. }
            | Self::FaultsCleared
            | Self::SpareAdded { .. }
            | Self::SpareRemoved { .. }
            | Self::ReclaimEased => Level::Notice,
            Self::Health { to, .. } => of_health(*to),
            Self::Member { state, .. } => match state {
                MemberHealth::Online => Level::Notice,
                MemberHealth::Rebuilding => Level::Warning,
                MemberHealth::Missing | MemberHealth::Failed => Level::Error,
            },
            Self::JobEnded { phase, .. } => match phase {
                JobPhase::Failed => Level::Error,
                JobPhase::Incomplete => Level::Warning,
                _ => Level::Notice,
            },
            Self::DriveErrors { .. }
            | Self::DriveStale { .. }
            | Self::Repaired { .. }
            | Self::SpareTaken { .. }
            | Self::ReclaimPressure { .. } => Level::Warning,
            Self::Filled { percent } => {
                if *percent < 95 {
                    Level::Notice
                } else {
                    Level::Warning
                }
            }
            Self::SpareUnusable { .. } | Self::DriveHeader { .. } | Self::Awaited { .. } => {
                Level::Error
            }
            Self::Lost { .. } => Level::Critical,
        }
    }

    /// Its word in JSON, and in the environment of a program.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::Started { .. } => "started",
            Self::Stopping => "stopping",
            Self::Health { .. } => "health",
            Self::Member { .. } => "member",
            Self::DriveErrors { .. } => "drive-errors",
            Self::DriveStale { .. } => "drive-stale",
            Self::DriveHeader { .. } => "drive-header",
            Self::Repaired { .. } => "repaired",
            Self::Lost { .. } => "lost",
            Self::Awaited { .. } => "awaited",
            Self::FaultsCleared => "faults-cleared",
            Self::JobBegan { .. } => "job-began",
            Self::JobProgress { .. } => "job-progress",
            Self::JobEnded { .. } => "job-ended",
            Self::DriveOffline { .. } => "drive-offline",
            Self::SpareAdded { .. } => "spare-added",
            Self::SpareRemoved { .. } => "spare-removed",
            Self::SpareTaken { .. } => "spare-taken",
            Self::SpareUnusable { .. } => "spare-unusable",
            Self::Filled { .. } => "filled",
            Self::ReclaimPressure { .. } => "reclaim-pressure",
            Self::ReclaimEased => "reclaim-eased",
        }
    }

    /// The slot that it is about, with the drive.
    pub(crate) fn place(&self) -> Option<Place> {
        match self {
            Self::Member { place, .. }
            | Self::DriveErrors { place, .. }
            | Self::DriveStale { place, .. }
            | Self::DriveHeader { place }
            | Self::Repaired { place, .. }
            | Self::Lost { place, .. }
            | Self::DriveOffline { place } => Some(place.clone()),
            Self::JobBegan { place, .. } | Self::JobEnded { place, .. } => place.clone(),
            Self::SpareTaken { slot, drive } => Some(Place::new((*slot).into(), drive)),
            _ => None,
        }
    }
}

/// A rebuild under way needs nobody; a vacant slot does.
const fn of_health(health: Health) -> Level {
    match health {
        Health::Healthy | Health::Starting => Level::Notice,
        Health::Rebuilding | Health::Unknown => Level::Warning,
        Health::Degraded => Level::Error,
        Health::Damaged | Health::Failed => Level::Critical,
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started { exports } if exports.is_empty() => write!(f, "in service"),
            Self::Started { exports } => write!(f, "in service at {}", exports.join(" ")),
            Self::Stopping => write!(f, "the server stops"),
            Self::Health { to, why, action, .. } => {
                write!(f, "the array is now {}", to.word())?;
                why.iter().try_for_each(|why| write!(f, ": {why}"))?;
                action.iter().try_for_each(|action| write!(f, "; to do: {action}"))
            }
            Self::Member { place, state, reason } => {
                write!(f, "{place} is now {state}")?;
                reason.iter().try_for_each(|reason| write!(f, ": {reason}"))
            }
            Self::DriveErrors { place, reads, writes } => {
                write!(f, "{place}: {reads} reads and {writes} writes failed so far")
            }
            Self::DriveStale { place, segments } => write!(
                f,
                "{place}: older than the array, or with lost zones: {segments} segments lacked \
                 blocks on it, and are rewritten from the other drives"
            ),
            Self::DriveHeader { place } => write!(f, "{place}: {HEADER_LOST}"),
            Self::Repaired { place, bytes: size } => {
                let size = bytes(*size);
                write!(f, "{place}: {size} were damaged, and restored from other drives")
            }
            Self::Lost { place, bytes: size } => {
                let size = bytes(*size);
                write!(f, "{place}: {size} are LOST: damaged, and on no other drive")
            }
            Self::Awaited { bytes: size, slots: out } => write!(
                f,
                "{} of the volume cannot be read until the drive of {} is back, as they are \
                 damaged on another one",
                bytes(*size),
                slots(out)
            ),
            Self::FaultsCleared => write!(f, "errors and lost ranges: cleared"),
            Self::JobBegan { job, place, detail } => job_text(f, job.word(), place, detail),
            Self::JobEnded { job, place, detail, .. } => job_text(f, job.word(), place, detail),
            Self::JobProgress { job, progress } => {
                write!(f, "{}: {} % done", job.word(), progress.percent())
            }
            Self::DriveOffline { place } => write!(f, "{place}: taken offline"),
            Self::SpareAdded { drive } => write!(f, "{drive} is a spare now"),
            Self::SpareRemoved { drive } => write!(f, "{drive} is no spare any more"),
            Self::SpareTaken { slot, drive } => {
                write!(f, "slot {slot}: replaced by the spare {drive}")
            }
            Self::SpareUnusable { drive, reason } => {
                write!(f, "the spare {drive} is unusable: {reason}")
            }
            Self::Filled { percent } => write!(f, "{percent} % of the volume are written"),
            Self::ReclaimPressure { moved_per_user_block } => write!(
                f,
                "reclaim moves {moved_per_user_block:.1} blocks for each block written: trim unused \
                 blocks, or give the next volume more --reserve"
            ),
            Self::ReclaimEased => write!(f, "reclaim moves less again"),
        }
    }
}

/// Jobs of a slot begin with the slot, and others with their name.
fn job_text(
    f: &mut fmt::Formatter<'_>,
    job: &str,
    place: &Option<Place>,
    detail: &str,
) -> fmt::Result {
    match place {
        Some(place) => write!(f, "{place}: {detail}"),
        None => write!(f, "{job}: {detail}"),
    }
}
