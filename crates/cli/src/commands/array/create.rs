//! `zoneweave array create`.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Serialize;
use zoneweave_raid::log::create::{NAME_BYTES, plan};
use zoneweave_raid::log::format::{ArrayConfig, ArrayUuid, MemberUuid};
use zoneweave_raid::log::{CreateError, CreateOptions, create};
use zoneweave_raid::scheme::{Arrangement, Scheme};
use zoneweave_raid::shards::{self, Shard};
use zoneweave_zoned::BLOCK_BYTES;

use crate::drives::consent::{Consent, Holdings, holdings, not_empty};
use crate::error::{CliError, usage};
use crate::exit::Exit;
use crate::format::{self, VolumeSize};
use crate::output::Output;
use crate::session::{
    Access, NamedDrive, Session, offer, random_number, random_uuid, refuse_worse_way,
};
use crate::status::ShardStatus;

/// Blocks of a chunk, unless another size is chosen.
pub(crate) const CHUNK_BLOCKS: u32 = 4;

/// Rows of a group, unless another number is chosen: a table entry of one byte each.
pub(crate) const GROUP_ROWS: u32 = 256;

/// The array to create.
#[derive(Args, Clone, Debug)]
pub(crate) struct Create {
    /// Name of the array: letters, digits and . _ -
    pub name: String,
    /// Drives of the array; slots are numbered from 0 in this order
    #[arg(value_name = "DRIVE", required = true)]
    pub drives: Vec<PathBuf>,
    /// RAID level
    #[arg(long, value_enum, default_value_t = Level::Raid5)]
    pub level: Level,
    /// Data chunks per stripe (only with --level raid)
    #[arg(long, value_name = "K")]
    pub data: Option<usize>,
    /// Parity chunks per stripe, the number of drives that may fail (only with --level raid)
    #[arg(long, value_name = "M")]
    pub parity: Option<usize>,
    /// Size of the volume, e.g. 2GiB, or max
    #[arg(long, value_name = "SIZE", value_parser = format::parse_volume_size)]
    pub size: VolumeSize,
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
    chunk_bytes: u64,
    group_rows: u32,
    mode: &'static str,
    drives: Vec<PathBuf>,
}

pub(crate) fn run(request: &Create, output: &Output) -> Result<Exit, CliError> {
    let configs = make(request, output)?;
    let config = &configs[0];
    let shards = configs.len();
    let created = Created {
        name: config.name.clone(),
        array: config.array.to_string(),
        scheme: config.scheme.to_string(),
        shards: (shards > 1).then_some(shards),
        size_bytes: volume_blocks(&configs) * BLOCK_BYTES as u64,
        chunk_bytes: u64::from(config.log().chunk_blocks) * BLOCK_BYTES as u64,
        group_rows: config.log().group_rows,
        mode: if config.log().tabled { "zone-append" } else { "zone-write" },
        drives: request.drives.clone(),
    };
    output.result("array-create", &created, |output| {
        let times = created.shards.map(|shards| format!("{shards} x ")).unwrap_or_default();
        output.line(format_args!(
            "{}  {times}{} · {} · {} chunks · {}",
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

/// Creates the array, or one array per shard.
pub(crate) fn make(request: &Create, output: &Output) -> Result<Vec<ArrayConfig>, CliError> {
    check_name(&request.name)?;
    let general = request.data.is_some() || request.parity.is_some();
    if general && request.level != Level::Raid {
        return Err(usage("data")("--data and --parity need --level raid".to_owned()));
    }
    let of_each = of_each_shard(request.drives.len(), request.shards.into())?;
    let scheme = scheme_of(request.level, of_each, request.data.zip(request.parity))?;
    let session = Session::new()?;
    let drives = session.open_all(&request.drives, Access::Exclusive)?;
    let worse = |named| refuse_worse_way(named, &session.ring, &session.handle);
    drives.iter().try_for_each(worse)?;
    let volume = ArrayUuid(random_uuid()?);
    let mut all = Vec::new();
    for (number, drives) in drives.chunks(of_each).enumerate() {
        let shard = Shard::new(number, request.shards.into()).expect("one of so many");
        let options = options(request, scheme, shard, volume, drives)?;
        // Report every error before the operator is asked to give up data.
        let planned = plan(&offer(drives), &options);
        planned.map_err(|error| CliError::from(error).of(ShardStatus::of(shard)))?;
        all.push((options, drives));
    }
    let wipe = may_destroy(&session, &drives, request, output)?;
    let mut made = Vec::new();
    for (options, drives) in all {
        let (shard, options) = (options.shard, CreateOptions { wipe, ..options });
        let config = session.executor.run(create(&offer(drives), &options));
        made.push(config.map_err(|error| of_shard(shard, error))?);
    }
    Ok(made)
}

/// An error of an array or shard. Earlier shards have been created.
fn of_shard(shard: Shard, error: CreateError) -> CliError {
    match ShardStatus::of(shard) {
        Some(shard) if shard.number > 0 => CliError::HalfMade { shard, error },
        first => CliError::from(error).of(first),
    }
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
        volume_blocks: match request.size {
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
        lineage: random_number()?,
        shard,
        wipe: false,
    })
}

fn check_name(name: &str) -> Result<(), CliError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let fits = !name.is_empty() && name.len() <= NAME_BYTES;
    if fits && name.chars().all(plain) && !name.starts_with(['.', '-']) {
        return Ok(());
    }
    Err(usage("<NAME>")(format!(
        "{name:?} (the first argument) cannot be a name: use 1 to {NAME_BYTES} of the characters a-z A-Z 0-9 . _ -, \
         not starting with . or -"
    )))
}

/// The scheme of a level on `drives` drives. Only `raid` uses `parts`, data and parity chunks.
pub(crate) fn scheme_of(
    level: Level,
    drives: usize,
    parts: Option<(usize, usize)>,
) -> Result<Scheme, CliError> {
    let (data, parity) = match level {
        Level::Raid0 => (drives, 0),
        Level::Raid1 => (1, at_least(drives, 2, "raid1")? - 1),
        Level::Raid4 => {
            let data = at_least(drives, 3, "raid4")? - 1;
            return arranged(Arrangement::Fixed, data, 1);
        }
        Level::Raid5 => (at_least(drives, 2, "raid5")? - 1, 1),
        Level::Raid6 => (at_least(drives, 3, "raid6")? - 2, 2),
        Level::Raid => match parts {
            Some(parts) => parts,
            None => return Err(usage("level")("raid needs --data K and --parity M".to_owned())),
        },
        Level::Raid01 => {
            let half = at_least(drives, 4, "raid01")? / 2;
            if drives % 2 == 1 {
                let message = format!("raid01 needs an even number of drives; {drives} were given");
                return Err(usage("level")(message));
            }
            return arranged(Arrangement::Mirrored, half, half);
        }
    };
    arranged(Arrangement::Rotated, data, parity)
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

/// Whether drives must be wiped; an error unless the operator consents.
fn may_destroy(
    session: &Session,
    drives: &[NamedDrive],
    request: &Create,
    output: &Output,
) -> Result<bool, CliError> {
    let mut in_use = Vec::new();
    for named in drives {
        if let Some(holds) = session.executor.run(holdings(named))? {
            in_use.push((named, holds));
        }
    }
    let consent = Consent { all: request.yes_destroy, named: &request.destroy };
    let refused = |(named, holds): &&(&NamedDrive, Holdings)| !consent.covers(named, holds);
    let Some((named, holds)) = in_use.iter().find(refused) else { return Ok(!in_use.is_empty()) };
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
    Ok(true)
}

/// Asks the operator to retype the name.
fn confirm(name: &str) -> Result<(), CliError> {
    let failed = |error| CliError::System { action: "read the confirmation", error };
    let mut stderr = io::stderr().lock();
    write!(stderr, "type {name} to continue: ").and_then(|()| stderr.flush()).map_err(failed)?;
    let mut typed = String::new();
    io::stdin().lock().read_line(&mut typed).map_err(failed)?;
    if typed.trim() == name {
        Ok(())
    } else {
        Err(CliError::NotConfirmed { name: name.to_owned() })
    }
}
