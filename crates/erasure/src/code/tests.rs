//! The code against the reference, every erasure pattern of small shapes, and the pinned
//! coefficients.

use super::*;
use crate::reference;
use proptest::prelude::*;

/// Not a multiple of any block size of the kernels.
const LENGTH_BYTES: usize = 143;

/// Distinct, position-dependent bytes, so that exchanged chunks or offsets show.
fn sample_data(data_chunks: usize, length_bytes: usize) -> Vec<Vec<u8>> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    (0..data_chunks).map(|_| (0..length_bytes).map(|_| next()).collect()).collect()
}

fn slices(chunks: &[Vec<u8>]) -> Vec<&[u8]> {
    chunks.iter().map(Vec::as_slice).collect()
}

/// All chunks of a stripe, data then parity, as `encode` makes them.
fn stripe_of(code: &Code, data: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut parity = vec![vec![0xa5; data[0].len()]; code.parity_chunks()];
    let mut outputs: Vec<_> = parity.iter_mut().map(Vec::as_mut_slice).collect();
    code.encode(&slices(&data), &mut outputs);
    data.into_iter().chain(parity).collect()
}

/// Rebuilds the chunks `wanted` of `stripe` with those of `lost` missing.
fn rebuild(
    code: &Code,
    stripe: &[Vec<u8>],
    lost: &[usize],
    wanted: &[usize],
) -> Result<Vec<Vec<u8>>, CodeError> {
    let chunks: Vec<_> = (0..stripe.len())
        .map(|chunk| (!lost.contains(&chunk)).then_some(stripe[chunk].as_slice()))
        .collect();
    let mut outputs = vec![vec![0xa5; stripe[0].len()]; wanted.len()];
    let mut pairs: Vec<_> =
        wanted.iter().copied().zip(outputs.iter_mut().map(Vec::as_mut_slice)).collect();
    code.reconstruct(&chunks, &mut pairs)?;
    Ok(outputs)
}

/// Every subset of 0..total with at most `size_max` members.
fn subsets(total: usize, size_max: usize) -> Vec<Vec<usize>> {
    let mut subsets = vec![vec![]];
    let mut begin = 0;
    for _ in 0..size_max {
        let end = subsets.len();
        for index in begin..end {
            let first = subsets[index].last().map_or(0, |last| last + 1);
            for member in first..total {
                let mut grown = subsets[index].clone();
                grown.push(member);
                subsets.push(grown);
            }
        }
        begin = end;
    }
    subsets
}

#[test]
fn every_pattern_up_to_m_losses_is_rebuilt() {
    for data_chunks in 1..=10 {
        for parity_chunks in 0..=4 {
            let code = Code::new(data_chunks, parity_chunks).unwrap();
            let stripe = stripe_of(&code, sample_data(data_chunks, LENGTH_BYTES));
            for lost in subsets(code.total_chunks(), parity_chunks) {
                let rebuilt = rebuild(&code, &stripe, &lost, &lost).unwrap();
                for (&chunk, bytes) in lost.iter().zip(&rebuilt) {
                    assert_eq!(bytes, &stripe[chunk], "k={data_chunks} {lost:?} chunk {chunk}");
                }
            }
        }
    }
}

#[test]
fn one_loss_too_many_is_an_error_and_touches_nothing() {
    for (data_chunks, parity_chunks) in [(1, 0), (4, 0), (1, 1), (3, 1), (4, 2), (3, 4)] {
        let code = Code::new(data_chunks, parity_chunks).unwrap();
        let stripe = stripe_of(&code, sample_data(data_chunks, 24));
        for lost in subsets(code.total_chunks(), parity_chunks + 1) {
            if lost.len() <= parity_chunks {
                continue;
            }
            let present = code.total_chunks() - lost.len();
            let error = CodeError::TooFewChunks { present, needed: data_chunks };
            let chunks: Vec<_> = (0..stripe.len())
                .map(|chunk| (!lost.contains(&chunk)).then_some(stripe[chunk].as_slice()))
                .collect();
            let mut output = [0xa5; 24];
            assert_eq!(code.reconstruct(&chunks, &mut [(lost[0], &mut output)]), Err(error));
            assert_eq!(output, [0xa5; 24]);
        }
    }
}

/// The first columns as published in the comments of SnapRAID's `raid.c`; rows 0 and 1 are RAID-6.
#[test]
fn coefficients_are_pinned() {
    let expected: [[u8; 12]; 6] = [
        [0x01; 12],
        [0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0x1d, 0x3a, 0x74, 0xe8],
        [0x01, 0xf5, 0xd2, 0xc4, 0x9a, 0x71, 0xf1, 0x7f, 0xfc, 0x87, 0xc1, 0xc6],
        [0x01, 0xbb, 0xa6, 0xd7, 0xc7, 0x07, 0xce, 0x82, 0x4a, 0x2f, 0xa5, 0x9b],
        [0x01, 0x97, 0x7f, 0x9c, 0x7c, 0x18, 0xbd, 0xa2, 0x58, 0x1a, 0xda, 0x74],
        [0x01, 0x2b, 0x3f, 0xcf, 0x73, 0x2c, 0xd6, 0xed, 0xcb, 0x74, 0x15, 0x78],
    ];
    let code = Code::new(12, 6).unwrap();
    for (row, expected) in expected.iter().enumerate() {
        assert_eq!(code.parity_row(row), expected, "row {row}");
    }
}

#[test]
fn coefficients_equal_the_reference_for_every_legal_shape() {
    for total in [2, 100, MAX_CHUNKS] {
        for data_chunks in 1..total {
            let code = Code::new(data_chunks, total - data_chunks).unwrap();
            let (row, column) = (code.parity_chunks() - 1, data_chunks - 1);
            assert_eq!(code.parity_row(row)[column], reference::coefficient(row, column));
        }
    }
}

#[test]
fn mirrors_are_copies() {
    let code = Code::new(1, 5).unwrap();
    let stripe = stripe_of(&code, sample_data(1, LENGTH_BYTES));
    assert!(stripe.iter().all(|chunk| chunk == &stripe[0]));
}

#[test]
fn empty_chunks_are_coded() {
    let code = Code::new(4, 3).unwrap();
    let stripe = stripe_of(&code, vec![vec![]; 4]);
    assert_eq!(rebuild(&code, &stripe, &[0, 1, 5], &[1]).unwrap(), [vec![]]);
}

#[test]
fn illegal_shapes_are_refused() {
    assert_eq!(Code::new(0, 2), Err(CodeError::NoDataChunks));
    assert!(Code::new(MAX_CHUNKS, 0).is_ok());
    for (data_chunks, parity_chunks) in [(MAX_CHUNKS, 1), (1, MAX_CHUNKS), (1, usize::MAX)] {
        let error = CodeError::TooManyChunks { data_chunks, parity_chunks };
        assert_eq!(Code::new(data_chunks, parity_chunks), Err(error));
    }
}

#[test]
#[should_panic(expected = "equal length")]
fn unequal_lengths_are_a_bug() {
    Code::new(2, 0).unwrap().encode(&[&[1], &[]], &mut []);
}

#[test]
#[should_panic(expected = "present, not missing")]
fn wanting_a_present_chunk_is_a_bug() {
    let code = Code::new(1, 1).unwrap();
    let _ = code.reconstruct(&[Some(&[1]), None], &mut [(0, &mut [0])]);
}

proptest! {
    #[test]
    fn encode_and_decode_equal_reference(
        (data_chunks, parity_chunks) in (1..14_usize, 0..6_usize),
        length_bytes in prop_oneof![Just(0), Just(1), Just(24), 0..600_usize, Just(4096)],
        order in Just((0..20).collect::<Vec<usize>>()).prop_shuffle(),
        losses in 0..6_usize,
    ) {
        let code = Code::new(data_chunks, parity_chunks).unwrap();
        let data = sample_data(data_chunks, length_bytes);
        let parity = reference::encode(parity_chunks, &data);
        let stripe = stripe_of(&code, data);
        prop_assert_eq!(&stripe[data_chunks..], &parity[..]);

        let lost: Vec<_> = order.into_iter()
            .filter(|&chunk| chunk < code.total_chunks())
            .take(losses.min(parity_chunks))
            .collect();
        let chunks: Vec<_> = (0..stripe.len())
            .map(|chunk| (!lost.contains(&chunk)).then(|| stripe[chunk].clone()))
            .collect();
        let data = reference::decode(data_chunks, &chunks);
        let expected: Vec<_> = data.iter().cloned()
            .chain(reference::encode(parity_chunks, &data))
            .collect();
        // Wanting one chunk only must give the same as wanting all.
        for &chunk in &lost {
            let rebuilt = rebuild(&code, &stripe, &lost, &[chunk]).unwrap();
            prop_assert_eq!(&rebuilt[0], &expected[chunk]);
        }
    }

    #[test]
    fn wide_stripes_survive_random_losses(
        total in 2..=MAX_CHUNKS,
        share in 0.0..1.0_f64,
        order in Just((0..MAX_CHUNKS).collect::<Vec<usize>>()).prop_shuffle(),
    ) {
        #[allow(clippy::cast_possible_truncation, reason = "between 0 and total")]
        #[allow(clippy::cast_sign_loss, reason = "between 0 and total")]
        let parity_chunks = ((total as f64 * share) as usize).min(total - 1);
        let code = Code::new(total - parity_chunks, parity_chunks).unwrap();
        let stripe = stripe_of(&code, sample_data(code.data_chunks(), 9));
        let lost: Vec<_> =
            order.into_iter().filter(|&chunk| chunk < total).take(parity_chunks).collect();
        let wanted = &lost[..lost.len().min(3)];
        let rebuilt = rebuild(&code, &stripe, &lost, wanted).unwrap();
        for (&chunk, bytes) in wanted.iter().zip(&rebuilt) {
            prop_assert_eq!(bytes, &stripe[chunk]);
        }
    }
}

#[test]
fn mirrors_are_copies_and_decode_from_twins_only() {
    let code = Code::mirrored(3).unwrap();
    assert_eq!((code.data_chunks(), code.total_chunks()), (3, 6));
    let data = [[1_u8; 5], [2; 5], [3; 5]];
    let mut copies = [[0_u8; 5]; 3];
    let sources: Vec<&[u8]> = data.iter().map(|chunk| &chunk[..]).collect();
    code.encode(&sources, &mut copies.iter_mut().map(|chunk| &mut chunk[..]).collect::<Vec<_>>());
    assert_eq!(copies, data);
    let mut chunks: Vec<Option<&[u8]>> = vec![None; 6];
    chunks[1] = Some(&data[1]);
    chunks[3] = Some(&copies[0]);
    let (mut first, mut copy) = ([0; 5], [0; 5]);
    code.reconstruct(&chunks, &mut [(0, &mut first[..]), (4, &mut copy[..])]).unwrap();
    assert_eq!((first, copy), ([1; 5], [2; 5]));
    // Three chunks would be enough for any code: of mirrors none is of use to another pair.
    chunks[4] = Some(&copies[1]);
    let error = code.reconstruct(&chunks, &mut [(2, &mut first[..])]);
    assert_eq!(error, Err(CodeError::TooFewChunks { present: 0, needed: 1 }));
    assert_eq!(first, [1; 5]);
}
