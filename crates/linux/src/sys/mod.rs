//! System calls that have no safe wrapper: signals as a file descriptor, NVMe commands and changes
//! of zones that are waited for, memory shared with a driver, children without what they inherit.
#![allow(unsafe_code, reason = "ioctls, signal masks and shared mappings are raw system calls")]

pub(crate) mod blkzoned;
pub(crate) mod block;
pub(crate) mod child;
pub(crate) mod nvme;
mod result;
pub(crate) mod shared_records;
pub(crate) mod signal;
