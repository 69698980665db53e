//! Crashes: random histories, rare branches, losses beyond redundancy, and bugs of the past.

mod branches;
mod crash;
mod lost_parts;
mod numbers;
mod regressions;
