//! Errors that C reads and frees.

use std::ffi::{CString, c_char};

use zoneweave_store::Failure;

/// An error: `zw_fs_error`.
pub struct Error {
    code: i32,
    message: CString,
}

impl Error {
    /// An error for C to free.
    pub(super) fn boxed(failure: Failure) -> *mut Self {
        // Paths in messages are escaped or have no NUL, so that nothing is lost.
        let message = CString::new(failure.message.replace('\0', "?")).unwrap_or_default();
        Box::into_raw(Box::new(Self { code: failure.code as i32, message }))
    }
}

/// The code of an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zw_fs_error_code(error: *const Error) -> i32 {
    // SAFETY: It is null, or an error that was not freed.
    unsafe { error.as_ref() }.map_or(0, |error| error.code)
}

/// The message of an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zw_fs_error_message(error: *const Error) -> *const c_char {
    // SAFETY: It is null, or an error that was not freed.
    unsafe { error.as_ref() }.map_or(c"".as_ptr(), |error| error.message.as_ptr())
}

/// Frees an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zw_fs_error_free(error: *mut Error) {
    if !error.is_null() {
        // SAFETY: It is an error of ours, which C gives back once.
        drop(unsafe { Box::from_raw(error) });
    }
}
