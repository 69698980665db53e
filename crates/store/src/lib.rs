//! File stores by the names that users give them: drives, or the socket of a server.
//!
//! | module | content |
//! |---|---|
//! | `place` | a drive, or a zoned volume of several, opened by paths |
//! | `files` | stores and open files, in this process or of a server |
//! | `client` | a connection to a served store |
//! | `server` | serves a store to other processes |
//! | `recording` | the events of a store, written to a file |
//! | `wire` | their protocol, without I/O |
//! | `failure` | errors that leave the process |

mod client;
mod error;
mod failure;
mod files;
mod place;
mod recording;
mod server;
mod table;
mod wire;

pub use client::Client;
pub use error::PlaceError;
pub use failure::{Code, Failure};
pub use files::{Reader, ServedReader, ServedWriter, Store, Writer};
pub use place::{Place, Target, missing_slots};
pub use recording::{Complaint, Recording};
pub use server::{StoreServer, StoreServerStatus};
pub use table::Table;
