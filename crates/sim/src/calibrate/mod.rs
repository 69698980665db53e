//! Comparison of the emulator's timing model with measurements of real drives.
//!
//! [`rows`] reads the measurements, [`residuals`] runs the same workloads on the model, and
//! `report` compares the two. The workloads run on [`zoneweave_emulator::Timing`] itself, without
//! drive or executor, so that hundreds of them take seconds.
//!
//! Order of the files: `measured` (rows), `closed_loop` (a workload on the model), `points` (a row
//! repeated on the model), `report` (errors in groups).

mod closed_loop;
mod measured;
mod points;
mod report;

pub use closed_loop::{ClosedLoop, Job, Kind, Outcome};
pub use measured::{MeasuredError, Row, embedded_rows, rows};
pub use points::{Residual, residuals};
pub use report::{Group, groups, markdown, table};
