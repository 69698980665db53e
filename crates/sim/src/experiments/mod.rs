//! Experiments: figures of papers, reproduced on emulated drives.
//!
//! Each experiment builds its drives, runs a load in virtual time, and returns a [`Report`]: files,
//! and findings that explicit rules decide. Most experiments consist of [points](Point), which run
//! independently on any thread; [`Experiment::report`] turns their rows into a report. Experiments
//! of one paper form a group: the part of their names before the slash.
//!
//! In the order of a run:
//!
//! - `catalog` lists the experiments: `zn540`, `zns_vs_block`, `away` and those of the papers,
//!   `zapraid` and `raizn`.
//! - `suite` describes an experiment made of points; `point` runs a configuration with a seed.
//! - `summary` averages rows; `target` hides the kind of drive from a load.
//! - `report`, `chart` and `html` write the results.
//!
//! Invariant: nothing is read or written here, and results depend on nothing but the program.

mod away;
mod catalog;
mod chart;
mod error;
mod html;
mod point;
mod raizn;
mod report;
mod suite;
mod summary;
mod target;
mod zapraid;
mod zn540;
mod zns_vs_block;

pub use catalog::{EXPERIMENTS, Experiment, named};
pub use chart::{Chart, Line, svg};
pub use error::ExperimentError;
pub use html::page;
pub use point::{Key, Point, Row, Settings, Values};
pub use report::{Comparison, File, Finding, Report};
pub use summary::Summary;
