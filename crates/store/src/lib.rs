//! The place of a file store: a drive, or a zoned volume of several drives, opened by their paths
//! in this process.
//!
//! The command and the C ABI open stores the same way. Both report a [`PlaceError`] to their
//! users, the command after it has looked for a server of the volume.

mod error;
mod place;

pub use error::PlaceError;
pub use place::{Place, missing_slots, split_drives};
