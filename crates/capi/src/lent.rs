//! Memory that a caller lends to the store's thread until its call returns.

#![allow(unsafe_code, reason = "the memory belongs to C")]

use std::ffi::c_void;

use zoneweave_store::Failure;

/// Bytes to be read by the store's thread.
pub(crate) struct Lent {
    start: *const u8,
    length: usize,
}

/// Bytes to be written by the store's thread.
pub(crate) struct LentMut {
    start: *mut u8,
    length: usize,
}

// SAFETY: The bytes are used by the store's thread alone while the caller waits.
unsafe impl Send for Lent {}
// SAFETY: As for `Lent`.
unsafe impl Send for LentMut {}

fn check(is_null: bool, length: usize) -> Result<(), Failure> {
    match (is_null, isize::try_from(length)) {
        (true, Ok(1..)) => Err(Failure::invalid("a null pointer to data")),
        (_, Err(_)) => Err(Failure::invalid("more data than there can be memory")),
        _ => Ok(()),
    }
}

impl Lent {
    /// Bytes of the caller.
    ///
    /// # Safety
    /// They must be readable and unchanged until the call returns, and the call must not return
    /// before the work that has this value is done or dropped.
    pub(crate) unsafe fn new(start: *const c_void, length: usize) -> Result<Self, Failure> {
        check(start.is_null(), length)?;
        Ok(Self { start: start.cast(), length })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        if self.length == 0 {
            return &[];
        }
        // SAFETY: It is not null, and `new` was promised that the bytes are readable for so long.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

impl LentMut {
    /// Memory of the caller.
    ///
    /// # Safety
    /// As for [`Lent::new`]; nothing else may use the memory meanwhile. It must be initialised, or
    /// be of a language that has no such notion.
    pub(crate) unsafe fn new(start: *mut c_void, length: usize) -> Result<Self, Failure> {
        check(start.is_null(), length)?;
        Ok(Self { start: start.cast(), length })
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        if self.length == 0 {
            return &mut [];
        }
        // SAFETY: It is not null, and `new` was promised that nothing else uses the memory.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.length) }
    }
}
