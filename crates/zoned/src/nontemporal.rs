//! Copies with non-temporal stores, which bypass the caches.
//!
//! An ordinary copy reads every line of its target into the caches before it overwrites it, and
//! evicts other lines. The memory of an emulated drive gains nothing by that, since a real device
//! writes its media by itself. A copy of 4 KiB from the caches into 4 GiB of memory takes 110 to
//! 190 ns with such stores and 180 to 240 ns without (AMD EPYC, pieces of 4 to 64 KiB).

/// Bytes per step of the copy. Targets are aligned to it, and pieces are multiples of it.
const STEP_BYTES: usize = 128;

/// Fills `to` with consecutive pieces. Faster than an ordinary copy if `to` is aligned to 128 bytes
/// and every piece is a multiple of that; equal otherwise.
///
/// # Panics
/// If the pieces are not as long as `to` together.
pub fn copy_nontemporal(mut to: &mut [u8], pieces: &[impl AsRef<[u8]>]) {
    let bytes: usize = pieces.iter().map(|piece| piece.as_ref().len()).sum();
    assert!(bytes == to.len(), "pieces fill their target");
    #[cfg(target_arch = "x86_64")]
    if is_aligned(to, pieces) && std::arch::is_x86_feature_detected!("avx") {
        #[allow(unsafe_code, reason = "calling code compiled for a feature just detected")]
        // SAFETY: the processor has AVX; target and pieces are aligned and as long as asserted.
        unsafe {
            stream(to, pieces)
        };
        return;
    }
    for piece in pieces.iter().map(AsRef::as_ref) {
        let (here, rest) = to.split_at_mut(piece.len());
        here.copy_from_slice(piece);
        to = rest;
    }
}

#[cfg(target_arch = "x86_64")]
fn is_aligned(to: &[u8], pieces: &[impl AsRef<[u8]>]) -> bool {
    to.as_ptr().addr().is_multiple_of(STEP_BYTES)
        && pieces.iter().all(|piece| piece.as_ref().len().is_multiple_of(STEP_BYTES))
}

/// # Safety
/// The processor has AVX, `to` is aligned to [`STEP_BYTES`], every piece is a multiple of it long,
/// and all of them together are as long as `to`.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "stores past the caches take pointers")]
#[target_feature(enable = "avx")]
unsafe fn stream(to: &mut [u8], pieces: &[impl AsRef<[u8]>]) {
    use std::arch::x86_64::{__m256i, _mm_sfence, _mm256_loadu_si256, _mm256_stream_si256};
    const VECTOR_BYTES: usize = size_of::<__m256i>();
    let mut steps = to.chunks_exact_mut(STEP_BYTES);
    for from in pieces.iter().flat_map(|piece| piece.as_ref().chunks_exact(STEP_BYTES)) {
        let step = steps.next().expect("pieces fill their target");
        for at in (0..STEP_BYTES).step_by(VECTOR_BYTES) {
            // SAFETY: both are STEP_BYTES long; loads need no alignment, and the target is aligned.
            unsafe {
                let vector = _mm256_loadu_si256(from.as_ptr().add(at).cast());
                _mm256_stream_si256(step.as_mut_ptr().add(at).cast(), vector);
            }
        }
    }
    // Only this fence orders such stores with others.
    _mm_sfence();
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::{AlignedBuffer, BlockCount};

    /// Pieces at any address, of any length, into targets at any address.
    #[test]
    fn pieces_come_one_behind_the_other() {
        let source = Bytes::from_iter((0..=u8::MAX).cycle().take(3 * 4096));
        let lengths = [[4096, 4096], [128, 384], [1, 127], [0, 256], [0, 0], [4096, 5]];
        for (from, target, [one, other]) in [0, 1, 64].into_iter().flat_map(|from| {
            let of = move |target| lengths.map(|lengths| (from, target, lengths));
            [0, 1, 32, 128].into_iter().flat_map(of)
        }) {
            let pieces = [source.slice(from..from + one), source.slice(7..7 + other)];
            let mut memory = AlignedBuffer::zeroed(BlockCount(3));
            copy_nontemporal(&mut memory.as_mut()[target..target + one + other], &pieces);
            let mut expected = vec![0; 3 * 4096];
            expected[target..target + one].copy_from_slice(&pieces[0]);
            expected[target + one..target + one + other].copy_from_slice(&pieces[1]);
            assert!(memory.as_ref() == expected, "{from} {target} {one} {other}");
        }
    }

    #[test]
    #[should_panic(expected = "fill their target")]
    fn pieces_that_do_not_fill_are_refused() {
        copy_nontemporal(
            AlignedBuffer::zeroed(BlockCount(2)).as_mut(),
            &[Bytes::from(vec![0; 4096])],
        );
    }
}
