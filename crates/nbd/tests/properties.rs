//! Properties over arbitrary clients. The bodies assert that cutting the input anywhere changes
//! nothing and that memory stays within the stated bounds; see `zoneweave_nbd::fuzzing`.

use proptest::prelude::*;
use zoneweave_nbd::fuzzing;

const OPTION_MAGIC: &[u8] = b"IHAVEOPT";

/// Strings that options carry: names that exist, names that do not, queries.
fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(b"all".to_vec()),
        Just(b"fixed".to_vec()),
        Just(b"coarse".to_vec()),
        Just(b"base:".to_vec()),
        Just(b"base:allocation".to_vec()),
        prop::collection::vec(any::<u8>(), 0..20),
    ]
}

/// A string after its length, which is sometimes a lie.
fn counted(text: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    (text, prop::option::weighted(0.05, any::<u32>())).prop_map(|(text, lie)| {
        let length = lie.unwrap_or(u32::try_from(text.len()).unwrap());
        [&length.to_be_bytes()[..], &text].concat()
    })
}

fn payload() -> impl Strategy<Value = Vec<u8>> {
    let information = (counted(text()), prop::collection::vec(0_u16..5, 0..5)).prop_map(
        |(mut payload, types)| {
            payload.extend(u16::try_from(types.len()).unwrap().to_be_bytes());
            types.iter().for_each(|info_type| payload.extend(info_type.to_be_bytes()));
            payload
        },
    );
    let queries = (counted(text()), prop::collection::vec(counted(text()), 0..4)).prop_map(
        |(mut payload, queries)| {
            payload.extend(u32::try_from(queries.len()).unwrap().to_be_bytes());
            queries.iter().for_each(|query| payload.extend(query));
            payload
        },
    );
    prop_oneof![
        4 => information,
        4 => queries,
        2 => Just(Vec::new()),
        1 => text(),
        1 => prop::collection::vec(any::<u8>(), 4000..5000),
    ]
}

fn option() -> impl Strategy<Value = Vec<u8>> {
    (0_u32..13, counted(payload()))
        .prop_map(|(option, payload)| [OPTION_MAGIC, &option.to_be_bytes(), &payload].concat())
}

fn request() -> impl Strategy<Value = Vec<u8>> {
    let offset = prop_oneof![0_u64..1 << 20, 999_000_u64..1_001_000, any::<u64>()];
    let length = prop_oneof![0_u32..10_000, any::<u32>()];
    let flags = prop_oneof![3 => Just(0), 1 => 0_u16..32, 1 => any::<u16>()];
    (flags, 0_u16..10, any::<u64>(), offset, length).prop_map(
        |(flags, command, cookie, offset, length)| {
            let mut bytes = vec![0x25, 0x60, 0x95, 0x13];
            bytes.extend(flags.to_be_bytes());
            bytes.extend(command.to_be_bytes());
            bytes.extend(cookie.to_be_bytes());
            bytes.extend(offset.to_be_bytes());
            bytes.extend(length.to_be_bytes());
            if command == 1 && length < 10_000 {
                bytes.resize(bytes.len() + length as usize, 0x77);
            }
            bytes
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_bytes_are_survived(data in prop::collection::vec(any::<u8>(), 0..300)) {
        fuzzing::handshake(&data);
        fuzzing::requests(&data);
    }

    #[test]
    fn any_order_of_options_is_survived(
        cuts in any::<u8>(),
        flags in 0_u8..4,
        options in prop::collection::vec(option(), 0..12),
        requests in prop::collection::vec(request(), 0..3),
    ) {
        let mut data = vec![cuts, 0, 0, 0, flags];
        options.iter().chain(&requests).for_each(|message| data.extend(message));
        fuzzing::handshake(&data);
    }

    #[test]
    fn any_order_of_requests_is_survived(
        choice in any::<u8>(),
        cuts in any::<u8>(),
        requests in prop::collection::vec(request(), 0..8),
    ) {
        let mut data = vec![choice, cuts];
        requests.iter().for_each(|message| data.extend(message));
        fuzzing::requests(&data);
    }
}
