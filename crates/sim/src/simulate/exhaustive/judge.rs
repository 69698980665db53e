//! Recoveries from every outcome of crashes, judged.

use std::collections::BTreeSet;
use std::fmt;

use zoneweave_emulator::{CommandKind, FaultAction, Immediate, RamDrive, Selector};
use zoneweave_zoned::{Status, ZoneId};

use super::hash::Hash;
use super::history::Boundary;
use super::impairment::Impairment;
use super::outcome::{Outcomes, Worst, contents_hash, crash, outcomes};
use super::start::{Rules, Start, start};

/// Zones of each drive that hold superblock records.
const SUPERBLOCK_ZONES: u32 = 2;

/// The step between a start and the next one.
struct Sequel {
    /// The slot whose drive is away at the second start.
    away: Option<usize>,
    /// The slot whose drive is back, and its outcome.
    back: Option<(usize, usize)>,
}

impl fmt::Display for Sequel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.away, self.back) {
            (Some(slot), _) => write!(f, "without the drive in slot {slot}"),
            (None, Some((slot, outcome))) => {
                write!(f, "with the drive in slot {slot} back, as outcome {outcome}")
            }
            (None, None) => f.write_str("with the same drives"),
        }
    }
}

/// States that were judged.
#[derive(Default)]
pub(super) struct Seen(BTreeSet<u128>);

/// Every possible outcome of a crash at a boundary.
pub(super) struct Crashed<'a> {
    pub boundary: &'a Boundary,
    pub rules: Rules,
    pub outcomes: Vec<Outcomes>,
    promises: u128,
}

impl<'a> Crashed<'a> {
    pub(super) fn new(boundary: &'a Boundary, rules: Rules) -> Self {
        let outcomes = boundary.drives.iter().map(|ram| outcomes(ram, rules.power)).collect();
        let mut promises = Hash::default();
        for (lba, versions) in boundary.oracle.allowed(rules.survives()) {
            promises.number(lba.into());
            promises.number(versions.len() as u128);
            versions.iter().for_each(|version| promises.number((*version).into()));
        }
        // The drive that may be impaired is part of the promises.
        promises.number(boundary.out.map_or(0, |slot| slot as u128 + 1));
        promises.number(boundary.returning.map_or(0, |slot| slot as u128 + 1));
        Self { boundary, rules, outcomes, promises: promises.value() }
    }

    /// Number of states, including equal ones with different histories.
    pub(super) fn states(&self) -> u64 {
        let choices: u64 = self.outcomes.iter().map(|drive| drive.choices).product();
        choices * Impairment::all(self.boundary.out, self.outcomes.len()).len() as u64
    }

    /// New states, each by the outcome of every drive and the impairment.
    pub(super) fn unseen(&self, seen: &mut Seen) -> Vec<(Vec<usize>, Impairment)> {
        let mut unseen = Vec::new();
        for impairment in Impairment::all(self.boundary.out, self.outcomes.len()) {
            let hidden = impairment.slot().filter(|_| impairment.hides());
            let mut digits = vec![0; self.outcomes.len()];
            loop {
                if seen.0.insert(self.key(&digits, impairment)) {
                    unseen.push((digits.clone(), impairment));
                }
                let more = |slot: &usize| {
                    Some(*slot) != hidden && digits[*slot] + 1 < self.outcomes[*slot].distinct.len()
                };
                let Some(next) = (0..digits.len()).find(more) else { break };
                digits[next] += 1;
                digits[..next].fill(0);
            }
        }
        unseen
    }

    /// The identity of a state. It includes the outcome of a drive that is away, since the drive
    /// may come back.
    fn key(&self, digits: &[usize], impairment: Impairment) -> u128 {
        let mut hash = Hash::default();
        hash.number(self.promises);
        hash.bytes(impairment.to_string().as_bytes());
        for (slot, digit) in digits.iter().enumerate() {
            let outcomes = &self.outcomes[slot].distinct;
            let hidden = impairment.hides() && impairment.slot() == Some(slot);
            match impairment {
                Impairment::Lost(_) if hidden => {
                    outcomes.iter().for_each(|outcome| hash.number(outcome.hash));
                }
                Impairment::Stale(_) if hidden => {
                    hash.number(contents_hash(&self.boundary.before[slot]));
                }
                _ if hidden => {}
                _ => hash.number(outcomes[*digit].hash),
            }
        }
        hash.value()
    }

    /// The drives of a state, at the start after the crash.
    pub(super) fn drives(&self, digits: &[usize], impairment: Impairment) -> Vec<RamDrive> {
        let fork = |(slot, digit): (usize, &usize)| {
            let ram = self.outcomes[slot].distinct[*digit].ram.fork(Immediate);
            self.impair(&ram, slot, impairment);
            ram
        };
        digits.iter().enumerate().map(fork).collect()
    }

    fn impair(&self, ram: &RamDrive, slot: usize, impairment: Impairment) {
        match impairment {
            Impairment::Blank(at) if at == slot => ram.come_back_blank(),
            Impairment::Stale(at) if at == slot => {
                let before = self.boundary.before[slot].fork(Immediate);
                crash(&before, self.rules.power, &mut Worst);
                ram.come_back_stale(&before);
            }
            Impairment::Mute(at) if at == slot => {
                for zone in (SUPERBLOCK_ZONES..ram.geometry().zones).map(ZoneId) {
                    let reads = Selector::next(CommandKind::Read).in_zone(zone).always();
                    ram.inject(reads, FaultAction::Fail(Status::UnrecoveredRead));
                }
            }
            _ => {}
        }
    }

    /// Starts from a state and judges the result. Then it removes another drive or returns the one
    /// that was away, and starts again: the contents must be the same. Returns the number of
    /// starts.
    ///
    /// # Panics
    ///
    /// If a promise is broken.
    pub(super) fn judge(&self, digits: &[usize], impairment: Impairment) -> u64 {
        let away = impairment.slot().filter(|slot| impairment.is_away(*slot));
        let first = start(self.rules, self.drives(digits, impairment), away);
        self.boundary.oracle.clone().settle(&first.found, self.rules.survives());
        self.check_members(&first, impairment);
        let mut starts = 1;
        for sequel in self.sequels(&first, impairment) {
            let mut drives: Vec<_> = first.drives.iter().map(|ram| ram.fork(Immediate)).collect();
            if let Some((slot, outcome)) = sequel.back {
                drives[slot] = self.outcomes[slot].distinct[outcome].ram.fork(Immediate);
            }
            let second = start(self.rules, drives, sequel.away);
            starts += 1;
            if let Some((slot, _)) = sequel.back {
                let (back, out) = (second.in_service[slot], first.evicted[slot]);
                // One that was being put back may not have got the record that makes it a member.
                let may_be_stale = self.boundary.returning == Some(slot);
                assert!(
                    back != out || may_be_stale && !back,
                    "slot {slot}: evicted {out}, and in service {back} at the next start"
                );
            }
            assert!(
                first.found == second.found,
                "{} were found, and {} after another crash, {sequel}",
                first.found,
                second.found
            );
        }
        starts
    }

    /// A description of the state.
    pub(super) fn describe(&self, digits: &[usize], impairment: Impairment) -> String {
        let mut text = String::new();
        for (slot, ram) in self.boundary.drives.iter().enumerate() {
            let in_flight: Vec<_> =
                ram.in_flight().iter().map(|one| format!("{:?}", one.request)).collect();
            let left = &self.outcomes[slot].distinct[digits[slot]].choices;
            text += &format!(
                "  slot {slot}: in flight [{}], choices of the crash {left:?}\n",
                in_flight.join(", ")
            );
        }
        text + &format!("  impaired: {impairment}\n")
    }

    /// Possible steps between the two starts.
    fn sequels(&self, first: &Start, impairment: Impairment) -> Vec<Sequel> {
        let same = Sequel { away: None, back: None };
        let without = |slot| Sequel { away: Some(slot), back: None };
        match (impairment, self.boundary.out) {
            // A drive that was out and is a member again is as good as any.
            (Impairment::None, out) if out.is_none_or(|slot| first.online[slot]) => {
                std::iter::once(same).chain((0..self.outcomes.len()).map(without)).collect()
            }
            (Impairment::None, out) => std::iter::once(same).chain(out.map(without)).collect(),
            (Impairment::Mute(slot), _) => vec![same, without(slot)],
            (Impairment::Lost(slot), _) => {
                let left = 0..self.outcomes[slot].distinct.len();
                let back = left.map(|outcome| Sequel { away: None, back: Some((slot, outcome)) });
                std::iter::once(without(slot)).chain(back).collect()
            }
            (Impairment::Blank(_) | Impairment::Stale(_), _) => vec![same],
        }
    }

    /// A crash alone costs no member; a drive that is away or blank is not one.
    fn check_members(&self, start: &Start, impairment: Impairment) {
        if self.boundary.out.is_some() {
            return;
        }
        for (slot, online) in start.online.iter().enumerate() {
            let gone =
                matches!(impairment, Impairment::Lost(at) | Impairment::Blank(at) if at == slot);
            let doubtful = impairment.slot() == Some(slot) && !gone;
            assert!(*online != gone || doubtful, "the member in slot {slot} is online: {online}");
        }
    }
}
