//! The checker of file stores, written from docs/format.md alone (sections S1 to S5).
//!
//! It reads the metadata log, builds the state that it describes, and verifies every block of every
//! file against it. It never writes, and shares no code with the store.
//!
//! Fault model: as for arrays. Memory holds the metadata, at most two zones of it, and a number for
//! each block of a file.

mod blocks;
mod record;
mod report;
mod state;

use std::collections::BTreeMap;
use std::rc::Rc;

use zoneweave_zoned::{BlockCount, ZoneAddress, ZoneInfo, ZoneState, ZonedDevice, ZonedDeviceExt};

use crate::format::fields::{Array, uuid_text};
use blocks::{Blocks, payload_bytes};
use record::{Entry, Parsed, Record, parse};
use report::Findings;
pub use report::{StoreCounts, StoreFinding, StoreProblem, StoreReport};
use state::State;

/// Zones that may hold the metadata log: the first that are not offline.
const SEARCHED_ZONES: usize = 4;

/// Most records of a zone.
const ZONE_RECORDS_MAX: u32 = 16_384;

/// Checks the file store of a drive, or of a zoned volume. At most `findings_max` findings are
/// listed; more are only counted.
pub async fn check_store(device: Rc<dyn ZonedDevice>, findings_max: usize) -> StoreReport {
    let mut findings = Findings::new(findings_max);
    let zones = match device.report().await {
        Ok(zones) => zones,
        Err(status) => {
            let status = status.to_string();
            findings.add(None, StoreProblem::DriveUnusable { status });
            return findings.finish();
        }
    };
    if let Some(records) = read_log(&*device, &zones, &mut findings).await {
        check_records(&*device, &zones, &records, &mut findings).await;
    }
    findings.finish()
}

async fn check_records(
    device: &dyn ZonedDevice,
    zones: &[ZoneInfo],
    records: &[Record],
    findings: &mut Findings,
) {
    let owner = records[0].owner;
    findings.report.uuid = Some(uuid_text(&owner));
    findings.report.counts.records = records.len() as u64;
    let Some(state) = replay(records, findings) else { return };
    findings.report.label.clone_from(&state.superblock.label);
    let zones = zones.iter().map(|info| (info.zone.0, *info)).collect();
    let (owner, seen) = (Array(owner), BTreeMap::new());
    let mut blocks = Blocks { device, owner, state: &state, zones: &zones, seen };
    blocks.check_files(findings).await;
    blocks.check_rest(findings).await;
}

/// The records that count, in order: those of the newest closed snapshot, and later ones of its
/// zone.
async fn read_log(
    device: &dyn ZonedDevice,
    zones: &[ZoneInfo],
    findings: &mut Findings,
) -> Option<Vec<Record>> {
    let searched = zones.iter().filter(|info| info.state != ZoneState::Offline);
    let mut newest: Option<Vec<Record>> = None;
    let (mut owner, mut version) = (None, None);
    for info in searched.take(SEARCHED_ZONES) {
        let log = read_zone(device, info, &mut version, findings).await;
        for record in &log {
            let first = *owner.get_or_insert(record.owner);
            if first != record.owner {
                let (first, other) = (uuid_text(&first), uuid_text(&record.owner));
                findings.add(Some((info.zone.0, 0)), StoreProblem::TwoStores { first, other });
                return None;
            }
        }
        let snapshot = snapshot_of(&log);
        let is_newer = |log: &[Record]| {
            newest.as_ref().is_none_or(|newest| newest[0].sequence < log[0].sequence)
        };
        if let Some(start) = snapshot.filter(|start| is_newer(&log[*start..])) {
            newest = Some(log[start..].to_vec());
        }
    }
    match (newest, version) {
        (Some(records), _) => return Some(records),
        (None, Some(version)) => findings.add(None, StoreProblem::OtherVersion { version }),
        (None, None) => findings.add(None, StoreProblem::NoStore),
    }
    None
}

/// The records of a zone.
async fn read_zone(
    device: &dyn ZonedDevice,
    info: &ZoneInfo,
    version: &mut Option<u16>,
    findings: &mut Findings,
) -> Vec<Record> {
    let unit = device.geometry().write_unit.0.max(1);
    let written = info.write_pointer.0.min(device.geometry().zone_capacity.0);
    let written = written.min(ZONE_RECORDS_MAX.saturating_mul(unit));
    let (mut records, mut torn): (Vec<Record>, Vec<u32>) = (Vec::new(), Vec::new());
    for offset in (0..written).step_by(unit as usize) {
        let at = ZoneAddress::new(info.zone, offset);
        let parsed = match device.read(at, BlockCount(1)).await {
            Ok(read) => parse(&read.block(0)),
            Err(_) => Parsed::Nothing,
        };
        match parsed {
            Parsed::Record(record) => records.push(record),
            Parsed::OtherVersion(found) => *version = Some(found),
            Parsed::Nothing => torn.push(offset),
        }
    }
    // Zones without records are of files, or of another user.
    for offset in torn.into_iter().filter(|_| !records.is_empty()) {
        findings.add(Some((info.zone.0, offset)), StoreProblem::RecordTorn);
    }
    records
}

/// Where the newest closed snapshot of a zone begins.
fn snapshot_of(log: &[Record]) -> Option<usize> {
    let end = log.iter().rposition(|record| record.part == 2)?;
    let start = end.checked_sub(log[end].before as usize)?;
    let parts = &log[start..=end];
    let is_whole = parts[..parts.len() - 1].iter().all(|record| record.part == 1)
        && parts.windows(2).all(|pair| pair[0].sequence.checked_add(1) == Some(pair[1].sequence));
    is_whole.then_some(start)
}

/// The state that the records describe, as far as they follow from each other.
fn replay(records: &[Record], findings: &mut Findings) -> Option<State> {
    let first = records.first().and_then(|record| record.entries.first());
    let Some(Entry::Superblock(superblock)) = first else {
        let (sequence, entry) = (records[0].sequence, 0);
        let rule = "a snapshot without a superblock";
        findings.add(None, StoreProblem::Contradiction { sequence, entry, rule });
        return None;
    };
    let payload = payload_bytes(superblock.is_inline);
    let mut state = State::new(superblock.clone(), payload);
    let mut before = None;
    for record in records {
        let sequence = record.sequence;
        if before.is_some_and(|before: u64| before.checked_add(1) != Some(sequence)) {
            let sequence = sequence.saturating_sub(1);
            findings.add(None, StoreProblem::RecordMissing { sequence });
            break;
        }
        let skipped = usize::from(before.is_none());
        before = Some(sequence);
        for (entry, change) in record.entries.iter().enumerate().skip(skipped) {
            if let Err(rule) = state.apply(change) {
                findings.add(None, StoreProblem::Contradiction { sequence, entry, rule });
                return Some(state);
            }
        }
    }
    Some(state)
}
