//! Random bytes from the kernel, for identifiers that must never repeat.

use std::io;

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

/// Sixteen random bytes, enough for a UUID or a seed.
///
/// # Errors
/// If the kernel has no `getrandom` (a sandbox that forbids it).
pub fn entropy() -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_draws_differ() {
        assert_ne!(entropy().unwrap(), entropy().unwrap());
    }
}
