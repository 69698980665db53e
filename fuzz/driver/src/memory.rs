//! Counts allocated memory, so that an input cannot make a target take memory without bound.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Limit of the memory of one execution beyond the memory in use before it. It is far more than any
/// target needs for its inputs, and far less than a hostile length field asks for.
const LIMIT_BYTES: usize = 64 << 20;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static HIGHEST: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, counted.
struct Counted;

#[global_allocator]
static COUNTED: Counted = Counted;

// SAFETY: every call goes to the system's allocator as it is.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let in_use = IN_USE.fetch_add(layout.size(), Relaxed) + layout.size();
        HIGHEST.fetch_max(in_use, Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Runs one execution.
///
/// # Panics
/// If it took more memory than allowed.
pub fn limited(run: impl FnOnce()) {
    let before = IN_USE.load(Relaxed);
    HIGHEST.store(before, Relaxed);
    run();
    let taken = HIGHEST.load(Relaxed) - before;
    assert!(taken <= LIMIT_BYTES, "{taken} bytes of memory were taken");
}
