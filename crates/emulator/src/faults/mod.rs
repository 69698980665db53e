//! Planned and random faults: the commands that they hit, and their effects.
//!
//! A plan (`plan`) is a list. Each command is compared with it in the order in which faults were
//! added. Delays add up. Of the other faults, the first that fires decides; later ones do not count
//! the command. A fault ignores commands that its action cannot affect. After the list, a plan may
//! have [random faults](SeededFaults) (`seeded`), for commands that no listed fault hit.
//!
//! `action` has the effects, `damage` changes of blocks, `crash` the choices after a power failure.

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
