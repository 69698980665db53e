//! Writes option replies. Texts are the server's own; nothing the client sent is echoed.

use bytes::{BufMut, BytesMut};

use crate::export::ExportDescription;
use crate::flags::TransmissionFlags;
use crate::session::ContextId;
use crate::wire::{BASE_ALLOCATION, OPTION_REPLY_MAGIC, info, option_reply};

pub(super) const TOO_BIG: &[u8] = b"option data is limited to 4096 bytes";
pub(super) const MALFORMED: &[u8] = b"option data is malformed";
pub(super) const NO_DATA_EXPECTED: &[u8] = b"this option takes no data";
pub(super) const UNSUPPORTED: &[u8] = b"option is not supported";
pub(super) const NO_SUCH_EXPORT: &[u8] = b"no export has this name";
pub(super) const ALREADY_STRUCTURED: &[u8] = b"structured replies are already negotiated";
pub(super) const NEEDS_STRUCTURED: &[u8] = b"negotiate structured replies first";
pub(super) const NEEDS_BLOCK_SIZE: &[u8] = b"request the block size information for this export";

/// Zero bytes that end an `EXPORT_NAME` answer unless both sides agreed to leave them out.
const EXPORT_NAME_ZEROES: usize = 124;

/// One option reply with `payload`, which is the server's own text or data.
pub(super) fn reply(output: &mut BytesMut, option: u32, reply_type: u32, payload: &[u8]) {
    header(output, option, reply_type, payload.len());
    output.put_slice(payload);
}

pub(super) fn acknowledge(output: &mut BytesMut, option: u32) {
    header(output, option, option_reply::ACK, 0);
}

/// One entry of a `LIST` answer.
pub(super) fn server(output: &mut BytesMut, option: u32, export: &ExportDescription) {
    let (name, description) = (export.name.as_bytes(), export.description.as_bytes());
    header(output, option, option_reply::SERVER, 4 + name.len() + description.len());
    output.put_u32(length_u32(name.len()));
    output.put_slice(name);
    output.put_slice(description);
}

/// `NBD_INFO_EXPORT`: size and flags.
pub(super) fn info_export(
    output: &mut BytesMut,
    option: u32,
    export: &ExportDescription,
    flags: TransmissionFlags,
) {
    header(output, option, option_reply::INFO, 12);
    output.put_u16(info::EXPORT);
    output.put_u64(export.size_bytes);
    output.put_u16(flags.bits());
}

/// `NBD_INFO_BLOCK_SIZE`.
pub(super) fn info_block_size(output: &mut BytesMut, option: u32, export: &ExportDescription) {
    header(output, option, option_reply::INFO, 14);
    output.put_u16(info::BLOCK_SIZE);
    output.put_u32(export.block_sizes.minimum_bytes);
    output.put_u32(export.block_sizes.preferred_bytes);
    output.put_u32(export.block_sizes.maximum_bytes);
}

/// `NBD_INFO_NAME` or `NBD_INFO_DESCRIPTION`.
pub(super) fn info_text(output: &mut BytesMut, option: u32, info_type: u16, text: &str) {
    header(output, option, option_reply::INFO, 2 + text.len());
    output.put_u16(info_type);
    output.put_slice(text.as_bytes());
}

/// One metadata context.
pub(super) fn base_allocation(output: &mut BytesMut, option: u32, id: ContextId) {
    header(output, option, option_reply::META_CONTEXT, 4 + BASE_ALLOCATION.len());
    output.put_u32(id.0);
    output.put_slice(BASE_ALLOCATION);
}

/// The answer to `EXPORT_NAME`, which has no reply header.
pub(super) fn export_name(
    output: &mut BytesMut,
    export: &ExportDescription,
    flags: TransmissionFlags,
    no_zeroes: bool,
) {
    output.put_u64(export.size_bytes);
    output.put_u16(flags.bits());
    if !no_zeroes {
        output.put_bytes(0, EXPORT_NAME_ZEROES);
    }
}

fn header(output: &mut BytesMut, option: u32, reply_type: u32, payload_bytes: usize) {
    output.reserve(20 + payload_bytes);
    output.put_u64(OPTION_REPLY_MAGIC);
    output.put_u32(option);
    output.put_u32(reply_type);
    output.put_u32(length_u32(payload_bytes));
}

/// Our own names and texts are bounded when the export list is made.
fn length_u32(length: usize) -> u32 {
    u32::try_from(length).expect("server texts are a few KiB")
}
