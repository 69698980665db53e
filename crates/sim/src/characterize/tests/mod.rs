//! Runs on emulated drives, and rules on tables made up for them.

mod runs;
mod verdicts;
