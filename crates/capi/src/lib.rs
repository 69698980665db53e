//! The C interface of file stores, for RocksDB and other programs: `include/zoneweave_fs.h`.
//!
//! ```text
//!   threads of the program               thread of the store
//!   abi ─► service ──── letters ────► worker ─► FileStore
//!             ▲                          │
//!             └──────── answers ─────────┘
//! ```
//!
//! | module | content |
//! |---|---|
//! | `abi` | the functions |
//! | `uri` | the name of a store |
//! | `service` | an open store in a thread of its own, and calls to it |
//! | `worker` | what that thread owns |
//! | `lent` | memory of a caller that waits |
//!
//! Invariants:
//! - No panic crosses the boundary. After one, every call on the store fails with `Code::Bug`.
//! - A call returns only once its work has ended or was dropped: memory that the caller lent is not
//!   touched afterwards.
//! - At most `REQUESTS_MAX` calls are under way.

mod abi;
mod lent;
mod service;
mod uri;
mod worker;

pub use abi::*;
pub use zoneweave_store::Code;
