//! Random faults: the rate of each class, drawn from a seed.
//!
//! Every class has its own generator, so that switching one off leaves the others unchanged for the
//! same commands. The first class that fires, in the order of [`FaultClass`], decides about a
//! command.

use zoneweave_runtime::Random;
use zoneweave_zoned::{BlockCount, Geometry, Status, ZoneAddress, ZoneId, ZoneOffset};

use super::action::FaultAction;
use super::damage::{BlockPart, Damage};
use crate::{CommandKind, Request};

/// A way in which drives fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultClass {
    /// The drive is gone until somebody brings it back.
    Gone,
    /// The power of the drive fails in the middle of a write.
    Torn,
    /// A command is carried out in part, or in full, and answered with an error; or refused.
    Errored,
    /// A write is acknowledged and its blocks are not stored.
    Lost,
    /// A write is acknowledged, and stored at another address.
    Misdirected,
    /// A block goes bad where it is stored; it is noticed when it is read.
    Rotted,
    /// Blocks cannot be read any more.
    Unreadable,
    /// The drive becomes 10 to 1,000 times slower, or as fast as usual again.
    Slow,
    /// An append is stored twice, or answered with the address of the one before.
    DuplicateAppend,
    /// A report names a wrong write pointer.
    LyingWritePointer,
    /// A flush is answered and does nothing.
    IneffectiveFlush,
    /// A returning drive has older contents.
    BackStale,
    /// A returning drive is blank.
    BackBlank,
}

impl FaultClass {
    /// Every class.
    pub const ALL: [Self; 13] = [
        Self::Gone,
        Self::Torn,
        Self::Errored,
        Self::Lost,
        Self::Misdirected,
        Self::Rotted,
        Self::Unreadable,
        Self::Slow,
        Self::DuplicateAppend,
        Self::LyingWritePointer,
        Self::IneffectiveFlush,
        Self::BackStale,
        Self::BackBlank,
    ];

    /// Whether commands of this kind can suffer from the class.
    const fn affects(self, kind: CommandKind) -> bool {
        use CommandKind::{Append, Flush, Read, Report, Write};
        match self {
            Self::Gone | Self::Slow => true,
            Self::Errored => !matches!(kind, Read | Report),
            Self::Torn | Self::Lost | Self::Misdirected => matches!(kind, Write | Append),
            Self::Rotted | Self::Unreadable => matches!(kind, Read),
            Self::DuplicateAppend => matches!(kind, Append),
            Self::LyingWritePointer => matches!(kind, Report),
            Self::IneffectiveFlush => matches!(kind, Flush),
            Self::BackStale | Self::BackBlank => false,
        }
    }
}

/// The rate of each class: hits per million commands that it can affect, or, for returning drives,
/// per million returns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultProfile {
    rates: [u32; FaultClass::ALL.len()],
}

impl FaultProfile {
    /// The same with another rate for one class; 0 switches it off.
    #[must_use]
    pub fn with(mut self, class: FaultClass, per_million: u32) -> Self {
        assert!(per_million <= 1_000_000, "a rate is at most every time");
        self.rates[class as usize] = per_million;
        self
    }

    /// The rate of a class, per million.
    #[must_use]
    pub fn per_million(&self, class: FaultClass) -> u32 {
        self.rates[class as usize]
    }

    /// The same rates, with each class switched off or left on by the toss of a coin. Histories
    /// with many classes off find bugs that histories with a little of everything miss.
    #[must_use]
    pub fn swarm(&self, seed: u64) -> Self {
        let mut random = Random::new(seed);
        Self { rates: self.rates.map(|rate| if random.per_mille(500) { rate } else { 0 }) }
    }
}

/// The contents of a returning drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Return {
    /// Its contents when it left.
    Whole,
    /// Its contents at an earlier time.
    Stale,
    /// Nothing.
    Blank,
}

/// Faults drawn from a seed.
#[derive(Clone, Debug)]
pub struct SeededFaults {
    profile: FaultProfile,
    random: [Random; FaultClass::ALL.len()],
    zones: u32,
    capacity: BlockCount,
    is_slow: bool,
}

impl SeededFaults {
    /// The faults of a seed on a drive of this shape.
    #[must_use]
    pub fn new(profile: FaultProfile, seed: u64, geometry: &Geometry) -> Self {
        let mut source = Random::new(seed);
        let random = std::array::from_fn(|_| source.fork());
        let (zones, capacity) = (geometry.zones, geometry.zone_capacity);
        assert!(zones > 0 && capacity.0 > 0, "faults need a zone to hit");
        Self { profile, random, zones, capacity, is_slow: false }
    }

    /// The profile that the faults are drawn by.
    #[must_use]
    pub fn profile(&self) -> &FaultProfile {
        &self.profile
    }

    /// Draws the contents of a drive that returns: all of them, an older state, or none.
    pub fn comes_back(&mut self) -> Return {
        // Both draw, so that neither shifts the other.
        let (stale, blank) = (self.fires(FaultClass::BackStale), self.fires(FaultClass::BackBlank));
        match (stale, blank) {
            (true, _) => Return::Stale,
            (_, true) => Return::Blank,
            _ => Return::Whole,
        }
    }

    /// The fault of a command, if it has one.
    pub(super) fn draw(
        &mut self,
        request: &Request,
        write_pointer: ZoneOffset,
    ) -> Option<FaultAction> {
        let mut decided = None;
        for class in FaultClass::ALL {
            if class.affects(request.kind()) && self.fires(class) && decided.is_none() {
                decided = self.action(class, request, write_pointer);
            }
        }
        decided
    }

    fn fires(&mut self, class: FaultClass) -> bool {
        let rate = u64::from(self.profile.per_million(class));
        rate > 0 && self.random[class as usize].below(1_000_000) < rate
    }

    fn action(
        &mut self,
        class: FaultClass,
        request: &Request,
        write_pointer: ZoneOffset,
    ) -> Option<FaultAction> {
        let random = &mut self.random[class as usize];
        Some(match class {
            FaultClass::Gone => FaultAction::Gone,
            FaultClass::Torn => FaultAction::Torn(part_of(request, random)),
            FaultClass::Errored => errored(request, random),
            FaultClass::Lost => FaultAction::Lost,
            FaultClass::Misdirected => {
                let zone = ZoneId(below(random, self.zones));
                // Mostly into the zones and blocks that are in use: the first ones.
                let end = write_pointer.0.clamp(1, self.capacity.0);
                FaultAction::Misdirect(ZoneAddress::new(zone, below(random, end)))
            }
            FaultClass::Rotted => FaultAction::Rot(damage(random)),
            FaultClass::Unreadable => FaultAction::Unreadable,
            FaultClass::Slow => {
                self.is_slow = !self.is_slow;
                let factors = [10, 30, 100, 300, 1000];
                let factor = factors[below(random, 5) as usize];
                FaultAction::SlowDrive(if self.is_slow { factor } else { 1 })
            }
            FaultClass::DuplicateAppend if random.per_mille(500) => FaultAction::RepeatOffset,
            FaultClass::DuplicateAppend => FaultAction::AppendTwice,
            FaultClass::LyingWritePointer => {
                let Request::Report { first, count, .. } = *request else { return None };
                let listed = below(random, count.min(self.zones).max(1));
                let zone = first.0.saturating_add(listed);
                let offset = below(random, self.capacity.0 + 1);
                FaultAction::Misreport(ZoneAddress::new(ZoneId(zone), offset))
            }
            FaultClass::IneffectiveFlush => FaultAction::Ineffective,
            FaultClass::BackStale | FaultClass::BackBlank => return None,
        })
    }
}

/// Some of the blocks of a write, none to all but one.
fn part_of(request: &Request, random: &mut Random) -> BlockCount {
    match request {
        Request::Write { blocks, .. } | Request::Append { blocks, .. } => {
            BlockCount(below(random, blocks.0.max(1)))
        }
        _ => BlockCount(0),
    }
}

fn errored(request: &Request, random: &mut Random) -> FaultAction {
    let part = part_of(request, random);
    match random.below(3) {
        0 => FaultAction::Fail(Status::InternalError),
        1 if part.0 > 0 => FaultAction::Partial(part),
        _ => FaultAction::FailApplied(Status::InternalError),
    }
}

fn damage(random: &mut Random) -> Damage {
    let part = [BlockPart::Data, BlockPart::Oob, BlockPart::Both][below(random, 3) as usize];
    let seed = random.next();
    match random.per_mille(500) {
        true => Damage::BitFlip { part, seed },
        false => Damage::Garbage { part, seed },
    }
}

fn below(random: &mut Random, bound: u32) -> u32 {
    u32::try_from(random.below(bound.into())).expect("below a 32-bit bound")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use zoneweave_zoned::ReportOptions;

    use super::*;

    fn geometry() -> Geometry {
        Geometry::new(8, BlockCount(60))
    }

    fn everything(per_million: u32) -> FaultProfile {
        FaultClass::ALL
            .into_iter()
            .fold(FaultProfile::default(), |profile, class| profile.with(class, per_million))
    }

    fn requests() -> Vec<Request> {
        let at = ZoneAddress::new(ZoneId(1), 3);
        let (zone, blocks) = (ZoneId(1), BlockCount(4));
        vec![
            Request::Read { at, blocks },
            Request::Write { at, blocks, fua: false },
            Request::Append { zone, blocks, fua: false },
            Request::Report { first: ZoneId(0), count: 8, options: ReportOptions::default() },
            Request::Flush,
        ]
    }

    fn history(profile: FaultProfile, seed: u64, commands: usize) -> Vec<Option<FaultAction>> {
        let mut faults = SeededFaults::new(profile, seed, &geometry());
        let requests = requests().into_iter().cycle().take(commands);
        requests.map(|request| faults.draw(&request, ZoneOffset(20))).collect()
    }

    #[test]
    fn a_seed_gives_one_history_and_no_profile_no_faults() {
        assert_eq!(history(everything(50_000), 7, 500), history(everything(50_000), 7, 500));
        assert_ne!(history(everything(50_000), 7, 500), history(everything(50_000), 8, 500));
        assert!(history(FaultProfile::default(), 7, 500).iter().all(Option::is_none));
    }

    #[test]
    fn each_class_happens_at_its_rate_to_what_it_can_hit() {
        let commands = 100_000;
        for class in FaultClass::ALL {
            let profile = FaultProfile::default().with(class, 100_000);
            let fired = history(profile, 3, commands).into_iter().flatten().count();
            let kinds = requests().iter().filter(|one| class.affects(one.kind())).count();
            let expected = commands / 5 * kinds / 10;
            let range = expected * 9 / 10..=expected * 11 / 10;
            assert!(range.contains(&fired), "{class:?} fired {fired} times");
        }
    }

    #[test]
    fn a_class_that_is_off_leaves_the_others_as_they_were() {
        let only = |class| history(FaultProfile::default().with(class, 200_000), 5, 400);
        let (lost, rotted) = (only(FaultClass::Lost), only(FaultClass::Rotted));
        let both = FaultProfile::default()
            .with(FaultClass::Lost, 200_000)
            .with(FaultClass::Rotted, 200_000);
        let merged: Vec<_> = lost.into_iter().zip(rotted).map(|(a, b)| a.or(b)).collect();
        assert_eq!(history(both, 5, 400), merged);
    }

    #[test]
    fn a_swarm_leaves_about_half_of_the_classes_on() {
        let mut on = BTreeMap::new();
        for seed in 0..200 {
            let profile = everything(9).swarm(seed);
            for class in FaultClass::ALL {
                *on.entry(class).or_insert(0) += profile.per_million(class) / 9;
            }
        }
        assert!(on.values().all(|times| (70..130).contains(times)), "{on:?}");
    }

    #[test]
    fn returns_are_drawn_too() {
        let returns = |class, per_million| {
            let profile = FaultProfile::default().with(class, per_million);
            SeededFaults::new(profile, 1, &geometry()).comes_back()
        };
        assert_eq!(returns(FaultClass::BackStale, 1_000_000), Return::Stale);
        assert_eq!(returns(FaultClass::BackBlank, 1_000_000), Return::Blank);
        assert_eq!(returns(FaultClass::BackBlank, 0), Return::Whole);
    }
}
