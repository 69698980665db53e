//! The write cache: the prefix of each zone that would survive a power failure. Flushes and FUA
//! extend it.
//!
//! With a protected cache the prefix follows every completed write. A promise is made when the host
//! learns of it, at completion; it is void if the zone was reset in between.

use std::collections::BTreeSet;

use zoneweave_zoned::{ZoneId, ZoneOffset};

#[derive(Clone, Copy, Debug, Default)]
struct Prefix {
    promised: ZoneOffset,
    completed: ZoneOffset,
    /// Counts resets, to tell promises about the zone's former blocks.
    generation: u64,
}

/// The write cache of one drive.
#[derive(Clone, Debug)]
pub(crate) struct WriteCache {
    volatile: bool,
    zones: Vec<Prefix>,
    /// Zones whose completed prefix is ahead of the promised one.
    dirty: BTreeSet<ZoneId>,
}

/// A prefix of a zone whose write or flush is in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promise {
    zone: ZoneId,
    end: ZoneOffset,
    generation: u64,
}

impl WriteCache {
    pub(crate) fn new(zones: u32, volatile: bool) -> Self {
        let zones = vec![Prefix::default(); zones as usize];
        Self { volatile, zones, dirty: BTreeSet::new() }
    }

    /// The promise of a write up to `end`, made when it completes.
    pub(crate) fn written(&self, zone: ZoneId, end: ZoneOffset) -> Promise {
        Promise { zone, end, generation: self.zones[zone.index()].generation }
    }

    /// The promises of a flush submitted now.
    pub(crate) fn to_flush(&self) -> Vec<Promise> {
        let prefix = |zone: &ZoneId| self.written(*zone, self.zones[zone.index()].completed);
        self.dirty.iter().map(prefix).collect()
    }

    /// A write completed.
    pub(crate) fn complete(&mut self, write: Promise, fua: bool) {
        let Some(prefix) = self.current(write) else { return };
        prefix.completed = prefix.completed.max(write.end);
        if fua || !self.volatile {
            self.promise(write);
        } else {
            self.dirty.insert(write.zone);
        }
    }

    /// The host can see the blocks up to `end`, completed or not: they count as complete.
    pub(crate) fn seen(&mut self, zone: ZoneId, end: ZoneOffset) {
        if self.zones[zone.index()].completed < end {
            self.complete(self.written(zone, end), false);
        }
    }

    /// A flush completed, for one zone.
    pub(crate) fn promise(&mut self, flushed: Promise) {
        let Some(prefix) = self.current(flushed) else { return };
        prefix.promised = prefix.promised.max(flushed.end);
        if prefix.promised >= prefix.completed {
            self.dirty.remove(&flushed.zone);
        }
    }

    /// The zone was reset.
    pub(crate) fn reset(&mut self, zone: ZoneId) {
        let generation = self.zones[zone.index()].generation + 1;
        self.zones[zone.index()] = Prefix { generation, ..Prefix::default() };
        self.dirty.remove(&zone);
    }

    /// The prefix that must survive.
    pub(crate) fn promised(&self, zone: ZoneId) -> ZoneOffset {
        self.zones[zone.index()].promised
    }

    /// Everything up to `end` survived: it is on the media now.
    pub(crate) fn survive(&mut self, zone: ZoneId, end: ZoneOffset) {
        let prefix = &mut self.zones[zone.index()];
        (prefix.promised, prefix.completed) = (end, end);
        self.dirty.remove(&zone);
    }

    fn current(&mut self, promise: Promise) -> Option<&mut Prefix> {
        let prefix = &mut self.zones[promise.zone.index()];
        (prefix.generation == promise.generation).then_some(prefix)
    }
}
