//! The timing model of the emulator against measurements of real drives.
//!
//! [`rows`] reads what was measured, [`residuals`] runs the same workloads on the model, and
//! `report` sets them side by side. The workloads run on [`zoneweave_emulator::Timing`] itself,
//! without drive or executor, so that hundreds of them take seconds.

mod closed_loop;
mod measured;
mod points;
mod report;

pub use closed_loop::{ClosedLoop, Job, Kind, Outcome};
pub use measured::{MeasuredError, Row, embedded_rows, rows};
pub use points::{Residual, residuals};
pub use report::{Group, groups, markdown, table};
