//! The drives of an array, those removed from it, and the damage of each.
//!
//! `Drives` keeps the contract: it knows which slots are impaired (without a working member, or
//! with unhealed damage), and reports whether one more may be.

use std::collections::BTreeSet;
use std::rc::Rc;

use zoneweave_emulator::{FaultPlan, Immediate, Jitter, RamDrive};
use zoneweave_raid::log::OfferedDrive;
use zoneweave_runtime::{Handle, Nanos, Random};
use zoneweave_zoned::{BlockCount, Geometry, OobKind};

use crate::random::index;
use crate::simulate::drives::attach::attach_to;
use crate::simulate::drives::drive::{Damage, Drive, Seen};
use crate::simulate::scenario::{Shape, Stop};

pub(crate) struct Drives {
    shape: Shape,
    /// By slot.
    pub in_slots: Vec<Drive>,
    /// Removed from their slots.
    pub(super) former: Vec<Drive>,
    /// Spares of this life.
    pub(super) spares: Vec<Drive>,
    /// Whether this life has spares.
    pub(super) has_spares: bool,
    /// Slots without a working member, as reported by the engine.
    pub(super) out: BTreeSet<usize>,
    /// Slots whose drive stays away until a start has finished.
    away: BTreeSet<usize>,
    /// Slots in which an administrator is about to put a blank drive, once per request. The drive
    /// in the slot is removed when the engine gets to it, even if it is a spare that took the place
    /// meanwhile.
    replaced: Vec<usize>,
    /// Whether `out` may exceed the recorded slots: pulled drives will be back.
    unsettled: bool,
    made: u64,
}

/// The place of an offered drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// In this slot.
    Slot(usize),
    /// Among the removed drives.
    Former(usize),
}

impl Drives {
    /// Blank drives in every slot.
    pub(crate) fn new(shape: Shape) -> Self {
        let mut drives = Self {
            shape,
            in_slots: Vec::new(),
            former: Vec::new(),
            spares: Vec::new(),
            has_spares: false,
            out: BTreeSet::new(),
            away: BTreeSet::new(),
            replaced: Vec::new(),
            unsettled: false,
            made: 0,
        };
        for slot in 0..shape.columns() as u64 {
            let drive = Drive { number: slot, ..drives.make() };
            drives.in_slots.push(drive);
        }
        drives
    }

    pub(super) fn make(&mut self) -> Drive {
        self.made += 1;
        let shape = &self.shape;
        let mut geometry = Geometry::new(shape.zones, BlockCount(shape.zone_blocks));
        geometry.volatile_cache = shape.volatile;
        if shape.inline || shape.zoned.is_some_and(|zoned| !zoned.metadata) {
            geometry.oob = OobKind::None;
        }
        geometry.max_active = Some(shape.active_zones);
        geometry.max_open = Some(shape.active_zones);
        let seed = shape.seed.wrapping_add(self.made << 32);
        let timing = Jitter::new(seed, Nanos::from_micros(shape.latency_us));
        let ram = RamDrive::new(geometry, timing).expect("a scenario's drives are possible");
        Drive {
            ram,
            number: self.made,
            damage: Damage::None,
            damaged: 0,
            suspect: false,
            struck: false,
            wearing: false,
            orphans: 0,
            forgetting: false,
            kept: None,
            seen: None,
        }
    }

    /// Puts a blank drive into a slot; returns the number of the previous one.
    pub(crate) fn exchange(&mut self, slot: usize) -> u64 {
        let new = self.make();
        let old = std::mem::replace(&mut self.in_slots[slot], new);
        let number = old.number;
        assert_ne!(number, self.in_slots[slot].number, "drives have different identities");
        self.former.push(old);
        self.out.insert(slot);
        number
    }

    /// An administrator is about to put a blank drive into a slot.
    pub(crate) fn begin_replacing(&mut self, slot: usize) {
        self.replaced.push(slot);
    }

    /// The replacement is a member, or was refused.
    pub(crate) fn end_replacing(&mut self, slot: usize) {
        let at = self.replaced.iter().position(|other| *other == slot);
        self.replaced.swap_remove(at.expect("it was about to be replaced"));
    }

    /// Finds a blank drive in a slot; the old one is gone for good.
    pub(crate) fn blank(&mut self, slot: usize) {
        self.in_slots[slot] = self.make();
        self.out.insert(slot);
    }

    /// Puts a removed drive back after a refused replacement, unless the engine has assigned the
    /// slot to another drive.
    pub(crate) fn undo_exchange(&mut self, slot: usize, old: u64, new: u64) {
        let old = self.former.iter().position(|drive| drive.number == old);
        if let Some(old) = old.filter(|_| self.in_slots[slot].number == new) {
            self.in_slots[slot] = self.former.remove(old);
        }
    }

    /// Puts a removed drive back that a start took for the member: the engine was stopped before
    /// its removal was recorded.
    pub(crate) fn put_back(&mut self, former: usize, slot: usize) {
        std::mem::swap(&mut self.former[former], &mut self.in_slots[slot]);
    }

    /// Every drive, in a slot or not.
    pub(crate) fn everything(&self) -> impl Iterator<Item = &RamDrive> {
        self.in_slots.iter().chain(&self.former).chain(&self.spares).map(|drive| &drive.ram)
    }

    /// Attaches drives to an engine.
    pub(crate) fn offer(
        &self,
        handle: &Handle,
        missing: &BTreeSet<usize>,
        former: bool,
        order: u64,
    ) -> Vec<(Origin, OfferedDrive)> {
        let mut offered = Vec::new();
        let mut attach = |origin, drive: &Drive, label| {
            offered.push((
                origin,
                OfferedDrive { device: attach_to(&self.shape, &drive.ram, handle), label },
            ));
        };
        for (slot, drive) in self.in_slots.iter().enumerate() {
            if !missing.contains(&slot) {
                attach(Origin::Slot(slot), drive, format!("drive {slot}"));
            }
        }
        for (at, drive) in self.former.iter().enumerate().filter(|_| former) {
            attach(Origin::Former(at), drive, format!("former drive {at}"));
        }
        if order != 0 {
            let mut random = Random::new(order);
            for at in (1..offered.len()).rev() {
                offered.swap(at, index(&mut random, at + 1));
            }
        }
        offered
    }

    /// Slots that are not reliable.
    pub(crate) fn impaired(&self) -> BTreeSet<usize> {
        let bad = |drive: &Drive| {
            drive.damage != Damage::None || drive.suspect || drive.is_worn(&self.shape)
        };
        let drives = self.in_slots.iter().enumerate();
        let bad = drives.filter(|(_, drive)| bad(drive)).map(|(slot, _)| slot);
        self.out.iter().chain(&self.away).chain(&self.replaced).copied().chain(bad).collect()
    }

    /// Whether all drives are intact and will stay so; they need not be members.
    pub(crate) fn undamaged(&self) -> bool {
        let worn = |drive: &Drive| drive.wearing || drive.is_worn(&self.shape);
        let sound = |drive: &Drive| drive.damage == Damage::None && !worn(drive);
        self.in_slots.iter().all(sound)
    }

    /// Whether no damage is out of reach of scrubs: in a lost zone, or in an orphan one.
    pub(crate) fn is_clean(&self) -> bool {
        let left_alone = |drive: &Drive| drive.orphans > 0 || drive.lost_zones().next().is_some();
        let stuck = |drive: &Drive| drive.damaged > 0 && left_alone(drive);
        !self.in_slots.iter().any(stuck)
    }

    /// Whether drives in slots have had no faults but slowness, and lost no zone.
    pub(crate) fn is_pristine(&self) -> bool {
        let pristine = |drive: &Drive| {
            drive.damaged == 0 && !drive.struck && drive.lost_zones().next().is_none()
        };
        self.in_slots.iter().all(pristine)
    }

    /// Lost zones of the drive in a slot.
    pub(crate) fn lost_zones(&self, slot: usize) -> usize {
        self.in_slots[slot].lost_zones().count()
    }

    /// Records orphan zones that a start found. They result from damage or from failed writes: a
    /// rebuild that retries takes another zone, and may be interrupted before it erases the first
    /// one.
    ///
    /// # Panics
    ///
    /// If the drive has never had a fault.
    pub(crate) fn record_orphans(&mut self, slot: usize, orphans: u32) {
        let drive = &mut self.in_slots[slot];
        assert!(
            orphans == 0 || drive.damaged > 0 || drive.struck || drive.is_worn(&self.shape),
            "{orphans} orphan zones in slot {slot}, whose drive never had a fault"
        );
        drive.orphans = orphans;
    }

    /// Whether no fault of this life can take a drive out of service.
    pub(crate) fn unsuspected(&self) -> bool {
        self.in_slots.iter().all(|drive| !drive.suspect)
    }

    /// Whether a slot has no working member. While a blank drive is rebuilt, pulled drives may be
    /// more than half of those with records.
    pub(crate) fn is_degraded(&self) -> bool {
        !(self.out.is_empty() && self.away.is_empty())
    }

    /// Whether more than half of the slots are reliable without this one.
    pub(crate) fn leaves_majority(&self, slot: usize) -> bool {
        let mut impaired = self.impaired();
        impaired.insert(slot);
        impaired.len() * 2 < self.shape.columns()
    }

    /// Whether a fault of a slot's drive is within the contract.
    pub(crate) fn may_impair(&self, slot: usize) -> bool {
        let mut impaired = self.impaired();
        impaired.insert(slot);
        self.shape.beyond || self.is_covered(&impaired, self.shape.spared())
    }

    /// Whether these slots may be impaired, at most `most` of them.
    fn is_covered(&self, impaired: &BTreeSet<usize>, most: usize) -> bool {
        impaired.len() <= most && self.shape.survives(impaired)
    }

    /// Slots of a list whose drives may be away as well, within the contract.
    pub(crate) fn spare(&self, asked: &[usize]) -> BTreeSet<usize> {
        self.spare_up_to(asked, self.shape.spared())
    }

    /// The same for a start by force, which needs no majority.
    pub(crate) fn spare_by_force(&self, asked: &[usize]) -> BTreeSet<usize> {
        self.spare_up_to(asked, self.shape.parity)
    }

    /// Whether the members that are out leave no majority, so that only force starts the array.
    pub(crate) fn needs_force(&self) -> bool {
        self.out.union(&self.away).count() * 2 >= self.shape.columns()
    }

    fn spare_up_to(&self, asked: &[usize], most: usize) -> BTreeSet<usize> {
        let mut impaired = self.impaired();
        let mut away = BTreeSet::new();
        if self.unsettled && !self.shape.beyond {
            return away;
        }
        for slot in asked.iter().copied().filter(|slot| *slot < self.in_slots.len()) {
            // With too many impaired slots, as after excessive pulls, each of them is needed.
            let is_new = impaired.insert(slot);
            if self.is_covered(&impaired, most) || self.shape.beyond {
                away.insert(slot);
            } else if is_new {
                impaired.remove(&slot);
            }
        }
        away
    }

    /// Marks that a fault may take the drive out of service.
    pub(crate) fn suspect(&mut self, slot: usize) {
        self.in_slots[slot].suspect();
    }

    /// Marks that a drive loses a zone, now or later.
    pub(crate) fn wear(&mut self, slot: usize) {
        self.in_slots[slot].wear();
    }

    /// Marks that contents of a drive are damaged, now or later.
    pub(crate) fn damage(&mut self, slot: usize) {
        self.in_slots[slot].damage = Damage::Present;
        self.in_slots[slot].damaged += 1;
    }

    /// Damaged drives without planned faults, with their count of damage.
    pub(crate) fn before_scrub(&self) -> Vec<(usize, u64)> {
        let drives = self.in_slots.iter().enumerate().filter(|(_, drive)| {
            let ended =
                |plan: &mut FaultPlan| plan.pending().is_empty() && plan.seeded_mut().is_none();
            drive.damage == Damage::Present && drive.ram.faults(ended)
        });
        drives.map(|(slot, drive)| (slot, drive.damaged)).collect()
    }

    /// A scrub that began with these drives has healed all damage that it found.
    pub(crate) fn after_scrub(&mut self, before: &[(usize, u64)]) {
        for (slot, damaged) in before {
            let drive = &mut self.in_slots[*slot];
            if drive.damaged == *damaged {
                drive.damage = Damage::Scrubbed;
            }
        }
    }

    /// The engine reported which slots have no working member. [`Drives::confirm`] removes a slot
    /// again: the engine knows of a recovered member before it is recorded.
    pub(crate) fn observe(&mut self, out: BTreeSet<usize>) {
        self.out.extend(out);
    }

    /// The engine has recorded which slots have no working member.
    pub(crate) fn confirm(&mut self, out: BTreeSet<usize>) {
        self.out = out;
    }

    /// Whether a slot has no working member.
    pub(crate) fn is_out(&self, slot: usize) -> bool {
        self.out.contains(&slot)
    }

    /// Records the result of a recovery for the drives in service.
    pub(crate) fn record_seen(&mut self, seen: &Rc<Seen>) {
        for (slot, drive) in self.in_slots.iter_mut().enumerate() {
            if !self.out.contains(&slot) {
                drive.seen = Some(seen.clone());
            }
        }
    }

    /// Keeps the drives of these slots away.
    pub(crate) fn leave_out(&mut self, slots: &BTreeSet<usize>) {
        self.away.clone_from(slots);
    }

    /// Pulls a drive; it comes back before the next life, perhaps without the contents of its
    /// cache.
    pub(crate) fn pull(&mut self, slot: usize, forgetting: bool) {
        self.suspect(slot);
        if forgetting {
            self.damage(slot);
        }
        let drive = &mut self.in_slots[slot];
        drive.forgetting |= forgetting;
        drive.ram.set_gone(true);
    }

    /// Plugs a pulled drive in again, perhaps without the contents of its cache.
    pub(crate) fn plug_in(&mut self, slot: usize) {
        let drive = &mut self.in_slots[slot];
        if std::mem::take(&mut drive.forgetting) {
            drive.ram.power_loss(drive.number);
        }
        drive.ram.set_gone(false);
    }

    /// The identity of another member.
    pub(crate) fn number(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    /// Takes a snapshot of a drive.
    pub(crate) fn keep(&mut self, slot: usize) {
        let drive = &mut self.in_slots[slot];
        drive.kept = Some(drive.ram.fork(Immediate));
    }

    /// Restores the snapshot of a drive; returns whether it had one.
    pub(crate) fn go_back(&mut self, slot: usize) -> bool {
        let Some(kept) = self.in_slots[slot].kept.take() else { return false };
        self.suspect(slot);
        self.damage(slot);
        self.in_slots[slot].ram.come_back_stale(&kept);
        true
    }

    /// A start has finished.
    pub(crate) fn started(&mut self) {
        self.unsettled = false;
        self.away.clear();
        for drive in &mut self.in_slots {
            if drive.damage == Damage::Scrubbed {
                drive.damage = Damage::None;
            }
        }
    }

    /// A start was interrupted: members that were away or failed may be recorded as out.
    pub(crate) fn cut_short(&mut self, away: &BTreeSet<usize>) {
        let drives = self.in_slots.iter().enumerate();
        let suspects: Vec<_> =
            drives.filter(|(_, drive)| drive.suspect).map(|(slot, _)| slot).collect();
        self.out.extend(suspects);
        self.out.extend(away);
        self.away.clear();
    }

    /// Too many drives were pulled: the next start shows which of them are out.
    pub(crate) fn unsettle(&mut self) {
        self.unsettled = true;
    }

    /// Stops the engine. Planned faults are cleared, and pulled drives come back.
    pub(crate) fn crash(&mut self, stop: &Stop) {
        for (number, ram) in (0..).zip(self.everything()) {
            let seed = stop.seed.wrapping_add(number << 32);
            if stop.power {
                ram.power_loss(seed);
            } else {
                ram.process_kill(seed);
            }
        }
        for drive in &mut self.in_slots {
            drive.ram.faults(FaultPlan::clear);
            drive.ram.set_slowness(1);
            if std::mem::take(&mut drive.forgetting) && !stop.power {
                drive.ram.power_loss(stop.seed);
            }
            drive.ram.set_gone(false);
            drive.suspect = false;
            drive.wearing = false;
        }
        self.replaced.clear();
        self.spares.clear();
        if std::mem::take(&mut self.has_spares) {
            // A drive replaced by a spare is back as well, and may be offered again.
            self.former.iter().for_each(|drive| drive.ram.set_gone(false));
        }
    }
}
