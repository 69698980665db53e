//! The kinds of histories to draw.

use crate::simulate::scenario::Layout;

/// The kinds of histories to draw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mix {
    /// Leaves features out by seed, and uses the others more often.
    pub swarm: bool,
    /// Arrays of this layout only.
    pub layout: Option<Layout>,
    /// Arrays of drives without metadata only.
    pub inline: bool,
    /// Zoned volumes instead of logs.
    pub zoned: bool,
}
