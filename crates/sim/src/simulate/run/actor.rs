//! Users and administrators: each performs its actions one after the other.

use std::rc::Rc;

use zoneweave_raid::log::{AdminError, MemberHealth, ReplaceError, Volume};
use zoneweave_raid::scheme::Column;
use zoneweave_runtime::{Handle, Nanos};
use zoneweave_zoned::{BlockDevice, Lba};

use crate::pattern::{contents, version_of};
use crate::simulate::drives::attach::attach;
use crate::simulate::run::harness::Harness;
use crate::simulate::run::inject::{inject, pull};
use crate::simulate::scenario::Action;

/// One user or administrator.
pub(crate) struct Actor {
    pub harness: Rc<Harness>,
    pub volume: Volume,
    pub handle: Handle,
}

impl Actor {
    /// Performs all actions of a list.
    pub(crate) async fn run(self, actions: Vec<Action>) {
        for action in actions {
            self.act(action).await;
        }
    }

    async fn act(&self, action: Action) {
        match action {
            Action::Write { lba, blocks, fua } => self.write(lba, blocks, fua).await,
            Action::Trim { lba, blocks, fua } => self.zero(lba, blocks, fua, true).await,
            Action::WriteZeroes { lba, blocks, fua } => self.zero(lba, blocks, fua, false).await,
            Action::Read { lba, blocks } => self.read(lba, blocks).await,
            Action::Flush => self.flush().await,
            Action::Sleep { us } => self.handle.sleep(Nanos::from_micros(us)).await,
            Action::Fail { slot } => self.fail(slot).await,
            Action::Replace { slot } => self.replace(slot).await,
            Action::Readd => self.readd().await,
            Action::Resume => {
                let resumed = self.volume.resume_rebuild().await;
                self.record_rebuild(resumed);
            }
            Action::Scrub => self.scrub().await,
            Action::Clear => self.harness.orders.clear(&self.volume).await,
            Action::RecordScrub => self.harness.orders.record_scrub(&self.volume).await,
            Action::Pull { slot, too_many, forgetting } => {
                self.harness.observe(&self.volume);
                let rebuilding = self.volume.status().rebuild.is_some();
                pull(&self.harness, slot, too_many, forgetting, rebuilding);
            }
            // The first needs a zoned volume, the others a stopped engine.
            Action::Zone { .. } | Action::Keep { .. } | Action::GoBack { .. } => {}
            Action::Fault { slot, fault } => {
                self.harness.observe(&self.volume);
                inject(&self.harness, slot, fault);
            }
        }
    }

    /// The part of the volume that a request covers.
    fn range(&self, lba: u64, blocks: u32) -> (u64, u64) {
        let capacity = self.harness.blocks.get();
        let lba = lba % capacity;
        (lba, u64::from(blocks.max(1)).min(capacity - lba))
    }

    async fn write(&self, lba: u64, blocks: u32, fua: bool) {
        let (lba, blocks) = self.range(lba, blocks);
        let version = self.harness.oracle.borrow_mut().submit(lba, blocks, false);
        let data = (lba..lba + blocks).map(|lba| contents(lba, version)).collect();
        let result = self.volume.write(Lba(lba), data, fua).await;
        self.acknowledged("a write", version, fua, result);
    }

    async fn zero(&self, lba: u64, blocks: u32, fua: bool, trim: bool) {
        let (lba, blocks) = self.range(lba, blocks);
        let version = self.harness.oracle.borrow_mut().submit(lba, blocks, true);
        let result = match trim {
            true => self.volume.trim(Lba(lba), blocks, fua).await,
            false => self.volume.write_zeroes(Lba(lba), blocks, fua).await,
        };
        self.acknowledged("a trim", version, fua, result);
    }

    fn acknowledged(
        &self,
        what: &str,
        version: u64,
        fua: bool,
        result: Result<(), zoneweave_zoned::BlockError>,
    ) {
        self.harness.count(|tally| tally.requests += 1);
        if self.harness.expect(what, result).is_some() {
            let promised = fua || self.harness.writethrough();
            self.harness.oracle.borrow_mut().acknowledge(version, promised);
        }
    }

    async fn read(&self, lba: u64, blocks: u32) {
        let (lba, blocks) = self.range(lba, blocks);
        let began = self.harness.oracle.borrow_mut().begin_read();
        let length = u32::try_from(blocks).expect("a request's length");
        let result = self.volume.read(Lba(lba), length).await;
        self.harness.count(|tally| tally.requests += 1);
        let mut oracle = self.harness.oracle.borrow_mut();
        let data = self.harness.expect("a read", result).unwrap_or_default();
        if data.is_empty() {
            return oracle.end_read(began);
        }
        self.harness.count(|tally| tally.blocks_read += blocks);
        let mut at = lba;
        for piece in data {
            for block in piece.chunks_exact(zoneweave_zoned::BLOCK_BYTES) {
                let version = version_of(at, block);
                let version = version.unwrap_or_else(|| {
                    panic!("block {at} has contents that were never written to it")
                });
                let allowed = oracle.read(at, version, began);
                allowed.unwrap_or_else(|why| panic!("{why}"));
                at += 1;
            }
        }
        assert_eq!(at, lba + blocks, "a read returns all of its blocks");
        oracle.end_read(began);
    }

    async fn flush(&self) {
        let began = self.harness.oracle.borrow_mut().tick();
        let result = self.volume.flush().await;
        self.harness.count(|tally| tally.requests += 1);
        if self.harness.expect("a flush", result).is_some() {
            self.harness.oracle.borrow_mut().flushed(began);
        }
    }

    async fn fail(&self, slot: usize) {
        self.harness.observe(&self.volume);
        if slot >= self.harness.shape.columns() || !self.harness.drives.borrow().may_impair(slot) {
            return;
        }
        self.harness.drives.borrow_mut().suspect(slot);
        match self.volume.fail(slot).await {
            Ok(()) | Err(AdminError::WouldLoseData { .. } | AdminError::WouldStop { .. }) => {}
            Err(error) => assert!(self.harness.may_fail(), "failing slot {slot}: {error}"),
        }
    }

    async fn replace(&self, slot: usize) {
        self.harness.observe(&self.volume);
        let failed = self.volume.status().members;
        let failed = failed.iter().find(|member| !member.state.is_in_service());
        let slot = failed.map_or(slot, |member| usize::from(member.slot));
        let allowed = failed.is_some() || self.harness.drives.borrow().may_impair(slot);
        if slot >= self.harness.shape.columns() || !allowed {
            return;
        }
        replace(&self.harness, &self.volume, &self.handle, slot).await;
    }

    async fn readd(&self) {
        self.harness.observe(&self.volume);
        let members = self.volume.status().members;
        let is_out = |state| matches!(state, MemberHealth::Failed | MemberHealth::Missing);
        let out = members.iter().find(|member| is_out(member.state));
        if let Some(member) = out {
            let slot = usize::from(member.slot);
            readd(&self.harness, &self.volume, &self.handle, slot).await;
        }
    }

    fn record_rebuild(&self, result: Result<(), ReplaceError>) {
        record_rebuild(&self.harness, &self.volume, result);
    }

    async fn scrub(&self) {
        scrub(&self.harness, &self.volume).await;
    }
}

/// Puts a blank drive into a slot and rebuilds it.
pub(crate) async fn replace(harness: &Rc<Harness>, volume: &Volume, handle: &Handle, slot: usize) {
    let (device, old, new) = {
        let mut drives = harness.drives.borrow_mut();
        let old = drives.exchange(slot);
        drives.suspect(slot);
        drives.begin_replacing(slot);
        (attach(&drives.in_slots[slot].ram, handle), old, drives.in_slots[slot].number)
    };
    let uuid = harness.member(new);
    let result = volume.replace(slot, device, uuid).await;
    harness.drives.borrow_mut().end_replacing(slot);
    let wanted = volume.status().members[slot].uuid == uuid.to_string();
    if result.is_err() && !wanted {
        harness.drives.borrow_mut().undo_exchange(slot, old, new);
    }
    record_rebuild(harness, volume, result);
}

/// Puts the drive of a slot back with what it has.
async fn readd(harness: &Rc<Harness>, volume: &Volume, handle: &Handle, slot: usize) {
    let (device, old, number) = {
        let mut drives = harness.drives.borrow_mut();
        drives.plug_in(slot);
        drives.begin_replacing(slot);
        let drive = &drives.in_slots[slot];
        (attach(&drive.ram, handle), drive.number, drives.number())
    };
    let uuid = harness.member(number);
    let result = volume.readd(slot, device, uuid).await;
    let mut drives = harness.drives.borrow_mut();
    drives.end_replacing(slot);
    if volume.status().members[slot].uuid == uuid.to_string() {
        drives.renumber(old, number);
    }
    drop(drives);
    harness.count(|tally| tally.readded += u64::from(result.is_ok()));
    record_rebuild(harness, volume, result);
}

/// A rebuild ended, successfully or not.
pub(crate) fn record_rebuild(harness: &Harness, volume: &Volume, result: Result<(), ReplaceError>) {
    if result.is_ok() {
        harness.count(|tally| tally.rebuilds += 1);
        harness.confirm(volume);
    }
    harness.observe(volume);
}

/// Scrubs the volume.
pub(crate) async fn scrub(harness: &Harness, volume: &Volume) {
    let mut before = harness.drives.borrow().before_scrub();
    match volume.scrub().await {
        Ok(report) => {
            harness.count(|tally| tally.scrubs += 1);
            // A drive that returns keeps the damage in columns that were not read.
            before.retain(|(slot, _)| !report.unread.contains(Column::of(*slot)));
            if report.unrepairable == 0 && report.left > 0 {
                // Damage stays until a drive is back.
                assert!(!report.is_complete(), "{report:?}");
            } else if report.unrepairable == 0 {
                harness.drives.borrow_mut().after_scrub(&before);
            } else {
                assert!(harness.may_fail(), "a scrub lost blocks: {report:?}");
            }
        }
        Err(error) => assert!(harness.may_fail(), "a scrub failed: {error}"),
    }
}
