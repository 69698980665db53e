//! Opening and closing stores.

use std::ffi::c_char;
use std::sync::Arc;

use super::error::Error;
use super::guard::{Out, given, guard, guard_quietly, text};
use crate::service::Service;
use crate::uri::StoreUri;
use zoneweave_store::Failure;

/// The version of the interface: `ZW_FS_VERSION`.
const VERSION: u32 = 1;

/// An open store: `zw_fs`.
pub struct Fs {
    pub(super) service: Arc<Service>,
}

/// Runs the work of a function on a store, which is freed no earlier than the function returns.
///
/// # Safety
/// The store is null or open.
pub(super) unsafe fn on_store(
    fs: *const Fs,
    work: impl FnOnce(&Arc<Service>) -> Result<(), Failure>,
) -> *mut Error {
    // SAFETY: As above.
    match unsafe { given(fs, "fs") } {
        Ok(fs) => {
            let service = fs.service.clone();
            guard(Some(&service), || work(&service))
        }
        Err(failure) => guard(None, || Err(failure)),
    }
}

/// The version of the interface.
#[unsafe(no_mangle)]
pub extern "C" fn zw_fs_version() -> u32 {
    VERSION
}

/// Opens a store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zw_fs_open(uri: *const c_char, fs: *mut *mut Fs) -> *mut Error {
    guard(None, || {
        // SAFETY: The header obliges callers.
        let (uri, fs) = unsafe { (text(uri, "uri")?, Out::new(fs, "fs")?) };
        let service = Service::open(StoreUri::parse(uri)?)?;
        fs.set_boxed(Fs { service: Arc::new(service) });
        Ok(())
    })
}

/// The damage that the opening of a store found.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zw_fs_warning(fs: *const Fs) -> *const c_char {
    // SAFETY: It is null, or a store that is open.
    unsafe { fs.as_ref() }.map_or(c"".as_ptr(), |fs| fs.service.warning.as_ptr())
}

/// Closes a store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zw_fs_close(fs: *mut Fs) {
    if fs.is_null() {
        return;
    }
    guard_quietly(|| {
        // SAFETY: It is a store of ours, which C gives back once.
        let fs = unsafe { Box::from_raw(fs) };
        fs.service.close();
    });
}
