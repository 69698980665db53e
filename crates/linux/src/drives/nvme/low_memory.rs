//! The first 4 GiB of the address space, which a program for NVMe drives must leave empty.
//!
//! A kernel thread issues a command again that waits for a controller reset. If an interrupt ended
//! while that thread was created, it takes itself for a program of the x32 kind
//! (`in_compat_syscall`; seen in Debian's Linux 6.12), and cuts addresses to 32 bits. Where nothing
//! is mapped, the command fails with `EFAULT`, and is [sent again](super::retry::is_unsent). Where
//! something is mapped, the drive would read or write the wrong memory. Position-independent
//! programs, as ours are, are loaded far above.

use std::fs;
use std::io;

const END: u64 = 1 << 32;

/// Whether nothing is mapped there.
pub(super) fn is_empty() -> io::Result<bool> {
    Ok(lowest(&fs::read_to_string("/proc/self/maps")?).is_none_or(|lowest| lowest >= END))
}

/// The lowest address in a list of mappings.
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
