//! The errors of experiments.

use thiserror::Error;
use zoneweave_emulator::{ConventionalError, PresetError};
use zoneweave_raid::log::{CreateError, OpenError};
use zoneweave_raid::raizn;
use zoneweave_zoned::GeometryError;

use crate::workload::WorkloadError;

/// Why an experiment could not be carried out.
#[derive(Debug, Error)]
pub enum ExperimentError {
    /// A drive failed or rejected a command.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A conventional drive cannot be made.
    #[error(transparent)]
    Conventional(#[from] ConventionalError),
    /// A zoned drive cannot be made.
    #[error(transparent)]
    Preset(#[from] PresetError),
    /// A zoned drive cannot be made.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// An array cannot be made of such drives.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// The array cannot be opened with the write policy.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A zoned volume cannot be made of such drives.
    #[error(transparent)]
    CreateZoned(#[from] raizn::CreateError),
    /// The zoned volume cannot be opened.
    #[error(transparent)]
    OpenZoned(#[from] raizn::OpenError),
    /// A table cannot be written.
    #[error(transparent)]
    Table(#[from] csv::Error),
}
