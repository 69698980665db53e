//! Reading a log after a crash: its records, its end, and what cannot be read.

use std::collections::BTreeSet;

use bytes::Bytes;
use zoneweave_zoned::{
    BlockCount, Payload, Status, ZoneAddress, ZoneId, ZoneInfo, ZoneState, ZonedDevice,
    ZonedDeviceExt,
};

use crate::event::{Event, Observer};
use crate::record::{Codec, Record};
use crate::twin_log::{TwinLog, ZONE_RECORDS};

/// Zones at the start of a drive that are searched for records, offline ones apart. The zones of a
/// log should be among the first of them, as two may fail later.
pub const SEARCHED_ZONES: usize = 4;

/// Attempts to read a block that may hold a record, as a drive may fail a read now and then.
const READS: u32 = 4;

/// The records of a log, as far as they can be read.
#[derive(Clone)]
pub struct Scan<R, E> {
    /// Records with their addresses, zone by zone, in the order of their addresses.
    pub records: Vec<(ZoneAddress, R)>,
    /// Blocks among them that do not decode, with the error.
    pub damaged: Vec<(ZoneAddress, E)>,
    /// The errors of all blocks of the searched zones without any record.
    pub undecoded: Vec<E>,
    /// Searched zones that are written, hold no record, and are of no other use as far as can be
    /// read.
    pub unknown_zones: u32,
    /// Blocks from one record to the next: the drive's unit of writes.
    pub unit: BlockCount,
    /// Every zone of the drive.
    pub zones: Vec<ZoneInfo>,
    zone_records: u32,
    observe: Observer,
}

impl<R, E> Scan<R, E> {
    /// Reads the records in the first [`SEARCHED_ZONES`] zones of a drive.
    ///
    /// # Errors
    /// If the drive does not even report its zones. Unreadable blocks are no error, even if the
    /// drive has vanished: then all are.
    pub async fn read<C: Codec<Record = R, Error = E>>(
        device: &dyn ZonedDevice,
        codec: &C,
        observe: Observer,
    ) -> Result<Self, Status> {
        Self::read_long(device, codec, ZONE_RECORDS, observe).await
    }

    /// As [`Scan::read`], for a log with a limit of its own
    /// ([`TwinLog::with_zone_records`]). If a zone has no record among its first
    /// [`ZONE_RECORDS`], the others are not read: a zone of a log begins with a snapshot.
    ///
    /// # Errors
    /// As for [`Scan::read`].
    pub async fn read_long<C: Codec<Record = R, Error = E>>(
        device: &dyn ZonedDevice,
        codec: &C,
        zone_records: u32,
        observe: Observer,
    ) -> Result<Self, Status> {
        let zones = device.report().await?;
        let mut scan = Self {
            records: Vec::new(),
            damaged: Vec::new(),
            undecoded: Vec::new(),
            unknown_zones: 0,
            unit: device.geometry().write_unit,
            zones,
            zone_records,
            observe,
        };
        assert!(scan.unit.0 > 0, "a drive without a write unit");
        for info in scan.searched_zones() {
            scan.read_zone(device, codec, &info).await;
        }
        Ok(scan)
    }

    async fn read_zone<C: Codec<Record = R, Error = E>>(
        &mut self,
        device: &dyn ZonedDevice,
        codec: &C,
        info: &ZoneInfo,
    ) {
        let written = records_searched(info, self.unit, self.zone_records);
        let mut decoded = Vec::new();
        for first in (0..written).step_by(ZONE_RECORDS as usize) {
            let count = ZONE_RECORDS.min(written - first);
            let blocks = read_blocks(device, info.zone, first, count, self.observe).await;
            assert!(blocks.len() == count as usize, "{} of {count} blocks", blocks.len());
            decoded.extend(blocks.iter().map(|(data, metadata)| codec.decode(data, metadata)));
            if first == 0 && !decoded.iter().any(Result::is_ok) {
                self.undecoded.extend(decoded.into_iter().filter_map(Result::err));
                self.unknown_zones += u32::from(!codec.is_of_other_zone(&blocks[0].0));
                return;
            }
        }
        for (offset, record) in (0..).step_by(self.unit.index()).zip(decoded) {
            let at = ZoneAddress::new(info.zone, offset);
            match record {
                Ok(record) => self.records.push((at, record)),
                Err(error) => {
                    (self.observe)(Event::DamagedRecordSkipped);
                    self.damaged.push((at, error));
                }
            }
        }
    }

    fn searched_zones(&self) -> Vec<ZoneInfo> {
        let alive = self.zones.iter().filter(|info| info.state != ZoneState::Offline);
        alive.take(SEARCHED_ZONES).copied().collect()
    }

    /// Keeps the records for which `keep` holds, given their zone. Damaged blocks of zones without
    /// a record left are dropped as well. Returns whether any record was left out.
    pub fn retain(&mut self, keep: impl Fn(&ZoneInfo, &R) -> bool) -> bool {
        let before = self.records.len();
        let zones = &self.zones;
        self.records.retain(|(at, record)| keep(&zones[at.zone.index()], record));
        let kept: BTreeSet<_> = self.records.iter().map(|(at, _)| at.zone).collect();
        self.damaged.retain(|(at, _)| kept.contains(&at.zone));
        self.records.len() < before
    }
}

impl<R: Record, E> Scan<R, E> {
    /// The zone of the record with the highest sequence.
    fn newest_zone(&self) -> Option<ZoneId> {
        let newest = self.records.iter().max_by_key(|(_, record)| record.sequence());
        newest.map(|(at, _)| at.zone)
    }

    /// The records of the newest closed snapshot, and all newer records, by sequence. Records of a
    /// snapshot that was not closed are left out. `None` if no snapshot is whole: there never was
    /// one, or a record of each is damaged.
    #[must_use]
    pub fn since_snapshot(&self) -> Option<Vec<&R>> {
        let closed = (0..self.records.len()).filter_map(|end| {
            let (at, record) = &self.records[end];
            let before = record.snapshot_records()?;
            let first = end.checked_sub(before as usize)?;
            // A damaged block among them would have moved the first one ahead.
            let offset = at.offset.0.checked_sub(before.checked_mul(self.unit.0)?)?;
            let is_whole = self.records[first].0 == ZoneAddress::new(at.zone, offset);
            is_whole.then_some((record.sequence(), &self.records[first..=end]))
        });
        let (end, snapshot) = closed.max_by_key(|(sequence, _)| *sequence)?;
        let later = self.records.iter().filter(|(at, record)| {
            record.sequence() > end && self.closed_until(at.zone).is_some_and(|last| *at > last)
        });
        let mut found: Vec<&R> = snapshot.iter().chain(later).map(|(_, record)| record).collect();
        found.sort_by_key(|record| record.sequence());
        Some(found)
    }

    /// The last record of a zone that closes a snapshot. Each zone begins with a snapshot.
    fn closed_until(&self, zone: ZoneId) -> Option<ZoneAddress> {
        let in_zone = self.records.iter().filter(|(at, _)| at.zone == zone);
        let closing = in_zone.filter(|(_, record)| record.snapshot_records().is_some());
        closing.map(|(at, _)| *at).max()
    }

    /// Whether an unreadable block may hold a record newer than the newest found: the last of its
    /// zone, or all of the other zone.
    #[must_use]
    pub fn may_hide_newer(&self) -> bool {
        let Some(zone) = self.newest_zone() else { return false };
        let searched = records_searched(&self.zones[zone.index()], self.unit, self.zone_records);
        let is_last = |at: &ZoneAddress| at.offset.0 / self.unit.0 + 1 == searched;
        let last_damaged = self.damaged.iter().any(|(at, _)| at.zone == zone && is_last(at));
        // If both zones hold records, no third zone can hold any.
        let one_zone = self.records.iter().all(|(at, _)| at.zone == zone);
        let other_unreadable = one_zone && self.unknown_zones > 0;
        if other_unreadable || last_damaged {
            (self.observe)(Event::NewerRecordMayBeHidden);
        }
        other_unreadable || last_damaged
    }

    /// The zones of the log: those with records, completed by the first empty one. (With a write
    /// unit of several blocks, a crash may leave a part of one in front of its record.)
    #[must_use]
    pub fn log_zones(&self) -> Option<[ZoneId; 2]> {
        let with_records: BTreeSet<_> = self.records.iter().map(|(at, _)| at.zone).collect();
        let mut zones: Vec<_> = with_records.into_iter().collect();
        let holds_nothing = |info: &ZoneInfo| {
            info.state == ZoneState::Empty || info.state.is_active() && info.write_pointer.0 == 0
        };
        let spare = self.searched_zones().into_iter().filter(holds_nothing);
        zones.extend(spare.map(|info| info.zone));
        zones.dedup();
        (zones.len() >= 2).then(|| [zones[0], zones[1]])
    }

    /// The log, to go on behind its newest record; `None` without records, or without a second
    /// zone. Continue with a switch, which replaces the zone that is not complete.
    #[must_use]
    pub fn resume(&self) -> Option<TwinLog> {
        self.resume_in(self.log_zones()?)
    }

    /// As [`Scan::resume`], for a log whose records name its zones. `None` without records, or if
    /// the newest is in neither zone.
    #[must_use]
    pub fn resume_in(&self, zones: [ZoneId; 2]) -> Option<TwinLog> {
        let newest = self.newest_zone()?;
        if !zones.contains(&newest) || zones[0] == zones[1] {
            return None;
        }
        // Keep the zone with a complete set of records: a switch overwrites its twin.
        let complete = |zone| self.closed_until(zone).is_some();
        let other = if zones[0] == newest { zones[1] } else { zones[0] };
        let keep = if !complete(newest) && complete(other) { other } else { newest };
        if keep == other {
            (self.observe)(Event::TwinKept);
        }
        let current = usize::from(zones[1] == keep);
        // A crash may have torn its last unit, and nothing can be written behind that: the zone
        // counts as full.
        let next = (self.unit.0 == 1).then(|| self.zones[keep.index()].write_pointer.0);
        let twin = self.zones.get(zones[1 - current].index())?;
        let twin_dirty = twin.state != ZoneState::Empty;
        let log = TwinLog::at(zones, current, next, twin_dirty, self.observe);
        Some(log.with_zone_records(self.zone_records))
    }
}

/// How many records a zone may hold.
fn records_searched(info: &ZoneInfo, unit: BlockCount, most: u32) -> u32 {
    match info.state {
        ZoneState::Empty => 0,
        _ => info.write_pointer.0.div_ceil(unit.0).min(most),
    }
}

/// Reads the first block of `count` write units from unit `first` on, with block metadata: in one
/// command, or one by one if that fails. Unreadable blocks come back empty.
async fn read_blocks(
    device: &dyn ZonedDevice,
    zone: ZoneId,
    first: u32,
    count: u32,
    observe: Observer,
) -> Vec<(Bytes, Bytes)> {
    let unit = device.geometry().write_unit;
    let (start, written) = (first * unit.0, count * unit.0);
    let whole = device.read_in_pieces(ZoneAddress::new(zone, start), BlockCount(written)).await;
    if let Ok(payload) = whole {
        let pairs = payload.iter_blocks().enumerate().step_by(unit.index());
        return pairs.map(|(index, block)| (block, payload.block_oob(index))).collect();
    }
    observe(Event::RecordsReadOneByOne);
    let mut blocks = Vec::with_capacity(count as usize);
    for offset in (start..start + written).step_by(unit.index()) {
        let read = read_stubbornly(device, ZoneAddress::new(zone, offset)).await;
        let block = read.map(|payload| (payload.block(0), payload.block_oob(0)));
        blocks.push(block.unwrap_or_default());
    }
    blocks
}

/// Reads one block, and again if that fails.
///
/// # Errors
/// The status of the last attempt.
pub async fn read_stubbornly(device: &dyn ZonedDevice, at: ZoneAddress) -> Result<Payload, Status> {
    let mut read = device.read(at, BlockCount(1)).await;
    for _ in 1..READS {
        if read.is_ok() {
            break;
        }
        read = device.read(at, BlockCount(1)).await;
    }
    read
}
