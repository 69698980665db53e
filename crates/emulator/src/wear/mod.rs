//! Erase counts: the erases of each reset, and when erase blocks are worn.
//!
//! A zone is statically mapped to its erase blocks. Blocks are programmed in the order of their
//! offsets from the zone's origin. With circular mapping a reset moves the origin to the end of the
//! written blocks (WA-Zone, Eq. 3–5). A reset erases all erase blocks, or only programmed ones.
//!
//! Invariants: an erase count never exceeds the endurance; a refused reset erases nothing. Blocks
//! that were programmed and then lost by a power failure count as programmed.
//!
//! `counts` does the counting, `settings` has the structure of zones, `report` the figures.

mod counts;
mod report;
mod settings;

pub use counts::{Wear, ZoneWear};
pub use report::{EraseSpread, Lifetime, WearReport, ZoneWearReport};
pub use settings::{BlockMapping, EraseMode, WearError, WearSettings, WornZone};
