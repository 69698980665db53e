//! Changes of names, and what is known of them.

use std::ffi::c_char;
use std::rc::Rc;

use zoneweave_filestore::Metadata;

use super::error::Error;
use super::guard::{Out, text};
use super::store::{Fs, on_store};
use crate::worker::Worker;
use zoneweave_store::Failure;

/// A file or directory: `zw_fs_stat`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Stat {
    id: u64,
    length: u64,
    modified: u64,
    links: u32,
    is_directory: u8,
}

/// Space of a store: `zw_fs_space`.
#[repr(C)]
pub struct Space {
    capacity_bytes: u64,
    live_bytes: u64,
    free_bytes: u64,
}

impl From<&Metadata> for Stat {
    fn from(metadata: &Metadata) -> Self {
        Self {
            id: metadata.id.0,
            length: metadata.length,
            modified: metadata.modified,
            links: metadata.links,
            is_directory: u8::from(metadata.is_directory),
        }
    }
}

/// Changes the name of a path.
///
/// # Safety
/// The store is null or open, and the path is null or ends.
unsafe fn change(
    fs: *const Fs,
    path: *const c_char,
    work: impl AsyncFnOnce(Rc<Worker>, String) -> Result<(), Failure> + Send + 'static,
) -> *mut Error {
    // SAFETY: As above.
    unsafe {
        on_store(fs, |service| {
            let path = text(path, "path")?.to_owned();
            service.call(async move |worker| work(worker, path).await)
        })
    }
}

/// Makes a directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zw_fs_mkdir(fs: *mut Fs, path: *const c_char) -> *mut Error {
    // SAFETY: The header obliges callers.
    unsafe { change(fs, path, async |worker, path| worker.store.create_directory(&path).await) }
}

/// Removes a directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zw_fs_rmdir(fs: *mut Fs, path: *const c_char) -> *mut Error {
    // SAFETY: The header obliges callers.
    unsafe { change(fs, path, async |worker, path| worker.store.remove_directory(&path).await) }
}

/// Removes a name of a file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zw_fs_unlink(fs: *mut Fs, path: *const c_char) -> *mut Error {
    // SAFETY: The header obliges callers.
    unsafe { change(fs, path, async |worker, path| worker.store.remove_file(&path).await) }
}

/// Gives a file another name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zw_fs_link(
    fs: *mut Fs,
    file: *const c_char,
    name: *const c_char,
) -> *mut Error {
    // SAFETY: The header obliges callers.
    unsafe {
        on_store(fs, |service| {
            let (file, name) = (text(file, "file")?.to_owned(), text(name, "name")?.to_owned());
            service.call(async move |worker| worker.store.link(&file, &name).await)
        })
    }
}

/// Moves a file or directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zw_fs_rename(
    fs: *mut Fs,
    from: *const c_char,
    to: *const c_char,
) -> *mut Error {
    // SAFETY: The header obliges callers.
    unsafe {
        on_store(fs, |service| {
            let (from, to) = (text(from, "from")?.to_owned(), text(to, "to")?.to_owned());
            service.call(async move |worker| worker.store.rename(&from, &to).await)
        })
    }
}

/// Describes a file or directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zw_fs_stat_path(
    fs: *mut Fs,
    path: *const c_char,
    stat: *mut Stat,
) -> *mut Error {
    // SAFETY: The header obliges callers.
    unsafe {
        on_store(fs, |service| {
            let path = text(path, "path")?.to_owned();
            let out = Out::new(stat, "stat")?;
            out.set(
                service.call(async move |worker| {
                    Ok(Stat::from(&worker.store.metadata(&path).await?))
                })?,
            );
            Ok(())
        })
    }
}

/// Reports the space of a store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zw_fs_space_of(fs: *mut Fs, space: *mut Space) -> *mut Error {
    // SAFETY: The header obliges callers.
    unsafe {
        on_store(fs, |service| {
            let out = Out::new(space, "space")?;
            let space = service.call(async |worker| worker.store.space().await)?;
            out.set(Space {
                capacity_bytes: space.capacity_bytes,
                live_bytes: space.live_bytes,
                free_bytes: space.free_bytes,
            });
            Ok(())
        })
    }
}
