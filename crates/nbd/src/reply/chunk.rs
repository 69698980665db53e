//! Structured reply chunks, one function each. All are complete but [`offset_data`], whose data
//! follows.

use bytes::{BufMut, Bytes, BytesMut};

use super::status::StatusFlags;
use super::truncate;
use crate::errno::Errno;
use crate::session::ContextId;
use crate::transmission::Cookie;
use crate::wire::{CHUNK_DONE, STRUCTURED_REPLY_MAGIC, chunk_type};

const HEADER_BYTES: usize = 20;

/// Ends a reply without saying more.
#[must_use]
pub fn none(cookie: Cookie) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    header(&mut &mut bytes[..], cookie, true, chunk_type::NONE, 0);
    bytes
}

/// Announces `length_bytes` (not 0, at most the maximum block size) of data that are sent next.
#[must_use]
pub fn offset_data(cookie: Cookie, done: bool, offset_bytes: u64, length_bytes: u32) -> [u8; 28] {
    assert!(length_bytes > 0, "a content chunk cannot be empty");
    let payload_bytes = length_bytes.checked_add(8).expect("reads are limited to 32 MiB");
    let mut bytes = [0; 28];
    let mut fields = &mut bytes[..];
    header(&mut fields, cookie, done, chunk_type::OFFSET_DATA, payload_bytes);
    fields.put_u64(offset_bytes);
    bytes
}

/// Says that `length_bytes` (not 0) read as zeroes.
#[must_use]
pub fn offset_hole(cookie: Cookie, done: bool, offset_bytes: u64, length_bytes: u32) -> [u8; 32] {
    assert!(length_bytes > 0, "a content chunk cannot be empty");
    let mut bytes = [0; 32];
    let mut fields = &mut bytes[..];
    header(&mut fields, cookie, done, chunk_type::OFFSET_HOLE, 12);
    fields.put_u64(offset_bytes);
    fields.put_u32(length_bytes);
    bytes
}

/// Ends a reply with a failure of the whole request.
#[must_use]
pub fn error(cookie: Cookie, errno: Errno, message: &str) -> Bytes {
    let message = truncate(message);
    let payload_bytes = 6 + message.len();
    let mut bytes = BytesMut::with_capacity(HEADER_BYTES + payload_bytes);
    header(&mut bytes, cookie, true, chunk_type::ERROR, length_u32(payload_bytes));
    put_error(&mut bytes, errno, message);
    bytes.freeze()
}

/// Ends a reply with an error at a byte offset; chunks sent before are valid up to that offset.
#[must_use]
pub fn error_offset(cookie: Cookie, errno: Errno, offset_bytes: u64, message: &str) -> Bytes {
    let message = truncate(message);
    let payload_bytes = 14 + message.len();
    let mut bytes = BytesMut::with_capacity(HEADER_BYTES + payload_bytes);
    header(&mut bytes, cookie, true, chunk_type::ERROR_OFFSET, length_u32(payload_bytes));
    put_error(&mut bytes, errno, message);
    bytes.put_u64(offset_bytes);
    bytes.freeze()
}

/// Ends a reply with extents (at least one) that follow each other from the request's start.
pub(super) fn block_status(
    cookie: Cookie,
    context: ContextId,
    extents: &[(u32, StatusFlags)],
) -> Bytes {
    assert!(!extents.is_empty(), "a block status needs an extent");
    let payload_bytes = 4 + 8 * extents.len();
    let mut bytes = BytesMut::with_capacity(HEADER_BYTES + payload_bytes);
    header(&mut bytes, cookie, true, chunk_type::BLOCK_STATUS, length_u32(payload_bytes));
    bytes.put_u32(context.0);
    for (length_bytes, flags) in extents {
        bytes.put_u32(*length_bytes);
        bytes.put_u32(flags.bits());
    }
    bytes.freeze()
}

fn header(
    output: &mut impl BufMut,
    cookie: Cookie,
    done: bool,
    chunk_type: u16,
    payload_bytes: u32,
) {
    output.put_u32(STRUCTURED_REPLY_MAGIC);
    output.put_u16(if done { CHUNK_DONE } else { 0 });
    output.put_u16(chunk_type);
    output.put_u64(cookie.0);
    output.put_u32(payload_bytes);
}

fn put_error(output: &mut BytesMut, errno: Errno, message: &str) {
    output.put_u32(errno.code());
    output.put_u16(u16::try_from(message.len()).expect("messages are truncated to 256 bytes"));
    output.put_slice(message.as_bytes());
}

fn length_u32(length: usize) -> u32 {
    u32::try_from(length).expect("messages and extent lists are bounded")
}
