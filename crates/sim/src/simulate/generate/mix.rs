//! Which histories to draw.

use crate::simulate::scenario::Layout;

/// What kind of histories to draw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mix {
    /// Leave features out by seed, and do the others more often.
    pub swarm: bool,
    /// Arrays of this layout only.
    pub layout: Option<Layout>,
    /// Arrays of drives without metadata only.
    pub inline: bool,
}
