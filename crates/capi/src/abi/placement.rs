//! Changes of the hints of a file that is open for writing.

use super::error::Error;
use super::guard::given;
use super::hints::CHints;
use super::writer::{Writer, on_writer};

/// Sets hints for later blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zw_fs_set_hints(writer: *mut Writer, hints: *const CHints) -> *mut Error {
    // SAFETY: The header obliges callers.
    unsafe {
        on_writer(writer, |writer| {
            let hints = given(hints, "hints")?.checked()?;
            writer.call(async move |file| file.set_hints(hints).await)
        })
    }
}
