//! Allocation policies: which zone takes the next blocks of a file.
//!
//! A policy is asked when a file has no zone yet, or its zone is full. It sees every open zone, the
//! empty ones with their wear, and whether another zone may become active; it changes nothing.
//!
//! | policy | matching of open zones | empty zone |
//! |---|---|---|
//! | [`LifetimePolicy`] | ZenFS, by lifetime | lowest number, as ZenFS |
//! | [`SequentialPolicy`] | as above | the next one after the last that was opened |
//! | [`LeastWornPolicy`] | as above | the least worn |
//! | [`DualPoolPolicy`] | as above | the least worn, for cold files the most worn |
//! | [`WearAwarePolicy`] | as above | WA-Zone: as worn as the file is cold |
//!
//! The last two also move cold files out of zones that lag in wear.

mod lifetime;
mod sequential;
mod wear;
mod wear_aware;

use zoneweave_zoned::{BlockCount, ZoneId};

use crate::hint::{Hints, Lifetime};

pub use lifetime::{LifetimePolicy, best_match};
pub use sequential::SequentialPolicy;
pub use wear::{DualPoolPolicy, LeastWornPolicy};
pub use wear_aware::{Trigger, WearAwarePolicy};

/// What needs blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Lifetime, level and expected size of the file.
    pub hints: Hints,
    /// Whether live blocks move out of a zone that is to be reset.
    pub is_relocation: bool,
}

/// An open zone with room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenZone {
    /// The zone.
    pub zone: ZoneId,
    /// The lifetime that it was opened for.
    pub lifetime: Lifetime,
    /// Blocks that it still takes.
    pub room: BlockCount,
    /// Blocks that files need.
    pub live: u32,
    /// Whether a writer appends to it, or a command works on it.
    pub is_busy: bool,
    /// Resets so far.
    pub resets: u64,
}

/// An empty zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmptyZone {
    /// The zone.
    pub zone: ZoneId,
    /// Resets so far.
    pub resets: u64,
}

/// A full zone whose files can be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsedZone {
    /// The zone.
    pub zone: ZoneId,
    /// The lifetime that it was opened for.
    pub lifetime: Lifetime,
    /// Blocks that files need.
    pub live: u32,
    /// Resets so far.
    pub resets: u64,
}

/// Resets of the data zones of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wear {
    /// Of the least worn zone.
    pub least: u64,
    /// Of the most worn zone.
    pub most: u64,
    /// Of all.
    pub total: u128,
    /// Zones.
    pub zones: u128,
}

impl FromIterator<u64> for Wear {
    /// The wear of zones with so many resets each.
    fn from_iter<I: IntoIterator<Item = u64>>(resets: I) -> Self {
        let add = |wear: Option<Self>, resets: u64| {
            let wear = wear.unwrap_or(Self { least: resets, ..Self::default() });
            Some(Self {
                least: wear.least.min(resets),
                most: wear.most.max(resets),
                total: wear.total + u128::from(resets),
                zones: wear.zones + 1,
            })
        };
        resets.into_iter().fold(None, add).unwrap_or_default()
    }
}

/// The zones that a policy chooses from.
#[derive(Clone, Debug)]
pub struct View<'a> {
    /// Open zones with room, by number.
    pub open: &'a [OpenZone],
    /// Empty zones that may be opened, by number; none if the rest is a reserve.
    pub empty: &'a [EmptyZone],
    /// Wear of all zones.
    pub wear: Wear,
    /// Whether another zone may become active.
    pub may_open: bool,
    /// Blocks of a zone.
    pub capacity: BlockCount,
    /// Free space in a zone, in percent of its capacity, below which it is finished.
    pub finish_percent: u8,
}

/// A choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Append to this open zone.
    Append(ZoneId),
    /// Open this empty zone.
    Open(ZoneId),
    /// Finish this open zone, which nobody writes, and ask again.
    Finish(ZoneId),
    /// No open zone has room, and none can be opened now.
    Wait,
}

/// Chooses zones.
pub trait Policy {
    /// The name in options.
    fn name(&self) -> &'static str;

    /// Chooses an empty zone of those that may be opened.
    fn pick_empty(&mut self, need: &Need, empty: &[EmptyZone], wear: &Wear) -> Option<ZoneId>;

    /// Whether files may have to be moved now, so that [`Policy::pick_used`] is to be asked.
    fn moves_files(&self) -> bool {
        false
    }

    /// Chooses a zone whose files are to be moved to one of the empty zones, if its wear asks for
    /// it.
    fn pick_used(
        &mut self,
        _used: &[UsedZone],
        _empty: &[EmptyZone],
        _wear: &Wear,
    ) -> Option<ZoneId> {
        None
    }

    /// The lifetime that a file is expected to have when it is moved for wear.
    fn lifetime_of_moved(&self, lifetime: Lifetime) -> Lifetime {
        lifetime
    }

    /// Chooses what to do for a file that needs blocks. The default is the rule of ZenFS.
    fn place(&mut self, need: &Need, view: &View<'_>) -> Choice {
        lifetime::place(self, need, view)
    }
}

/// The policy of a name.
#[must_use]
pub fn by_name(name: &str) -> Option<Box<dyn Policy>> {
    match name {
        LifetimePolicy::NAME => Some(Box::new(LifetimePolicy)),
        SequentialPolicy::NAME => Some(Box::new(SequentialPolicy::default())),
        LeastWornPolicy::NAME => Some(Box::new(LeastWornPolicy)),
        DualPoolPolicy::NAME => Some(Box::<DualPoolPolicy>::default()),
        WearAwarePolicy::NAME => Some(Box::<WearAwarePolicy>::default()),
        _ => None,
    }
}
