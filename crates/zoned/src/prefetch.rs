//! Prefetches memory.
//!
//! The hardware prefetcher follows a copy, but cannot know where the next copy begins. The wait
//! there takes as long as the copy of half a block. With a prefetch, the start of the next copy
//! arrives during other work.

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;

/// Prefetches memory without waiting. More than a few lines beyond a block are too many at once:
/// the processor waits for them or drops them.
pub fn prefetch(memory: &[u8]) {
    memory.chunks(LINE_BYTES).for_each(ask);
}

#[cfg(target_arch = "x86_64")]
fn ask(line: &[u8]) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    #[allow(unsafe_code, reason = "asking for a line takes a pointer")]
    // SAFETY: a prefetch accesses no memory, for any address.
    unsafe {
        _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast());
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn ask(_: &[u8]) {}
