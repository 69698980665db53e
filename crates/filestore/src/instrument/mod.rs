//! Instruments for simulation: [`marks`] count rare branches, [`mutants`] plant bugs. Both do
//! something only in builds with the feature `instrumented`.

pub mod marks;
pub mod mutants;
