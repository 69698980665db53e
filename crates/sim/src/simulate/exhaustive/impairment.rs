//! What may be wrong with the drives at a start after a crash.

use std::fmt;
use std::str::FromStr;

/// What is wrong with a drive at a start after a crash; at most with one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Impairment {
    /// With none; one that was out may be back.
    None,
    /// It is away.
    Lost(usize),
    /// A blank drive is in its place.
    Blank(usize),
    /// It holds what it held before the trace.
    Stale(usize),
    /// At the first start nothing but superblocks can be read from it.
    Mute(usize),
}

impl Impairment {
    /// Each that is possible.
    pub(super) fn all(out: Option<usize>, columns: usize) -> Vec<Self> {
        if let Some(slot) = out {
            return vec![Self::None, Self::Lost(slot)];
        }
        let each = |kind: fn(usize) -> Self| (0..columns).map(kind);
        let all = each(Self::Lost).chain(each(Self::Blank));
        let all = all.chain(each(Self::Stale)).chain(each(Self::Mute));
        std::iter::once(Self::None).chain(all).collect()
    }

    pub(super) fn slot(self) -> Option<usize> {
        match self {
            Self::None => None,
            Self::Lost(slot) | Self::Blank(slot) | Self::Stale(slot) | Self::Mute(slot) => {
                Some(slot)
            }
        }
    }

    /// Whether it makes no difference what the crash left of the drive.
    pub(super) fn hides(self) -> bool {
        matches!(self, Self::Lost(_) | Self::Blank(_) | Self::Stale(_))
    }

    pub(super) fn is_away(self, slot: usize) -> bool {
        self == Self::Lost(slot)
    }
}

impl FromStr for Impairment {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let all = Self::all(None, usize::from(u8::MAX));
        all.into_iter().find(|one| one.to_string() == text).ok_or(())
    }
}

impl fmt::Display for Impairment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Lost(slot) => write!(f, "lost{slot}"),
            Self::Blank(slot) => write!(f, "blank{slot}"),
            Self::Stale(slot) => write!(f, "stale{slot}"),
            Self::Mute(slot) => write!(f, "mute{slot}"),
        }
    }
}
