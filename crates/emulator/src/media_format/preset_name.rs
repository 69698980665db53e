//! The name of a preset, as a drive file keeps it.

use super::error::FormatError;

/// Bytes of the header that hold a name.
const NAME_BYTES: usize = 32;

/// 1 to 32 of a to z, 0 to 9 and `-`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresetName(String);

impl PresetName {
    /// Checks a name; the preset itself need not exist.
    ///
    /// # Errors
    /// If it is too long, empty, or has other characters.
    pub fn new(name: &str) -> Result<Self, FormatError> {
        let known = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
        if (1..=NAME_BYTES).contains(&name.len()) && name.bytes().all(known) {
            Ok(Self(name.to_owned()))
        } else {
            Err(FormatError::PresetName { name: name.to_owned() })
        }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn bytes(&self) -> [u8; NAME_BYTES] {
        let mut bytes = [0; NAME_BYTES];
        bytes[..self.0.len()].copy_from_slice(self.0.as_bytes());
        bytes
    }

    /// The name in a field of the header, if it is not empty.
    pub(super) fn decode(field: &[u8]) -> Result<Option<Self>, FormatError> {
        let end = field.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        match end {
            0 => Ok(None),
            end => Self::new(&String::from_utf8_lossy(&field[..end])).map(Some),
        }
    }
}
