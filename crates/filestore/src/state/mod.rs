//! The state of a store, and every change of it: synchronous code without I/O.
//!
//! | file | content |
//! |---|---|
//! | `extents` | the blocks of a file |
//! | `zones` | phases, room and live blocks of zones |
//! | `namespace` | files, directories, names |
//! | `replay` | building the state from records |
//! | `snapshot` | the entries that build the state from nothing |
//!
//! Changes of names are applied when they are decided, in the order in which they are recorded. The
//! blocks that a change frees are returned, and count as live until its record is durable.

pub(crate) mod extents;
pub(crate) mod namespace;
pub(crate) mod replay;
pub(crate) mod snapshot;
pub(crate) mod zones;

pub(crate) use extents::{BlockRun, Extent, Piece};
pub(crate) use namespace::{Namespace, Node};
pub(crate) use replay::Replay;
pub use zones::Phase;
pub(crate) use zones::{Zone, ZoneTable};
