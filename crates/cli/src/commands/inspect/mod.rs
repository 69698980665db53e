//! `zoneweave inspect`: decodes the contents of a drive.
//!
//! It only reads, takes no lock, and works on damaged drives and while a server runs. Bytes on
//! media are untrusted: decoding uses the engine's own checked decoders.

mod block;

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use zoneweave_linux::{Drive, DriveInfo};
use zoneweave_raid::log::format::{RecordBody, SealRecord, SegmentId, Sequence, SuperblockRecord};
use zoneweave_raid::log::recover::records::{DriveRecords, read_records};
use zoneweave_raid::raizn;
use zoneweave_zoned::{BlockCount, ZoneAddress, ZoneId, ZoneInfo, ZonedDeviceExt};

use super::emu::uuid_text;
use super::wear::WearView;
use super::zones::StateWord;
use crate::error::CliError;
use crate::exit::Exit;
use crate::format;
use crate::output::{Output, Tone};
use crate::session::{Access, NamedDrive, Session};
use block::{BlockView, Owner, hexdump};

/// Default number of blocks listed.
const LISTED_BLOCKS: u32 = 64;

#[derive(Args)]
pub(crate) struct Inspect {
    /// Drive to decode
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// List the blocks of this zone
    #[arg(long, value_name = "Z")]
    zone: Option<u32>,
    /// Show this block of the zone in full, with a hex dump
    #[arg(long, value_name = "O", requires = "zone")]
    offset: Option<u32>,
    /// Maximum number of blocks of the zone to list
    #[arg(long, value_name = "N", default_value_t = LISTED_BLOCKS, requires = "zone")]
    blocks: u32,
}

#[derive(Serialize)]
struct DriveView {
    path: PathBuf,
    uuid: String,
    preset: Option<String>,
    wear: WearView,
    zones: u32,
    zone_capacity_bytes: u64,
    max_active_zones: Option<u32>,
    /// Array and slot, if the array has a zoned volume.
    zoned_volume: Option<String>,
    superblock: Vec<RecordView>,
    damaged_records: Vec<DamagedView>,
    zone_list: Vec<ZoneView>,
}

#[derive(Serialize)]
struct RecordView {
    zone: u32,
    array: String,
    name: String,
    scheme: String,
    lineage: String,
    epoch: u64,
    record_sequence: u64,
    slot: u8,
    members: Vec<String>,
    sequence_ceiling: Sequence,
    segment_ceiling: SegmentId,
    says: String,
}

#[derive(Serialize)]
struct DamagedView {
    zone: u32,
    offset: u32,
    problem: String,
}

#[derive(Serialize)]
struct ZoneView {
    zone: u32,
    state: StateWord,
    written_blocks: u32,
    resets: u64,
    /// Summary of its first block.
    first: String,
}

#[derive(Serialize)]
struct ZoneBlocks {
    path: PathBuf,
    zone: u32,
    state: StateWord,
    written_blocks: u32,
    blocks: Vec<BlockView>,
}

pub(crate) fn run(request: &Inspect, output: &Output) -> Result<Exit, CliError> {
    let session = Session::new()?;
    let named = session.open(&request.drive, Access::Look)?;
    let failed = |status| CliError::DriveFailed { label: named.label.clone(), status };
    let records = session.executor.run(read_records(&*named.member)).map_err(failed)?;
    let owner = records.newest().map(|record| Owner::of(&record.config));
    match request.zone {
        None => {
            let info = Drive::inspect(&request.drive)?;
            let view = session.executor.run(view_drive(request, &named, &records, &info));
            output.result("inspect-drive", &view, |output| tell_drive(&view, output));
        }
        Some(zone) => {
            let info = zone_info(&records, zone)?;
            let blocks = session.executor.run(view_zone(request, &named, info, owner))?;
            output.result("inspect-zone", &blocks, |output| tell_zone(&blocks, output));
        }
    }
    Ok(Exit::Done)
}

fn zone_info(records: &DriveRecords, zone: u32) -> Result<ZoneInfo, CliError> {
    records.scan.zones.get(zone as usize).copied().ok_or_else(|| CliError::OutOfRange {
        what: format!("zone {zone}"),
        range: format!("the drive has zones 0 to {}", records.scan.zones.len().saturating_sub(1)),
    })
}

async fn view_drive(
    request: &Inspect,
    named: &NamedDrive,
    records: &DriveRecords,
    info: &DriveInfo,
) -> DriveView {
    use zoneweave_zoned::ZonedDevice;
    let geometry = named.drive.geometry();
    let owner = records.newest().map(|record| Owner::of(&record.config));
    let mut zone_list = Vec::new();
    for info in &records.scan.zones {
        let first = if info.write_pointer.0 == 0 {
            String::new()
        } else {
            view_block(&named.drive, ZoneAddress::new(info.zone, 0), owner, false).await.summary
        };
        zone_list.push(ZoneView {
            zone: info.zone.0,
            state: info.state.into(),
            written_blocks: info.write_pointer.0,
            resets: info.resets,
            first,
        });
    }
    // Its records have another form, which only the volume decodes.
    let zoned = raizn::membership_of(&*named.drive).await.ok().flatten();
    DriveView {
        path: request.drive.clone(),
        uuid: uuid_text(&named.drive.uuid()),
        preset: info.preset.clone(),
        wear: WearView::of(info),
        zones: geometry.zones,
        zone_capacity_bytes: geometry.zone_capacity.data_bytes() as u64,
        max_active_zones: geometry.max_active,
        zoned_volume: zoned.map(|own| format!("{}, slot {}", own.config.name, own.slot.0)),
        superblock: records
            .scan
            .records
            .iter()
            .map(|(at, record)| view_record(at.zone, record))
            .collect(),
        damaged_records: records
            .scan
            .damaged
            .iter()
            .map(|(at, error)| DamagedView {
                zone: at.zone.0,
                offset: at.offset.0,
                problem: error.to_string(),
            })
            .collect(),
        zone_list,
    }
}

fn view_record(zone: ZoneId, record: &SuperblockRecord) -> RecordView {
    let config = &record.config;
    let members = record.members.iter();
    let member = |member: &zoneweave_raid::log::format::MemberEntry| {
        let state = format!("{:?}", member.state).to_lowercase();
        format!("{} {state} since epoch {}", member.uuid, member.since_epoch)
    };
    RecordView {
        zone: zone.0,
        array: config.array.to_string(),
        name: config.name.clone(),
        scheme: config.scheme.to_string(),
        lineage: format!("{:016x}", record.lineage.0),
        epoch: record.epoch.0,
        record_sequence: record.record_sequence,
        slot: record.slot.0,
        members: members.map(member).collect(),
        sequence_ceiling: record.sequence_ceiling,
        segment_ceiling: record.segment_ceiling,
        says: body_words(&record.body),
    }
}

/// The content of a record beyond the state that every record repeats.
pub(super) fn body_words(body: &RecordBody) -> String {
    match body {
        RecordBody::State => "state".to_owned(),
        RecordBody::Destroyed => "the array is being destroyed".to_owned(),
        RecordBody::Dead(segments) => format!("{} segments are dead", segments.len()),
        RecordBody::NarrowList(list) => format!("{} narrow segments", list.segments.len()),
        RecordBody::Faults(faults) => {
            let damaged = faults.errors.iter().map(|errors| errors.repaired + errors.unrepairable);
            let (damaged, lost) = (damaged.fold(0, u64::saturating_add), faults.lost.len());
            format!("{damaged} damaged blocks, {lost} ranges of the volume with lost ones")
        }
        RecordBody::Scrubs(scrubs) => format!("the newest {} scrubs", scrubs.0.len()),
        RecordBody::Deaths(deaths) => format!("{} segments are dead", deaths.len()),
        RecordBody::Seals(seals) => seals.iter().map(seal_words).collect::<Vec<_>>().join("; "),
        RecordBody::Checkpoint(pointer) => format!(
            "checkpoint {} of the index, up to sequence {}, begins in segment {}",
            pointer.number, pointer.coverage.covered, pointer.root.segment
        ),
        RecordBody::SnapshotEnd { records } => format!("end of a snapshot of {records} records"),
    }
}

fn seal_words(seal: &SealRecord) -> String {
    let valid = seal.valid.iter().filter(|valid| **valid).count();
    format!(
        "segment {} is sealed: rows below {}, and {valid} of the {} after them, are valid",
        seal.segment,
        seal.rows,
        seal.valid.len()
    )
}

async fn view_block(drive: &Drive, at: ZoneAddress, owner: Option<Owner>, dump: bool) -> BlockView {
    match drive.read(at, BlockCount(1)).await {
        Ok(payload) => {
            let (data, oob) = (payload.block(0), payload.block_oob(0));
            let mut view = BlockView::decode(at.offset.0, &data, &oob, owner);
            if dump {
                view.dump = hexdump(&data, &oob);
            }
            view
        }
        Err(status) => BlockView::unreadable(at.offset.0, status),
    }
}

async fn view_zone(
    request: &Inspect,
    named: &NamedDrive,
    info: ZoneInfo,
    owner: Option<Owner>,
) -> Result<ZoneBlocks, CliError> {
    let offsets = match request.offset {
        Some(offset) if offset >= info.capacity.0 => {
            return Err(CliError::OutOfRange {
                what: format!("block {offset} of zone {}", info.zone.0),
                range: format!("the zone has blocks 0 to {}", info.capacity.0.saturating_sub(1)),
            });
        }
        Some(offset) => offset..offset + 1,
        None => 0..info.write_pointer.0.min(request.blocks),
    };
    let mut blocks = Vec::new();
    for offset in offsets {
        let at = ZoneAddress::new(info.zone, offset);
        blocks.push(view_block(&named.drive, at, owner, request.offset.is_some()).await);
    }
    Ok(ZoneBlocks {
        path: request.drive.clone(),
        zone: info.zone.0,
        state: info.state.into(),
        written_blocks: info.write_pointer.0,
        blocks,
    })
}

fn tell_drive(view: &DriveView, output: &Output) {
    output.line(format_args!(
        "{}  {}  {} zones of {}{}",
        output.paint(Tone::Strong, &view.path.display().to_string()),
        view.uuid,
        view.zones,
        format::bytes(view.zone_capacity_bytes),
        view.preset.as_ref().map(|name| format!("  as {name}")).unwrap_or_default()
    ));
    output.line(view.wear.line());
    if let Some(zoned) = &view.zoned_volume {
        output.line(format_args!("a member of an array with a zoned volume: {zoned}"));
    } else if view.superblock.is_empty() {
        output.line(
            "no superblock record: the drive belongs to no array, or its records are damaged",
        );
    }
    for record in &view.superblock {
        output.line(format_args!(
            "  record {}  zone {}  {} {} slot {} epoch {}  {}",
            record.record_sequence,
            record.zone,
            record.name,
            record.scheme,
            record.slot,
            record.epoch,
            record.says
        ));
    }
    if let Some(last) = view.superblock.iter().max_by_key(|record| record.record_sequence) {
        output.line(format_args!("  array {}  lineage {}", last.array, last.lineage));
        for (slot, member) in last.members.iter().enumerate() {
            output.line(format_args!("  slot {slot}  {member}"));
        }
    }
    for damaged in &view.damaged_records {
        let text = format!(
            "  damaged record: zone {} block {}: {}",
            damaged.zone, damaged.offset, damaged.problem
        );
        output.line(output.paint(Tone::Bad, &text));
    }
    let rows: Vec<_> = view
        .zone_list
        .iter()
        .filter(|zone| zone.state != StateWord::Empty)
        .map(|zone| {
            vec![
                zone.zone.to_string(),
                zone.state.to_string(),
                zone.written_blocks.to_string(),
                zone.resets.to_string(),
                zone.first.clone(),
            ]
        })
        .collect();
    for line in format::table(&[">ZONE", "STATE", ">BLOCKS", ">RESETS", "BEGINS WITH"], &rows) {
        output.line(line);
    }
    output.line(format_args!("{} empty zones", view.zone_list.len() - rows.len()));
}

fn tell_zone(zone: &ZoneBlocks, output: &Output) {
    output.line(format_args!(
        "zone {}  {}  {} blocks written",
        zone.zone, zone.state, zone.written_blocks
    ));
    for block in &zone.blocks {
        output.line(format_args!("{:>7}  {}", block.offset, block.summary));
        if let Some(oob) = &block.oob {
            output.line(format_args!("         {oob}"));
        }
        for detail in &block.details {
            output.line(format_args!("         {detail}"));
        }
        for line in &block.dump {
            output.line(format_args!("  {line}"));
        }
    }
    let shown = u32::try_from(zone.blocks.len()).unwrap_or(u32::MAX);
    if shown < zone.written_blocks && shown != 1 {
        output.line(format_args!("and {} more; see --blocks", zone.written_blocks - shown));
    }
}
