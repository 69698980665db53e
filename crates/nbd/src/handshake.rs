//! Option haggling, from the greeting to a [`Session`].
//!
//! This file frames the client's bytes into options; `options` answers them; `encode` writes the
//! replies.
//!
//! Invariants:
//! * Nothing is buffered but one option, whose length was compared with
//!   [`OPTION_PAYLOAD_BYTES_MAX`] first. Longer ones are counted past, not stored.
//! * One call answers at most one option, so that a client which pipelines options without reading
//!   replies never makes the server hold more than one reply.
//! * The handshake is consumed by each step. Past `GO`, `EXPORT_NAME` or `ABORT` there is none left
//!   to negotiate with, and the client's further bytes stay in the input for the next phase.
//!
//! Fault model: the client is hostile and unauthenticated. Deadlines are the front end's.

mod encode;
mod options;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::{Buf, BytesMut};

use crate::export::{ExportIndex, ExportList};
use crate::session::Session;
use crate::wire::{GREETING_MAGIC, OPTION_MAGIC, handshake_flag, option, option_reply};
use options::Answer;

/// Longest option that is read; QEMU's CVE-2017-15119 was a client sending 4 GiB ones.
pub const OPTION_PAYLOAD_BYTES_MAX: u32 = 4096;
/// Longest option that is skipped and answered "too big"; beyond it the server hangs up.
pub const OPTION_SKIP_BYTES_MAX: u32 = 1 << 20;
/// Options a client may send. Listing tools send two per export; interactive ones a few dozen.
pub const OPTIONS_PER_CONNECTION_MAX: u32 = 256;
/// Most client bytes a handshake holds: one option's payload.
pub const HANDSHAKE_HELD_BYTES_MAX: usize = OPTION_PAYLOAD_BYTES_MAX as usize;

const OPTION_HEADER_BYTES: usize = 16;
const CLIENT_FLAGS_BYTES: usize = 4;
const GREETING_BYTES: usize = 18;

/// Why the server hangs up during the handshake. No reply follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The protocol demands hanging up on flags the server does not know.
    #[error("client flags {flags:#010x} are unknown; the client speaks another protocol version")]
    UnknownClientFlags {
        /// The flags sent.
        flags: u32,
    },
    /// An option did not begin with "IHAVEOPT".
    #[error("option magic is {magic:#018x}; the client is out of step or speaks no NBD")]
    BadOptionMagic {
        /// The value found instead.
        magic: u64,
    },
    /// An option is too long even to skip, or is a too long `EXPORT_NAME`.
    #[error(
        "option {option} has {length_bytes} bytes; at most {OPTION_PAYLOAD_BYTES_MAX} are read"
    )]
    OptionTooLong {
        /// Option number.
        option: u32,
        /// Announced length.
        length_bytes: u32,
    },
    /// The client negotiates without end.
    #[error("over {OPTIONS_PER_CONNECTION_MAX} options on one connection; reconnect to go on")]
    TooManyOptions,
    /// A client that did not agree to fixed newstyle sent something else than `EXPORT_NAME`.
    #[error("option {option} without fixed newstyle; only EXPORT_NAME is valid then")]
    NotFixedNewstyle {
        /// Option number.
        option: u32,
    },
    /// `EXPORT_NAME`, which knows no error reply, named no export.
    #[error("EXPORT_NAME with a {name_bytes}-byte name matches no export; list them with LIST")]
    UnknownExport {
        /// Length of the name; the name itself is client data and stays out of logs.
        name_bytes: usize,
    },
    /// `EXPORT_NAME` cannot tell the client about a minimum block size.
    #[error("export {} has a minimum block size, which EXPORT_NAME cannot negotiate; use GO", .export.0)]
    BlockSizeRequired {
        /// The export asked for.
        export: ExportIndex,
    },
}

/// The next action after a step.
#[derive(Debug)]
pub enum HandshakeStep {
    /// Send the output, then call again: at once if input is left, else when more arrives.
    Continue(Handshake),
    /// Send the output and start transmission; the rest of the input belongs to it.
    Ready(Session),
    /// The client said goodbye: send the output and close.
    Aborted,
}

/// The handshake of one connection.
#[derive(Debug)]
pub struct Handshake {
    exports: Arc<ExportList>,
    state: State,
    held: Vec<u8>,
    options_count: u32,
    terms: Terms,
}

/// The agreement of the options so far.
#[derive(Debug, Default)]
struct Terms {
    fixed_newstyle: bool,
    no_zeroes: bool,
    structured_replies: bool,
    /// The export for which `base:allocation` is selected.
    base_allocation_of: Option<ExportIndex>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    ClientFlags,
    OptionHeader,
    OptionPayload { option: u32, length: usize },
    SkipPayload { option: u32, remaining: usize },
}

impl Handshake {
    /// A handshake for a new connection. Send [`Self::greeting`] first.
    #[must_use]
    pub fn new(exports: Arc<ExportList>) -> Self {
        Self {
            exports,
            state: State::ClientFlags,
            held: Vec::new(),
            options_count: 0,
            terms: Terms::default(),
        }
    }

    /// The bytes the server opens the connection with.
    #[must_use]
    pub fn greeting() -> [u8; GREETING_BYTES] {
        let flags = handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES;
        let mut greeting = [0; GREETING_BYTES];
        greeting[..8].copy_from_slice(&GREETING_MAGIC.to_be_bytes());
        greeting[8..16].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
        greeting[16..].copy_from_slice(&flags.to_be_bytes());
        greeting
    }

    /// Takes client bytes from `input`, answers at most one option into `output`.
    ///
    /// # Errors
    /// On [`HandshakeError`] the connection must be closed; `output` then holds nothing new.
    pub fn advance(
        mut self,
        input: &mut impl Buf,
        output: &mut BytesMut,
    ) -> Result<HandshakeStep, HandshakeError> {
        loop {
            match self.state {
                State::ClientFlags => {
                    if !self.hold(input, CLIENT_FLAGS_BYTES) {
                        return Ok(HandshakeStep::Continue(self));
                    }
                    self.take_client_flags()?;
                }
                State::OptionHeader => {
                    if !self.hold(input, OPTION_HEADER_BYTES) {
                        return Ok(HandshakeStep::Continue(self));
                    }
                    self.take_option_header()?;
                }
                State::OptionPayload { option, length } => {
                    if !self.hold(input, length) {
                        return Ok(HandshakeStep::Continue(self));
                    }
                    return self.answer(option, output);
                }
                State::SkipPayload { option, remaining } => {
                    let skipped = remaining.min(input.remaining());
                    input.advance(skipped);
                    self.state = State::SkipPayload { option, remaining: remaining - skipped };
                    if skipped == remaining {
                        encode::reply(output, option, option_reply::ERR_TOO_BIG, encode::TOO_BIG);
                        self.state = State::OptionHeader;
                    }
                    return Ok(HandshakeStep::Continue(self));
                }
            }
        }
    }

    /// Client bytes held in memory now, at most [`HANDSHAKE_HELD_BYTES_MAX`].
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held.capacity()
    }

    /// Moves input into `held` until it has `wanted` bytes; says whether it has.
    fn hold(&mut self, input: &mut impl Buf, wanted: usize) -> bool {
        assert!(wanted <= HANDSHAKE_HELD_BYTES_MAX, "a length was used before it was bounded");
        self.held.reserve_exact(wanted - self.held.len());
        while self.held.len() < wanted && input.has_remaining() {
            let piece = input.chunk();
            let taken = piece.len().min(wanted - self.held.len());
            self.held.extend_from_slice(&piece[..taken]);
            input.advance(taken);
        }
        self.held.len() == wanted
    }

    fn take_client_flags(&mut self) -> Result<(), HandshakeError> {
        let flags = (&self.held[..]).get_u32();
        self.held.clear();
        let known = u32::from(handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES);
        if flags & !known != 0 {
            return Err(HandshakeError::UnknownClientFlags { flags });
        }
        self.terms.fixed_newstyle = flags & u32::from(handshake_flag::FIXED_NEWSTYLE) != 0;
        self.terms.no_zeroes = flags & u32::from(handshake_flag::NO_ZEROES) != 0;
        self.state = State::OptionHeader;
        Ok(())
    }

    fn take_option_header(&mut self) -> Result<(), HandshakeError> {
        let mut header = &self.held[..];
        let magic = header.get_u64();
        let option = header.get_u32();
        let length_bytes = header.get_u32();
        self.held.clear();
        if magic != OPTION_MAGIC {
            return Err(HandshakeError::BadOptionMagic { magic });
        }
        if self.options_count == OPTIONS_PER_CONNECTION_MAX {
            return Err(HandshakeError::TooManyOptions);
        }
        self.options_count += 1;
        if !self.terms.fixed_newstyle && option != option::EXPORT_NAME {
            return Err(HandshakeError::NotFixedNewstyle { option });
        }
        let length = length_bytes as usize;
        self.state = if length_bytes <= OPTION_PAYLOAD_BYTES_MAX {
            State::OptionPayload { option, length }
        } else if length_bytes <= OPTION_SKIP_BYTES_MAX && option != option::EXPORT_NAME {
            State::SkipPayload { option, remaining: length }
        } else {
            return Err(HandshakeError::OptionTooLong { option, length_bytes });
        };
        Ok(())
    }

    fn answer(
        mut self,
        option: u32,
        output: &mut BytesMut,
    ) -> Result<HandshakeStep, HandshakeError> {
        let payload_max = OPTION_PAYLOAD_BYTES_MAX as usize;
        assert!(self.held.len() <= payload_max, "a longer payload is skipped or refused");
        let answer = self.terms.answer(&self.exports, option, &self.held, output)?;
        self.held.clear();
        self.state = State::OptionHeader;
        Ok(match answer {
            Answer::Next => HandshakeStep::Continue(self),
            Answer::Abort => HandshakeStep::Aborted,
            Answer::Enter(index) => HandshakeStep::Ready(self.terms.session(self.exports, index)),
        })
    }
}
