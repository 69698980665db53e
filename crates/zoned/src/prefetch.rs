//! Asking for memory before it is used.
//!
//! A processor asks for what lies behind what is copied by itself, but not for where the next copy begins, and so
//! waits there for as long as half a block takes. Asked for before, what comes next arrives while something else is computed.

/// A line of memory.
const LINE_BYTES: usize = 64;

/// Asks for memory, and does not wait for it. Some more than a block is too much at once: what is asked for then is waited
/// for, or forgotten.
pub fn prefetch(memory: &[u8]) {
    memory.chunks(LINE_BYTES).for_each(ask);
}

#[cfg(target_arch = "x86_64")]
fn ask(line: &[u8]) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    #[allow(unsafe_code, reason = "asking for a line takes a pointer")]
    // SAFETY: nothing is read or written, whatever the address.
    unsafe {
        _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast());
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn ask(_: &[u8]) {}
