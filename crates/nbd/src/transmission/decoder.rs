//! Cuts a byte stream into requests with their write payloads.
//!
//! Invariants:
//! * Memory: a payload is stored only after its length passed the export's maximum, and its buffer
//!   grows only as bytes arrive (to twice what came, at least [`PAYLOAD_STEP_BYTES`]), so that a
//!   client cannot reserve 32 MiB by announcing it. A rejected payload is counted past, not stored.
//! * A payload that lies whole in the input is taken without copying, if the input type allows.
//! * A rejection is reported after its payload has passed: libnbd 1.14 takes a reply that overtakes
//!   the write it belongs to for a server bug and gives up the connection.
//! * After a disconnect request or a bad magic number nothing more is decoded.

use bytes::{Buf, Bytes};

use super::{BadMagic, Command, REQUEST_HEADER_BYTES, Rejection, Request, RequestError};
use crate::session::Session;

/// First size of a payload buffer: the usual size of a large sequential write's socket read.
const PAYLOAD_STEP_BYTES: usize = 64 << 10;

/// One decoded item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Run this.
    Request {
        /// The request.
        request: Request,
        /// The data of a write, of exactly the request's length; empty otherwise.
        payload: Bytes,
    },
    /// Answer this with [`ReplyEncoder::reject`](crate::ReplyEncoder::reject). Its payload is past.
    Rejected(Rejection),
}

/// Decoder of one connection's requests.
#[derive(Clone, Debug)]
pub struct RequestDecoder {
    session: Session,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    Header { bytes: [u8; REQUEST_HEADER_BYTES], filled: usize },
    Payload { request: Request, received: Vec<u8> },
    Drain { rejection: Rejection, remaining: usize },
    Closed,
}

impl State {
    const START: Self = Self::Header { bytes: [0; REQUEST_HEADER_BYTES], filled: 0 };
}

impl RequestDecoder {
    /// A decoder for the requests of `session`.
    #[must_use]
    pub fn new(session: Session) -> Self {
        Self { session, state: State::START }
    }

    /// The session's terms.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Takes bytes from `input` up to the end of the next event. `None` means that the input is
    /// used up. With `Bytes` or `BytesMut` as input, payloads that arrived whole are not copied.
    ///
    /// # Errors
    /// On [`BadMagic`] the connection must be closed; further input is swallowed.
    pub fn next(&mut self, input: &mut impl Buf) -> Result<Option<Event>, BadMagic> {
        loop {
            match &mut self.state {
                State::Header { bytes, filled } => {
                    let taken = input.remaining().min(REQUEST_HEADER_BYTES - *filled);
                    input.copy_to_slice(&mut bytes[*filled..*filled + taken]);
                    *filled += taken;
                    if *filled < REQUEST_HEADER_BYTES {
                        return Ok(None);
                    }
                    let header = *bytes;
                    if let Some(event) = self.take_header(&header)? {
                        return Ok(Some(event));
                    }
                }
                State::Payload { request, received } => {
                    let request = *request;
                    let wanted = request.payload_bytes() as usize;
                    let payload = if received.is_empty() && input.remaining() >= wanted {
                        input.copy_to_bytes(wanted)
                    } else if collect(received, wanted, input) {
                        Bytes::from(std::mem::take(received))
                    } else {
                        return Ok(None);
                    };
                    self.state = State::START;
                    return Ok(Some(Event::Request { request, payload }));
                }
                State::Drain { rejection, remaining } => {
                    let rejection = *rejection;
                    let skipped = input.remaining().min(*remaining);
                    input.advance(skipped);
                    *remaining -= skipped;
                    if *remaining > 0 {
                        return Ok(None);
                    }
                    self.state = State::START;
                    return Ok(Some(Event::Rejected(rejection)));
                }
                State::Closed => {
                    input.advance(input.remaining());
                    return Ok(None);
                }
            }
        }
    }

    /// Whether a disconnect request or a protocol violation ended the stream.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// Payload memory held now, at most the export's maximum block size.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        if let State::Payload { received, .. } = &self.state { received.capacity() } else { 0 }
    }

    /// Judges a header; `None` if a payload must come first.
    fn take_header(
        &mut self,
        header: &[u8; REQUEST_HEADER_BYTES],
    ) -> Result<Option<Event>, BadMagic> {
        self.state = State::START;
        match self.session.parse_request(header) {
            Ok(request) if request.payload_bytes() > 0 => {
                self.state = State::Payload { request, received: Vec::new() };
                Ok(None)
            }
            Ok(request) => {
                if request.command == Command::Disconnect {
                    self.state = State::Closed;
                }
                Ok(Some(Event::Request { request, payload: Bytes::new() }))
            }
            Err(RequestError::Rejected(rejection)) if rejection.payload_bytes > 0 => {
                let remaining = rejection.payload_bytes as usize;
                self.state = State::Drain { rejection, remaining };
                Ok(None)
            }
            Err(RequestError::Rejected(rejection)) => Ok(Some(Event::Rejected(rejection))),
            Err(RequestError::BadMagic(violation)) => {
                self.state = State::Closed;
                Err(violation)
            }
        }
    }
}

/// Appends input to `received` until it has `wanted` bytes; says whether it has.
fn collect(received: &mut Vec<u8>, wanted: usize, input: &mut impl Buf) -> bool {
    while received.len() < wanted && input.has_remaining() {
        if received.len() == received.capacity() {
            let capacity = (received.len() * 2).max(PAYLOAD_STEP_BYTES).min(wanted);
            received.reserve_exact(capacity - received.len());
        }
        let room = received.capacity().min(wanted) - received.len();
        let piece = input.chunk();
        let taken = piece.len().min(room);
        received.extend_from_slice(&piece[..taken]);
        input.advance(taken);
    }
    received.len() == wanted
}
