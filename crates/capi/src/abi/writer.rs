//! Files open for writing.

use std::ffi::{c_char, c_int, c_void};
use std::rc::Rc;
use std::sync::Arc;

use zoneweave_filestore::Hints;

use super::error::Error;
use super::guard::{Out, given, guard, text};
use super::hints::CHints;
use super::store::{Fs, on_store};
use crate::lent::Lent;
use crate::service::Service;
use zoneweave_store::{Failure, Store};

/// A file open for writing: `zw_fs_writer`.
pub struct Writer {
    service: Arc<Service>,
    key: usize,
}

/// Runs the work of a function on a file.
///
/// # Safety
/// The writer is null or open.
pub(super) unsafe fn on_writer(
    writer: *const Writer,
    work: impl FnOnce(&Writer) -> Result<(), Failure>,
) -> *mut Error {
    // SAFETY: As above.
    match unsafe { given(writer, "writer") } {
        Ok(writer) => guard(Some(&writer.service), || work(writer)),
        Err(failure) => guard(None, || Err(failure)),
    }
}

impl Writer {
    /// Does work with the file in the store's thread.
    pub(super) fn call<T: Send + 'static>(
        &self,
        work: impl AsyncFnOnce(&zoneweave_store::Writer) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let key = self.key;
        self.service.call(async move |worker| {
            let file = worker.writers.get(key)?;
            work(&file).await
        })
    }
}

/// Opens a file with work in the store's thread, and gives C its handle.
///
/// # Safety
/// The store is null or open, the path is null or ends, and the place is null or can be written.
unsafe fn open(
    fs: *const Fs,
    path: *const c_char,
    place: *mut *mut Writer,
    work: impl AsyncFnOnce(&Store, &str) -> Result<zoneweave_store::Writer, Failure> + Send + 'static,
) -> *mut Error {
    // SAFETY: As above.
    unsafe {
        on_store(fs, |service| {
            let path = text(path, "path")?.to_owned();
            let out = Out::new(place, "writer")?;
            let key = service.call(async move |worker| {
                Ok(worker.writers.add(work(&worker.store, &path).await?))
            })?;
            out.set_boxed(Writer { service: service.clone(), key });
            Ok(())
        })
    }
}

/// Makes a file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zw_fs_create(
    fs: *mut Fs,
    path: *const c_char,
    is_exclusive: c_int,
    hints: *const CHints,
    writer: *mut *mut Writer,
) -> *mut Error {
    // SAFETY: The header obliges callers.
    let hints = unsafe { hints.as_ref() }.map_or(Ok(Hints::default()), |hints| hints.checked());
    let hints = match hints {
        Ok(hints) => hints,
        Err(failure) => return guard(None, || Err(failure)),
    };
    // SAFETY: The header obliges callers.
    unsafe {
        open(fs, path, writer, async move |store, path| {
            store.create(path, hints, is_exclusive != 0).await
        })
    }
}

/// Opens an existing file, to append to it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zw_fs_append_to(
    fs: *mut Fs,
    path: *const c_char,
    writer: *mut *mut Writer,
) -> *mut Error {
    // SAFETY: The header obliges callers.
    unsafe { open(fs, path, writer, async |store, path| store.append_to(path).await) }
}

/// Appends bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zw_fs_append(
    writer: *mut Writer,
    data: *const c_void,
    length: usize,
) -> *mut Error {
    // SAFETY: The header obliges callers; the call waits for the work that has the data.
    unsafe {
        on_writer(writer, |writer| {
            let data = Lent::new(data, length)?;
            writer.call(async move |file| file.append(data.bytes()).await)
        })
    }
}

/// Cuts the file at a byte, and appends bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zw_fs_write_at(
    writer: *mut Writer,
    offset: u64,
    data: *const c_void,
    length: usize,
) -> *mut Error {
    // SAFETY: The header obliges callers; the call waits for the work that has the data.
    unsafe {
        on_writer(writer, |writer| {
            let data = Lent::new(data, length)?;
            writer.call(async move |file| file.write_at(offset, data.bytes()).await)
        })
    }
}

/// Hands all bytes to the drive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zw_fs_flush(writer: *mut Writer) -> *mut Error {
    // SAFETY: The header obliges callers.
    unsafe { on_writer(writer, |writer| writer.call(async |file| file.flush().await)) }
}

/// Makes all bytes durable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zw_fs_sync(writer: *mut Writer) -> *mut Error {
    // SAFETY: The header obliges callers.
    unsafe { on_writer(writer, |writer| writer.call(async |file| file.sync().await)) }
}

/// Cuts the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zw_fs_truncate(writer: *mut Writer, length: u64) -> *mut Error {
    // SAFETY: The header obliges callers.
    unsafe {
        on_writer(writer, |writer| writer.call(async move |file| file.truncate(length).await))
    }
}

/// The length of the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zw_fs_writer_length(writer: *mut Writer, length: *mut u64) -> *mut Error {
    // SAFETY: The header obliges callers.
    unsafe {
        on_writer(writer, |writer| {
            let out = Out::new(length, "length")?;
            out.set(writer.call(async |file| file.length().await)?);
            Ok(())
        })
    }
}

/// Flushes the file and ends the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zw_fs_writer_close(writer: *mut Writer) -> *mut Error {
    // SAFETY: The header obliges callers.
    let error = unsafe {
        on_writer(writer, |writer| {
            let key = writer.key;
            writer.service.call(async move |worker| {
                let file = worker.writers.remove(key)?;
                // Otherwise another call on it is under way, against the rules.
                let file = Rc::into_inner(file);
                file.ok_or_else(|| Failure::invalid("a call on the file runs"))?.close().await
            })
        })
    };
    if !writer.is_null() {
        // SAFETY: It is a writer of ours, which C gives back once.
        drop(unsafe { Box::from_raw(writer) });
    }
    error
}
