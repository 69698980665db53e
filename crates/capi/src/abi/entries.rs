//! The names in a directory.

use std::ffi::{CString, c_char};
use std::ptr;

use zoneweave_filestore::Metadata;

use super::error::Error;
use super::guard::{Out, given, guard, text};
use super::names::Stat;
use super::store::{Fs, on_store};
use zoneweave_store::Failure;

/// The names in a directory: `zw_fs_entries`.
pub struct Entries(Vec<(CString, Stat)>);

/// Lists a directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zw_fs_list(
    fs: *mut Fs,
    path: *const c_char,
    entries: *mut *mut Entries,
) -> *mut Error {
    // SAFETY: The header obliges callers.
    unsafe {
        on_store(fs, |service| {
            let path = text(path, "path")?.to_owned();
            let out = Out::new(entries, "entries")?;
            let listed = service.call(async move |worker| worker.store.list(&path).await)?;
            let entry = |(name, metadata): (String, Metadata)| {
                let name = CString::new(name).map_err(|_| Failure::invalid("a name with NUL"))?;
                Ok((name, Stat::from(&metadata)))
            };
            let entries = listed.into_iter().map(entry).collect::<Result<_, Failure>>();
            out.set_boxed(Entries(entries?));
            Ok(())
        })
    }
}

/// How many names there are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zw_fs_entries_count(entries: *const Entries) -> usize {
    // SAFETY: It is null, or a list that was not freed.
    unsafe { entries.as_ref() }.map_or(0, |entries| entries.0.len())
}

/// A name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zw_fs_entries_name(
    entries: *const Entries,
    index: usize,
) -> *const c_char {
    // SAFETY: It is null, or a list that was not freed.
    let entry = unsafe { entries.as_ref() }.and_then(|entries| entries.0.get(index));
    entry.map_or(ptr::null(), |(name, _)| name.as_ptr())
}

/// Describes an entry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zw_fs_entries_stat(
    entries: *const Entries,
    index: usize,
    stat: *mut Stat,
) -> *mut Error {
    guard(None, || {
        // SAFETY: The header obliges callers.
        let (entries, out) = unsafe { (given(entries, "entries")?, Out::new(stat, "stat")?) };
        let behind = || Failure::invalid(format!("there is no entry {index}"));
        out.set(entries.0.get(index).ok_or_else(behind)?.1);
        Ok(())
    })
}

/// Frees a list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zw_fs_entries_free(entries: *mut Entries) {
    if !entries.is_null() {
        // SAFETY: It is a list of ours, which C gives back once.
        drop(unsafe { Box::from_raw(entries) });
    }
}
