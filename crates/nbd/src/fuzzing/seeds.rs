//! Valid inputs from which mutation starts: the messages of public clients.

use bytes::BufMut;

use crate::wire::{OPTION_MAGIC, REQUEST_MAGIC, command, command_flag, option};

fn string(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.put_u32(u32::try_from(text.len()).expect("seed texts are short"));
    bytes.put_slice(text);
    bytes
}

fn option(bytes: &mut Vec<u8>, option: u32, payload: &[u8]) {
    bytes.put_u64(OPTION_MAGIC);
    bytes.put_u32(option);
    bytes.put_slice(&string(payload));
}

fn request(bytes: &mut Vec<u8>, flags: u16, command: u16, offset_bytes: u64, length_bytes: u32) {
    bytes.put_u32(REQUEST_MAGIC);
    bytes.put_u16(flags);
    bytes.put_u16(command);
    bytes.put_u64(0x1122_3344_5566_7788);
    bytes.put_u64(offset_bytes);
    bytes.put_u32(length_bytes);
}

/// Inputs of the handshake target.
#[must_use]
pub fn handshake_seeds() -> Vec<Vec<u8>> {
    let information = |name: &[u8], types: &[u16]| {
        let mut payload = string(name);
        payload.put_u16(u16::try_from(types.len()).expect("few types"));
        types.iter().for_each(|&info_type| payload.put_u16(info_type));
        payload
    };
    let context = [&string(b"all")[..], &[0, 0, 0, 1], &string(b"base:allocation")].concat();
    let start = |client_flags: u8| vec![0, 0, 0, 0, client_flags];

    let mut libnbd = start(3);
    option(&mut libnbd, option::STRUCTURED_REPLY, &[]);
    option(&mut libnbd, option::LIST_META_CONTEXT, &context);
    option(&mut libnbd, option::SET_META_CONTEXT, &context);
    option(&mut libnbd, option::GO, &information(b"all", &[1, 2, 3]));
    request(&mut libnbd, 0, command::BLOCK_STATUS, 0, 1 << 20);

    let mut listing = start(3);
    option(&mut listing, option::LIST, &[]);
    option(&mut listing, option::INFO, &information(b"fixed", &[1, 2, 3]));
    option(&mut listing, option::INFO, &information(b"coarse", &[3]));
    option(&mut listing, option::ABORT, &[]);

    let mut plain = start(1);
    option(&mut plain, 99, b"junk");
    option(&mut plain, option::EXPORT_NAME, b"all");
    request(&mut plain, 0, command::READ, 4096, 512);

    vec![libnbd, listing, plain]
}

/// Inputs of the request target.
#[must_use]
pub fn request_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for choice in 0..12 {
        let mut seed = vec![choice, 0];
        request(&mut seed, 0, command::READ, 4096, 4096);
        request(&mut seed, command_flag::DONT_FRAGMENT, command::READ, 0, 4096);
        request(&mut seed, command_flag::FUA, command::WRITE, 8192, 8);
        seed.put_slice(b"payload!");
        request(&mut seed, 0, command::FLUSH, 0, 0);
        request(&mut seed, 0, command::TRIM, 0, 1 << 16);
        let zero = command_flag::NO_HOLE | command_flag::FAST_ZERO;
        request(&mut seed, zero, command::WRITE_ZEROES, 0, 1 << 16);
        request(&mut seed, command_flag::REQUEST_ONE, command::BLOCK_STATUS, 0, 1 << 20);
        request(&mut seed, 0, command::CACHE, 0, 4096);
        request(&mut seed, 0, command::WRITE, u64::MAX, 4);
        seed.put_slice(b"oops");
        request(&mut seed, 0, command::DISCONNECT, 0, 0);
        seeds.push(seed);
    }
    seeds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_pass_the_targets() {
        handshake_seeds().iter().for_each(|seed| super::super::handshake(seed));
        request_seeds().iter().for_each(|seed| super::super::requests(seed));
    }
}
