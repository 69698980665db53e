//! Each kernel, portable and dispatched, against the byte-at-a-time reference, at random lengths
//! and alignments.

use super::*;
use crate::reference;
use proptest::prelude::*;

/// Longer than two wide blocks, so that every tail follows both one and several of them.
const LENGTH_MAX_BYTES: usize = 2 * WIDE_DOT_BYTES + 40;
/// A cache line, so that every alignment a vector load can see occurs.
const ALIGNMENT_BYTES: usize = 64;

/// Sources of one length, and for each where in its buffer it starts.
#[derive(Debug)]
struct Sources {
    length_bytes: usize,
    buffers: Vec<(usize, Vec<u8>)>,
}

impl Sources {
    fn slices(&self) -> Vec<&[u8]> {
        self.buffers.iter().map(|(start, buffer)| &buffer[*start..][..self.length_bytes]).collect()
    }

    fn owned(&self) -> Vec<Vec<u8>> {
        self.slices().iter().map(|slice| slice.to_vec()).collect()
    }
}

fn sources() -> impl Strategy<Value = Sources> {
    let size_bytes = LENGTH_MAX_BYTES + ALIGNMENT_BYTES;
    let buffer = (0..ALIGNMENT_BYTES, proptest::collection::vec(any::<u8>(), size_bytes));
    (0..=LENGTH_MAX_BYTES, proptest::collection::vec(buffer, 1..12))
        .prop_map(|(length_bytes, buffers)| Sources { length_bytes, buffers })
}

/// An output at an arbitrary alignment, full of rubbish that the kernel must overwrite, and guarded
/// behind.
struct Output {
    start: usize,
    length_bytes: usize,
    buffer: Vec<u8>,
}

impl Output {
    fn new(start: usize, length_bytes: usize) -> Self {
        Self { start, length_bytes, buffer: vec![0xa5; start + length_bytes + 1] }
    }

    fn slice(&mut self) -> &mut [u8] {
        &mut self.buffer[self.start..][..self.length_bytes]
    }

    fn take(mut self) -> Vec<u8> {
        assert!(self.buffer[..self.start].iter().all(|&byte| byte == 0xa5));
        assert_eq!(self.buffer.pop(), Some(0xa5));
        self.buffer.split_off(self.start)
    }
}

proptest! {
    #[test]
    fn xor_equals_reference(sources in sources(), start in 0..ALIGNMENT_BYTES) {
        let expected = reference::encode(1, &sources.owned()).remove(0);
        let mut output = Output::new(start, sources.length_bytes);
        sweep::<WIDE_BYTES>(Xor { output: output.slice(), sources: &sources.slices() });
        prop_assert_eq!(&output.take(), &expected);
        let mut output = Output::new(start, sources.length_bytes);
        xor(output.slice(), &sources.slices());
        prop_assert_eq!(&output.take(), &expected);
    }

    #[test]
    fn xor_into_equals_reference(sources in sources(), start in 0..ALIGNMENT_BYTES) {
        let expected = reference::encode(1, &sources.owned()).remove(0);
        let mut dispatched = Output::new(start, sources.length_bytes);
        let mut portable = Output::new(start, sources.length_bytes);
        dispatched.slice().fill(0);
        portable.slice().fill(0);
        for source in sources.slices() {
            xor_into(dispatched.slice(), source);
            sweep::<WIDE_BYTES>(XorInto { target: portable.slice(), source });
        }
        prop_assert_eq!(&dispatched.take(), &expected);
        prop_assert_eq!(&portable.take(), &expected);
    }

    #[test]
    fn p_and_q_equal_reference(sources in sources(), start in 0..ALIGNMENT_BYTES) {
        let expected = reference::encode(2, &sources.owned());
        let outputs = || {
            [start, ALIGNMENT_BYTES - start].map(|start| Output::new(start, sources.length_bytes))
        };
        let [mut p, mut q] = outputs();
        sweep::<WIDE_BYTES>(PAndQ { p: p.slice(), q: q.slice(), sources: &sources.slices() });
        prop_assert_eq!(&[p.take(), q.take()][..], &expected[..]);
        let [mut p, mut q] = outputs();
        p_and_q(p.slice(), q.slice(), &sources.slices());
        prop_assert_eq!(&[p.take(), q.take()][..], &expected[..]);
    }

    #[test]
    fn dot_equals_reference(
        sources in sources(),
        coefficients in proptest::collection::vec(any::<u8>(), 12),
        mask in any::<u8>(),
        start in 0..ALIGNMENT_BYTES,
    ) {
        // The mask makes coefficients with few bits, down to all zero, as likely as dense ones.
        let slices = sources.slices();
        let coefficients: Vec<_> =
            coefficients[..slices.len()].iter().map(|coefficient| coefficient & mask).collect();
        let coefficients = coefficients.as_slice();
        let expected = reference::dot(coefficients, &sources.owned());
        let mut output = Output::new(start, sources.length_bytes);
        sweep::<WIDE_DOT_BYTES>(Dot {
            output: output.slice(),
            coefficients,
            sources: &slices,
            top_bit: 7,
        });
        prop_assert_eq!(&output.take(), &expected);
        let mut output = Output::new(start, sources.length_bytes);
        dot(output.slice(), coefficients, &slices);
        prop_assert_eq!(&output.take(), &expected);
    }
}

#[test]
fn every_short_length_is_handled() {
    for length_bytes in 0..LENGTH_MAX_BYTES {
        let source: Vec<u8> = (0..=255).cycle().take(length_bytes).collect();
        let mut output = vec![0xa5; length_bytes];
        dot(&mut output, &[0x8e, 1], &[&source, &source]);
        assert_eq!(output, reference::dot(&[0x8e ^ 1], &[source]));
    }
}
