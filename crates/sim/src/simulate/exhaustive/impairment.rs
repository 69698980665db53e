//! Impairments of drives at a start after a crash.

use std::fmt;
use std::str::FromStr;

/// The impairment of at most one drive at a start after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Impairment {
    /// None; a drive that was out may be back.
    None,
    /// The drive is away.
    Lost(usize),
    /// A blank drive is in its slot.
    Blank(usize),
    /// The drive has its contents from before the trace.
    Stale(usize),
    /// At the first start only superblocks of the drive are readable.
    Mute(usize),
}

impl Impairment {
    /// All possible impairments.
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

    /// Whether the crash's outcome for this drive is irrelevant.
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
