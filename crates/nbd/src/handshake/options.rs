//! Decides the answer to one option whose payload is complete.

use std::sync::Arc;

use bytes::{Buf, BytesMut};

use super::{HandshakeError, Terms, encode};
use crate::export::{ExportIndex, ExportList};
use crate::session::{ContextId, Session, effective_flags};
use crate::wire::{BASE_ALLOCATION, BASE_NAMESPACE, info, option, option_reply};

/// The next action of the connection after an option.
pub(super) enum Answer {
    Next,
    Abort,
    Enter(ExportIndex),
}

/// The option's payload does not have the shape the protocol gives it.
struct Malformed;

impl Terms {
    /// Writes the answer to `option` and returns the next action.
    pub(super) fn answer(
        &mut self,
        exports: &ExportList,
        option: u32,
        payload: &[u8],
        output: &mut BytesMut,
    ) -> Result<Answer, HandshakeError> {
        match option {
            option::EXPORT_NAME => return self.export_name(exports, payload, output),
            option::ABORT => {
                encode::acknowledge(output, option);
                return Ok(Answer::Abort);
            }
            option::INFO | option::GO => {
                return Ok(self.information(exports, option, payload, output));
            }
            option::LIST => list(exports, payload, output),
            option::STRUCTURED_REPLY => self.structured_reply(payload, output),
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                self.metadata_contexts(exports, option, payload, output);
            }
            // STARTTLS is here too: without TLS it is as unknown as any other option.
            _ => {
                encode::reply(output, option, option_reply::ERR_UNSUPPORTED, encode::UNSUPPORTED);
            }
        }
        Ok(Answer::Next)
    }

    /// The agreed terms, once an export is chosen. A context selected for another export is void.
    pub(super) fn session(&self, exports: Arc<ExportList>, index: ExportIndex) -> Session {
        let selected = self.base_allocation_of == Some(index);
        let base_allocation = selected.then_some(ContextId::BASE_ALLOCATION);
        Session::new(exports, index, self.structured_replies, base_allocation)
    }

    /// The old way in: no reply header, and no error but hanging up.
    fn export_name(
        &self,
        exports: &ExportList,
        name: &[u8],
        output: &mut BytesMut,
    ) -> Result<Answer, HandshakeError> {
        let index =
            exports.find(name).ok_or(HandshakeError::UnknownExport { name_bytes: name.len() })?;
        let export = exports.get(index);
        if export.block_sizes.minimum_bytes > 1 {
            return Err(HandshakeError::BlockSizeRequired { export: index });
        }
        let flags = effective_flags(export, self.structured_replies);
        encode::export_name(output, export, flags, self.no_zeroes);
        Ok(Answer::Enter(index))
    }

    /// `INFO` and `GO`, which differ only after success.
    fn information(
        &self,
        exports: &ExportList,
        option: u32,
        payload: &[u8],
        output: &mut BytesMut,
    ) -> Answer {
        assert!(matches!(option, option::INFO | option::GO), "{option} asks for no information");
        let Ok((name, wanted)) = parse_information(payload) else {
            encode::reply(output, option, option_reply::ERR_INVALID, encode::MALFORMED);
            return Answer::Next;
        };
        let Some(index) = exports.find(name) else {
            encode::reply(output, option, option_reply::ERR_UNKNOWN, encode::NO_SUCH_EXPORT);
            return Answer::Next;
        };
        let export = exports.get(index);
        if export.block_sizes.minimum_bytes > 1 && !wanted.block_size {
            let required = option_reply::ERR_BLOCK_SIZE_REQUIRED;
            encode::reply(output, option, required, encode::NEEDS_BLOCK_SIZE);
            return Answer::Next;
        }
        let flags = effective_flags(export, self.structured_replies);
        encode::info_export(output, option, export, flags);
        if wanted.block_size {
            encode::info_block_size(output, option, export);
        }
        if wanted.name {
            encode::info_text(output, option, info::NAME, &export.name);
        }
        if wanted.description && !export.description.is_empty() {
            encode::info_text(output, option, info::DESCRIPTION, &export.description);
        }
        encode::acknowledge(output, option);
        if option == option::GO { Answer::Enter(index) } else { Answer::Next }
    }

    fn structured_reply(&mut self, payload: &[u8], output: &mut BytesMut) {
        let option = option::STRUCTURED_REPLY;
        if !payload.is_empty() {
            encode::reply(output, option, option_reply::ERR_INVALID, encode::NO_DATA_EXPECTED);
        } else if self.structured_replies {
            encode::reply(output, option, option_reply::ERR_INVALID, encode::ALREADY_STRUCTURED);
        } else {
            self.structured_replies = true;
            encode::acknowledge(output, option);
        }
    }

    fn metadata_contexts(
        &mut self,
        exports: &ExportList,
        option: u32,
        payload: &[u8],
        output: &mut BytesMut,
    ) {
        let selecting = option == option::SET_META_CONTEXT;
        assert!(selecting || option == option::LIST_META_CONTEXT, "{option} has no queries");
        if selecting {
            // Each SET replaces the one before, also when it fails.
            self.base_allocation_of = None;
        }
        if !self.structured_replies {
            encode::reply(output, option, option_reply::ERR_INVALID, encode::NEEDS_STRUCTURED);
            return;
        }
        let Ok((name, base_allocation)) = parse_queries(payload, selecting) else {
            encode::reply(output, option, option_reply::ERR_INVALID, encode::MALFORMED);
            return;
        };
        let Some(index) = exports.find(name) else {
            encode::reply(output, option, option_reply::ERR_UNKNOWN, encode::NO_SUCH_EXPORT);
            return;
        };
        if base_allocation {
            // The protocol wants the number of a listed, not selected, context to be zero.
            let id = if selecting { ContextId::BASE_ALLOCATION } else { ContextId(0) };
            encode::base_allocation(output, option, id);
        }
        if base_allocation && selecting {
            self.base_allocation_of = Some(index);
        }
        encode::acknowledge(output, option);
    }
}

fn list(exports: &ExportList, payload: &[u8], output: &mut BytesMut) {
    let option = option::LIST;
    if !payload.is_empty() {
        encode::reply(output, option, option_reply::ERR_INVALID, encode::NO_DATA_EXPECTED);
        return;
    }
    for export in exports.iter() {
        encode::server(output, option, export);
    }
    encode::acknowledge(output, option);
}

/// The information types a client asked for. A set, so that repeating one does not repeat the
/// reply.
#[derive(Default)]
struct Wanted {
    name: bool,
    description: bool,
    block_size: bool,
}

/// Payload of `GO` and `INFO`: name length (32 bits), name, count (16 bits), that many 16-bit
/// types.
fn parse_information(mut payload: &[u8]) -> Result<(&[u8], Wanted), Malformed> {
    let name = take_string(&mut payload)?;
    let count = payload.try_get_u16().map_err(|_| Malformed)?;
    if payload.len() != usize::from(count) * 2 {
        return Err(Malformed);
    }
    let mut wanted = Wanted::default();
    while payload.has_remaining() {
        match payload.get_u16() {
            info::NAME => wanted.name = true,
            info::DESCRIPTION => wanted.description = true,
            info::BLOCK_SIZE => wanted.block_size = true,
            // Unknown types must be ignored, and the export information is always sent.
            _ => {}
        }
    }
    Ok((name, wanted))
}

/// Payload of the metadata options: name length, name, number of queries, then each query with its
/// length (all 32 bits). Says whether `base:allocation` is asked for.
fn parse_queries(mut payload: &[u8], selecting: bool) -> Result<(&[u8], bool), Malformed> {
    let name = take_string(&mut payload)?;
    let count = payload.try_get_u32().map_err(|_| Malformed)?;
    // Listing without a query lists everything; selecting without one selects nothing.
    let mut base_allocation = count == 0 && !selecting;
    for _ in 0..count {
        // Each round takes at least four of at most 4096 bytes, for any `count`.
        let query = take_string(&mut payload)?;
        // A whole namespace can be listed, but not selected.
        base_allocation |= query == BASE_ALLOCATION || (query == BASE_NAMESPACE && !selecting);
    }
    if payload.is_empty() { Ok((name, base_allocation)) } else { Err(Malformed) }
}

/// Takes a string after its 32-bit length.
fn take_string<'a>(payload: &mut &'a [u8]) -> Result<&'a [u8], Malformed> {
    let length = payload.try_get_u32().map_err(|_| Malformed)? as usize;
    let (string, rest) = payload.split_at_checked(length).ok_or(Malformed)?;
    *payload = rest;
    Ok(string)
}
