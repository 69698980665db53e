//! Each option alone, and every order that once broke a server.

use bytes::{BufMut, Bytes};

use super::*;
use crate::export::{BlockSizes, ExportDescription};
use crate::flags::TransmissionFlags;
use crate::session::ContextId;
use crate::wire::{OPTION_REPLY_MAGIC, info};

const SIZE_BYTES: u64 = 1 << 20;

fn export(name: &str, minimum_bytes: u32) -> ExportDescription {
    ExportDescription {
        name: name.into(),
        description: if name == "main" { "the volume".into() } else { String::new() },
        size_bytes: SIZE_BYTES,
        flags: TransmissionFlags::SEND_FLUSH | TransmissionFlags::SEND_DF,
        block_sizes: BlockSizes { minimum_bytes, ..BlockSizes::default() },
    }
}

fn exports() -> Arc<ExportList> {
    let list = vec![export("main", 1), export("other", 1), export("coarse", 4096)];
    Arc::new(ExportList::new(list).unwrap())
}

/// A reply as (option, type, payload).
type Reply = (u32, u32, Vec<u8>);

fn parse_replies(mut output: Bytes) -> Vec<Reply> {
    let mut replies = Vec::new();
    while output.has_remaining() {
        assert_eq!(output.get_u64(), OPTION_REPLY_MAGIC);
        let (option, reply_type) = (output.get_u32(), output.get_u32());
        let length = output.get_u32() as usize;
        replies.push((option, reply_type, output.copy_to_bytes(length).to_vec()));
    }
    replies
}

/// A client that has sent its flags.
struct Client {
    handshake: Option<Handshake>,
}

enum Outcome {
    Replies(Vec<Reply>),
    Ready(Session, Vec<u8>),
    Aborted(Vec<Reply>),
    Failed(HandshakeError),
}

impl Client {
    fn new(flags: u32) -> Self {
        let mut output = BytesMut::new();
        let step = Handshake::new(exports()).advance(&mut &flags.to_be_bytes()[..], &mut output);
        let Ok(HandshakeStep::Continue(handshake)) = step else { panic!("flags refused") };
        assert!(output.is_empty());
        Self { handshake: Some(handshake) }
    }

    fn fixed() -> Self {
        Self::new(3)
    }

    fn send(&mut self, option: u32, payload: &[u8]) -> Outcome {
        let mut bytes = BytesMut::new();
        bytes.put_u64(OPTION_MAGIC);
        bytes.put_u32(option);
        bytes.put_u32(u32::try_from(payload.len()).unwrap());
        bytes.put_slice(payload);
        let mut output = BytesMut::new();
        let handshake = self.handshake.take().expect("the handshake goes on");
        let step = handshake.advance(&mut bytes, &mut output);
        assert!(bytes.is_empty() || step.is_err());
        match step {
            Ok(HandshakeStep::Continue(next)) => {
                self.handshake = Some(next);
                Outcome::Replies(parse_replies(output.freeze()))
            }
            Ok(HandshakeStep::Ready(session)) => Outcome::Ready(session, output.to_vec()),
            Ok(HandshakeStep::Aborted) => Outcome::Aborted(parse_replies(output.freeze())),
            Err(error) => {
                assert!(output.is_empty());
                Outcome::Failed(error)
            }
        }
    }

    fn replies(&mut self, option: u32, payload: &[u8]) -> Vec<Reply> {
        match self.send(option, payload) {
            Outcome::Replies(replies) => replies,
            _ => panic!("the handshake ended at option {option}"),
        }
    }

    /// The type of the only reply.
    fn verdict(&mut self, option: u32, payload: &[u8]) -> u32 {
        let replies = self.replies(option, payload);
        assert_eq!(replies.len(), 1, "{replies:?}");
        assert_eq!(replies[0].0, option);
        replies[0].1
    }

    fn go(&mut self, name: &[u8]) -> Session {
        match self.send(option::GO, &information(name, &[])) {
            Outcome::Ready(session, _) => session,
            _ => panic!("GO was refused"),
        }
    }
}

fn string(text: &[u8]) -> Vec<u8> {
    [&u32::try_from(text.len()).unwrap().to_be_bytes()[..], text].concat()
}

fn information(name: &[u8], types: &[u16]) -> Vec<u8> {
    let mut payload = string(name);
    payload.put_u16(u16::try_from(types.len()).unwrap());
    types.iter().for_each(|&info_type| payload.put_u16(info_type));
    payload
}

fn queries(name: &[u8], queries: &[&[u8]]) -> Vec<u8> {
    let mut payload = string(name);
    payload.put_u32(u32::try_from(queries.len()).unwrap());
    queries.iter().for_each(|query| payload.put_slice(&string(query)));
    payload
}

#[test]
fn list_names_every_export_and_takes_no_data() {
    let replies = Client::fixed().replies(option::LIST, &[]);
    assert_eq!(replies.len(), 4);
    assert_eq!(replies[0].1, option_reply::SERVER);
    assert_eq!(replies[0].2, [&string(b"main")[..], b"the volume"].concat());
    assert_eq!(replies[1].2, string(b"other"));
    assert_eq!(replies[3], (option::LIST, option_reply::ACK, vec![]));
    assert_eq!(Client::fixed().verdict(option::LIST, b"x"), option_reply::ERR_INVALID);
}

#[test]
fn abort_is_acknowledged_whatever_its_data() {
    for data in [&b""[..], b"bye"] {
        let Outcome::Aborted(replies) = Client::fixed().send(option::ABORT, data) else {
            panic!("not aborted")
        };
        assert_eq!(replies, [(option::ABORT, option_reply::ACK, vec![])]);
    }
}

#[test]
fn unknown_options_and_tls_are_unsupported_and_the_handshake_goes_on() {
    let mut client = Client::fixed();
    for option in [0, 4, 5, 11, u32::MAX] {
        assert_eq!(client.verdict(option, b"data"), option_reply::ERR_UNSUPPORTED);
    }
    client.go(b"");
}

#[test]
fn info_describes_and_go_enters() {
    let wanted = [info::BLOCK_SIZE, info::NAME, info::DESCRIPTION, info::NAME, 77];
    let mut client = Client::fixed();
    let replies = client.replies(option::INFO, &information(b"", &wanted));
    let payloads: Vec<&[u8]> = replies.iter().map(|reply| &reply.2[..]).collect();
    let block_size = [0, 3, 0, 0, 0, 1, 0, 0, 0x10, 0, 2, 0, 0, 0];
    let export = [0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0b101];
    let texts: [&[u8]; 3] = [b"\0\x01main", b"\0\x02the volume", b""];
    assert_eq!(payloads, [&export[..], &block_size, texts[0], texts[1], texts[2]]);
    assert!(replies[..4].iter().all(|reply| reply.1 == option_reply::INFO));
    assert_eq!(replies[4].1, option_reply::ACK);
    let session = client.go(b"other");
    assert_eq!(session.export().name, "other");
    assert_eq!(session.export_index(), ExportIndex(1));
    assert!(!session.structured_replies());
}

#[test]
fn failed_go_leaves_the_client_haggling() {
    let mut client = Client::fixed();
    let unknown = client.verdict(option::GO, &information(b"nowhere", &[]));
    assert_eq!(unknown, option_reply::ERR_UNKNOWN);
    let long_name = client.verdict(option::GO, &information(&[b'n'; 4000], &[]));
    assert_eq!(long_name, option_reply::ERR_UNKNOWN);
    let blocks = client.verdict(option::GO, &information(b"coarse", &[]));
    assert_eq!(blocks, option_reply::ERR_BLOCK_SIZE_REQUIRED);
    let Outcome::Ready(session, _) =
        client.send(option::GO, &information(b"coarse", &[info::BLOCK_SIZE]))
    else {
        panic!("GO with block sizes was refused")
    };
    assert_eq!(session.export().block_sizes.minimum_bytes, 4096);
}

#[test]
fn malformed_information_requests_are_invalid() {
    let valid = information(b"main", &[1, 2]);
    for length in 0..valid.len() {
        let verdict = Client::fixed().verdict(option::GO, &valid[..length]);
        assert_eq!(verdict, option_reply::ERR_INVALID, "cut to {length}");
    }
    let trailing = [&valid[..], b"x"].concat();
    assert_eq!(Client::fixed().verdict(option::GO, &trailing), option_reply::ERR_INVALID);
    let huge_name = [&[0xff; 4][..], b"main\0\0"].concat();
    assert_eq!(Client::fixed().verdict(option::GO, &huge_name), option_reply::ERR_INVALID);
}

#[test]
fn structured_replies_are_agreed_once_and_unlock_dont_fragment() {
    let mut client = Client::fixed();
    let option = option::STRUCTURED_REPLY;
    assert_eq!(client.verdict(option, b"x"), option_reply::ERR_INVALID);
    assert_eq!(client.verdict(option, &[]), option_reply::ACK);
    assert_eq!(client.verdict(option, &[]), option_reply::ERR_INVALID);
    let session = client.go(b"main");
    assert!(session.structured_replies());
    assert!(session.flags().contains(TransmissionFlags::SEND_DF));
    let simple = Client::fixed().go(b"main");
    assert!(!simple.flags().contains(TransmissionFlags::SEND_DF));
}

#[test]
fn contexts_need_structured_replies_first() {
    let mut client = Client::fixed();
    let select = queries(b"main", &[b"base:allocation"]);
    for option in [option::LIST_META_CONTEXT, option::SET_META_CONTEXT] {
        assert_eq!(client.verdict(option, &select), option_reply::ERR_INVALID);
    }
    assert_eq!(client.verdict(option::STRUCTURED_REPLY, &[]), option_reply::ACK);
    assert_eq!(client.go(b"main").base_allocation(), None);
}

/// A client with structured replies agreed.
fn structured() -> Client {
    let mut client = Client::fixed();
    assert_eq!(client.verdict(option::STRUCTURED_REPLY, &[]), option_reply::ACK);
    client
}

#[test]
fn queries_match_by_name_and_list_by_namespace() {
    let listed = (option_reply::META_CONTEXT, b"\0\0\0\0base:allocation".to_vec());
    let selected = (option_reply::META_CONTEXT, b"\0\0\0\x01base:allocation".to_vec());
    let cases: [(&[&[u8]], bool, bool); 7] = [
        (&[], true, false),
        (&[b"base:"], true, false),
        (&[b"base:allocation"], true, true),
        (&[b"qemu:dirty-bitmap:x", b"base:allocation"], true, true),
        (&[b"base:allocation", b"base:allocation"], true, true),
        (&[b"base"], false, false),
        (&[b"", b"base:alloc", b"\xff\xfe"], false, false),
    ];
    for (wanted, lists, selects) in cases {
        let expected = [
            (option::LIST_META_CONTEXT, lists, &listed),
            (option::SET_META_CONTEXT, selects, &selected),
        ];
        for (option, matches, context) in expected {
            let mut replies = structured().replies(option, &queries(b"main", wanted));
            assert_eq!(replies.pop(), Some((option, option_reply::ACK, vec![])));
            let found = matches.then(|| (option, context.0, context.1.clone()));
            assert_eq!(replies, Vec::from_iter(found), "{wanted:?}");
        }
    }
}

#[test]
fn selection_holds_only_for_its_export_and_until_replaced() {
    let select = queries(b"main", &[b"base:allocation"]);
    let option = option::SET_META_CONTEXT;
    let mut client = structured();
    client.replies(option, &select);
    assert_eq!(client.go(b"main").base_allocation(), Some(ContextId::BASE_ALLOCATION));

    let mut client = structured();
    client.replies(option, &select);
    assert_eq!(client.go(b"other").base_allocation(), None, "selected for another export");

    // The default export under its two names is one export.
    let mut client = structured();
    client.replies(option, &select);
    assert!(client.go(b"").base_allocation().is_some());

    for replacement in [queries(b"main", &[]), queries(b"nowhere", &[]), b"junk".to_vec()] {
        let mut client = structured();
        client.replies(option, &select);
        client.replies(option, &replacement);
        assert_eq!(client.go(b"main").base_allocation(), None, "{replacement:?}");
    }

    let mut client = structured();
    client.replies(option, &select);
    client.replies(option::LIST_META_CONTEXT, &queries(b"main", &[b"none:"]));
    assert!(client.go(b"main").base_allocation().is_some(), "listing selects nothing");
}

#[test]
fn malformed_queries_are_invalid() {
    let valid = queries(b"main", &[b"base:allocation"]);
    for length in 0..valid.len() {
        let verdict = structured().verdict(option::SET_META_CONTEXT, &valid[..length]);
        assert_eq!(verdict, option_reply::ERR_INVALID, "cut to {length}");
    }
    let trailing = [&valid[..], b"x"].concat();
    let verdict = structured().verdict(option::SET_META_CONTEXT, &trailing);
    assert_eq!(verdict, option_reply::ERR_INVALID);
    let mut endless = string(b"main");
    endless.put_u32(u32::MAX);
    let verdict = structured().verdict(option::LIST_META_CONTEXT, &endless);
    assert_eq!(verdict, option_reply::ERR_INVALID);
}

#[test]
fn export_name_enters_with_or_without_zeroes() {
    for (client_flags, length) in [(0, 134), (1, 134), (2, 10), (3, 10)] {
        let outcome = Client::new(client_flags).send(option::EXPORT_NAME, b"main");
        let Outcome::Ready(session, output) = outcome else { panic!("refused") };
        assert_eq!(session.export().name, "main");
        assert_eq!(output.len(), length);
        assert_eq!(output[..10], [0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0b101]);
        assert!(output[10..].iter().all(|&byte| byte == 0));
    }
}

#[test]
fn export_name_fails_by_hanging_up() {
    let unknown = Client::fixed().send(option::EXPORT_NAME, b"nowhere");
    let Outcome::Failed(error) = unknown else { panic!("accepted") };
    assert_eq!(error, HandshakeError::UnknownExport { name_bytes: 7 });
    assert!(!error.to_string().contains("nowhere"));
    let coarse = Client::fixed().send(option::EXPORT_NAME, b"coarse");
    assert!(matches!(coarse, Outcome::Failed(HandshakeError::BlockSizeRequired { .. })));
    let long = Client::fixed().send(option::EXPORT_NAME, &[b'n'; 4097]);
    assert!(matches!(long, Outcome::Failed(HandshakeError::OptionTooLong { .. })));
}

#[test]
fn only_export_name_is_valid_without_fixed_newstyle() {
    for option in [option::GO, option::LIST, option::ABORT, 99] {
        let outcome = Client::new(2).send(option, &[]);
        let Outcome::Failed(error) = outcome else { panic!("accepted") };
        assert_eq!(error, HandshakeError::NotFixedNewstyle { option });
    }
}

#[test]
fn unknown_client_flags_end_the_connection() {
    for flags in [4_u32, 0x8000_0003, 3 << 16] {
        let step =
            Handshake::new(exports()).advance(&mut &flags.to_be_bytes()[..], &mut BytesMut::new());
        assert_eq!(step.unwrap_err(), HandshakeError::UnknownClientFlags { flags });
    }
}

#[test]
fn wrong_option_magic_ends_the_connection() {
    let mut client = Client::fixed();
    let step = client.handshake.take().unwrap().advance(&mut &[0x55; 16][..], &mut BytesMut::new());
    assert_eq!(step.unwrap_err(), HandshakeError::BadOptionMagic { magic: 0x5555_5555_5555_5555 });
}

#[test]
fn long_options_are_skipped_without_being_stored() {
    let mut client = Client::fixed();
    let mut header = BytesMut::new();
    header.put_u64(OPTION_MAGIC);
    header.put_u32(option::GO);
    header.put_u32(OPTION_SKIP_BYTES_MAX);
    let mut handshake = client.handshake.take().unwrap();
    let mut output = BytesMut::new();
    let filler = vec![0xaa; 64 << 10];
    for piece in std::iter::once(&header[..]).chain(std::iter::repeat_n(&filler[..], 16)) {
        assert!(output.is_empty());
        let Ok(HandshakeStep::Continue(next)) = handshake.advance(&mut &*piece, &mut output) else {
            panic!("hung up")
        };
        handshake = next;
        assert!(handshake.held_bytes() <= HANDSHAKE_HELD_BYTES_MAX);
    }
    let replies = parse_replies(output.freeze());
    assert_eq!(replies.len(), 1);
    assert_eq!((replies[0].0, replies[0].1), (option::GO, option_reply::ERR_TOO_BIG));
    client.handshake = Some(handshake);
    client.go(b"main");
}

#[test]
fn endless_options_end_the_connection() {
    for length in [OPTION_SKIP_BYTES_MAX + 1, u32::MAX] {
        let mut header = BytesMut::new();
        header.put_u64(OPTION_MAGIC);
        header.put_u32(option::LIST);
        header.put_u32(length);
        let handshake = Client::fixed().handshake.unwrap();
        let step = handshake.advance(&mut header, &mut BytesMut::new());
        assert!(matches!(step, Err(HandshakeError::OptionTooLong { .. })));
    }
}

#[test]
fn options_of_the_largest_size_are_read() {
    let payload = [0; OPTION_PAYLOAD_BYTES_MAX as usize];
    assert_eq!(Client::fixed().verdict(99, &payload), option_reply::ERR_UNSUPPORTED);
    let over = [0; OPTION_PAYLOAD_BYTES_MAX as usize + 1];
    assert_eq!(Client::fixed().verdict(99, &over), option_reply::ERR_TOO_BIG);
}

#[test]
fn options_are_counted() {
    let mut client = Client::fixed();
    for _ in 0..OPTIONS_PER_CONNECTION_MAX {
        client.verdict(99, &[]);
    }
    let outcome = client.send(option::LIST, &[]);
    assert!(matches!(outcome, Outcome::Failed(HandshakeError::TooManyOptions)));
}

#[test]
fn bytes_after_entering_belong_to_transmission() {
    let go = {
        let payload = information(b"main", &[]);
        let mut bytes = BytesMut::new();
        bytes.put_u64(OPTION_MAGIC);
        bytes.put_u32(option::GO);
        bytes.put_u32(u32::try_from(payload.len()).unwrap());
        bytes.put_slice(&payload);
        bytes
    };
    // GO twice, and EXPORT_NAME after GO: the second option is no request, and ends the connection.
    let mut input = go.clone();
    input.put_slice(&go);
    input.put_slice(b"more");
    let handshake = Client::fixed().handshake.unwrap();
    let step = handshake.advance(&mut input, &mut BytesMut::new());
    let Ok(HandshakeStep::Ready(session)) = step else { panic!("refused") };
    assert!(input.starts_with(&go), "the second option is left in the input");
    let mut decoder = crate::RequestDecoder::new(session);
    assert_eq!(decoder.next(&mut input), Err(crate::BadMagic { found: 0x4948_4156 }));
    assert!(decoder.is_closed());
    assert_eq!(decoder.next(&mut input), Ok(None));
    assert!(input.is_empty());
}

#[test]
fn one_call_answers_one_option() {
    let mut input = BytesMut::new();
    for _ in 0..3 {
        input.put_u64(OPTION_MAGIC);
        input.put_u32(option::LIST);
        input.put_u32(0);
    }
    let mut handshake = Client::fixed().handshake.unwrap();
    for left in [32, 16, 0] {
        let mut output = BytesMut::new();
        let Ok(HandshakeStep::Continue(next)) = handshake.advance(&mut input, &mut output) else {
            panic!("hung up")
        };
        handshake = next;
        assert_eq!(input.len(), left);
        assert_eq!(parse_replies(output.freeze()).len(), 4);
    }
}
