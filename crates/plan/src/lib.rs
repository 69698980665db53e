//! A model of scale: drives in arrays, arrays in hosts, hosts in racks, a Ceph pool over them.
//!
//! | module | content |
//! |---|---|
//! | [`spec`] | the plan, and the rates that the model assumes, each with its source |
//! | [`array`](mod@array) | size, reserve and memory of one array, by the engine's own formulas |
//! | [`repair`] | the cost of a lost drive, array or host |
//! | [`durability`] | time to data loss, by Markov chains and by Monte-Carlo |
//! | [`outcome`] | all of it for one plan, and for the same drives without arrays |
//!
//! # Invariants
//! * The same plan and seed give the same figures on every machine of one architecture.
//! * Nothing here reads a drive: geometry and rates are given.
//!
//! # Limits
//! Failures have constant rates: no infant mortality, no wear-out. Placement groups lie on random
//! hosts, as CRUSH does on average. Availability, which ends at a host's reboot, is not modelled.

pub mod array;
pub mod durability;
pub mod outcome;
pub mod repair;
pub mod spec;
