//! Writes, in the order in which they pass these files.
//!
//! 1. `pump` takes admitted commands in order and submits writes while there is room.
//! 2. `issue` places the blocks of a write in their columns, and computes parity.
//! 3. `column` writes the columns of a zone in order, one write at a time each, with whatever has
//!    been queued meanwhile.
//! 4. `log` writes the parity log of a member the same way; `checkpoint` frees its zones.
//! 5. `complete` ends writes in order, after a flush where durability is asked for.
//!
//! Invariants: a write completes after all writes before it in its zone. Its blocks, and parity
//! that makes them survive the loss of members, are on all members in service by then; an eviction
//! is durable by then.

pub(crate) mod checkpoint;
pub(crate) mod column;
pub(crate) mod complete;
pub(crate) mod issue;
pub(crate) mod log;
pub(crate) mod pump;
