//! Services of the operating system that are not I/O on drives or sockets.
//!
//! - `timeout`: a future that ends at a deadline, or when another one completes;
//! - `spawn_blocking`: one blocking call in a new thread;
//! - `worker`: a thread for a series of blocking calls;
//! - `busy`: retries while another process still holds a file or socket;
//! - `signals`: SIGINT, SIGTERM and SIGHUP as futures, heeded at any moment;
//! - `notify`: messages to the service manager;
//! - `entropy`: random bytes;
//! - `unix_seconds`: the wall clock, for the times of files.
//!
//! Invariant: the engine's thread never blocks, except while it opens drives or sockets at start.

pub(crate) mod busy;
mod clock;
mod entropy;
mod notify;
mod signals;
pub(crate) mod spawn_blocking;
pub(crate) mod timeout;
pub(crate) mod worker;

pub use clock::unix_seconds;
pub use entropy::entropy;
pub use notify::ServiceManager;
pub use signals::{Signal, Signals, survive_file_size_limit};
