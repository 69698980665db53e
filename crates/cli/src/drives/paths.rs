//! Paths of drives.

use std::cmp::Ordering;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::identity::FileIdentity;
use crate::error::CliError;

/// An absolute path for a server, which may have another working directory.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, CliError> {
    std::path::absolute(path).map_err(|error| CliError::File {
        path: path.to_owned(),
        action: "make the path absolute",
        error,
    })
}

/// Whether two paths lead to the same file or device.
pub(crate) fn same_file(one: &Path, other: &Path) -> bool {
    match (FileIdentity::at(one), FileIdentity::at(other)) {
        (Some(one), Some(other)) => one == other,
        _ => one == other,
    }
}

/// Paths in the order that people expect: `drive10` after `drive9`.
pub(crate) fn natural_order(one: &Path, other: &Path) -> Ordering {
    let (mut one, mut other) = (one.as_os_str().as_bytes(), other.as_os_str().as_bytes());
    loop {
        let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let order = match (digits(one), digits(other)) {
            (0, _) | (_, 0) => one.first().cmp(&other.first()),
            (ours, theirs) => {
                let (number, rest) = one.split_at(ours);
                let (its, its_rest) = other.split_at(theirs);
                let (value, its_value) = (without_zeros(number), without_zeros(its));
                let order = value.len().cmp(&its_value.len()).then(value.cmp(its_value));
                // Of equal numbers the one with fewer zeros comes first.
                let order = order.then(ours.cmp(&theirs));
                if order != Ordering::Equal {
                    return order;
                }
                (one, other) = (rest, its_rest);
                continue;
            }
        };
        match (order, one.split_first(), other.split_first()) {
            (Ordering::Equal, Some((_, rest)), Some((_, its_rest))) => {
                (one, other) = (rest, its_rest)
            }
            (order, ..) => return order,
        }
    }
}

/// A number without leading zeros.
fn without_zeros(digits: &[u8]) -> &[u8] {
    let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
    &digits[zeros.min(digits.len() - 1)..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::words;

    #[test]
    fn numbers_in_names_are_sorted_as_numbers() {
        let sorted = |names: &[&str]| {
            let mut paths: Vec<_> = names.iter().map(PathBuf::from).collect();
            paths.sort_by(|one, other| natural_order(one, other));
            words(&paths)
        };
        assert_eq!(sorted(&["d10", "d9", "d", "d1"]), "d d1 d9 d10");
        assert_eq!(sorted(&["b1/d2", "a2/d1", "a10/d1", "a2/d"]), "a2/d a2/d1 a10/d1 b1/d2");
        assert_eq!(sorted(&["d010", "d10", "d9", "d00", "d0"]), "d0 d00 d9 d10 d010");
        let long = "99999999999999999999999999998 99999999999999999999999999999";
        let names: Vec<_> = long.split(' ').rev().collect();
        assert_eq!(sorted(&names), long);
    }
}
