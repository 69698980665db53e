//! The measurement programme of the ZNS characterisation literature, on any drive.
//!
//! In the order of a run:
//!
//! - [`Subject`] (the drive, its other LBA formats, a conventional twin) and [`Plan`] go into
//!   [`run`].
//! - `bench` runs jobs on the subject, and `measure` the programme table by table.
//! - `sample` defines the [`Results`].
//! - [`observations`] judges, [`recommendations`] advises, and [`report`] writes files.
//! - `profile` extracts the part that the engine's write policy needs.
//!
//! [`observations`] judges the thirteen observations of Doekemeijer et al., "Performance
//! Characterization of NVMe Flash Devices with Zoned Namespaces" (CLUSTER 2023). The rules are
//! explicit and use the samples alone; the figures of the paper and of its data set are shown next
//! to them.
//!
//! Invariant: everything in the subject's zones is destroyed, and they are empty afterwards unless
//! a measurement failed. Other active zones of the drive must leave room for the open zones of the
//! run.

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

/// The drives to measure.
#[derive(Clone)]
pub struct Subject {
    /// Name of the subject in the report.
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

/// The storage stacks that a subject is measured through; `None` is not measured.
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

    /// The real stack between this process and the drive, with nothing modelled: for real time.
    pub const REAL: Self = Self { direct: Host::NONE, kernel: None, scheduler: None };
}

/// Progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The part to be measured next.
    pub table: Table,
    /// Parts done.
    pub done: usize,
    /// Parts in all.
    pub total: usize,
}

/// The reason for an early end of a run.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CharacterizeError {
    /// A job failed.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A zone management command failed.
    #[error("{action} of {zone} failed: {status}")]
    Zone {
        /// The command.
        action: &'static str,
        /// The zone.
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
        /// Usable zones.
        have: usize,
        /// Zones that the plan needs.
        need: usize,
    },
}

/// Measures every table.
///
/// # Errors
///
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
