//! The first 4 GiB of the address space, in which a program for NVMe drives must have nothing.
//!
//! A command that waits for a controller to be reset is begun again by a thread of the kernel's. That takes itself for one that runs
//! a program of the x32 kind if it was made when an interrupt ended, as it has the registers of that moment
//! (`in_compat_syscall`; seen in Linux 6.12 of Debian), and cuts addresses to 32 bits. Where nothing is at such an address the command
//! fails with `EFAULT`, and is [sent again](super::retry::is_unsent). Where something is, a drive would be written with it, or would write
//! to it. Programs that are position-independent, as ours are, begin far above.

use std::fs;
use std::io;

const END: u64 = 1 << 32;

/// Whether nothing is mapped there.
pub(super) fn is_empty() -> io::Result<bool> {
    Ok(lowest(&fs::read_to_string("/proc/self/maps")?).is_none_or(|lowest| lowest >= END))
}

/// The lowest address in a list of what is mapped.
fn lowest(maps: &str) -> Option<u64> {
    let start = |line: &str| u64::from_str_radix(line.split('-').next()?, 16).ok();
    maps.lines().filter_map(start).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_low_is_found() {
        let of =
            |start: &str| lowest(&format!("7f0000000000-7f0000001000 r--p 0\n{start}-ff r--p 0\n"));
        assert_eq!(of("00400000"), Some(0x40_0000));
        assert!(of("555555554000") > Some(END));
        assert!(is_empty().expect("what is mapped"));
    }
}
