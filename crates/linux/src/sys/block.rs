//! `ioctl` requests of block devices, which block until the drive answers.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use zerocopy::{FromBytes, IntoBytes};

use super::result::check;
use crate::sys::blkzoned::{REPORTS_CAPACITY, ReportHeader, ReportedZone, ZoneRange};

/// How the kernel numbers these requests: direction, size of the argument, type and number.
#[expect(clippy::cast_possible_truncation, reason = "a few bytes")]
const fn request(direction: u32, bytes: usize, number: u32) -> libc::Ioctl {
    (direction << 30 | (bytes as u32) << 16 | 0x12 << 8 | number) as libc::Ioctl
}

const WRITE: u32 = 1;
const READ: u32 = 2;
const READ_WRITE: u32 = 3;

/// `BLKREPORTZONE`.
const REPORT: libc::Ioctl = request(READ_WRITE, size_of::<ReportHeader>(), 130);

/// `BLKGETSIZE64`.
const SIZE: libc::Ioctl = request(READ, size_of::<u64>(), 114);

/// The size of a block device, even while another process uses it.
///
/// # Errors
/// The kernel's.
pub(crate) fn device_bytes(device: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes = 0_u64;
    // SAFETY: the request writes one number of 64 bits, which outlives the call.
    check(unsafe { libc::ioctl(device.as_raw_fd(), SIZE, &raw mut bytes) })?;
    Ok(bytes)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ZoneChange {
    Reset,
    Open,
    Close,
    Finish,
}

impl ZoneChange {
    /// `BLKRESETZONE` and so on.
    const fn request(self) -> libc::Ioctl {
        let number = match self {
            Self::Reset => 131,
            Self::Open => 134,
            Self::Close => 135,
            Self::Finish => 136,
        };
        request(WRITE, size_of::<ZoneRange>(), number)
    }
}

/// At most `count` zones from the zone of a sector on, as the kernel reports them.
///
/// # Errors
/// The kernel's; also if it claims to have returned more than requested.
pub(crate) fn report_zones(
    device: BorrowedFd<'_>,
    first_sector: u64,
    count: u32,
) -> io::Result<Vec<ReportedZone>> {
    const HEADER: usize = size_of::<ReportHeader>();
    const ZONE: usize = size_of::<ReportedZone>();
    // Words, as the structures have to lie at multiples of eight.
    let mut memory = vec![0_u64; (HEADER + ZONE * count as usize) / size_of::<u64>()];
    let asked = ReportHeader { first_sector, zones: count, flags: 0 };
    memory.as_mut_bytes()[..HEADER].copy_from_slice(asked.as_bytes());
    // SAFETY: the request takes a header and the number of zones that fit behind it, all of which
    // `memory` owns; the kernel is done with it when the call returns.
    check(unsafe { libc::ioctl(device.as_raw_fd(), REPORT, memory.as_mut_ptr()) })?;
    let (header, zones) = memory.as_bytes().split_at(HEADER);
    let header = ReportHeader::read_from_bytes(header).expect("the length it has");
    if header.zones > count {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let zones = zones.chunks_exact(ZONE).take(header.zones as usize);
    let zones = zones.map(|zone| ReportedZone::read_from_bytes(zone).expect("the length it has"));
    let whole = |zone: ReportedZone| match header.flags & REPORTS_CAPACITY {
        0 => ReportedZone { capacity: zone.length, ..zone },
        _ => zone,
    };
    Ok(zones.map(whole).collect())
}

/// Changes the state of every zone of a range.
///
/// # Errors
/// The kernel's.
pub(crate) fn change_zones(
    device: BorrowedFd<'_>,
    change: ZoneChange,
    range: ZoneRange,
) -> io::Result<()> {
    // SAFETY: these requests read a range, which outlives the call.
    check(unsafe { libc::ioctl(device.as_raw_fd(), change.request(), &raw const range) })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn requests_have_the_numbers_of_the_kernel() {
        assert_eq!(REPORT, 0xC010_1282_u32 as libc::Ioctl);
        assert_eq!(SIZE, 0x8008_1272_u32 as libc::Ioctl);
        assert_eq!(ZoneChange::Reset.request(), 0x4010_1283);
        assert_eq!(ZoneChange::Open.request(), 0x4010_1286);
        assert_eq!(ZoneChange::Close.request(), 0x4010_1287);
        assert_eq!(ZoneChange::Finish.request(), 0x4010_1288);
    }

    #[test]
    fn what_has_no_zones_says_so() {
        let file = File::open("/dev/null").unwrap();
        assert!(report_zones(file.as_fd(), 0, 3).is_err());
        assert!(device_bytes(file.as_fd()).is_err());
        let range = ZoneRange { first_sector: 0, sectors: 8 };
        assert!(change_zones(file.as_fd(), ZoneChange::Reset, range).is_err());
    }
}
