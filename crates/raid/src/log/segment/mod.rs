//! Segments: one zone on each of their columns, filled front to back, reset as a whole.
//!
//! A segment's life, in files:
//!
//! 1. `open` takes zones and a number for a `lane`, writes the header, and reserves numbers;
//!    `active_zones` keeps drives within their limits.
//! 2. `table` holds all segments: their zones, phases and valid blocks, the task that works on
//!    each, and the entries that no summary covers yet. `pin` keeps one from being reset.
//! 3. `spans` writes the summary that closes each span. `stripe_table` maps chunks to stripes where
//!    Zone Append lets the drive choose the row.
//! 4. `scan` reads a segment back, from summaries or block metadata that `verify` checks; `resolve`
//!    matches the `scanned` rows to stripes.
//! 5. `dead` remembers dead segments until no drive can bring their blocks back.
//! 6. `narrow_list` and `narrow_state` record on every drive which narrow segments are alive.
//!
//! `registry` holds the lists of segments that superblock records carry.
//!
//! Invariants: the header is durable before any data. Numbers are never reused. Zones are reset
//! only after a durable dead record.

pub(in crate::log) mod active_zones;
pub(in crate::log) mod dead;
pub(in crate::log) mod lane;
pub(in crate::log) mod narrow_list;
pub(in crate::log) mod narrow_state;
pub(in crate::log) mod open;
pub(in crate::log) mod pin;
pub(in crate::log) mod registry;
pub(in crate::log) mod resolve;
pub(in crate::log) mod scan;
pub(in crate::log) mod scanned;
pub(in crate::log) mod spans;
pub(in crate::log) mod stripe_table;
pub(in crate::log) mod table;
pub(in crate::log) mod verify;
