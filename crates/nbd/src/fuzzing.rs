//! Fuzz target bodies, here so that libFuzzer, the stable driver and unit tests run the same code.
//!
//! Each takes arbitrary bytes and panics if an invariant breaks:
//! * no input panics the parsers or makes them hold more than they state;
//! * how the input is cut into pieces changes nothing;
//! * an accepted request lies within its export, and every reply to it is well formed.
//!
//! The first byte of the input (two for requests) chooses the cuts and the session; the rest is the
//! input of the server.

mod requests;
mod seeds;

use std::sync::{Arc, LazyLock};

use bytes::BytesMut;

pub use requests::requests;
pub use seeds::{handshake_seeds, request_seeds};

use crate::export::{BlockSizes, ExportDescription, ExportIndex, ExportList};
use crate::flags::TransmissionFlags;
use crate::handshake::{HANDSHAKE_HELD_BYTES_MAX, Handshake, HandshakeError, HandshakeStep};
use crate::session::Session;

/// Bound on one answer for [`EXPORTS`]: the largest is `LIST`, three short entries.
const ANSWER_BYTES_MAX: usize = 512;

/// One export with everything, one read-only, one with a minimum block size.
static EXPORTS: LazyLock<Arc<ExportList>> = LazyLock::new(|| {
    let everything = TransmissionFlags::SUPPORTED.without(TransmissionFlags::READ_ONLY);
    let export = |name: &str, size_bytes, flags, minimum_bytes| ExportDescription {
        name: name.into(),
        description: format!("export {name}"),
        size_bytes,
        flags,
        block_sizes: BlockSizes { minimum_bytes, ..BlockSizes::default() },
    };
    let list = ExportList::new(vec![
        export("all", 1 << 30, everything, 1),
        export("fixed", 1_000_001, everything | TransmissionFlags::READ_ONLY, 1),
        export("coarse", 1 << 40, TransmissionFlags::NONE, 4096),
    ]);
    Arc::new(list.expect("the list is valid"))
});

/// How a handshake came out.
#[derive(Debug, PartialEq)]
enum Ending {
    WantsInput,
    Ready { session: Session, consumed: usize },
    Aborted,
    Failed(HandshakeError),
}

/// Negotiates with the bytes after the first, whole and in pieces, and gives the rest to the
/// requests.
pub fn handshake(data: &[u8]) {
    let Some((&cuts, client)) = data.split_first() else { return };
    let whole = haggle([client].into_iter());
    let pieces = haggle(Pieces { rest: client, seed: u32::from(cuts) });
    assert_eq!(whole, pieces, "cutting the input changed the outcome");
    if let (_, Ending::Ready { session, consumed }) = whole {
        requests::decode_and_answer(&session, &client[consumed..], u32::from(cuts));
    }
}

/// Runs a handshake over `pieces`; returns its output and how it ended.
fn haggle<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<u8>, Ending) {
    let mut handshake = Handshake::new(EXPORTS.clone());
    let mut sent = Vec::new();
    let mut fed = 0;
    for mut piece in pieces {
        fed += piece.len();
        loop {
            let mut answer = BytesMut::new();
            let step = handshake.advance(&mut piece, &mut answer);
            assert!(answer.len() <= ANSWER_BYTES_MAX, "an answer has {} bytes", answer.len());
            sent.extend_from_slice(&answer);
            handshake = match step {
                Ok(HandshakeStep::Continue(next)) => next,
                Ok(HandshakeStep::Ready(session)) => {
                    return (sent, Ending::Ready { session, consumed: fed - piece.len() });
                }
                Ok(HandshakeStep::Aborted) => return (sent, Ending::Aborted),
                Err(error) => return (sent, Ending::Failed(error)),
            };
            assert!(handshake.held_bytes() <= HANDSHAKE_HELD_BYTES_MAX);
            if piece.is_empty() {
                break;
            }
        }
    }
    (sent, Ending::WantsInput)
}

/// Cuts a slice into pieces of pseudo-random sizes, mostly smaller than a header.
struct Pieces<'a> {
    rest: &'a [u8],
    seed: u32,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        // Constants of the "Numerical Recipes" linear congruential generator.
        self.seed = self.seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let size = 1 + (self.seed >> 16) as usize % 40;
        let (piece, rest) = self.rest.split_at(size.min(self.rest.len()));
        self.rest = rest;
        Some(piece)
    }
}

/// A session of [`EXPORTS`] chosen by one byte.
fn session(choice: u8) -> Session {
    let structured = choice & 1 != 0;
    let context = (structured && choice & 2 != 0).then_some(crate::ContextId::BASE_ALLOCATION);
    let index = usize::from(choice >> 2) % EXPORTS.iter().count();
    Session::new(EXPORTS.clone(), ExportIndex(index), structured, context)
}
