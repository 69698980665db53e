//! What each function does at the boundary: it stops panics, and reads arguments.

use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use super::error::Error;
use crate::service::Service;
use zoneweave_store::Failure;

/// Runs the work of a function; a panic is an error, and makes the store unusable.
pub(super) fn guard(
    service: Option<&Service>,
    work: impl FnOnce() -> Result<(), Failure>,
) -> *mut Error {
    let failure = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return ptr::null_mut(),
        Ok(Err(failure)) => failure,
        Err(_) => {
            if let Some(service) = service {
                service.record_panic();
            }
            Failure::bug()
        }
    };
    // Nothing of it panics, unless there is no memory.
    catch_unwind(|| Error::boxed(failure)).unwrap_or(ptr::null_mut())
}

/// As [`guard`], for functions that cannot fail.
pub(super) fn guard_quietly(work: impl FnOnce()) {
    // There is no handle left that could report it.
    let _ = catch_unwind(AssertUnwindSafe(work));
}

/// What a pointer leads to.
///
/// # Safety
/// It is null, or leads to a `T` that lives for `'a` and that nothing changes meanwhile.
pub(super) unsafe fn given<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, Failure> {
    // SAFETY: As above.
    unsafe { pointer.as_ref() }.ok_or_else(|| is_null(name))
}

fn is_null(name: &str) -> Failure {
    Failure::invalid(format!("{name} is a null pointer"))
}

/// A text of C.
///
/// # Safety
/// It is null, or ends with NUL and lives for `'a`.
pub(super) unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str, Failure> {
    if pointer.is_null() {
        return Err(is_null(name));
    }
    // SAFETY: As above.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| Failure::invalid(format!("{name} is not UTF-8")))
}

/// Where a result goes.
pub(super) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// A place of the caller.
    ///
    /// # Safety
    /// It is null, or can be written.
    pub(super) unsafe fn new(pointer: *mut T, name: &str) -> Result<Self, Failure> {
        if pointer.is_null() { Err(is_null(name)) } else { Ok(Self(pointer)) }
    }

    pub(super) fn set(self, value: T) {
        // SAFETY: `new` was promised that it can be written.
        unsafe { self.0.write(value) }
    }
}

impl<T> Out<*mut T> {
    /// Gives C a handle.
    pub(super) fn set_boxed(self, value: T) {
        self.set(Box::into_raw(Box::new(value)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::error::{zw_fs_error_code, zw_fs_error_free};
    use super::*;
    use zoneweave_store::Code;

    #[test]
    fn a_panic_becomes_an_error() {
        let error = guard(None, || panic!("as this test wants"));
        // SAFETY: The error was just made, and is freed once.
        unsafe {
            assert_eq!(zw_fs_error_code(error), Code::Bug as i32);
            zw_fs_error_free(error);
        }
        guard_quietly(|| panic!("as this test wants"));
    }
}
