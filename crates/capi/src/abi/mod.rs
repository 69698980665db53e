//! The functions of `include/zoneweave_fs.h`, which documents them.
//!
//! Handles are boxes that C holds by pointer. The header obliges callers to pass handles that are
//! open, texts that end, and memory of the length given; null pointers are refused.
#![allow(unsafe_code, reason = "pointers of C become references")]
#![allow(clippy::missing_safety_doc, reason = "the header states what callers must do")]

mod entries;
mod error;
mod guard;
mod hints;
mod names;
mod placement;
mod reader;
mod store;
mod writer;

pub use entries::{
    Entries, zw_fs_entries_count, zw_fs_entries_free, zw_fs_entries_name, zw_fs_entries_stat,
    zw_fs_list,
};
pub use error::{Error, zw_fs_error_code, zw_fs_error_free, zw_fs_error_message};
pub use hints::CHints;
pub use names::{
    Space, Stat, zw_fs_link, zw_fs_mkdir, zw_fs_rename, zw_fs_rmdir, zw_fs_space_of,
    zw_fs_stat_path, zw_fs_unlink,
};
pub use placement::zw_fs_set_hints;
pub use reader::{Reader, zw_fs_open_file, zw_fs_read_at, zw_fs_reader_close, zw_fs_reader_length};
pub use store::{Fs, zw_fs_close, zw_fs_open, zw_fs_version, zw_fs_warning};
pub use writer::{
    Writer, zw_fs_append, zw_fs_append_to, zw_fs_create, zw_fs_flush, zw_fs_sync, zw_fs_truncate,
    zw_fs_write_at, zw_fs_writer_close, zw_fs_writer_length,
};
