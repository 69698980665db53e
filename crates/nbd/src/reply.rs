//! Replies: small headers as their own buffers, data slices passed through uncopied.
//!
//! Invariants:
//! * A read is answered with structured chunks if and only if they were agreed; other successes are
//!   simple replies, which the protocol allows in both modes and which are the shortest.
//! * Read extents cover the request exactly, once and in order; anything else is a bug of the
//!   caller and panics before a byte is produced.
//! * A don't-fragment read has one content chunk.
//! * Error texts are the server's own and at most [`MESSAGE_BYTES_MAX`] long.

pub mod chunk;
mod status;
#[cfg(test)]
mod tests;

use bytes::{BufMut, Bytes};

pub use status::{STATUS_EXTENTS_MAX, StatusExtent, StatusFlags};

use crate::errno::Errno;
use crate::session::{ContextId, Session};
use crate::transmission::{Command, Cookie, Rejection, Request};
use crate::wire::SIMPLE_REPLY_MAGIC;

/// Longest error text sent; the protocol says strings SHOULD stay within 256 bytes.
const MESSAGE_BYTES_MAX: usize = 256;

/// Source of the zero bytes of holes where a client cannot be told of holes.
static ZEROES: [u8; 64 << 10] = [0; 64 << 10];

/// Part of a read's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadExtent {
    /// Data, not empty.
    Data(Bytes),
    /// This many bytes (not 0) that read as zero.
    Hole {
        /// Length of the hole.
        length_bytes: u32,
    },
}

impl ReadExtent {
    fn length_bytes(&self) -> usize {
        match self {
            Self::Data(data) => data.len(),
            Self::Hole { length_bytes } => *length_bytes as usize,
        }
    }
}

/// A simple reply's header. The data of a successful read follows it, if structured replies are not
/// agreed. `None` is success.
#[must_use]
pub fn simple_reply(cookie: Cookie, errno: Option<Errno>) -> [u8; 16] {
    let mut header = [0; 16];
    let mut fields = &mut header[..];
    fields.put_u32(SIMPLE_REPLY_MAGIC);
    fields.put_u32(errno.map_or(0, Errno::code));
    fields.put_u64(cookie.0);
    header
}

/// Encodes replies in the way one client agreed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyEncoder {
    structured: bool,
}

impl Session {
    /// An encoder for this client's replies.
    #[must_use]
    pub fn replies(&self) -> ReplyEncoder {
        ReplyEncoder::new(self.structured_replies())
    }
}

impl ReplyEncoder {
    pub(crate) fn new(structured: bool) -> Self {
        Self { structured }
    }

    /// Success of a request that returns no data: any but read and block status.
    #[must_use]
    pub fn acknowledge(self, cookie: Cookie) -> Bytes {
        Bytes::copy_from_slice(&simple_reply(cookie, None))
    }

    /// Failure of any request. `message` reaches the client only with structured replies; it must
    /// not contain client data.
    #[must_use]
    pub fn fail(self, cookie: Cookie, errno: Errno, message: &str) -> Bytes {
        if self.structured {
            chunk::error(cookie, errno, message)
        } else {
            Bytes::copy_from_slice(&simple_reply(cookie, Some(errno)))
        }
    }

    /// Failure at a known byte of the export. `request` must contain `offset_bytes`.
    #[must_use]
    pub fn fail_at(
        self,
        request: &Request,
        errno: Errno,
        offset_bytes: u64,
        message: &str,
    ) -> Bytes {
        let start = request.offset_bytes;
        assert!(offset_bytes >= start, "error offset before the request");
        assert!(offset_bytes - start < u64::from(request.length_bytes), "error offset after it");
        if self.structured {
            chunk::error_offset(request.cookie, errno, offset_bytes, message)
        } else {
            self.fail(request.cookie, errno, message)
        }
    }

    /// Failure of a request that did not pass the parser.
    #[must_use]
    pub fn reject(self, rejection: &Rejection) -> Bytes {
        if self.structured {
            self.fail(rejection.cookie, rejection.errno(), &rejection.reason.to_string())
        } else {
            self.fail(rejection.cookie, rejection.errno(), "")
        }
    }

    /// Success of a read. Appends to `output` the buffers to send in order: headers of at most 32
    /// bytes, and the data of `extents`, not copied. The extents cover the request in order.
    pub fn read(self, request: &Request, extents: &[ReadExtent], output: &mut Vec<Bytes>) {
        let Command::Read { dont_fragment } = request.command else {
            panic!("only a read is answered with data, not {:?}", request.command);
        };
        let covered: usize = extents.iter().map(ReadExtent::length_bytes).sum();
        assert_eq!(covered, request.length_bytes as usize, "extents do not cover the read");
        assert!(extents.iter().all(|extent| extent.length_bytes() > 0), "empty extent");
        if !self.structured {
            output.push(self.acknowledge(request.cookie));
            push_flat(extents, output);
        } else if dont_fragment && extents.len() > 1 {
            let length_bytes = request.length_bytes;
            let header =
                chunk::offset_data(request.cookie, true, request.offset_bytes, length_bytes);
            output.push(Bytes::copy_from_slice(&header));
            push_flat(extents, output);
        } else {
            push_chunks(request, extents, output);
        }
    }

    /// Success of a block status: the known states of the range from its start, as one chunk.
    /// Extents past the request are clamped, neighbours with equal flags joined, and at most
    /// [`STATUS_EXTENTS_MAX`] sent; the protocol lets a reply cover less than the request. Unknown
    /// states are reported as allocated data, which is always safe.
    #[must_use]
    pub fn block_status(
        self,
        request: &Request,
        context: ContextId,
        extents: impl IntoIterator<Item = StatusExtent>,
    ) -> Bytes {
        assert!(self.structured, "metadata contexts need structured replies");
        let Command::BlockStatus { request_one } = request.command else {
            panic!("only a block status is answered with extents, not {:?}", request.command);
        };
        let extents = status::normalize(request.length_bytes, request_one, extents);
        chunk::block_status(request.cookie, context, &extents)
    }
}

/// One chunk for each extent, the last one marked done.
fn push_chunks(request: &Request, extents: &[ReadExtent], output: &mut Vec<Bytes>) {
    let cookie = request.cookie;
    if extents.is_empty() {
        // A content chunk cannot be empty, so a read of nothing is answered by "none".
        output.push(Bytes::copy_from_slice(&chunk::none(cookie)));
    }
    let mut offset_bytes = request.offset_bytes;
    for (index, extent) in extents.iter().enumerate() {
        let done = index + 1 == extents.len();
        match extent {
            ReadExtent::Data(data) => {
                let length_bytes = u32::try_from(data.len()).expect("covered by a u32 length");
                let header = chunk::offset_data(cookie, done, offset_bytes, length_bytes);
                output.push(Bytes::copy_from_slice(&header));
                output.push(data.clone());
            }
            ReadExtent::Hole { length_bytes } => {
                let hole = chunk::offset_hole(cookie, done, offset_bytes, *length_bytes);
                output.push(Bytes::copy_from_slice(&hole));
            }
        }
        offset_bytes += extent.length_bytes() as u64;
    }
}

/// The bytes themselves, holes as zeroes.
fn push_flat(extents: &[ReadExtent], output: &mut Vec<Bytes>) {
    for extent in extents {
        match extent {
            ReadExtent::Data(data) => output.push(data.clone()),
            ReadExtent::Hole { length_bytes } => {
                let mut remaining = *length_bytes as usize;
                while remaining > 0 {
                    let piece = remaining.min(ZEROES.len());
                    output.push(Bytes::from_static(&ZEROES[..piece]));
                    remaining -= piece;
                }
            }
        }
    }
}

/// Cuts a text to the longest one sent, between characters.
fn truncate(message: &str) -> &str {
    &message[..message.floor_char_boundary(MESSAGE_BYTES_MAX)]
}
