//! The memory of this machine, for in-memory drives.

use std::fs;

use crate::error::CliError;
use crate::format;

/// Memory available without swapping, in bytes, by the estimate of the kernel.
pub(crate) fn available_bytes() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let available = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = available.trim().strip_suffix(" kB")?.parse().ok()?;
    kib.checked_mul(1024)
}

/// Refuses in-memory drives that exceed the available memory: the kernel would kill a process.
///
/// # Errors
/// [`CliError::Usage`] of `--drive`.
pub(crate) fn refuse_too_large(drives: usize, drive_bytes: u64) -> Result<(), CliError> {
    // A block has 64 bytes of metadata; the rest is for the program.
    let needed = (drives as u64).saturating_mul(drive_bytes).saturating_mul(33) / 32;
    match available_bytes() {
        Some(available) if needed > available => {
            let problem = format!(
                "{drives} in-memory drives of {} exceed the {} of available memory: use a smaller --drive",
                format::bytes(drive_bytes),
                format::bytes(available)
            );
            Err(CliError::Usage { option: "drive", problem })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drives_that_no_machine_can_hold_are_refused() {
        assert!(available_bytes().is_some_and(|bytes| bytes > 1 << 20));
        assert!(refuse_too_large(4, 1 << 16).is_ok());
        for bytes in [1 << 50, u64::MAX] {
            assert!(matches!(
                refuse_too_large(4, bytes),
                Err(CliError::Usage { option: "drive", .. })
            ));
        }
    }
}
