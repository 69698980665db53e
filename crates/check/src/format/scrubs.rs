//! The newest scrubs in superblock records: docs/format.md section 4.

use crate::format::fields::Fields;

const HEAD_BYTES: usize = 8;
const SCRUB_BYTES: usize = 64;

/// Most scrubs in a record.
const SCRUBS_MOST: usize = 8;

/// Bound of the numbers.
const NUMBER_LIMIT: u64 = 1 << 62;

/// Bound of the times: the year 10000.
const TIME_LIMIT: u64 = 253_402_300_800;

/// Number of scrubs that a payload lists, if it is one.
pub(crate) fn parse_scrubs(bytes: &[u8]) -> Option<u64> {
    let (head, rest) = bytes.split_at_checked(HEAD_BYTES)?;
    let scrubs = usize::from(Fields(head).u16(0));
    if scrubs > SCRUBS_MOST || rest.len() != scrubs * SCRUB_BYTES {
        return None;
    }
    let is_valid = |scrub: Fields<'_>| {
        let numbers = [0, 8, 16, 24, 32, 40].map(|at| scrub.u64(at));
        let are_times = numbers[..2].iter().all(|time| *time < TIME_LIMIT);
        are_times && numbers.iter().all(|number| *number < NUMBER_LIMIT) && scrub.u8(48) <= 3
    };
    rest.chunks_exact(SCRUB_BYTES).map(Fields).all(is_valid).then_some(scrubs as u64)
}
