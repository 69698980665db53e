//! The protocol between a served store and its clients, without I/O.
//!
//! ```text
//!   client ──► socket:  Greet ──► Create, Append + data, ReadAt ...     requests, in any number
//!   client ◄── socket:  Greeting ◄── Done, Length + data, Failed ...    replies, in any order
//! ```
//!
//! Each message is a frame with a tag; a reply has the tag of its request. The server greets first.
//! Messages are JSON, as on control sockets. File contents follow their message as raw bytes.
//!
//! Fault model: the peer is hostile. A frame announces its size before anything is kept of it, and
//! both parts have limits. A message that does not parse ends the connection.

mod frame;
mod message;

pub(crate) use frame::{FRAME_HEADER_BYTES, FrameError, FrameHeader, encode, frame, framed};
pub(crate) use message::{
    ENTRIES_MAX, Entry, ExtentEntry, FileNumber, Greeting, Reply, Request, Volume, ZoneEntry,
};

/// The version of the protocol. Client and server are of the same release, or of two that have it.
pub(crate) const VERSION: u32 = 2;

/// The longest message: two paths of 64 names, each byte escaped, are below it.
pub(crate) const MESSAGE_BYTES_MAX: usize = 256 << 10;

/// The most bytes of files in a frame; larger calls take several.
pub(crate) const DATA_BYTES_MAX: usize = 1 << 20;
