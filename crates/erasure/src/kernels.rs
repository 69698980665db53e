//! The loops over chunk bytes, in safe Rust that the compiler turns into vector code.
//!
//! Each kernel is written once, for a block of `N` bytes, as plain loops over byte arrays. `sweep`
//! applies it along the chunks in wide blocks, then in words, then in bytes, so any length works.
//! `dispatch` compiles that sweep a second time with AVX2 enabled and picks at run time; every
//! other machine takes the portable sweep, which is the same source at the target's baseline (SSE2,
//! NEON).
//!
//! Invariant: all slices of one kernel have equal length; the public entry points assert it.

use crate::gf256::POLYNOMIAL_LOW;

/// Bytes handled per step: four AVX2 registers per running sum, so that two sums and the loads fit
/// the sixteen there are. Twice as much costs P+Q a quarter of its speed.
const WIDE_BYTES: usize = 128;

/// Bytes per step of `dot`, which has one running sum and, per source and bit, a branch to spread
/// over more bytes: a third faster than at `WIDE_BYTES`.
const WIDE_DOT_BYTES: usize = 256;

/// Sets `output` to the exclusive or of `sources`, of which there is at least one.
pub(crate) fn xor(output: &mut [u8], sources: &[&[u8]]) {
    assert!(!sources.is_empty());
    assert_equal_lengths(output.len(), sources);
    dispatch::<WIDE_BYTES>(Xor { output, sources });
}

/// Replaces `target` by the exclusive or of `target` and `source`.
///
/// # Panics
/// If the two differ in length.
pub fn xor_into(target: &mut [u8], source: &[u8]) {
    assert!(target.len() == source.len(), "xor_into needs slices of equal length");
    dispatch::<WIDE_BYTES>(XorInto { target, source });
}

/// Sets `p` to the exclusive or of `sources` and `q` to the sum of 2^i times source i.
pub(crate) fn p_and_q(p: &mut [u8], q: &mut [u8], sources: &[&[u8]]) {
    assert!(!sources.is_empty());
    assert!(p.len() == q.len(), "all chunks of a stripe must have equal length");
    assert_equal_lengths(p.len(), sources);
    dispatch::<WIDE_BYTES>(PAndQ { p, q, sources });
}

/// Sets `output` to the sum of each coefficient times its source.
pub(crate) fn dot(output: &mut [u8], coefficients: &[u8], sources: &[&[u8]]) {
    assert!(coefficients.len() == sources.len());
    assert_equal_lengths(output.len(), sources);
    let union = coefficients.iter().fold(0, |union, coefficient| union | coefficient);
    dispatch::<WIDE_DOT_BYTES>(Dot {
        output,
        coefficients,
        sources,
        top_bit: union.checked_ilog2().unwrap_or(0),
    });
}

pub(crate) fn assert_equal_lengths(length_bytes: usize, sources: &[&[u8]]) {
    for source in sources {
        assert!(source.len() == length_bytes, "all chunks of a stripe must have equal length");
    }
}

/// One pass over equally long slices, a block at a time.
trait Kernel {
    fn length_bytes(&self) -> usize;

    /// Computes the outputs for the `N` bytes from `offset` on, which lie inside the slices.
    fn block<const N: usize>(&mut self, offset: usize);
}

struct Xor<'a> {
    output: &'a mut [u8],
    sources: &'a [&'a [u8]],
}

impl Kernel for Xor<'_> {
    #[inline(always)]
    fn length_bytes(&self) -> usize {
        self.output.len()
    }

    #[inline(always)]
    fn block<const N: usize>(&mut self, offset: usize) {
        let mut sum = *block_of::<N>(self.sources[0], offset);
        for source in &self.sources[1..] {
            add(&mut sum, block_of(source, offset));
        }
        *block_of_mut(self.output, offset) = sum;
    }
}

struct XorInto<'a> {
    target: &'a mut [u8],
    source: &'a [u8],
}

impl Kernel for XorInto<'_> {
    #[inline(always)]
    fn length_bytes(&self) -> usize {
        self.target.len()
    }

    #[inline(always)]
    fn block<const N: usize>(&mut self, offset: usize) {
        add::<N>(block_of_mut(self.target, offset), block_of(self.source, offset));
    }
}

struct PAndQ<'a> {
    p: &'a mut [u8],
    q: &'a mut [u8],
    sources: &'a [&'a [u8]],
}

impl Kernel for PAndQ<'_> {
    #[inline(always)]
    fn length_bytes(&self) -> usize {
        self.p.len()
    }

    /// Horner's rule from the last source down: q = (..(d[k-1] * 2 + d[k-2]) * 2 + ..) * 2 + d[0].
    #[inline(always)]
    fn block<const N: usize>(&mut self, offset: usize) {
        let (last, rest) = self.sources.split_last().expect("asserted by p_and_q");
        let mut p = *block_of::<N>(last, offset);
        let mut q = p;
        for source in rest.iter().rev() {
            let source = block_of(source, offset);
            add(&mut p, source);
            double(&mut q);
            add(&mut q, source);
        }
        *block_of_mut(self.p, offset) = p;
        *block_of_mut(self.q, offset) = q;
    }
}

struct Dot<'a> {
    output: &'a mut [u8],
    coefficients: &'a [u8],
    sources: &'a [&'a [u8]],
    /// The highest bit set in any coefficient; the bits above it contribute nothing.
    top_bit: u32,
}

impl Kernel for Dot<'_> {
    #[inline(always)]
    fn length_bytes(&self) -> usize {
        self.output.len()
    }

    /// Horner's rule over the bits of the coefficients: the sum of c[i] * d[i] is the sum over bits
    /// b of 2^b times the exclusive or of those d[i] whose coefficient has bit b. At most seven
    /// doublings, however many sources, and no table lookups, which do not vectorise portably.
    #[inline(always)]
    fn block<const N: usize>(&mut self, offset: usize) {
        let mut sum = [0; N];
        for bit in (0..=self.top_bit).rev() {
            if bit != self.top_bit {
                double(&mut sum);
            }
            for (coefficient, source) in self.coefficients.iter().zip(self.sources) {
                if (coefficient >> bit) & 1 == 1 {
                    add(&mut sum, block_of(source, offset));
                }
            }
        }
        *block_of_mut(self.output, offset) = sum;
    }
}

#[inline(always)]
fn add<const N: usize>(sum: &mut [u8; N], term: &[u8; N]) {
    for (sum, term) in sum.iter_mut().zip(term) {
        *sum ^= term;
    }
}

/// Doubles each byte in GF(2^8). Written as a select, which becomes a signed compare and a mask.
#[inline(always)]
fn double<const N: usize>(sum: &mut [u8; N]) {
    for byte in sum {
        let overflow = if *byte & 0x80 != 0 { POLYNOMIAL_LOW } else { 0 };
        *byte = (*byte << 1) ^ overflow;
    }
}

#[inline(always)]
fn block_of<const N: usize>(slice: &[u8], offset: usize) -> &[u8; N] {
    slice[offset..].first_chunk().expect("the sweep stays inside the slices")
}

#[inline(always)]
fn block_of_mut<const N: usize>(slice: &mut [u8], offset: usize) -> &mut [u8; N] {
    slice[offset..].first_chunk_mut().expect("the sweep stays inside the slices")
}

#[inline(always)]
fn sweep<const WIDE: usize>(mut kernel: impl Kernel) {
    let length_bytes = kernel.length_bytes();
    let mut offset = 0;
    while length_bytes - offset >= WIDE {
        kernel.block::<WIDE>(offset);
        offset += WIDE;
    }
    while length_bytes - offset >= 8 {
        kernel.block::<8>(offset);
        offset += 8;
    }
    while offset < length_bytes {
        kernel.block::<1>(offset);
        offset += 1;
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn sweep_avx2<const WIDE: usize>(kernel: impl Kernel) {
    sweep::<WIDE>(kernel);
}

fn dispatch<const WIDE: usize>(kernel: impl Kernel) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        #[allow(unsafe_code, reason = "calling safe code compiled for a feature just detected")]
        // SAFETY: the processor has AVX2, which is the only thing `sweep_avx2` requires.
        unsafe {
            sweep_avx2::<WIDE>(kernel)
        };
        return;
    }
    sweep::<WIDE>(kernel);
}

#[cfg(test)]
mod tests;
