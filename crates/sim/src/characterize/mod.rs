//! The measurement programme of the ZNS characterisation literature, on any drive.
//!
//! [`run`] takes a [`Subject`] (a zoned drive, and if there are any its other LBA formats and a
//! conventional twin) and a [`Plan`], and brings [`Results`]: samples by table, and series by second.
//! [`observations`] judges the thirteen observations of Doekemeijer et al., "Performance
//! Characterization of NVMe Flash Devices with Zoned Namespaces" (CLUSTER 2023), by explicit
//! rules from the samples alone, beside what the paper says and what its published data set says.
//! [`recommendations`] follow from the same numbers. [`report`] writes all of it down.
//!
//! Everything in the zones of the subject is destroyed. They are empty afterwards unless a
//! measurement failed. The run needs nothing else of the drive than its zones: other zones that are
//! active must leave room for the open zones that are measured.

mod bench;
mod claim;
mod fidelity;
mod measure;
mod observations;
mod plan;
mod profile;
mod recommend;
pub mod report;
mod sample;

use std::rc::Rc;

use thiserror::Error;
use zoneweave_runtime::Handle;
use zoneweave_zoned::{BlockDevice, Status, ZoneId, ZonedDevice};

use crate::workload::{Host, WorkloadError};

pub use claim::{Claim, Observation, Verdict};
pub use fidelity::{Emulator, Fidelity, Shows, emulators, fidelity};
pub use observations::observations;
pub use plan::Plan;
pub use profile::{write_profile, write_profile_of};
pub use recommend::{Recommendation, recommendations};
pub use sample::{Action, Beside, Results, Sample, Series, Stack, Subsystem, Table};

use bench::Bench;

/// What is measured.
#[derive(Clone)]
pub struct Subject {
    /// What the report calls it.
    pub name: String,
    /// The drive.
    pub zoned: Rc<dyn ZonedDevice>,
    /// Zones that may be destroyed.
    pub zones: Vec<ZoneId>,
    /// The same drive in other LBA formats, by block size in bytes. Every zone of them is used.
    pub formats: Vec<(u32, Rc<dyn ZonedDevice>)>,
    /// A conventional drive of the same hardware. All of it is used.
    pub conventional: Option<Rc<dyn BlockDevice>>,
    /// Host software to measure through.
    pub stacks: Stacks,
}

/// The storage stacks a subject is measured through; those that are not there are not modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stacks {
    /// The shortest way to the drive.
    pub direct: Host,
    /// The kernel's block layer without a scheduler.
    pub kernel: Option<Host>,
    /// The block layer with a scheduler that merges writes.
    pub scheduler: Option<Host>,
}

impl Stacks {
    /// The stacks of the calibration data, modelled: for drives in virtual time.
    pub const MODELLED: Self = Self {
        direct: Host::SPDK,
        kernel: Some(Host::IO_URING),
        scheduler: Some(Host::MQ_DEADLINE),
    };

    /// What is between this process and the drive, and nothing modelled: for real time.
    pub const REAL: Self = Self { direct: Host::NONE, kernel: None, scheduler: None };
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The part that is about to be measured.
    pub table: Table,
    /// Parts done.
    pub done: usize,
    /// Parts in all.
    pub total: usize,
}

/// Why a run ended early.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CharacterizeError {
    /// A job failed.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A zone management command failed.
    #[error("{action} of {zone} failed: {status}")]
    Zone {
        /// What was asked of the drive.
        action: &'static str,
        /// Where.
        zone: ZoneId,
        /// The drive's answer.
        status: Status,
    },
    /// The drive did not report its zones.
    #[error("the drive does not report its zones: {0}")]
    Report(Status),
    /// There are too few zones.
    #[error("{have} zones may be used, {need} are needed: make a drive of more zones")]
    TooFewZones {
        /// How many there are.
        have: usize,
        /// How many it takes.
        need: usize,
    },
}

/// Measures everything.
///
/// # Errors
/// If a command fails, or the drive has too few zones.
pub async fn run(
    handle: &Handle,
    subject: &Subject,
    plan: &Plan,
    progress: &mut dyn FnMut(Progress),
) -> Result<Results, CharacterizeError> {
    let mut bench = Bench::new(handle, subject, plan).await?;
    let total = Table::ALL.len();
    for (done, table) in Table::ALL.iter().enumerate() {
        progress(Progress { table: *table, done, total });
        measure::measure(&mut bench, *table).await?;
    }
    bench.clean_up().await
}

#[cfg(test)]
mod tests;
