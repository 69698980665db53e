//! Replies byte by byte.

use super::*;

const COOKIE: Cookie = Cookie(0x0102_0304_0506_0708);
const COOKIE_BYTES: &[u8] = &[1, 2, 3, 4, 5, 6, 7, 8];
const SIMPLE: ReplyEncoder = ReplyEncoder { structured: false };
const STRUCTURED: ReplyEncoder = ReplyEncoder { structured: true };

fn request(command: Command, offset_bytes: u64, length_bytes: u32) -> Request {
    Request { command, force_unit_access: false, cookie: COOKIE, offset_bytes, length_bytes }
}

fn read(encoder: ReplyEncoder, dont_fragment: bool, extents: &[ReadExtent]) -> Vec<Vec<u8>> {
    let length: usize = extents.iter().map(ReadExtent::length_bytes).sum();
    let request = request(Command::Read { dont_fragment }, 0x1000, u32::try_from(length).unwrap());
    let mut output = Vec::new();
    encoder.read(&request, extents, &mut output);
    output.iter().map(|buffer| buffer.to_vec()).collect()
}

fn data(text: &'static [u8]) -> ReadExtent {
    ReadExtent::Data(Bytes::from_static(text))
}

fn structured(done: u8, chunk_type: [u8; 2], payload: &[&[u8]]) -> Vec<u8> {
    let payload = payload.concat();
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [0x66, 0x8e, 0x33, 0xef, 0, done, chunk_type[0], chunk_type[1]];
    [&head[..], COOKIE_BYTES, &length, &payload].concat()
}

fn simple(error: u8) -> Vec<u8> {
    [&[0x67, 0x44, 0x66, 0x98, 0, 0, 0, error], COOKIE_BYTES].concat()
}

#[test]
fn success_without_data_is_a_simple_reply_in_both_modes() {
    assert_eq!(SIMPLE.acknowledge(COOKIE), simple(0));
    assert_eq!(STRUCTURED.acknowledge(COOKIE), simple(0));
}

#[test]
fn errors_carry_text_only_when_structured() {
    assert_eq!(SIMPLE.fail(COOKIE, Errno::ShuttingDown, "bye"), simple(108));
    let chunk = structured(1, [0x80, 1], &[&[0, 0, 0, 108, 0, 3], b"bye"]);
    assert_eq!(STRUCTURED.fail(COOKIE, Errno::ShuttingDown, "bye"), chunk);
    let request = request(Command::Write, 0x1000, 0x1000);
    assert_eq!(SIMPLE.fail_at(&request, Errno::InputOutput, 0x1fff, "x"), simple(5));
    let offset = 0x1fff_u64.to_be_bytes();
    let chunk = structured(1, [0x80, 2], &[&[0, 0, 0, 5, 0, 1], b"x", &offset]);
    assert_eq!(STRUCTURED.fail_at(&request, Errno::InputOutput, 0x1fff, "x"), chunk);
}

#[test]
fn long_texts_are_cut_between_characters() {
    let text = format!("{}é", "x".repeat(255));
    let reply = STRUCTURED.fail(COOKIE, Errno::Invalid, &text);
    assert_eq!(reply.len(), 20 + 6 + 255);
}

#[test]
fn simple_read_sends_zeroes_for_holes() {
    let hole = ReadExtent::Hole { length_bytes: 100_000 };
    let buffers = read(SIMPLE, false, &[data(b"abc"), hole]);
    assert_eq!(buffers[0], simple(0));
    assert_eq!(buffers[1], b"abc");
    let zeroes = buffers[2..].concat();
    assert_eq!(zeroes, vec![0; 100_000]);
}

#[test]
fn structured_read_sends_a_chunk_for_each_extent() {
    let buffers =
        read(STRUCTURED, false, &[data(b"abc"), ReadExtent::Hole { length_bytes: 5 }, data(b"z")]);
    let first = [structured(0, [0, 1], &[&0x1000_u64.to_be_bytes(), b"abc"])].concat();
    assert_eq!(buffers[..2].concat(), first);
    let hole = structured(0, [0, 2], &[&0x1003_u64.to_be_bytes(), &[0, 0, 0, 5]]);
    assert_eq!(buffers[2], hole);
    let last = structured(1, [0, 1], &[&0x1008_u64.to_be_bytes(), b"z"]);
    assert_eq!(buffers[3..].concat(), last);
}

#[test]
fn dont_fragment_sends_one_content_chunk() {
    let hole = ReadExtent::Hole { length_bytes: 2 };
    let buffers = read(STRUCTURED, true, &[data(b"abc"), hole.clone(), data(b"z")]);
    let one = structured(1, [0, 1], &[&0x1000_u64.to_be_bytes(), b"abc\0\0z"]);
    assert_eq!(buffers.concat(), one);
    let only_hole = structured(1, [0, 2], &[&0x1000_u64.to_be_bytes(), &[0, 0, 0, 2]]);
    assert_eq!(read(STRUCTURED, true, &[hole]).concat(), only_hole);
}

#[test]
fn empty_read_is_answered() {
    assert_eq!(read(SIMPLE, false, &[]), [simple(0)]);
    assert_eq!(read(STRUCTURED, false, &[]), [structured(1, [0, 0], &[])]);
}

#[test]
fn data_is_passed_through_uncopied() {
    let bytes = Bytes::from(vec![1; 4096]);
    let request = request(Command::Read { dont_fragment: false }, 0, 4096);
    let mut output = Vec::new();
    STRUCTURED.read(&request, &[ReadExtent::Data(bytes.clone())], &mut output);
    assert_eq!(output.len(), 2);
    assert_eq!(output[1].as_ptr(), bytes.as_ptr());
}

#[test]
#[should_panic(expected = "extents do not cover the read")]
fn a_short_answer_is_a_bug() {
    let request = request(Command::Read { dont_fragment: false }, 0, 4096);
    SIMPLE.read(&request, &[data(b"abc")], &mut Vec::new());
}

fn status(length: u32, request_one: bool, extents: &[(u64, StatusFlags)]) -> Vec<(u32, u32)> {
    let request = request(Command::BlockStatus { request_one }, 0, length);
    let extents = extents.iter().map(|&(length_bytes, flags)| StatusExtent { length_bytes, flags });
    let reply = STRUCTURED.block_status(&request, ContextId(7), extents);
    let payload = &reply[20..];
    assert_eq!(reply, structured(1, [0, 5], &[payload]));
    assert_eq!(payload[..4], [0, 0, 0, 7]);
    let word = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
    payload[4..].chunks(8).map(|pair| (word(&pair[..4]), word(&pair[4..]))).collect()
}

#[test]
fn status_extents_are_joined_and_clamped() {
    use StatusFlags::{Data, HoleZero, Zero};
    assert_eq!(status(100, false, &[(60, Data), (60, HoleZero)]), [(60, 0), (40, 3)]);
    assert_eq!(status(100, false, &[(10, Data), (0, Zero), (20, Data)]), [(30, 0)]);
    assert_eq!(status(100, false, &[(u64::MAX, Zero), (1, Data)]), [(100, 2)]);
    assert_eq!(status(u32::MAX, false, &[(1 << 32, HoleZero)]), [(u32::MAX, 3)]);
    assert_eq!(status(100, true, &[(10, Zero), (20, Zero), (5, Data)]), [(30, 2)]);
    assert_eq!(status(100, false, &[]), [(100, 0)]);
    assert_eq!(status(100, false, &[(0, Zero)]), [(100, 0)]);
}

#[test]
fn status_extents_are_limited_in_number() {
    let extents: Vec<(u64, StatusFlags)> = (0..20_000)
        .map(|index| (1, if index % 2 == 0 { StatusFlags::Data } else { StatusFlags::Zero }))
        .collect();
    assert_eq!(status(u32::MAX, false, &extents).len(), STATUS_EXTENTS_MAX);
}
