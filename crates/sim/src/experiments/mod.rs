//! Experiments: figures of papers, measured again on emulated drives.
//!
//! Each one builds its drives, puts a load on them in virtual time, and returns a [`Report`]: files
//! to keep, and findings, each decided by a rule that is written down beside it. Nothing is read or
//! written here; what is returned depends on nothing but the program.
//!
//! Most experiments are many [points](Point), each of which can be run on its own, on whatever thread;
//! [`Experiment::report`] makes the report of their rows. Experiments of one paper are a group: the
//! part of their names before the slash.

mod catalog;
mod chart;
mod error;
mod html;
mod point;
mod report;
mod suite;
mod summary;
mod zapraid;
mod zn540;
mod zns_vs_block;

pub use catalog::{EXPERIMENTS, Experiment, named};
pub use error::ExperimentError;
pub use html::page;
pub use point::{Key, Point, Row, Settings, Values};
pub use report::{Comparison, File, Finding, Report};
pub use summary::Summary;
