//! Opening a store, after any end of the last run.
//!
//! 1. Read the records of the metadata log, and replay them.
//! 2. Compare with the zones of the drive: a zone that no record knows holds garbage.
//! 3. Scan the open zones for blocks that no record knows ([`tail`](super::tail)).
//! 4. Flush, so that nothing that is served from now on is lost by a later power failure.
//! 5. Reset what is not needed, and finish what cannot go on.
//! 6. Write a snapshot to the other metadata zone: the blocks found are on record. Serve users.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use zoneweave_journal::{EnvelopeError, Scan, Seed, TwinLog, Uuid, ignore};
use zoneweave_runtime::Handle;
use zoneweave_zoned::{ZoneId, ZoneInfo, ZoneOffset, ZoneState, ZonedDevice, ZonedDeviceExt};

use super::core::{Core, Counters, Limits, Parts, Queue, Reclaim, State};
use super::create::count_usable;
use super::journal::snapshot_limit;
use super::tail::Tail;
use crate::error::{Inconsistency, OpenError, StopReason};
use crate::format::{BlockLayout, MetadataRecord, RecordCodec, RecordError, VERSION};
use crate::instrument::marks::{Mark, mark};
use crate::instrument::mutants::{Mutant, mutant};
use crate::options::{OpenOptions, ZONE_RECORDS, active_data_zones, buffer_on};
use crate::state::{Namespace, Phase, Replay, ZoneTable};

/// What a start found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// Records that were replayed, the snapshot included.
    pub records: usize,
    /// Blocks of files that no record knew.
    pub found_blocks: u64,
    /// Of these, blocks that are damaged: reads of them fail.
    pub damaged_blocks: u64,
    /// Damaged blocks of open zones that belong to no file as far as can be seen. They may have
    /// been the last of a file that was being written, which is shorter then.
    pub unclaimed_blocks: u64,
    /// Intact blocks of open zones behind a gap in their file that damage may have made, or the end
    /// of the last run. They are given up.
    pub cut_off_blocks: u64,
    /// Damaged blocks of metadata zones that were ignored, such as a torn last record.
    pub damaged_records: usize,
}

impl OpenReport {
    /// A sentence about damage that users should know of; `None` if there is none.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let Self { damaged_blocks, unclaimed_blocks, cut_off_blocks, .. } = self;
        if damaged_blocks + unclaimed_blocks + cut_off_blocks == 0 {
            return None;
        }
        Some(format!(
            "the drive damaged {} blocks that were written last: {damaged_blocks} of them read as \
             damaged, {unclaimed_blocks} belong to no file or were the last of one, which is \
             shorter then; {cut_off_blocks} intact blocks behind them are given up",
            damaged_blocks + unclaimed_blocks
        ))
    }
}

type RecordScan = Scan<MetadataRecord, RecordError>;

/// The records of a store.
struct Log {
    scan: RecordScan,
    owner: Uuid,
    next_sequence: u64,
    report: OpenReport,
}

impl Log {
    async fn read(device: &dyn ZonedDevice) -> Result<Self, OpenError> {
        let scan = RecordScan::read_long(device, &RecordCodec, ZONE_RECORDS, ignore).await?;
        let Some((_, first)) = scan.records.first() else { return Err(no_store(&scan)) };
        let owner = first.owner;
        if scan.records.iter().any(|(_, record)| record.owner != owner) {
            return Err(OpenError::TwoStores);
        }
        let last = scan.records.iter().map(|(_, record)| record.sequence).max();
        let next = last.and_then(|last| last.checked_add(1)).filter(|next| *next < u64::MAX / 2);
        let next_sequence = next.ok_or(Inconsistency::Counter)?;
        let report = OpenReport { damaged_records: scan.damaged.len(), ..OpenReport::default() };
        Ok(Self { scan, owner, next_sequence, report })
    }

    /// Replays the records since the last snapshot.
    fn replay(&mut self) -> Result<Replay, OpenError> {
        let Some(records) = self.scan.since_snapshot() else {
            let at = self.scan.records[0].0;
            return Err(OpenError::JournalDamaged { at });
        };
        self.report.records = records.len();
        // A record that is missing in front of an intact one was lost by the drive. One that is
        // missing at the end was never acknowledged.
        let gap = records.windows(2).find(|pair| pair[1].sequence != pair[0].sequence + 1);
        if let Some(pair) = gap {
            let behind = |record: &MetadataRecord| record.sequence == pair[1].sequence;
            let found = self.scan.records.iter().find(|(_, record)| behind(record));
            let (at, _) = found.expect("it was found by this scan");
            return Err(OpenError::JournalDamaged { at: *at });
        }
        Ok(Replay::of(records.iter().flat_map(|record| &record.entries))?)
    }

    fn resume(&self, zones: [ZoneId; 2]) -> Result<TwinLog, OpenError> {
        let resumed = self.scan.resume_in(zones);
        Ok(resumed.ok_or(Inconsistency::Superblock)?)
    }
}

/// Why a scan found no record.
fn no_store(scan: &RecordScan) -> OpenError {
    let version = scan.undecoded.iter().find_map(|error| match error {
        RecordError::Envelope(EnvelopeError::Version { found }) => Some(*found),
        _ => None,
    });
    match version {
        Some(found) => OpenError::Version { found, supported: VERSION },
        None => OpenError::NoStore,
    }
}

impl Core {
    /// Opens the store of a drive.
    ///
    /// # Errors
    /// If there is none, or it cannot be understood.
    pub(crate) async fn open(
        handle: Handle,
        device: Rc<dyn ZonedDevice>,
        options: OpenOptions,
    ) -> Result<(Rc<Self>, OpenReport), OpenError> {
        let mut log = Log::read(&*device).await?;
        let replay = log.replay()?;
        check_drive(&replay, &*device)?;
        let mut zones = replay.zone_table()?;
        let Replay { superblock, mut namespace, next_incarnation, .. } = replay;
        let twin_log = log.resume(superblock.metadata_zones)?;
        let limits = limits(&*device, &log.scan.zones, &options)?;
        adopt(&mut zones, &log.scan.zones);
        let seed = Seed::of(log.owner);
        let tail = Tail { device: &*device, layout: superblock.layout, seed };
        let found = tail.recover(&mut namespace, &mut zones).await;
        log.report.found_blocks = found.added;
        log.report.damaged_blocks = found.damaged;
        log.report.unclaimed_blocks = found.unclaimed;
        log.report.cut_off_blocks = found.cut_off;
        if !mutant(Mutant::StartNotFlushed) {
            device.flush().await?;
        }
        let ends = recorded_ends(&namespace);
        let Retired { to_reset, to_finish } =
            retire(&mut zones, &log.scan.zones, &ends, limits.active);
        let state = State {
            superblock,
            namespace,
            zones,
            next_incarnation,
            journal: Queue::default(),
            writers: Default::default(),
            dirty: BTreeSet::new(),
            policy: options.policy,
            stopped: None,
            reclaim: Reclaim::default(),
            counters: Counters::default(),
            extent_bytes_most: u64::MAX,
            tape: None,
        };
        let core = Self::new(Parts {
            handle,
            device,
            owner: log.owner,
            limits,
            clock: options.clock,
            state,
            log: twin_log.clone(),
            next_sequence: log.next_sequence,
        });
        assert!(core.state().journal.items.is_empty(), "a change before users are served");
        // A power failure may take the last blocks of full zones, which are active again then: the
        // snapshot needs an active zone itself. What is reset here has no block that the records
        // name, and these are durable.
        for zone in to_reset {
            core.clone().reset(zone).await;
        }
        for zone in to_finish {
            core.finish(zone).await;
        }
        let is_idle = !core.state().journal.is_running && !core.state().reclaim.is_running;
        assert!(is_idle, "nothing else writes the log during a start");
        let written = core.write_snapshot(twin_log).await;
        written.map_err(|reason| match reason {
            StopReason::Journal(status) => OpenError::Device(status),
            StopReason::MetadataFull | StopReason::Closed => OpenError::MetadataFull,
        })?;
        if let Some(recorder) = options.recorder {
            core.start_recording(recorder);
        }
        core.run_reclaim();
        Ok((core, log.report))
    }
}

/// # Errors
/// If the drive is not the one that the store was made on.
fn check_drive(replay: &Replay, device: &dyn ZonedDevice) -> Result<(), OpenError> {
    let (superblock, geometry) = (&replay.superblock, device.geometry());
    if !superblock.fits(geometry) {
        return Err(OpenError::OtherGeometry {
            zones: superblock.zones,
            capacity: superblock.zone_capacity,
            found_zones: geometry.zones,
            found_capacity: geometry.zone_capacity,
        });
    }
    let has_none = BlockLayout::for_drive(geometry.oob) == BlockLayout::Inline;
    if superblock.layout == BlockLayout::Separate && has_none {
        return Err(OpenError::OtherLayout { recorded: superblock.layout.place() });
    }
    Ok(())
}

fn limits(
    device: &dyn ZonedDevice,
    zones: &[ZoneInfo],
    options: &OpenOptions,
) -> Result<Limits, OpenError> {
    let geometry = device.geometry();
    let allowed = active_data_zones(geometry, count_usable(zones))?;
    let active = options.active_zones.map_or(allowed, |wished| wished.clamp(1, allowed));
    let records = (geometry.zone_capacity.0 / geometry.write_unit.0).min(ZONE_RECORDS);
    Ok(Limits {
        buffer: buffer_on(geometry, options.buffer),
        active: active as usize,
        reserve: 1,
        max_writers: options.max_writers,
        snapshot_bytes: snapshot_limit(records),
    })
}

/// Compares the zones on record with those of the drive.
fn adopt(zones: &mut ZoneTable, found: &[ZoneInfo]) {
    let capacity = zones.capacity().0;
    for info in found {
        let zone = zones.get_mut(info.zone);
        zone.resets = info.resets;
        let is_lost = matches!(info.state, ZoneState::Offline | ZoneState::ReadOnly);
        match zone.phase {
            Phase::Empty if is_lost => zone.phase = Phase::Unusable,
            Phase::Empty if info.state != ZoneState::Empty => {
                mark(Mark::StrayZone);
                zone.phase = Phase::Sealed;
            }
            Phase::Open | Phase::Sealed if info.state == ZoneState::Empty && zone.live == 0 => {
                zone.phase = Phase::Empty;
            }
            Phase::Open | Phase::Sealed => {
                zone.next = ZoneOffset(info.write_pointer.0.min(capacity));
                zone.known = zone.known.min(zone.next.0);
                zone.is_read_only = is_lost;
            }
            _ => {}
        }
    }
}

/// Zones that take no more blocks after a start.
#[derive(Default)]
struct Retired {
    to_reset: Vec<ZoneId>,
    to_finish: Vec<ZoneId>,
}

/// The block behind the last extent in each zone.
fn recorded_ends(namespace: &Namespace) -> BTreeMap<ZoneId, u32> {
    let mut ends: BTreeMap<ZoneId, u32> = BTreeMap::new();
    for run in namespace.files().flat_map(|(_, file)| file.extents.runs()) {
        let end = ends.entry(run.at.zone).or_default();
        *end = (*end).max(run.at.offset.plus(run.blocks).0);
    }
    ends
}

/// Decides which open zones go on, once the blocks in them are known.
fn retire(
    zones: &mut ZoneTable,
    found: &[ZoneInfo],
    ends: &BTreeMap<ZoneId, u32>,
    active: usize,
) -> Retired {
    let mut retired = Retired::default();
    let mut open = 0;
    for info in found {
        let room = zones.room(info.zone);
        let zone = zones.get_mut(info.zone);
        if !zone.holds_data() {
            continue;
        }
        assert!(zone.in_flight == 0, "a write before users are served");
        zone.known = zone.next.0;
        let goes_on = room.0 > 0
            && !zone.is_read_only
            && zone.live > 0
            // A drive that lost blocks on record must not get others in their place.
            && ends.get(&info.zone).is_none_or(|end| *end <= zone.next.0)
            && open < active
            && (info.state.is_active() || info.state == ZoneState::Empty);
        if zone.phase == Phase::Open && goes_on {
            open += 1;
            continue;
        }
        zone.phase = Phase::Sealed;
        if zones.is_reclaimable(info.zone) {
            zones.get_mut(info.zone).phase = Phase::Resetting;
            retired.to_reset.push(info.zone);
        } else if info.state.is_active() {
            retired.to_finish.push(info.zone);
        }
    }
    retired
}
