//! Byte-exact conversations as public clients hold them, written out in full so that they check the
//! constants of the implementation too.

use std::sync::Arc;

use bytes::BytesMut;
use zoneweave_nbd::{
    BlockSizes, Command, ContextId, Event, ExportDescription, ExportList, Handshake, HandshakeStep,
    ReadExtent, RequestDecoder, Session, StatusExtent, StatusFlags, TransmissionFlags,
};

/// Reads a transcript: hexadecimal pairs and `'text'`, with spaces and line ends between.
fn bytes(transcript: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, part) in transcript.split('\'').enumerate() {
        if index % 2 == 1 {
            bytes.extend_from_slice(part.as_bytes());
            continue;
        }
        let digits: String = part.split_whitespace().collect();
        assert!(digits.len().is_multiple_of(2), "odd digits in {part:?}");
        for pair in 0..digits.len() / 2 {
            bytes.push(u8::from_str_radix(&digits[pair * 2..pair * 2 + 2], 16).unwrap());
        }
    }
    bytes
}

fn exports() -> Arc<ExportList> {
    let flags = TransmissionFlags::SEND_FLUSH
        | TransmissionFlags::SEND_FUA
        | TransmissionFlags::SEND_TRIM
        | TransmissionFlags::SEND_WRITE_ZEROES
        | TransmissionFlags::SEND_DF
        | TransmissionFlags::CAN_MULTI_CONN
        | TransmissionFlags::SEND_FAST_ZERO;
    let volume = ExportDescription {
        name: "volume".into(),
        description: String::new(),
        size_bytes: 0x1_0000_0000,
        flags,
        block_sizes: BlockSizes::default(),
    };
    Arc::new(ExportList::new(vec![volume]).unwrap())
}

/// Plays lines of "C: ..." against the server and compares what it sends with the lines "S: ...".
fn play(conversation: &[(&str, &str)]) -> Option<Session> {
    let mut handshake = Handshake::new(exports());
    for (index, &(client, server)) in conversation.iter().enumerate() {
        let mut input = &bytes(client)[..];
        let mut output = BytesMut::new();
        let step = handshake.advance(&mut input, &mut output).unwrap();
        assert_eq!(output, bytes(server), "answer {index}");
        assert!(input.is_empty());
        match step {
            HandshakeStep::Continue(next) => handshake = next,
            HandshakeStep::Ready(session) => {
                assert_eq!(index + 1, conversation.len());
                return Some(session);
            }
            HandshakeStep::Aborted => {
                assert_eq!(index + 1, conversation.len());
                return None;
            }
        }
    }
    panic!("the handshake did not end");
}

#[test]
fn greeting() {
    assert_eq!(Handshake::greeting()[..], bytes("'NBDMAGICIHAVEOPT' 0003"));
}

/// libnbd and qemu: structured replies, one metadata context, GO. libnbd first tries extended
/// headers (11) and qemu asks for the block size.
#[test]
fn modern_client_reads_writes_and_maps() {
    let session = play(&[
        ("00000003", ""),
        (
            "'IHAVEOPT' 0000000b 00000000",
            "0003e889045565a9 0000000b 80000001 00000017 'option is not supported'",
        ),
        ("'IHAVEOPT' 00000008 00000000", "0003e889045565a9 00000008 00000001 00000000"),
        (
            "'IHAVEOPT' 0000000a 00000021
             00000006 'volume' 00000001 0000000f 'base:allocation'",
            "0003e889045565a9 0000000a 00000004 00000013 00000001 'base:allocation'
             0003e889045565a9 0000000a 00000001 00000000",
        ),
        (
            "'IHAVEOPT' 00000007 0000000e 00000006 'volume' 0001 0003",
            "0003e889045565a9 00000007 00000003 0000000c 0000 0000000100000000 09ed
             0003e889045565a9 00000007 00000003 0000000e 0003 00000001 00001000 02000000
             0003e889045565a9 00000007 00000001 00000000",
        ),
    ])
    .unwrap();
    assert!(session.structured_replies());
    assert_eq!(session.base_allocation(), Some(ContextId(1)));

    let mut input = &bytes(
        "25609513 0001 0001 0000000000000001 0000000000001000 00000004 'data'
         25609513 0000 0000 0000000000000002 0000000000001000 00001000
         25609513 0008 0007 0000000000000003 0000000000000000 00100000
         25609513 0000 0003 0000000000000004 0000000000000000 00000000
         25609513 0000 0000 0000000000000005 00000000ffffffff 00000002
         25609513 0000 0002 0000000000000000 0000000000000000 00000000",
    )[..];
    let mut decoder = RequestDecoder::new(session.clone());
    let mut sent = Vec::new();
    while let Some(event) = decoder.next(&mut input).unwrap() {
        answer(&session, event, &mut sent);
    }
    assert!(decoder.is_closed());
    let expected = bytes(
        "67446698 00000000 0000000000000001
         668e33ef 0000 0001 0000000000000002 0000000c 0000000000001000 'data'
         668e33ef 0001 0002 0000000000000002 0000000c 0000000000001004 00000ffc
         668e33ef 0001 0005 0000000000000003 0000000c 00000001 00001000 00000000
         67446698 00000000 0000000000000004
         668e33ef 0001 8001 0000000000000005 0000003e 00000016 0038
         '2 bytes at 4294967295 reach beyond the end at 4294967296'",
    );
    assert_eq!(sent, expected);
}

fn answer(session: &Session, event: Event, sent: &mut Vec<u8>) {
    let replies = session.replies();
    let (request, payload) = match event {
        Event::Request { request, payload } => (request, payload),
        Event::Rejected(rejection) => return sent.extend(replies.reject(&rejection)),
    };
    match request.command {
        Command::Write => {
            assert!(request.force_unit_access);
            assert_eq!(payload, "data");
            sent.extend(replies.acknowledge(request.cookie));
        }
        Command::Read { .. } => {
            let hole = ReadExtent::Hole { length_bytes: request.length_bytes - 4 };
            let mut output = Vec::new();
            replies.read(&request, &[ReadExtent::Data("data".into()), hole], &mut output);
            output.iter().for_each(|buffer| sent.extend_from_slice(buffer));
        }
        Command::BlockStatus { .. } => {
            let context = session.base_allocation().unwrap();
            let extents = [
                StatusExtent { length_bytes: 0x1000, flags: StatusFlags::Data },
                StatusExtent { length_bytes: u64::MAX, flags: StatusFlags::HoleZero },
            ];
            sent.extend(replies.block_status(&request, context, extents));
        }
        Command::Flush => sent.extend(replies.acknowledge(request.cookie)),
        Command::Disconnect => {}
        other => panic!("unexpected {other:?}"),
    }
}

/// The kernel's nbd-client: GO with the block size, simple replies only.
#[test]
fn kernel_client_enters_with_simple_replies() {
    let session = play(&[
        ("00000003", ""),
        (
            "'IHAVEOPT' 00000007 0000000e 00000006 'volume' 0001 0003",
            "0003e889045565a9 00000007 00000003 0000000c 0000 0000000100000000 096d
             0003e889045565a9 00000007 00000003 0000000e 0003 00000001 00001000 02000000
             0003e889045565a9 00000007 00000001 00000000",
        ),
    ])
    .unwrap();
    assert!(!session.structured_replies());
}

/// Clients from before GO ask for it, and fall back on EXPORT_NAME.
#[test]
fn old_client_enters_by_export_name() {
    let zeroes = "00".repeat(124);
    let answer = format!("0000000100000000 096d {zeroes}");
    assert!(play(&[("00000001", ""), ("'IHAVEOPT' 00000001 00000000", &answer)]).is_some());
    let session = play(&[
        ("00000003", ""),
        ("'IHAVEOPT' 00000001 00000006 'volume'", "0000000100000000 096d"),
    ]);
    assert!(session.is_some());
}

/// `nbdinfo --list` and `qemu-nbd --list`.
#[test]
fn listing_client_leaves_politely() {
    let session = play(&[
        ("00000003", ""),
        (
            "'IHAVEOPT' 00000005 00000000",
            "0003e889045565a9 00000005 80000001 00000017 'option is not supported'",
        ),
        ("'IHAVEOPT' 00000008 00000000", "0003e889045565a9 00000008 00000001 00000000"),
        (
            "'IHAVEOPT' 00000003 00000000",
            "0003e889045565a9 00000003 00000002 0000000a 00000006 'volume'
             0003e889045565a9 00000003 00000001 00000000",
        ),
        (
            "'IHAVEOPT' 00000006 00000012 00000006 'volume' 0003 0001 0002 0003",
            "0003e889045565a9 00000006 00000003 0000000c 0000 0000000100000000 09ed
             0003e889045565a9 00000006 00000003 0000000e 0003 00000001 00001000 02000000
             0003e889045565a9 00000006 00000003 00000008 0001 'volume'
             0003e889045565a9 00000006 00000001 00000000",
        ),
        (
            "'IHAVEOPT' 00000009 0000000e 00000006 'volume' 00000000",
            "0003e889045565a9 00000009 00000004 00000013 00000000 'base:allocation'
             0003e889045565a9 00000009 00000001 00000000",
        ),
        ("'IHAVEOPT' 00000002 00000000", "0003e889045565a9 00000002 00000001 00000000"),
    ]);
    assert!(session.is_none());
}
