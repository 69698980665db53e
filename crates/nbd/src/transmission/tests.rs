//! Every rule of the request parser, and the decoder's handling of payloads.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use super::*;
use crate::export::{BlockSizes, ExportDescription, ExportIndex, ExportList, PAYLOAD_BYTES_MAX};
use crate::session::ContextId;

const SIZE_BYTES: u64 = 1 << 40;
const ALL: TransmissionFlags = TransmissionFlags::SUPPORTED.without(TransmissionFlags::READ_ONLY);

fn session(flags: TransmissionFlags, minimum_bytes: u32) -> Session {
    let export = ExportDescription {
        name: "main".into(),
        description: String::new(),
        size_bytes: SIZE_BYTES,
        flags,
        block_sizes: BlockSizes { minimum_bytes, ..BlockSizes::default() },
    };
    let exports = Arc::new(ExportList::new(vec![export]).unwrap());
    Session::new(exports, ExportIndex(0), true, Some(ContextId::BASE_ALLOCATION))
}

fn plain_session(flags: TransmissionFlags) -> Session {
    let full = session(flags, 1);
    let exports = Arc::new(ExportList::new(vec![full.export().clone()]).unwrap());
    Session::new(exports, ExportIndex(0), false, None)
}

fn header(flags: u16, command: u16, offset_bytes: u64, length_bytes: u32) -> [u8; 28] {
    let mut bytes = BytesMut::new();
    bytes.put_u32(REQUEST_MAGIC);
    bytes.put_u16(flags);
    bytes.put_u16(command);
    bytes.put_u64(0xc00c1e);
    bytes.put_u64(offset_bytes);
    bytes.put_u32(length_bytes);
    bytes[..].try_into().unwrap()
}

fn rejection(session: &Session, header: &[u8; 28]) -> Rejection {
    match session.parse_request(header) {
        Err(RequestError::Rejected(rejection)) => {
            assert_eq!(rejection.cookie, Cookie(0xc00c1e));
            rejection
        }
        other => panic!("not rejected: {other:?}"),
    }
}

fn errno(session: &Session, flags: u16, command: u16, offset: u64, length: u32) -> Errno {
    rejection(session, &header(flags, command, offset, length)).errno()
}

#[test]
fn commands_and_their_flags_are_understood() {
    use command_flag::{DONT_FRAGMENT, FAST_ZERO, FUA, NO_HOLE, REQUEST_ONE};
    let zeroes = |no_hole, fast_zero| Command::WriteZeroes { no_hole, fast_zero };
    let cases = [
        (command::READ, 0, Command::Read { dont_fragment: false }),
        (command::READ, DONT_FRAGMENT, Command::Read { dont_fragment: true }),
        (command::WRITE, 0, Command::Write),
        (command::TRIM, 0, Command::Trim),
        (command::WRITE_ZEROES, 0, zeroes(false, false)),
        (command::WRITE_ZEROES, NO_HOLE, zeroes(true, false)),
        (command::WRITE_ZEROES, FAST_ZERO, zeroes(false, true)),
        (command::BLOCK_STATUS, 0, Command::BlockStatus { request_one: false }),
        (command::BLOCK_STATUS, REQUEST_ONE, Command::BlockStatus { request_one: true }),
        (command::CACHE, 0, Command::Cache),
    ];
    let session = session(ALL, 1);
    for (number, flags, command) in cases {
        for fua in [0, FUA] {
            let request = session.parse_request(&header(flags | fua, number, 4097, 3)).unwrap();
            let expected = Request {
                command,
                force_unit_access: fua != 0,
                cookie: Cookie(0xc00c1e),
                offset_bytes: 4097,
                length_bytes: 3,
            };
            assert_eq!(request, expected);
        }
    }
}

#[test]
fn flush_takes_no_range_and_disconnect_is_never_refused() {
    let session = session(ALL, 1);
    let flush = session.parse_request(&header(0, command::FLUSH, 0, 0)).unwrap();
    assert_eq!(flush.command, Command::Flush);
    assert_eq!(errno(&session, 0, command::FLUSH, 1, 0), Errno::Invalid);
    assert_eq!(errno(&session, 0, command::FLUSH, 0, 1), Errno::Invalid);
    let odd = header(0xffff, command::DISCONNECT, u64::MAX, u32::MAX);
    let request = session.parse_request(&odd).unwrap();
    assert_eq!((request.command, request.length_bytes), (Command::Disconnect, 0));
}

#[test]
fn only_what_was_offered_is_accepted() {
    let bare = plain_session(TransmissionFlags::NONE);
    for command in [
        command::FLUSH,
        command::TRIM,
        command::WRITE_ZEROES,
        command::CACHE,
        command::BLOCK_STATUS,
        8,
        u16::MAX,
    ] {
        assert_eq!(errno(&bare, 0, command, 0, 0), Errno::Invalid, "command {command}");
    }
    assert_eq!(errno(&bare, command_flag::FUA, command::READ, 0, 1), Errno::Invalid);
    assert_eq!(errno(&bare, command_flag::DONT_FRAGMENT, command::READ, 0, 1), Errno::Invalid);
    // SEND_DF of the export is withheld without structured replies.
    let simple = plain_session(ALL);
    assert_eq!(errno(&simple, command_flag::DONT_FRAGMENT, command::READ, 0, 1), Errno::Invalid);
    let slow = session(ALL.without(TransmissionFlags::SEND_FAST_ZERO), 1);
    let fast_zero = command_flag::FAST_ZERO;
    assert_eq!(errno(&slow, fast_zero, command::WRITE_ZEROES, 0, 1), Errno::Invalid);
}

#[test]
fn flags_of_other_commands_and_unknown_flags_are_refused() {
    let session = session(ALL, 1);
    let own = [
        (command::READ, 0b00101),
        (command::WRITE, 0b00001),
        (command::FLUSH, 0b00001),
        (command::TRIM, 0b00001),
        (command::CACHE, 0b00001),
        (command::WRITE_ZEROES, 0b10011),
        (command::BLOCK_STATUS, 0b01001),
    ];
    for (command, valid) in own {
        for bit in 0..16 {
            let parsed = session.parse_request(&header(1 << bit, command, 0, 0));
            let refused = matches!(
                parsed,
                Err(RequestError::Rejected(Rejection {
                    reason: RejectionReason::FlagNotOffered { .. },
                    ..
                }))
            );
            assert_eq!(refused, valid & (1 << bit) == 0, "command {command} bit {bit}");
        }
    }
}

#[test]
fn ranges_end_at_the_export() {
    let session = session(ALL, 1);
    let cases = [
        (command::READ, Errno::Invalid),
        (command::WRITE, Errno::NoSpace),
        (command::WRITE_ZEROES, Errno::NoSpace),
        (command::TRIM, Errno::Invalid),
        (command::CACHE, Errno::Invalid),
        (command::BLOCK_STATUS, Errno::Invalid),
    ];
    for (command, expected) in cases {
        assert!(session.parse_request(&header(0, command, SIZE_BYTES - 7, 7)).is_ok());
        for (offset, length) in
            [(SIZE_BYTES - 7, 8), (u64::MAX, 1), (u64::MAX - 3, 4), (SIZE_BYTES, 1)]
        {
            assert_eq!(errno(&session, 0, command, offset, length), expected);
        }
    }
}

#[test]
fn only_payloads_are_limited_in_length() {
    let session = session(ALL, 1);
    for command in [command::READ, command::WRITE] {
        assert!(session.parse_request(&header(0, command, 0, PAYLOAD_BYTES_MAX)).is_ok());
        assert_eq!(errno(&session, 0, command, 0, PAYLOAD_BYTES_MAX + 1), Errno::Invalid);
        assert_eq!(errno(&session, 0, command, 0, u32::MAX), Errno::Invalid);
    }
    for command in [command::TRIM, command::WRITE_ZEROES, command::BLOCK_STATUS, command::CACHE] {
        assert!(session.parse_request(&header(0, command, 0, u32::MAX)).is_ok());
    }
}

#[test]
fn empty_requests_are_accepted_where_a_reply_exists() {
    let session = session(ALL, 1);
    for command in [command::READ, command::WRITE, command::TRIM, command::WRITE_ZEROES] {
        assert!(session.parse_request(&header(0, command, SIZE_BYTES, 0)).is_ok());
    }
    assert_eq!(errno(&session, 0, command::BLOCK_STATUS, 0, 0), Errno::Invalid);
}

#[test]
fn read_only_exports_refuse_changes_and_nothing_else() {
    let session = session(ALL | TransmissionFlags::READ_ONLY, 1);
    for command in [command::WRITE, command::TRIM, command::WRITE_ZEROES] {
        assert_eq!(errno(&session, 0, command, 0, 1), Errno::NotPermitted);
    }
    for command in [command::READ, command::CACHE, command::BLOCK_STATUS] {
        assert!(session.parse_request(&header(0, command, 0, 1)).is_ok());
    }
}

#[test]
fn minimum_block_size_is_enforced() {
    let session = session(ALL, 4096);
    assert!(session.parse_request(&header(0, command::WRITE, 8192, 4096)).is_ok());
    assert_eq!(errno(&session, 0, command::WRITE, 512, 4096), Errno::Invalid);
    assert_eq!(errno(&session, 0, command::READ, 0, 512), Errno::Invalid);
}

#[test]
fn rejected_write_says_how_much_to_drain() {
    let session = session(ALL | TransmissionFlags::READ_ONLY, 1);
    let write = rejection(&session, &header(0x8000, command::WRITE, 0, u32::MAX));
    assert_eq!(write.payload_bytes, u32::MAX);
    let trim = rejection(&session, &header(0, command::TRIM, 0, u32::MAX));
    assert_eq!(trim.payload_bytes, 0);
}

#[test]
fn wrong_magic_closes() {
    let mut bytes = header(0, command::READ, 0, 1);
    bytes[0] = 0;
    let error = session(ALL, 1).parse_request(&bytes).unwrap_err();
    assert_eq!(error, RequestError::BadMagic(BadMagic { found: 0x0060_9513 }));
}

fn write(length: usize) -> Vec<u8> {
    let mut bytes = header(0, command::WRITE, 0, u32::try_from(length).unwrap()).to_vec();
    bytes.extend((0..length).map(|index| index.to_le_bytes()[0]));
    bytes
}

#[test]
fn payload_that_arrives_whole_is_not_copied() {
    let mut input = Bytes::from(write(8192));
    let data = input.slice(REQUEST_HEADER_BYTES..);
    let mut decoder = RequestDecoder::new(session(ALL, 1));
    let Ok(Some(Event::Request { payload, .. })) = decoder.next(&mut input) else { panic!() };
    assert_eq!(payload, data);
    assert_eq!(payload.as_ptr(), data.as_ptr());
}

#[test]
fn payload_memory_follows_what_arrived() {
    let mut decoder = RequestDecoder::new(session(ALL, 1));
    let total = PAYLOAD_BYTES_MAX as usize;
    let head = header(0, command::WRITE, 0, PAYLOAD_BYTES_MAX);
    assert_eq!(decoder.next(&mut &head[..]), Ok(None));
    assert_eq!(decoder.held_bytes(), 0, "an announcement costs nothing");
    let piece = vec![0x5a; 100_000];
    let mut arrived = 0;
    loop {
        let taken = piece.len().min(total - arrived);
        arrived += taken;
        let event = decoder.next(&mut &piece[..taken]).unwrap();
        if let Some(Event::Request { payload, .. }) = event {
            assert_eq!(arrived, total);
            assert_eq!(payload.len(), total);
            break;
        }
        assert!(decoder.held_bytes() <= (arrived * 2).max(64 << 10).min(total));
    }
    assert_eq!(decoder.held_bytes(), 0);
}

#[test]
fn rejected_payload_is_drained_and_the_next_request_is_found() {
    let session = session(ALL | TransmissionFlags::READ_ONLY, 1);
    let mut bytes = write(100_000);
    bytes.extend_from_slice(&header(0, command::READ, 0, 1));
    let mut decoder = RequestDecoder::new(session);
    let mut events = Vec::new();
    for mut piece in bytes.chunks(777) {
        while let Some(event) = decoder.next(&mut piece).unwrap() {
            events.push(event);
        }
        assert_eq!(decoder.held_bytes(), 0);
    }
    assert_eq!(events.len(), 2);
    assert!(matches!(events[0], Event::Rejected(_)));
    assert!(matches!(events[1], Event::Request { .. }));
}

/// libnbd's `pwrite` of 40 MiB, over the limit, was answered once its header had arrived. libnbd
/// was still sending, did not yet expect a reply with that cookie, and dropped the connection.
#[test]
fn rejection_waits_until_its_payload_has_passed() {
    let length = PAYLOAD_BYTES_MAX + 1;
    let mut decoder = RequestDecoder::new(session(ALL, 1));
    let head = header(0, command::WRITE, 0, length);
    assert_eq!(decoder.next(&mut &head[..]), Ok(None));
    let payload = vec![0; length as usize];
    assert_eq!(decoder.next(&mut &payload[1..]), Ok(None));
    assert_eq!(decoder.held_bytes(), 0);
    let Ok(Some(Event::Rejected(rejection))) = decoder.next(&mut &payload[..1]) else { panic!() };
    let maximum_bytes = PAYLOAD_BYTES_MAX;
    let reason = RejectionReason::TooLong { length_bytes: length, maximum_bytes };
    assert_eq!(rejection.reason, reason);
}

#[test]
fn nothing_is_decoded_after_disconnect() {
    let mut bytes = header(0, command::DISCONNECT, 0, 0).to_vec();
    bytes.extend_from_slice(&header(0, command::READ, 0, 1));
    let mut input = &bytes[..];
    let mut decoder = RequestDecoder::new(session(ALL, 1));
    assert!(matches!(decoder.next(&mut input), Ok(Some(Event::Request { .. }))));
    assert!(decoder.is_closed());
    assert_eq!(decoder.next(&mut input), Ok(None));
    assert!(input.is_empty());
}
