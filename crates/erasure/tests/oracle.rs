//! Parity bytes against an independent implementation: XOR and P+Q as such, wider codes through its
//! general matrix coder, fed our coefficients as the crate documentation states them.

use proptest::prelude::*;
use rusty_erasure::{Matrix, gf};
use zoneweave_erasure::Code;

fn encode(parity_chunks: usize, data: &[&[u8]]) -> Vec<Vec<u8>> {
    let code = Code::new(data.len(), parity_chunks).unwrap();
    let mut parity = vec![vec![0xa5; data[0].len()]; parity_chunks];
    let mut outputs: Vec<_> = parity.iter_mut().map(Vec::as_mut_slice).collect();
    code.encode(data, &mut outputs);
    parity
}

/// The generator of the crate documentation in the oracle's own arithmetic: identity over parity
/// rows.
fn generator(data_chunks: usize, parity_chunks: usize) -> Matrix {
    let power = |exponent| (0..exponent).fold(1, |power, _| gf::mul(power, 2));
    let mut elements = vec![];
    for row in 0..data_chunks + parity_chunks {
        for column in 0..data_chunks {
            elements.push(match row.checked_sub(data_chunks) {
                None => u8::from(row == column),
                Some(0) => 1,
                Some(1) => power(column),
                Some(parity) => {
                    let y = power(parity - 1);
                    gf::mul(1 ^ y, gf::inv(gf::inv(power(column)) ^ y))
                }
            });
        }
    }
    Matrix::from_bytes(data_chunks + parity_chunks, data_chunks, elements).unwrap()
}

/// Two to twelve equally long chunks; the oracle refuses fewer than two.
fn stripes() -> impl Strategy<Value = Vec<Vec<u8>>> {
    (2..12_usize, prop_oneof![Just(24), 1..700_usize, Just(4096)]).prop_flat_map(
        |(chunks, length_bytes)| {
            let chunk = proptest::collection::vec(any::<u8>(), length_bytes);
            proptest::collection::vec(chunk, chunks)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn xor_and_p_q_bytes_are_the_standard_ones(data in stripes()) {
        let data: Vec<_> = data.iter().map(Vec::as_slice).collect();
        let mut p = vec![0; data[0].len()];
        let mut q = p.clone();
        rusty_erasure::raid::xor_gen(&data, &mut p).unwrap();
        prop_assert_eq!(&encode(1, &data), &[p.clone()]);
        rusty_erasure::raid::pq_gen(&data, &mut p, &mut q).unwrap();
        prop_assert_eq!(&encode(2, &data), &[p, q]);
    }

    #[test]
    fn wider_codes_agree_with_a_general_coder(data in stripes(), parity_chunks in 3..7_usize) {
        let data: Vec<_> = data.iter().map(Vec::as_slice).collect();
        let coder = rusty_erasure::coder(generator(data.len(), parity_chunks)).unwrap();
        let mut expected = vec![vec![0; data[0].len()]; parity_chunks];
        let mut outputs: Vec<_> = expected.iter_mut().map(Vec::as_mut_slice).collect();
        coder.encode(&data, &mut outputs).unwrap();
        prop_assert_eq!(encode(parity_chunks, &data), expected);
    }
}
