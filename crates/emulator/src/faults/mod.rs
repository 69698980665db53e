//! Faults: which command they hit and what they do to it.
//!
//! A plan is a list. A command is held against it in the order in which faults were added: delays
//! add up, and of the other faults the first that fires decides; those behind it do not count the
//! command. A fault sees only commands that its action can affect. Behind the list a plan may have
//! [faults by seed](SeededFaults), which hit commands that the list spared.

mod action;
mod crash;
mod damage;
mod plan;
mod seeded;

pub use action::FaultAction;
pub use crash::{CrashChoices, SeededCrash};
pub use damage::{BlockPart, Damage};
pub use plan::{Fault, FaultPlan, Selector};
pub use seeded::{FaultClass, FaultProfile, Return, SeededFaults};
