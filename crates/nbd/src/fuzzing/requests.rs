//! The request target: decodes a stream, checks the accepted requests, and checks the replies to
//! them.

use bytes::{Buf, Bytes};

use super::{Pieces, session};
use crate::errno::Errno;
use crate::reply::{ReadExtent, StatusExtent, StatusFlags};
use crate::session::Session;
use crate::transmission::{BadMagic, Command, Event, Request, RequestDecoder};
use crate::wire::{SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC};

/// Replies to longer reads are not built, only to keep executions fast.
const READ_BYTES_MAX: u32 = 1 << 20;

/// Decodes the bytes after the first two as requests, whole and in pieces, and answers them.
pub fn requests(data: &[u8]) {
    let &[choice, cuts, ref client @ ..] = data else { return };
    decode_and_answer(&session(choice), client, u32::from(cuts));
}

/// As [`requests`], for a given session.
pub(super) fn decode_and_answer(session: &Session, client: &[u8], cuts: u32) {
    let whole = decode(session, [client].into_iter());
    let pieces = decode(session, Pieces { rest: client, seed: cuts });
    assert_eq!(whole, pieces, "cutting the input changed the events");
    for event in &whole.0 {
        match event {
            Event::Request { request, payload } => {
                check_request(session, request, payload);
                answer(session, request);
            }
            Event::Rejected(rejection) => {
                let reply = session.replies().reject(rejection);
                check_reply(session, &reply);
            }
        }
    }
}

fn decode<'a>(
    session: &Session,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> (Vec<Event>, Result<(), BadMagic>) {
    let mut decoder = RequestDecoder::new(session.clone());
    let mut events = Vec::new();
    for mut piece in pieces {
        loop {
            match decoder.next(&mut piece) {
                Ok(Some(event)) => events.push(event),
                Ok(None) => break,
                Err(violation) => return (events, Err(violation)),
            }
        }
        assert!(piece.is_empty(), "the decoder left input");
        assert!(decoder.held_bytes() <= session.export().block_sizes.maximum_bytes as usize);
    }
    (events, Ok(()))
}

fn check_request(session: &Session, request: &Request, payload: &Bytes) {
    let export = session.export();
    assert_eq!(payload.len(), request.payload_bytes() as usize);
    let end = request.offset_bytes.checked_add(u64::from(request.length_bytes));
    assert!(end.expect("no overflow") <= export.size_bytes);
    if matches!(request.command, Command::Read { .. } | Command::Write) {
        assert!(request.length_bytes <= export.block_sizes.maximum_bytes);
    }
    assert!(request.offset_bytes.is_multiple_of(u64::from(export.block_sizes.minimum_bytes)));
}

/// Builds every reply the request may get.
fn answer(session: &Session, request: &Request) {
    let replies = session.replies();
    match request.command {
        Command::Disconnect => return,
        Command::Read { .. } => answer_read(session, request),
        Command::BlockStatus { request_one } => {
            let context = session.base_allocation().expect("the parser checked it");
            let extents = [
                StatusExtent { length_bytes: 4096, flags: StatusFlags::Data },
                StatusExtent { length_bytes: request.cookie.0, flags: StatusFlags::Zero },
                StatusExtent { length_bytes: u64::MAX, flags: StatusFlags::HoleZero },
            ];
            let reply = replies.block_status(request, context, extents);
            check_reply(session, &reply);
            check_extents(request, request_one, &reply[24..]);
        }
        _ => check_reply(session, &replies.acknowledge(request.cookie)),
    }
    if request.length_bytes > 0 {
        let last = request.offset_bytes + u64::from(request.length_bytes) - 1;
        check_reply(session, &replies.fail_at(request, Errno::InputOutput, last, "lost"));
    }
}

fn answer_read(session: &Session, request: &Request) {
    let length = request.length_bytes;
    if length > READ_BYTES_MAX {
        return;
    }
    let mut extents = Vec::new();
    if length > 1 {
        extents.push(ReadExtent::Hole { length_bytes: length / 2 });
    }
    if length > 0 {
        let data = vec![7; (length - length / 2) as usize];
        extents.push(ReadExtent::Data(data.into()));
    }
    let mut output = Vec::new();
    session.replies().read(request, &extents, &mut output);
    check_reply(session, &output[0]);
    let sent: usize = output.iter().map(Bytes::len).sum();
    if !session.structured_replies() {
        assert_eq!(sent, 16 + length as usize);
    }
}

/// A reply starts with the magic number of a kind the client agreed to.
fn check_reply(session: &Session, mut reply: &[u8]) {
    match reply.get_u32() {
        SIMPLE_REPLY_MAGIC => assert!(reply.len() == 12),
        STRUCTURED_REPLY_MAGIC => assert!(session.structured_replies()),
        magic => panic!("reply magic {magic:#x}"),
    }
}

fn check_extents(request: &Request, request_one: bool, mut extents: &[u8]) {
    assert!(!extents.is_empty());
    assert!(!request_one || extents.len() == 8);
    let mut sum = 0;
    while extents.has_remaining() {
        let length_bytes = extents.get_u32();
        assert!(length_bytes > 0);
        sum += u64::from(length_bytes);
        extents.advance(4);
    }
    assert!(sum <= u64::from(request.length_bytes));
}
