//! `zoneweave array create --kind zoned`: the array as one large zoned drive.

use serde::Serialize;
use zoneweave_raid::array::format::config::{ArrayConfig, Checksums};
use zoneweave_raid::log::format::{ArrayUuid, Lineage, MemberUuid};
use zoneweave_raid::raizn::{CreateOptions, create, geometry, plan};
use zoneweave_zoned::{BLOCK_BYTES, BlockCount, Geometry, ZonedDevice};

use super::sizes::unequal;
use super::{Create, check_name, check_spaces, contents, may_destroy, scheme_of, undo};
use crate::drives::consent::Destroyed;
use crate::error::{CliError, usage};
use crate::exit::Exit;
use crate::format::{bytes, words};
use crate::output::Output;
use crate::session::{Access, Session, random_number, random_uuid, refuse_worse_way};
use crate::zoned::offer;

/// Blocks of a stripe unit, unless another size is chosen: 64 KiB, the best for large requests
/// (RAIZN §6.1, Fig. 7).
const UNIT_BLOCKS: u32 = 16;

#[derive(Serialize)]
struct Created<'a> {
    name: &'a str,
    array: String,
    scheme: String,
    /// `kind` is that of the document.
    volume_kind: &'static str,
    size_bytes: u64,
    zones: u32,
    zone_capacity_bytes: u64,
    unit_bytes: u64,
    checksums: bool,
    /// Limits of the volume; absent if there is none.
    max_active: Option<u32>,
    max_open: Option<u32>,
    /// Contents that are overwritten.
    destroys: Vec<Destroyed>,
    /// Whether nothing was changed.
    dry_run: bool,
}

pub(super) fn run(request: &Create, output: &Output) -> Result<Exit, CliError> {
    refuse_others(request)?;
    let (config, volume, destroys) = make(request, output)?;
    let zone_capacity_bytes = volume.zone_capacity.data_bytes() as u64;
    let created = Created {
        name: &config.name,
        array: config.array.to_string(),
        scheme: config.scheme.to_string(),
        volume_kind: "zoned",
        size_bytes: zone_capacity_bytes * u64::from(volume.zones),
        zones: volume.zones,
        zone_capacity_bytes,
        unit_bytes: u64::from(config.zoned().unit_blocks) * BLOCK_BYTES as u64,
        checksums: config.zoned().checksums != Checksums::None,
        max_active: volume.max_active,
        max_open: volume.max_open,
        destroys,
        dry_run: request.dry_run,
    };
    output.result("array-create", &created, |output| {
        let checksums = if created.checksums { "checksums" } else { "no checksums" };
        output.line(format_args!(
            "{}  {} · zoned, {} · {} zones of {} · {} units · {checksums} · {}",
            created.name,
            created.scheme,
            bytes(created.size_bytes),
            created.zones,
            bytes(created.zone_capacity_bytes),
            bytes(created.unit_bytes),
            created.array
        ));
        if created.dry_run {
            return Destroyed::tell(&created.destroys, output);
        }
        output.note(format_args!("its zones: zoneweave zoned report {}", words(&request.drives)));
    });
    Ok(Exit::Done)
}

/// Refuses options of the block volume.
fn refuse_others(request: &Create) -> Result<(), CliError> {
    let given = [
        ("size", request.size.is_some()),
        ("reserve", request.reserve.is_some()),
        ("shards", request.shards > 1),
        ("chunk", request.chunk.is_some()),
        ("mode", request.mode.is_some()),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        Some(("chunk", _)) => {
            Err(usage("chunk")("a zoned volume has stripe units: use --unit".to_owned()))
        }
        Some((option, _)) => {
            let problem = "a zoned volume has the size and layout of its drives: leave it out";
            Err(usage(option)(problem.to_owned()))
        }
        None => Ok(()),
    }
}

/// Creates the array; returns its configuration, the volume as a drive, and what is overwritten.
fn make(
    request: &Create,
    output: &Output,
) -> Result<(ArrayConfig, Geometry, Vec<Destroyed>), CliError> {
    check_name(&request.name)?;
    let scheme = scheme_of(request.level, request.drives.len(), (request.data, request.parity))?;
    let session = Session::new()?;
    let drives = session.open_all(&request.drives, Access::Exclusive)?;
    drives.iter().try_for_each(|named| refuse_worse_way(named, &session.ring, &session.handle))?;
    let members = drives.iter().map(|_| random_uuid().map(MemberUuid));
    let options = CreateOptions {
        array: ArrayUuid(random_uuid()?),
        name: request.name.clone(),
        members: members.collect::<Result<_, _>>()?,
        lineage: Lineage(random_number()?),
        scheme,
        unit: BlockCount(request.unit.unwrap_or(UNIT_BLOCKS)),
        checksums: !request.no_checksums,
        wipe: false,
    };
    // Every error is reported before the operator is asked to give up data.
    let planned = plan(&offer(&drives), &options)?;
    if !request.no_checksums && planned.zoned().checksums == Checksums::None {
        output.warning(
            "not all drives have metadata beside blocks, so damaged blocks are found only where a \
             drive reports them",
        );
    }
    unequal(&planned, &drives).into_iter().for_each(|warning| output.warning(warning));
    let destroys = contents(&session, &drives)?;
    check_spaces(&session, &drives, &destroys)?;
    let volume_of =
        |config: &ArrayConfig| geometry(config, drives.iter().map(|named| named.drive.geometry()));
    if request.dry_run {
        let volume = volume_of(&planned)?;
        return Ok((planned, volume, destroys));
    }
    let blank = may_destroy(&session, &drives, request, output)?;
    let options = CreateOptions { wipe: blank.contains(&false), ..options };
    let created = session.executor.run(create(&offer(&drives), &options));
    let arrays = [options.array];
    let config = created
        .map_err(|error| undo(&session, error.into(), &drives, &blank, &arrays, &destroys))?;
    let volume = volume_of(&config)?;
    Ok((config, volume, destroys))
}
