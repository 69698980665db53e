//! NVMe commands by `ioctl`, which waits for them: for opening a drive, when nothing else is going
//! on.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `NVME_IOCTL_ID`: which namespace a device is.
const ID: libc::Ioctl = 0x4E40;
/// `NVME_IOCTL_ADMIN64_CMD`: `_IOWR('N', 0x47, struct nvme_passthru_cmd64)`.
const ADMIN: libc::Ioctl = 0xC050_4E47_u32 as libc::Ioctl;
/// `NVME_IOCTL_IO64_CMD`: `_IOWR('N', 0x48, struct nvme_passthru_cmd64)`.
const IO: libc::Ioctl = 0xC050_4E48_u32 as libc::Ioctl;

/// Which commands a number is one of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Set {
    Admin,
    Io,
}

/// A command that brings data and takes none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query {
    pub(crate) set: Set,
    pub(crate) opcode: u8,
    pub(crate) namespace: u32,
    /// Command dwords 10 to 15.
    pub(crate) dwords: [u32; 6],
    pub(crate) timeout_ms: u32,
}

/// The kernel's `struct nvme_passthru_cmd64`.
#[repr(C)]
#[derive(Default)]
struct Passthrough {
    opcode: u8,
    flags: u8,
    reserved1: u16,
    namespace: u32,
    dword2: u32,
    dword3: u32,
    metadata: u64,
    address: u64,
    metadata_bytes: u32,
    data_bytes: u32,
    dwords: [u32; 6],
    timeout_ms: u32,
    reserved2: u32,
    result: u64,
}

const _: () = assert!(size_of::<Passthrough>() == 80);

/// The namespace behind a device.
///
/// # Errors
/// The kernel's; `ENOTTY` if the device is no NVMe namespace.
pub(crate) fn namespace_of(device: BorrowedFd<'_>) -> io::Result<u32> {
    // SAFETY: this request takes no argument and changes nothing.
    let id = unsafe { libc::ioctl(device.as_raw_fd(), ID) };
    u32::try_from(id).map_err(|_| io::Error::last_os_error())
}

/// Runs a command that fills `buffer`, and waits for it; returns its NVMe status, zero for success.
///
/// # Errors
/// If the kernel has no answer of the drive.
pub(crate) fn query(device: BorrowedFd<'_>, query: Query, buffer: &mut [u8]) -> io::Result<u16> {
    let data_bytes = u32::try_from(buffer.len()).expect("answers are short");
    let mut command = Passthrough {
        opcode: query.opcode,
        namespace: query.namespace,
        address: buffer.as_mut_ptr().expose_provenance() as u64,
        data_bytes,
        dwords: query.dwords,
        timeout_ms: query.timeout_ms,
        ..Passthrough::default()
    };
    let request = match query.set {
        Set::Admin => ADMIN,
        Set::Io => IO,
    };
    // SAFETY: `command` has the type that these requests take, and outlives the call. It names
    // `data_bytes` bytes that `buffer` borrows mutably, and the kernel is done with them when the
    // call returns.
    let status = unsafe { libc::ioctl(device.as_raw_fd(), request, &raw mut command) };
    // Above the status there are hints about retries.
    match u32::try_from(status) {
        Ok(status) => Ok(u16::try_from(status & 0x7FF).expect("eleven bits")),
        Err(_) => Err(io::Error::last_os_error()),
    }
}
