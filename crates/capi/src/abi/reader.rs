//! Files open for reading.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use super::error::Error;
use super::guard::{Out, given, guard, guard_quietly, text};
use super::store::{Fs, on_store};
use crate::lent::LentMut;
use crate::service::Service;
use zoneweave_store::Failure;

/// Bytes read at a time: a large read takes no more memory, and lets other calls in between.
const PIECE_BYTES: usize = 1 << 20;

/// A file open for reading: `zw_fs_reader`.
pub struct Reader {
    service: Arc<Service>,
    key: usize,
}

/// Runs the work of a function on a file.
///
/// # Safety
/// The reader is null or open.
unsafe fn on_reader(
    reader: *const Reader,
    work: impl FnOnce(&Reader) -> Result<(), Failure>,
) -> *mut Error {
    // SAFETY: As above.
    match unsafe { given(reader, "reader") } {
        Ok(reader) => guard(Some(&reader.service), || work(reader)),
        Err(failure) => guard(None, || Err(failure)),
    }
}

/// Opens a file for reading.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zw_fs_open_file(
    fs: *mut Fs,
    path: *const c_char,
    reader: *mut *mut Reader,
) -> *mut Error {
    // SAFETY: The header obliges callers.
    unsafe {
        on_store(fs, |service| {
            let path = text(path, "path")?.to_owned();
            let out = Out::new(reader, "reader")?;
            let key = service.call(async move |worker| {
                Ok(worker.readers.add(worker.store.open_file(&path).await?))
            })?;
            out.set_boxed(Reader { service: service.clone(), key });
            Ok(())
        })
    }
}

/// Reads bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zw_fs_read_at(
    reader: *mut Reader,
    offset: u64,
    buffer: *mut c_void,
    length: usize,
    count: *mut usize,
) -> *mut Error {
    // SAFETY: The header obliges callers; the call waits for the work that has the buffer.
    unsafe {
        on_reader(reader, |reader| {
            let out = Out::new(count, "count")?;
            let mut buffer = LentMut::new(buffer, length)?;
            let key = reader.key;
            out.set(reader.service.call(async move |worker| {
                let file = worker.readers.get(key)?;
                let mut done = 0;
                for piece in buffer.bytes().chunks_mut(PIECE_BYTES) {
                    let read = file.read_at(offset.saturating_add(done as u64), piece).await?;
                    done += read;
                    if read < piece.len() {
                        break;
                    }
                }
                Ok(done)
            })?);
            Ok(())
        })
    }
}

/// The length of the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zw_fs_reader_length(reader: *mut Reader, length: *mut u64) -> *mut Error {
    // SAFETY: The header obliges callers.
    unsafe {
        on_reader(reader, |reader| {
            let out = Out::new(length, "length")?;
            let key = reader.key;
            let call = async move |worker: std::rc::Rc<crate::worker::Worker>| {
                worker.readers.get(key)?.length().await
            };
            out.set(reader.service.call(call)?);
            Ok(())
        })
    }
}

/// Ends the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zw_fs_reader_close(reader: *mut Reader) {
    if reader.is_null() {
        return;
    }
    guard_quietly(|| {
        // SAFETY: It is a reader of ours, which C gives back once.
        let reader = unsafe { Box::from_raw(reader) };
        let key = reader.key;
        // If the store is closed, its files are as well.
        let _ = reader.service.call(async move |worker| worker.readers.remove(key).map(drop));
    });
}
