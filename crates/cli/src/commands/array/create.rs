//! `zoneweave array create`.

mod sizes;
mod zoned;

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Serialize;
use zoneweave_plan::array::{reserve_of, with_reserve};
use zoneweave_raid::array::repair::fit::empty_drive;
use zoneweave_raid::log::create::{NAME_BYTES, plan};
use zoneweave_raid::log::format::{ArrayConfig, ArrayUuid, Lineage, MemberUuid};
use zoneweave_raid::log::{CreateOptions, create};
use zoneweave_raid::scheme::{Arrangement, Scheme};
use zoneweave_raid::shards::{self, Shard};
use zoneweave_zoned::{BLOCK_BYTES, ByteSize, ZoneInfo, ZoneState, ZonedDeviceExt};

use crate::drives::consent::{Consent, Destroyed, Holdings, confirm, holdings, not_empty};
use crate::drives::membership::membership_of;
use crate::drives::paths::natural_order;
use crate::drives::space::check_space;
use crate::error::{CliError, NewMemberError, usage};
use crate::exit::Exit;
use crate::format::{self, VolumeSize};
use crate::output::Output;
use crate::session::{
    Access, NamedDrive, Session, offer, random_number, random_uuid, refuse_worse_way,
};
use crate::status::ShardStatus;
use sizes::{RESERVE_PERCENT, little_reserve, unequal, unused_bytes};

/// Blocks of a chunk, unless another size is chosen.
pub(crate) const CHUNK_BLOCKS: u32 = 4;

/// Rows of a group, unless another number is chosen: a table entry of one byte each.
pub(crate) const GROUP_ROWS: u32 = 256;

/// The array to create.
#[derive(Args, Clone, Debug)]
pub(crate) struct Create {
    /// Name of the array: letters, digits and . _ -
    pub name: String,
    /// Drives of the array; slots are numbered from 0 in this order. Drives in the alphabetical
    /// order of a shell's drive* are sorted by number, drive10 after drive9
    #[arg(value_name = "DRIVE", required = true)]
    pub drives: Vec<PathBuf>,
    /// Kind of volume
    #[arg(long, value_enum, default_value_t = Kind::Block)]
    pub kind: Kind,
    /// RAID level
    #[arg(long, value_enum, default_value_t = Level::Raid5)]
    pub level: Level,
    /// Data chunks per stripe, with --level raid; other levels set them
    #[arg(long, value_name = "K")]
    pub data: Option<usize>,
    /// Parity chunks per stripe, the number of drives that may fail: as --data
    #[arg(long, value_name = "M")]
    pub parity: Option<usize>,
    /// Size of a block volume, e.g. 2GiB, or max (as large as --reserve allows)
    #[arg(long, value_name = "SIZE", value_parser = format::parse_volume_size)]
    pub size: Option<VolumeSize>,
    /// Reserve for relocation, in percent of the volume [default: 20 with --size max]. Once the
    /// volume is full, a random write costs about 3 writes at 20 %, 6 at 10 % and 10 at 5 %, by
    /// theory
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub reserve: Option<u32>,
    /// Split the volume over N arrays, each on an equal run of consecutive drives. A server runs
    /// each shard in its own thread, so that one CPU does not limit a volume of many drives
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=Shard::MOST as i64))]
    pub shards: u16,
    /// Chunk size: the part of a stripe on one drive [default: 16KiB, or 28KiB on drives without
    /// per-block metadata, where it must be a multiple of that]
    ///
    /// Chunk size, --group-rows and --mode are the array's own layout. A server uses it with
    /// --write-mode array, or if no layout chosen for the drives fits.
    #[arg(long, value_name = "SIZE", value_parser = format::parse_small_blocks)]
    pub chunk: Option<u32>,
    /// Stripes per group that may be written in any order (zone-append)
    #[arg(long, value_name = "ROWS", default_value_t = GROUP_ROWS)]
    pub group_rows: u32,
    /// Command that writes chunks [default: zone-append if the drives support it]
    #[arg(long, value_enum)]
    pub mode: Option<Mode>,
    /// Stripe unit of a zoned volume: the part of a stripe on one drive, at most 128KiB [default:
    /// 64KiB]
    #[arg(long, value_name = "SIZE", value_parser = format::parse_small_blocks)]
    pub unit: Option<u32>,
    /// A zoned volume without checksums beside its blocks
    #[arg(long)]
    pub no_checksums: bool,
    /// When writes are acknowledged
    #[arg(long, value_enum, default_value_t = Durability::Auto)]
    pub durability: Durability,
    /// Overwrite drives that hold data, without asking; except file systems and real drives
    /// (see --destroy)
    #[arg(long)]
    pub yes_destroy: bool,
    /// Overwrite this drive, whatever it holds (may be repeated)
    #[arg(long, value_name = "DRIVE")]
    pub destroy: Vec<PathBuf>,
    /// Print the array, and what the drives hold that it would overwrite; change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Kind of volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// A disk that takes writes anywhere (log-structured)
    Block,
    /// One large zoned drive, as large as the zones of the drives allow
    Zoned,
}

/// RAID level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Level {
    /// No redundancy: the volume is lost with any drive
    Raid0,
    /// Mirror: every drive holds all data
    Raid1,
    /// Two mirrored halves of striped drives: any one drive may fail, and more if no mirrored pair
    /// is lost
    Raid01,
    /// Parity on the last drive: any one drive may fail
    Raid4,
    /// Rotated parity: any one drive may fail
    Raid5,
    /// Rotated double parity: any two drives may fail
    Raid6,
    /// K data and M parity chunks (--data, --parity): any M drives may fail
    Raid,
}

/// Command that writes chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Zone Append: many chunks of a zone in flight; the drive chooses their order
    ZoneAppend,
    /// Zone Write of all data that is queued for a zone
    ZoneWrite,
}

/// When writes are acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Durability {
    /// Writethrough if no drive has a volatile cache, otherwise writeback
    Auto,
    /// Once the data is durable
    Writethrough,
    /// Once the drives have the data; a flush makes it durable
    Writeback,
}

#[derive(Serialize)]
struct Created {
    name: String,
    array: String,
    scheme: String,
    /// Number of shards; absent for a single array.
    #[serde(skip_serializing_if = "Option::is_none")]
    shards: Option<usize>,
    size_bytes: u64,
    /// Space for relocation, in percent of the volume, and the blocks written for each that users
    /// write at random to a full volume.
    reserve_percent: f64,
    random_amplification: Option<f64>,
    /// Space of the drives that is not used, as they differ.
    unused_bytes: u64,
    chunk_bytes: u64,
    group_rows: u32,
    mode: &'static str,
    drives: Vec<PathBuf>,
    /// Contents that are overwritten.
    destroys: Vec<Destroyed>,
    /// Whether nothing was changed.
    dry_run: bool,
}

/// An array, or the arrays of a volume.
pub(crate) struct Made {
    pub configs: Vec<ArrayConfig>,
    unused_bytes: u64,
    destroys: Vec<Destroyed>,
}

pub(crate) fn run(request: &Create, output: &Output) -> Result<Exit, CliError> {
    let request = &in_natural_order(request);
    if request.kind == Kind::Zoned {
        return zoned::run(request, output);
    }
    refuse_zoned_options(request)?;
    let Made { configs, unused_bytes, destroys } = make(request, output)?;
    let config = &configs[0];
    let (reserve_percent, random_amplification) = reserve_of(config);
    let shards = configs.len();
    let created = Created {
        name: config.name.clone(),
        array: config.array.to_string(),
        scheme: config.scheme.to_string(),
        shards: (shards > 1).then_some(shards),
        size_bytes: volume_blocks(&configs) * BLOCK_BYTES as u64,
        reserve_percent,
        random_amplification,
        unused_bytes,
        chunk_bytes: u64::from(config.log().chunk_blocks) * BLOCK_BYTES as u64,
        group_rows: config.log().group_rows,
        mode: if config.log().tabled { "zone-append" } else { "zone-write" },
        drives: request.drives.clone(),
        destroys,
        dry_run: request.dry_run,
    };
    output.result("array-create", &created, |output| {
        let times = created.shards.map(|shards| format!("{shards} x ")).unwrap_or_default();
        output.line(format_args!(
            "{}  {times}{} · {} · {reserve_percent:.0} % reserve · {} chunks · {}",
            created.name,
            created.scheme,
            format::bytes(created.size_bytes),
            format::bytes(created.chunk_bytes),
            created.array
        ));
        if shards > 1 {
            for (number, drives) in request.drives.chunks(request.drives.len() / shards).enumerate()
            {
                output.line(format_args!("  shard {number}  {}", format::words(drives)));
            }
        }
        if created.dry_run {
            return Destroyed::tell(&created.destroys, output);
        }
        output.note(format_args!(
            "serve it: zoneweave serve nbd {} --socket unix:/tmp/{}.sock",
            format::words(&request.drives),
            created.name
        ));
    });
    Ok(Exit::Done)
}

/// Size of the volume, in blocks.
fn volume_blocks(configs: &[ArrayConfig]) -> u64 {
    let least = configs.iter().map(|config| config.log().volume_blocks).min().unwrap_or(0);
    shards::volume_blocks(least, configs.len())
}

/// The request with its drives in the order of their numbers, if they are in that of a shell, which
/// puts `drive10` before `drive2`.
fn in_natural_order(request: &Create) -> Create {
    let mut request = request.clone();
    if request.drives.is_sorted() {
        request.drives.sort_by(|one, other| natural_order(one, other));
    }
    request
}

/// Refuses options of the zoned volume.
fn refuse_zoned_options(request: &Create) -> Result<(), CliError> {
    let given = [("unit", request.unit.is_some()), ("no-checksums", request.no_checksums)];
    match given.into_iter().find(|(_, given)| *given) {
        Some((option, _)) => Err(usage(option)("it is for --kind zoned".to_owned())),
        None => Ok(()),
    }
}

/// Creates the array, or one array per shard.
pub(crate) fn make(request: &Create, output: &Output) -> Result<Made, CliError> {
    check_name(&request.name)?;
    let of_each = of_each_shard(request.drives.len(), request.shards.into())?;
    let scheme = scheme_of(request.level, of_each, (request.data, request.parity))?;
    let session = Session::new()?;
    let drives = session.open_all(&request.drives, Access::Exclusive)?;
    let worse = |named| refuse_worse_way(named, &session.ring, &session.handle);
    drives.iter().try_for_each(worse)?;
    let volume = ArrayUuid(random_uuid()?);
    let (mut all, mut unused, mut all_planned) = (Vec::new(), 0, Vec::new());
    for (number, drives) in drives.chunks(of_each).enumerate() {
        let shard = Shard::new(number, request.shards.into()).expect("one of so many");
        let options = options(request, scheme, shard, volume, drives)?;
        let failed = |error: CliError| error.of(ShardStatus::of(shard));
        // Report every error before the operator is asked to give up data.
        let planned = plan(&offer(drives), &options).map_err(|error| failed(error.into()))?;
        let (options, planned) = reserving(&session, request, options, planned, drives)?;
        unused += unused_bytes(&planned, drives).iter().sum::<u64>();
        // A reserve that was chosen needs no warning.
        let little = little_reserve(&planned).filter(|_| request.reserve.is_none());
        for warning in unequal(&planned, drives).into_iter().chain(little) {
            output.warning(warning);
        }
        all.push((options, drives));
        all_planned.push(planned);
    }
    let destroys = contents(&session, &drives)?;
    check_spaces(&session, &drives, &destroys)?;
    if request.dry_run {
        return Ok(Made { configs: all_planned, unused_bytes: unused, destroys });
    }
    let blank = may_destroy(&session, &drives, request, output)?;
    let wipe = blank.contains(&false);
    let arrays: Vec<_> = all.iter().map(|(options, _)| options.array).collect();
    let mut made = Vec::new();
    for (options, drives_of_shard) in all {
        let (shard, options) = (options.shard, CreateOptions { wipe, ..options });
        let config = session.executor.run(create(&offer(drives_of_shard), &options));
        made.push(config.map_err(|error| {
            let error = CliError::from(error).of(ShardStatus::of(shard));
            undo(&session, error, &drives, &blank, &arrays, &destroys)
        })?);
    }
    assert_eq!(made.len(), usize::from(request.shards), "every shard has an array");
    Ok(Made { configs: made, unused_bytes: unused, destroys })
}

/// Options and plan of an array that leaves the reserve; `planned` is the largest possible.
fn reserving(
    session: &Session,
    request: &Create,
    options: CreateOptions,
    planned: ArrayConfig,
    drives: &[NamedDrive],
) -> Result<(CreateOptions, ArrayConfig), CliError> {
    let percent = match (wanted_size(request)?, request.reserve) {
        (VolumeSize::Blocks(_), None) => return Ok((options, planned)),
        (_, percent) => percent.unwrap_or(RESERVE_PERCENT),
    };
    let mut usable_zones = u32::MAX;
    for named in drives {
        let zones = session.executor.run(named.member.report());
        let failed = |status| CliError::DriveFailed { label: named.label.clone(), status };
        let usable = zones.map_err(failed)?.iter().filter(|info| is_usable(info)).count();
        usable_zones = usable_zones.min(u32::try_from(usable).unwrap_or(u32::MAX));
    }
    let largest = CreateOptions { volume_blocks: None, ..options.clone() };
    let most = with_reserve(&plan(&offer(drives), &largest)?, usable_zones, percent);
    let volume_blocks = match options.volume_blocks {
        Some(asked) if asked > most => {
            let most = ByteSize::of_blocks(shards::volume_blocks(most, options.shard.of()));
            let problem = format!("{percent} % of reserve leave at most {most} for the volume");
            return Err(usage("reserve")(problem));
        }
        Some(asked) => asked,
        None => most,
    };
    let options = CreateOptions { volume_blocks: Some(volume_blocks), ..options };
    let planned = plan(&offer(drives), &options)?;
    Ok((options, planned))
}

/// The size of a block volume, which has no default.
fn wanted_size(request: &Create) -> Result<VolumeSize, CliError> {
    let missing = || usage("size")("choose the size of the volume, e.g. 2GiB, or max".to_owned());
    request.size.ok_or_else(missing)
}

/// Whether a zone can be written once it is empty.
fn is_usable(info: &ZoneInfo) -> bool {
    !matches!(info.state, ZoneState::Offline | ZoneState::ReadOnly)
}

/// The error of an array that was not completed, once what was written is erased; with the contents
/// that are gone, of those that were to be destroyed.
fn undo(
    session: &Session,
    error: CliError,
    drives: &[NamedDrive],
    blank: &[bool],
    arrays: &[ArrayUuid],
    destroys: &[Destroyed],
) -> CliError {
    let halves = session.executor.run(unmake(drives, blank, arrays));
    let error = match halves.is_empty() {
        true => error,
        false => CliError::HalfMade { error: Box::new(error), drives: halves },
    };
    let is_kept = |lost: &&Destroyed| {
        let named = drives.iter().find(|named| named.label == lost.drive);
        let holds = named.and_then(|named| session.executor.run(holdings(named)).ok().flatten());
        holds.is_some_and(|holds| holds.text == lost.holds)
    };
    let erased = destroys.iter().filter(|lost| !is_kept(lost));
    let erased: Vec<_> = erased.map(Destroyed::to_string).collect();
    match erased.is_empty() {
        true => error,
        false => NewMemberError::Erased { error: Box::new(error), erased }.into(),
    }
}

/// Checks that every drive has space for its superblock, before any contents are erased. An array
/// of blank drives costs nothing if it fails.
fn check_spaces(
    session: &Session,
    drives: &[NamedDrive],
    destroys: &[Destroyed],
) -> Result<(), CliError> {
    for named in drives.iter().filter(|_| !destroys.is_empty()) {
        let zones = session.executor.run(named.member.report());
        let failed = |status| CliError::DriveFailed { label: named.label.clone(), status };
        check_space(named, &zones.map_err(failed)?)?;
    }
    Ok(())
}

/// Erases the superblocks of an array that was not completed, and all of drives that were blank:
/// as members of a degraded array they would be refused when the command is repeated. Returns the
/// drives that could not be erased.
async fn unmake(drives: &[NamedDrive], blank: &[bool], arrays: &[ArrayUuid]) -> Vec<PathBuf> {
    assert_eq!(drives.len(), blank.len(), "every drive was examined");
    let mut left = Vec::new();
    for (named, was_blank) in drives.iter().zip(blank) {
        let newest = membership_of(named).await.ok().flatten();
        if !was_blank && newest.is_none_or(|own| !arrays.contains(&own.config.array)) {
            continue;
        }
        let erased = match named.member.report().await {
            Ok(zones) => empty_drive(&named.member, &zones).await,
            Err(status) => Err(status),
        };
        if erased.is_err() {
            left.push(named.drive.path().to_owned());
        }
    }
    left
}

/// Drives per shard.
fn of_each_shard(drives: usize, shards: usize) -> Result<usize, CliError> {
    if drives.is_multiple_of(shards) {
        return Ok(drives / shards);
    }
    let problem = format!("{drives} drives cannot be divided evenly among {shards} shards");
    Err(usage("shards")(problem))
}

fn options(
    request: &Create,
    scheme: Scheme,
    shard: Shard,
    volume: ArrayUuid,
    drives: &[NamedDrive],
) -> Result<CreateOptions, CliError> {
    let geometry = drives[0].member.geometry();
    let (unit, appends) = (geometry.write_unit.0, geometry.append_limit.0 > 0);
    let members = drives.iter().map(|_| random_uuid().map(MemberUuid));
    Ok(CreateOptions {
        name: request.name.clone(),
        scheme,
        volume_blocks: match wanted_size(request)? {
            VolumeSize::Largest => None,
            VolumeSize::Blocks(blocks) => Some(shards::blocks_of_each(blocks, shard.of())),
        },
        chunk_blocks: request.chunk.unwrap_or(CHUNK_BLOCKS.next_multiple_of(unit)),
        group_rows: request.group_rows,
        tabled: request.mode.map_or(appends, |mode| mode == Mode::ZoneAppend),
        writethrough: match request.durability {
            Durability::Auto => None,
            Durability::Writethrough => Some(true),
            Durability::Writeback => Some(false),
        },
        array: shard.array(volume),
        members: members.collect::<Result<_, _>>()?,
        lineage: Lineage(random_number()?),
        shard,
        wipe: false,
    })
}

/// # Errors
/// If it cannot be the name of an array.
pub(super) fn check_name(name: &str) -> Result<(), CliError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let fits = !name.is_empty() && name.len() <= NAME_BYTES;
    if fits && name.chars().all(plain) && !name.starts_with(['.', '-']) {
        return Ok(());
    }
    Err(usage("<NAME>")(format!(
        "{name:?} cannot be a name: use 1 to {NAME_BYTES} of the characters a-z A-Z 0-9 . _ -, \
         not starting with . or -"
    )))
}

/// Numbers of data and parity chunks that were given.
type Parts = (Option<usize>, Option<usize>);

/// The scheme of a level on `drives` drives. Only `raid` is free to have the parts that are given;
/// those of other levels must agree.
pub(crate) fn scheme_of(level: Level, drives: usize, parts: Parts) -> Result<Scheme, CliError> {
    let (data, parity) = match level {
        Level::Raid0 => (drives, 0),
        Level::Raid1 => (1, at_least(drives, 2, "raid1")? - 1),
        Level::Raid4 => (at_least(drives, 3, "raid4")? - 1, 1),
        Level::Raid5 => (at_least(drives, 2, "raid5")? - 1, 1),
        Level::Raid6 => (at_least(drives, 3, "raid6")? - 2, 2),
        Level::Raid => match parts {
            (Some(data), Some(parity)) => (data, parity),
            (Some(data), None) if data < drives => (data, drives - data),
            (None, Some(parity)) if parity < drives => (drives - parity, parity),
            _ => return Err(usage("level")("raid needs --data K and --parity M".to_owned())),
        },
        Level::Raid01 => {
            let half = at_least(drives, 4, "raid01")? / 2;
            if drives % 2 == 1 {
                let message = format!("raid01 needs an even number of drives; {drives} were given");
                return Err(usage("level")(message));
            }
            (half, half)
        }
    };
    let agrees = |given: Option<usize>, own| given.is_none_or(|given| given == own);
    if !agrees(parts.0, data) || !agrees(parts.1, parity) {
        let level = level.to_possible_value();
        let level = level.as_ref().map_or("", |value| value.get_name());
        return Err(usage("data")(format!(
            "{level} on {drives} drives has {data} data and {parity} parity chunks: leave --data and \
             --parity out, or choose others with --level raid"
        )));
    }
    let arrangement = match level {
        Level::Raid01 => Arrangement::Mirrored,
        Level::Raid4 => Arrangement::Fixed,
        _ => Arrangement::Rotated,
    };
    arranged(arrangement, data, parity)
}

fn arranged(arrangement: Arrangement, data: usize, parity: usize) -> Result<Scheme, CliError> {
    Scheme::arranged(arrangement, data, parity).map_err(|error| usage("level")(error.to_string()))
}

fn at_least(drives: usize, needed: usize, level: &str) -> Result<usize, CliError> {
    if drives >= needed {
        return Ok(drives);
    }
    Err(usage("level")(format!("{level} needs at least {needed} drives; {drives} were given")))
}

/// The contents of drives that are not blank.
fn contents(session: &Session, drives: &[NamedDrive]) -> Result<Vec<Destroyed>, CliError> {
    let mut found = Vec::new();
    for named in drives {
        let holds = session.executor.run(holdings(named))?;
        found.extend(holds.map(|holds| Destroyed::new(named, &holds)));
    }
    Ok(found)
}

/// Which drives are blank; an error if others are not, unless the operator consents.
fn may_destroy(
    session: &Session,
    drives: &[NamedDrive],
    request: &Create,
    output: &Output,
) -> Result<Vec<bool>, CliError> {
    let mut in_use = Vec::new();
    let mut blank = Vec::new();
    for named in drives {
        let holds = session.executor.run(holdings(named))?;
        blank.push(holds.is_none());
        in_use.extend(holds.map(|holds| (named, holds)));
    }
    let consent = Consent { all: request.yes_destroy, named: &request.destroy };
    let refused = |(named, holds): &&(&NamedDrive, Holdings)| !consent.covers(named, holds);
    let Some((named, holds)) = in_use.iter().find(refused) else { return Ok(blank) };
    let needs_name = in_use.iter().filter(refused).find(|(_, holds)| holds.by_name);
    if let Some((named, holds)) = needs_name {
        return Err(not_empty(named, holds));
    }
    if !io::stdin().is_terminal() || output.json() {
        return Err(not_empty(named, holds));
    }
    for (named, holds) in &in_use {
        let (label, text) = (&named.label, &holds.text);
        output.warning(format_args!("{label} holds {text}, which will be destroyed"));
    }
    confirm(&request.name)?;
    Ok(blank)
}
