//! The drives of an array, those taken out of it, and what is wrong with each.
//!
//! The bay is where the contract is kept: it knows how many slots are impaired (without a working
//! member, or with damage that nobody has healed), and says whether one more may be.

use std::collections::BTreeSet;
use std::rc::Rc;

use zoneweave_emulator::{FaultPlan, Immediate, Jitter, RamDrive};
use zoneweave_raid::log::OfferedDrive;
use zoneweave_runtime::{Handle, Nanos, Random};
use zoneweave_zoned::{BlockCount, Geometry, OobKind, ZoneId, ZoneState};

use super::apart::Seen;
use super::drives::attach as attach_drive;
use super::scenario::{Shape, Stop};

mod seats;

/// What is wrong with the contents of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    None,
    /// Some of what it holds is not what was written, or may come to be.
    Present,
    /// A scrub found nothing any more. It counts as healed once a start has found it so.
    Scrubbed,
}

/// A drive in a slot.
pub(super) struct Drive {
    /// The hardware.
    pub ram: RamDrive,
    /// What its identity as a member is made of.
    pub number: u64,
    damage: Damage,
    /// Times that damage was done, for scrubs that miss some.
    damaged: u64,
    /// It may be taken out of service in this life.
    suspect: bool,
    /// More was done to it at some time than to slow it down: a write that failed may have left something.
    struck: bool,
    /// It may lose a zone in this life.
    wearing: bool,
    /// Zones that hold something nobody accounts for, since it was damaged.
    orphans: u32,
    /// It was pulled, and what its cache holds is lost.
    forgetting: bool,
    /// What it held at some time.
    kept: Option<RamDrive>,
    /// What the last recovery found in which it was a member.
    pub seen: Option<Rc<Seen>>,
}

/// Zones at the start of a drive among which those for superblock records are chosen: a drive
/// that lost one of them is hardly a member any more.
const SUPERBLOCK_ZONES: u32 = 4;

impl Drive {
    /// It may be taken out of service for what is about to happen.
    pub(super) fn suspect(&mut self) {
        self.suspect = true;
        self.struck = true;
    }

    /// It loses a zone, or is going to.
    pub(super) fn wear(&mut self) {
        self.wearing = true;
    }

    /// Zones that failed.
    fn lost_zones(&self) -> impl Iterator<Item = ZoneId> + '_ {
        let failed = |zone: &ZoneId| {
            matches!(self.ram.zone(*zone).state, ZoneState::ReadOnly | ZoneState::Offline)
        };
        (0..self.ram.geometry().zones).map(ZoneId).filter(failed)
    }

    /// Whether it lost more zones than the array can do without.
    fn is_worn(&self, shape: &Shape) -> bool {
        let needed = self.lost_zones().any(|zone| zone.0 < SUPERBLOCK_ZONES);
        needed || self.lost_zones().count() + self.orphans as usize > shape.spare_zones as usize
    }
}

/// All drives.
pub(super) struct Bay {
    shape: Shape,
    /// By slot.
    pub drives: Vec<Drive>,
    /// Taken out of their slots.
    former: Vec<Drive>,
    /// Kept ready in this life.
    spares: Vec<Drive>,
    /// Whether there were any.
    has_spares: bool,
    /// Slots without a working member, as far as the engine told.
    out: BTreeSet<usize>,
    /// Slots whose drive stays away, until a start has come to its end.
    away: BTreeSet<usize>,
    /// Slots in which an administrator is about to put a blank drive, each as often as that is so. Whoever sits there
    /// when the engine comes to it is taken out: a spare, perhaps, that took the place meanwhile.
    replaced: Vec<usize>,
    /// Whether those out are more than may be recorded: drives were pulled that will be back.
    unsettled: bool,
    made: u64,
}

/// Where a drive that is offered comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// This slot.
    Slot(usize),
    /// Those taken out.
    Former(usize),
}

impl Bay {
    /// Blank drives in every slot.
    pub(super) fn new(shape: Shape) -> Self {
        let mut bay = Self {
            shape,
            drives: Vec::new(),
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
            let drive = Drive { number: slot, ..bay.make() };
            bay.drives.push(drive);
        }
        bay
    }

    fn make(&mut self) -> Drive {
        self.made += 1;
        let shape = &self.shape;
        let mut geometry = Geometry::new(shape.zones, BlockCount(shape.zone_blocks));
        geometry.volatile_cache = shape.volatile;
        if shape.inline {
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

    /// Puts a blank drive into a slot; tells the number of the one before.
    pub(super) fn exchange(&mut self, slot: usize) -> u64 {
        let new = self.make();
        let old = std::mem::replace(&mut self.drives[slot], new);
        let number = old.number;
        self.former.push(old);
        self.out.insert(slot);
        number
    }

    /// An administrator is about to put a blank drive into a slot.
    pub(super) fn begin_replacing(&mut self, slot: usize) {
        self.replaced.push(slot);
    }

    /// It is a member, or never will be.
    pub(super) fn end_replacing(&mut self, slot: usize) {
        let at = self.replaced.iter().position(|other| *other == slot);
        self.replaced.swap_remove(at.expect("it was about to be replaced"));
    }

    /// A blank drive is found in a slot; nobody sees the old one again.
    pub(super) fn blank(&mut self, slot: usize) {
        self.drives[slot] = self.make();
        self.out.insert(slot);
    }

    /// A drive taken out is put back: nobody wanted the new one. Unless the engine has somebody else there.
    pub(super) fn undo_exchange(&mut self, slot: usize, old: u64, new: u64) {
        let old = self.former.iter().position(|drive| drive.number == old);
        if let Some(old) = old.filter(|_| self.drives[slot].number == new) {
            self.drives[slot] = self.former.remove(old);
        }
    }

    /// The engine took a drive for the member in a slot that had been taken out of it: it was
    /// stopped before that was on record.
    pub(super) fn put_back(&mut self, former: usize, slot: usize) {
        std::mem::swap(&mut self.former[former], &mut self.drives[slot]);
    }

    /// Every drive, in slots or not.
    pub(super) fn everything(&self) -> impl Iterator<Item = &RamDrive> {
        self.drives.iter().chain(&self.former).chain(&self.spares).map(|drive| &drive.ram)
    }

    /// Attaches drives to an engine.
    pub(super) fn offer(
        &self,
        handle: &Handle,
        missing: &BTreeSet<usize>,
        strangers: bool,
        order: u64,
    ) -> Vec<(Origin, OfferedDrive)> {
        let mut offered = Vec::new();
        let mut attach = |origin, drive: &Drive, label| {
            offered
                .push((origin, OfferedDrive { device: attach_drive(&drive.ram, handle), label }));
        };
        for (slot, drive) in self.drives.iter().enumerate() {
            if !missing.contains(&slot) {
                attach(Origin::Slot(slot), drive, format!("drive {slot}"));
            }
        }
        for (at, drive) in self.former.iter().enumerate().filter(|_| strangers) {
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

    /// Slots that cannot be relied on.
    pub(super) fn impaired(&self) -> BTreeSet<usize> {
        let bad = |drive: &Drive| {
            drive.damage != Damage::None || drive.suspect || drive.is_worn(&self.shape)
        };
        let drives = self.drives.iter().enumerate();
        let bad = drives.filter(|(_, drive)| bad(drive)).map(|(slot, _)| slot);
        self.out.iter().chain(&self.away).chain(&self.replaced).copied().chain(bad).collect()
    }

    /// Whether nothing is wrong with any drive, or may come to be, but that it is no member.
    pub(super) fn undamaged(&self) -> bool {
        let worn = |drive: &Drive| drive.wearing || drive.is_worn(&self.shape);
        let sound = |drive: &Drive| drive.damage == Damage::None && !worn(drive);
        self.drives.iter().all(sound)
    }

    /// Whether nothing is on any drive that nobody heals any more: damage in a zone that was lost, or
    /// that nobody accounts for.
    pub(super) fn is_clean(&self) -> bool {
        let left_alone = |drive: &Drive| drive.orphans > 0 || drive.lost_zones().next().is_some();
        let stuck = |drive: &Drive| drive.damaged > 0 && left_alone(drive);
        !self.drives.iter().any(stuck)
    }

    /// Whether nothing was ever done to drives in slots but to slow them down, and none of them lost a zone.
    pub(super) fn is_pristine(&self) -> bool {
        let pristine = |drive: &Drive| {
            drive.damaged == 0 && !drive.struck && drive.lost_zones().next().is_none()
        };
        self.drives.iter().all(pristine)
    }

    /// Zones that the drive in a slot has lost.
    pub(super) fn lost_zones(&self, slot: usize) -> usize {
        self.drives[slot].lost_zones().count()
    }

    /// A start found zones on a drive that nobody accounts for. Damage can do that, and so can a write that failed: a
    /// rebuild that tries again takes another zone, and may not come to erase the first one.
    ///
    /// # Panics
    /// If nothing ever was wrong with the drive.
    pub(super) fn note_orphans(&mut self, slot: usize, orphans: u32) {
        let drive = &mut self.drives[slot];
        assert!(
            orphans == 0 || drive.damaged > 0 || drive.struck || drive.is_worn(&self.shape),
            "nobody accounts for {orphans} zones in slot {slot}, to which nothing was ever done"
        );
        drive.orphans = orphans;
    }

    /// Whether nothing happens to any drive in this life that may take it out of service.
    pub(super) fn unsuspected(&self) -> bool {
        self.drives.iter().all(|drive| !drive.suspect)
    }

    /// Whether a slot has no working member: with a blank drive under rebuild, those pulled may be
    /// more than half of all that carry records.
    pub(super) fn is_degraded(&self) -> bool {
        !(self.out.is_empty() && self.away.is_empty())
    }

    /// Whether more than half of the slots can be relied on without one more.
    pub(super) fn leaves_majority(&self, slot: usize) -> bool {
        let mut impaired = self.impaired();
        impaired.insert(slot);
        impaired.len() * 2 < self.shape.columns()
    }

    /// Whether something may happen to a slot's drive within the contract.
    pub(super) fn may_impair(&self, slot: usize) -> bool {
        let mut impaired = self.impaired();
        impaired.insert(slot);
        self.shape.beyond || self.is_covered(&impaired, self.shape.spared())
    }

    /// Whether so many slots may be impaired, and these.
    fn is_covered(&self, impaired: &BTreeSet<usize>, most: usize) -> bool {
        impaired.len() <= most && self.shape.survives(impaired)
    }

    /// Slots of a list that may be away as well, as far as the contract goes.
    pub(super) fn spare(&self, asked: &[usize]) -> BTreeSet<usize> {
        self.spare_up_to(asked, self.shape.spared())
    }

    /// The same where the array is started by force: then no majority is needed.
    pub(super) fn spare_by_force(&self, asked: &[usize]) -> BTreeSet<usize> {
        self.spare_up_to(asked, self.shape.parity)
    }

    /// Whether those out leave no majority, so that the array starts by force only.
    pub(super) fn needs_force(&self) -> bool {
        self.out.union(&self.away).count() * 2 >= self.shape.columns()
    }

    fn spare_up_to(&self, asked: &[usize], most: usize) -> BTreeSet<usize> {
        let mut impaired = self.impaired();
        let mut away = BTreeSet::new();
        if self.unsettled && !self.shape.beyond {
            return away;
        }
        for slot in asked.iter().copied().filter(|slot| *slot < self.drives.len()) {
            // Where too many are impaired, as after pulls of too many, each of them is needed.
            let is_new = impaired.insert(slot);
            if self.is_covered(&impaired, most) || self.shape.beyond {
                away.insert(slot);
            } else if is_new {
                impaired.remove(&slot);
            }
        }
        away
    }

    /// The drive may be taken out of service for what is about to happen.
    pub(super) fn suspect(&mut self, slot: usize) {
        self.drives[slot].suspect();
    }

    /// A drive loses a zone, or is going to.
    pub(super) fn wear(&mut self, slot: usize) {
        self.drives[slot].wear();
    }

    /// What a drive holds, or will be given, is damaged.
    pub(super) fn damage(&mut self, slot: usize) {
        self.drives[slot].damage = Damage::Present;
        self.drives[slot].damaged += 1;
    }

    /// Damaged drives to which nothing more is going to happen, with the state of their damage.
    pub(super) fn before_scrub(&self) -> Vec<(usize, u64)> {
        let drives = self.drives.iter().enumerate().filter(|(_, drive)| {
            let ended =
                |plan: &mut FaultPlan| plan.pending().is_empty() && plan.seeded_mut().is_none();
            drive.damage == Damage::Present && drive.ram.faults(ended)
        });
        drives.map(|(slot, drive)| (slot, drive.damaged)).collect()
    }

    /// A scrub that began with those has healed everything it found.
    pub(super) fn after_scrub(&mut self, before: &[(usize, u64)]) {
        for (slot, damaged) in before {
            let drive = &mut self.drives[*slot];
            if drive.damaged == *damaged {
                drive.damage = Damage::Scrubbed;
            }
        }
    }

    /// The engine told which slots have no working member. Those that have one again are told by
    /// [`Bay::confirm`]: the engine knows before it is on record.
    pub(super) fn observe(&mut self, out: BTreeSet<usize>) {
        self.out.extend(out);
    }

    /// It is on record which slots have no working member.
    pub(super) fn confirm(&mut self, out: BTreeSet<usize>) {
        self.out = out;
    }

    /// Whether a slot has no working member.
    pub(super) fn is_out(&self, slot: usize) -> bool {
        self.out.contains(&slot)
    }

    /// A recovery has found this on the drives in service.
    pub(super) fn note_seen(&mut self, seen: &Rc<Seen>) {
        for (slot, drive) in self.drives.iter_mut().enumerate() {
            if !self.out.contains(&slot) {
                drive.seen = Some(seen.clone());
            }
        }
    }

    /// The drives in these slots stay away.
    pub(super) fn leave_out(&mut self, slots: &BTreeSet<usize>) {
        self.away.clone_from(slots);
    }

    /// A drive is pulled out; it comes back before the next life, perhaps without what its cache
    /// held.
    pub(super) fn pull(&mut self, slot: usize, forgetting: bool) {
        self.suspect(slot);
        if forgetting {
            self.damage(slot);
        }
        let drive = &mut self.drives[slot];
        drive.forgetting |= forgetting;
        drive.ram.set_gone(true);
    }

    /// What a drive holds is kept.
    pub(super) fn keep(&mut self, slot: usize) {
        let drive = &mut self.drives[slot];
        drive.kept = Some(drive.ram.fork(Immediate));
    }

    /// A drive holds what was kept of it again; tells whether anything was.
    pub(super) fn go_back(&mut self, slot: usize) -> bool {
        let Some(kept) = self.drives[slot].kept.take() else { return false };
        self.suspect(slot);
        self.damage(slot);
        self.drives[slot].ram.come_back_stale(&kept);
        true
    }

    /// A start has come to its end.
    pub(super) fn started(&mut self) {
        self.unsettled = false;
        self.away.clear();
        for drive in &mut self.drives {
            if drive.damage == Damage::Scrubbed {
                drive.damage = Damage::None;
            }
        }
    }

    /// A start was cut short: the members that were away or failed may be recorded as out.
    pub(super) fn cut_short(&mut self, away: &BTreeSet<usize>) {
        let drives = self.drives.iter().enumerate();
        let suspects: Vec<_> =
            drives.filter(|(_, drive)| drive.suspect).map(|(slot, _)| slot).collect();
        self.out.extend(suspects);
        self.out.extend(away);
        self.away.clear();
    }

    /// Too many drives were pulled: which of them are out is seen when they are back.
    pub(super) fn unsettle(&mut self) {
        self.unsettled = true;
    }

    /// The engine is stopped. Planned faults are forgotten and drives that were pulled are back.
    pub(super) fn crash(&mut self, stop: &Stop) {
        for (number, ram) in (0..).zip(self.everything()) {
            let seed = stop.seed.wrapping_add(number << 32);
            if stop.power {
                ram.power_loss(seed);
            } else {
                ram.process_kill(seed);
            }
        }
        for drive in &mut self.drives {
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
            // A drive whose place a spare took is back as well, and may be offered again.
            self.former.iter().for_each(|drive| drive.ram.set_gone(false));
        }
    }
}

/// A random index.
pub(super) fn index(random: &mut Random, length: usize) -> usize {
    usize::try_from(random.below(length as u64)).expect("below a length")
}
