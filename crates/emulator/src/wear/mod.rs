//! Erase counts: what each reset does to the erase blocks of its zone, and when they are worn.
//!
//! A zone is statically mapped to its erase blocks. Blocks are programmed in the order of their
//! offsets from the zone's origin on; with circular mapping a reset moves the origin to where the
//! zone ended (WA-Zone, Eq. 3–5). A reset erases all of them or those that were programmed.
//!
//! Invariants: an erase count never exceeds the endurance; a refused reset erases nothing. Blocks
//! that were programmed and then lost by a power failure count as programmed.

mod counts;
mod report;
mod settings;

pub use counts::{Wear, ZoneWear};
pub use report::{EraseSpread, Lifetime, WearReport, ZoneWearReport};
pub use settings::{BlockMapping, EraseMode, WearError, WearSettings, WornZone};
