//! The NBD protocol, sans-I/O: the server, and as much of a client as a load generator needs.
//!
//! Bytes go in, bytes and typed events come out. There are no sockets, clocks, threads or futures
//! here: the front end that owns the connection moves the bytes, enforces deadlines and connection
//! caps, and runs the requests.
//!
//! ```text
//!   bytes ──► Handshake ──► Session ──► RequestDecoder ──► Request ──► (the volume)
//!                │                                                        │
//!                ▼                                                        ▼
//!          option replies                                   ReplyEncoder ──► bytes
//! ```
//!
//! * [`Handshake`] speaks fixed newstyle: `GO`, `INFO`, `LIST`, `ABORT`, `EXPORT_NAME`,
//!   `STRUCTURED_REPLY`, `LIST_META_CONTEXT` and `SET_META_CONTEXT`; every other option, TLS
//!   included, is answered as unsupported.
//! * [`Session`] is the agreement of the handshake. It parses request headers
//!   ([`Session::parse_request`]), makes a [`RequestDecoder`] that also collects write payloads,
//!   and a [`ReplyEncoder`].
//! * [`client`] is a minimal client: it asks for an export, and for reads and writes.
//!
//! # Invariants
//! * The client is hostile. No byte it sends can panic, is echoed back, or is trusted as a length
//!   before it is compared with a limit.
//! * Memory is bounded: a handshake holds at most [`HANDSHAKE_HELD_BYTES_MAX`] of client input, a
//!   decoder at most the export's maximum block size, growing only as bytes really arrive.
//! * How the input is cut into pieces never changes the output.
//! * A step that ends the handshake consumes it, so nothing can be negotiated after `GO`.
//!
//! Source: `doc/proto.md` of the NetworkBlockDevice project. Extended headers, TLS and resize are
//! deliberately absent.

pub mod client;
mod errno;
mod export;
mod flags;
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
mod reply;
mod session;
mod transmission;
mod wire;

pub use errno::Errno;
pub use export::{
    BlockSizes, DESCRIPTION_BYTES_MAX, EXPORT_SIZE_BYTES_MAX, ExportDescription, ExportError,
    ExportIndex, ExportList, NAME_BYTES_MAX, PAYLOAD_BYTES_MAX,
};
pub use flags::TransmissionFlags;
pub use handshake::{
    HANDSHAKE_HELD_BYTES_MAX, Handshake, HandshakeError, HandshakeStep, OPTION_PAYLOAD_BYTES_MAX,
    OPTION_SKIP_BYTES_MAX, OPTIONS_PER_CONNECTION_MAX,
};
pub use reply::{
    ReadExtent, ReplyEncoder, STATUS_EXTENTS_MAX, StatusExtent, StatusFlags, chunk, simple_reply,
};
pub use session::{ContextId, Session};
pub use transmission::{
    BadMagic, Command, Cookie, Event, REQUEST_HEADER_BYTES, Rejection, RejectionReason, Request,
    RequestDecoder, RequestError,
};
