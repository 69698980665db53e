//! Hints about the lifetime of a file: RocksDB gives them when it creates one.

/// The expected lifetime of a file, with the numbers of RocksDB's `WriteLifeTimeHint`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Lifetime {
    /// No hint was given.
    #[default]
    NotSet = 0,
    /// The writer has no expectation.
    None = 1,
    /// Write-ahead logs.
    Short = 2,
    /// Levels 0 and 1.
    Medium = 3,
    /// The level below.
    Long = 4,
    /// Deeper levels.
    Extreme = 5,
}

impl Lifetime {
    /// Every lifetime.
    pub const ALL: [Self; 6] =
        [Self::NotSet, Self::None, Self::Short, Self::Medium, Self::Long, Self::Extreme];

    /// The lifetime of a number; `None` for numbers without meaning.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }
}

/// What placement knows about a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// The expected lifetime.
    pub lifetime: Lifetime,
    /// The level of the LSM tree that the file belongs to, below 255, if it is known.
    pub level: Option<u8>,
    /// The expected size in bytes; 0 if unknown. It is not stored.
    pub expected_bytes: u64,
}

/// On media, a file without a level.
const NO_LEVEL: u8 = 255;

impl Hints {
    /// The stored form: lifetime and level.
    pub(crate) fn to_bytes(self) -> [u8; 2] {
        [self.lifetime.number(), self.level.unwrap_or(NO_LEVEL)]
    }

    /// The hints of a stored form; `None` if it has no meaning.
    pub(crate) fn from_bytes([lifetime, level]: [u8; 2]) -> Option<Self> {
        let lifetime = Lifetime::from_number(lifetime)?;
        let level = (level != NO_LEVEL).then_some(level);
        Some(Self { lifetime, level, expected_bytes: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_hints_lead_back() {
        for lifetime in Lifetime::ALL {
            for level in [None, Some(0), Some(6), Some(254)] {
                let hints = Hints { lifetime, level, expected_bytes: 0 };
                assert_eq!(Hints::from_bytes(hints.to_bytes()), Some(hints));
            }
        }
        assert_eq!(Hints::from_bytes([6, 0]), None);
    }
}
