//! `zoneweave serve`: serves a volume to clients, until SIGTERM, SIGINT or SIGHUP.

mod descriptors;
mod engine;
mod fronts;
mod gather;
mod nvme_tcp;
mod orders;
mod place;
mod shards;
mod stop;
mod store;
mod zoned;

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Serialize;
use zoneweave_linux::Signals;
use zoneweave_raid::log::format::ArrayConfig;
use zoneweave_raid::shards::volume_blocks;
use zoneweave_zoned::BlockDevice;

use crate::control::Servers;
use crate::error::CliError;
use crate::exit::Exit;
use crate::format::{parse_bytes, parse_time};
use crate::output::Output;
use crate::session::Session;
use crate::start::Unusable;
use crate::status::{VolumeStatus, render_volume};
use crate::wait::until;
use crate::writing::Writing;
use crate::zoned::find;
use engine::{Engine, Prepared};
use fronts::{Fronts, Places, endpoint, look, start_servers, stop_servers, unix_path};
pub(crate) use fronts::{identity, start_ublk, stop_ublk, uri};
use gather::gather;
use orders::orders;
pub(crate) use place::StorePlace;
use shards::Others;
use stop::{Stop, end_if_stopped};
pub(crate) use store::tell_report;
pub(crate) use zoned::ZonedStart;

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Serve a volume over NBD
    Nbd(Nbd),
    /// Serve a volume as the kernel disk /dev/ublkbN (needs root, Linux 6.5+ and ublk_drv); a zoned
    /// volume as a zoned disk (Linux 6.6+)
    Ublk(Ublk),
    /// Serve a volume to a virtual machine as a virtio disk (vhost-user-blk, e.g. of QEMU)
    VhostUser(VhostUser),
    /// Serve a volume over NVMe/TCP, to hosts that connect with `nvme connect`
    NvmeTcp(nvme_tcp::NvmeTcp),
    /// Serve a volume as a file through FUSE, e.g. for `losetup` on kernels without nbd and ublk
    Fuse(Fuse),
    /// Serve a zoned volume to `zoneweave zoned`, and as a zoned kernel disk (--ublk)
    Zoned(zoned::Zoned),
}

/// A volume to serve over NBD.
#[derive(Args, Clone, Debug)]
pub(crate) struct Nbd {
    #[command(flatten)]
    pub array: Served,
    /// Address to listen on: unix:PATH, or tcp:HOST:PORT of this machine (may be repeated)
    #[arg(long, value_name = "ADDRESS", required = true)]
    pub socket: Vec<String>,
    /// Export name [default: the name of the array]
    #[arg(long, value_name = "NAME")]
    pub export: Option<String>,
    /// Also serve the volume as the kernel disk /dev/ublkbN [default N: the first free number]
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true)]
    pub ublk: Option<Option<u32>>,
}

/// A volume to serve as a kernel disk.
#[derive(Args, Clone, Debug)]
pub(crate) struct Ublk {
    #[command(flatten)]
    array: Served,
    /// N of /dev/ublkbN [default: the disk of a killed server of this array, or the first free
    /// number]
    #[arg(long, value_name = "N")]
    number: Option<u32>,
}

/// A volume to serve to a virtual machine.
#[derive(Args, Clone, Debug)]
pub(crate) struct VhostUser {
    #[command(flatten)]
    array: Served,
    /// Address to listen on: unix:PATH
    #[arg(long, value_name = "ADDRESS")]
    socket: String,
}

/// A volume to serve as a file.
#[derive(Args, Clone, Debug)]
pub(crate) struct Fuse {
    #[command(flatten)]
    array: Served,
    /// Empty file to mount the volume on (created if missing); unmounting it stops the server
    #[arg(long, value_name = "FILE")]
    mountpoint: PathBuf,
}

/// The array to serve, and how.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Served {
    /// Drives of the array, or of all shards of a volume, in any order
    #[arg(value_name = "DRIVE", required = true)]
    pub drives: Vec<PathBuf>,
    /// Start without this drive: the first write takes it out of service. `any`: without all drives
    /// that cannot be opened. By default one such drive refuses the start
    #[arg(long, value_name = "DRIVE|any")]
    pub without: Vec<PathBuf>,
    /// Wait this long for drives that do not exist yet, e.g. 30s at boot. Members that were not
    /// given are looked for beside the others [default: 0]
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "0s", hide_default_value = true)]
    pub wait: Duration,
    /// Start without a majority of the drives (re-add the missing ones with `array replace`), or
    /// although unidentifiable blocks are lost (they may read as older data)
    #[arg(long)]
    pub force: bool,
    /// Wait for slow drives instead of reconstructing their late reads from the other drives
    #[arg(long)]
    pub no_hedging: bool,
    /// Hot spare: replaces a drive that fails (may be repeated). A spare that has become a member
    /// may still be given here. Shards get spares in turn
    #[arg(long, value_name = "DRIVE")]
    pub spare: Vec<PathBuf>,
    /// Limit the write rate of a rebuild, in bytes per second, e.g. 200M (at least 1M)
    /// [default: unlimited]
    #[arg(long, value_name = "SIZE", value_parser = parse_rate)]
    pub rebuild_limit: Option<NonZeroU64>,
    /// Limit the in-memory index, e.g. 256M (at least 64K per shard) [default: unlimited, about
    /// 1 GiB per TiB]. Least recently used pages are kept on the drives
    #[arg(long, value_name = "SIZE", value_parser = parse_index_memory)]
    pub index_memory: Option<u64>,
    /// Load the whole index before serving, not in the background (about 2 s per TiB, and a
    /// quarter more memory)
    #[arg(long)]
    pub whole_index: bool,
    #[command(flatten)]
    pub writing: Writing,
}

impl Served {
    /// Treatment of drives that cannot be opened.
    fn unusable(&self) -> Unusable {
        match self.without.iter().any(|path| path == Path::new("any")) {
            true => Unusable::LeaveOut,
            false => Unusable::Refuse,
        }
    }
}

/// The document printed once clients can connect.
#[derive(Serialize)]
struct Serving<'a> {
    uris: &'a [String],
    status: &'a VolumeStatus,
}

pub(crate) fn run(verb: Verb, output: &Output) -> Result<Exit, CliError> {
    match verb {
        Verb::Nbd(request) => serve_nbd(&request, &[], output),
        Verb::Ublk(Ublk { array, number }) => {
            let places = Places { ublk: Some(number), ..Places::default() };
            serve(&array, &places, &[], output)
        }
        Verb::VhostUser(VhostUser { array, socket }) => {
            let vhost_user = Some(unix_path(&socket)?);
            serve(&array, &Places { vhost_user, ..Places::default() }, &[], output)
        }
        Verb::NvmeTcp(request) => {
            let nvme_tcp = Some(request.subsystem()?);
            serve(&request.array, &Places { nvme_tcp, ..Places::default() }, &[], output)
        }
        Verb::Zoned(request) => {
            let places = Places { ublk: request.ublk, ..Places::default() };
            serve(&request.array(), &places, &[], output)
        }
        Verb::Fuse(Fuse { array, mountpoint }) => {
            let places = Places { fuse: Some(mountpoint), ..Places::default() };
            serve(&array, &places, &[], output)
        }
    }
}

/// Serves over NBD until a signal; prints `hints` when clients can connect.
pub(crate) fn serve_nbd(
    request: &Nbd,
    hints: &[String],
    output: &Output,
) -> Result<Exit, CliError> {
    let endpoints =
        request.socket.iter().map(|address| endpoint(address)).collect::<Result<Vec<_>, _>>()?;
    let export = request.export.clone();
    let places = Places { endpoints, export, ublk: request.ublk, ..Places::default() };
    serve(&request.array, &places, hints, output)
}

/// Serves the file store of drives until a signal.
pub(crate) fn serve_store(
    request: &Served,
    place: StorePlace,
    output: &Output,
) -> Result<Exit, CliError> {
    serve(request, &Places { store: Some(place), ..Places::default() }, &[], output)
}

fn serve(
    request: &Served,
    places: &Places,
    hints: &[String],
    output: &Output,
) -> Result<Exit, CliError> {
    let session = Session::new()?;
    // Before any thread starts: a thread started earlier would still take the signals.
    let signals = Signals::new(&session.ring)
        .map_err(|error| CliError::System { action: "receive signals", error })?;
    let stop = Stop { session: &session, signals: &signals };
    let started = start(&stop, request, places, output);
    let started = started.inspect_err(|error| {
        if let CliError::Stopped { .. } = error {
            output.note(error);
        }
        end_if_stopped(error);
    });
    signals.serving();
    let Running { mut engine, others, servers, exports, own } = match started? {
        Started::Blocks(running) => *running,
        Started::Zones(running) => return running.serve(&session, &signals, output),
        Started::Store(running) => return running.serve(&session, &signals, output),
    };
    // However serving ends, the front ends are shut down.
    let served = engine.serve(&session, servers, exports).and_then(|status| {
        announce(&others.with_first(status), hints, output);
        // Unmounting the file ends the server.
        let watching = async {
            until(engine.watch(&session, &own), engine.service.unmounted()).await;
            output.note("the file was unmounted");
        };
        let signal = session.executor.run(until(watching, signals.next())).transpose();
        signal.map_err(|error| CliError::System { action: "wait for a signal", error })
    });
    signals.stopping();
    engine.tell_news(&own);
    output.note("stopping: finishing requests in flight");
    let closed = engine.close(&session, output);
    others.end()?;
    closed?;
    served?;
    output.note("stopped; all acknowledged writes are on the drives");
    Ok(Exit::Done)
}

/// A volume in service.
enum Started {
    Blocks(Box<Running>),
    Zones(zoned::Running),
    Store(store::Running),
}

/// A block volume whose front ends answer.
struct Running {
    engine: Engine,
    others: Others,
    servers: Servers,
    exports: Vec<String>,
    /// Output of the first shard.
    own: Output,
}

/// Starts a volume: first everything is opened that can fail, then the arrays start, then clients
/// are answered. Until the arrays start, nothing is written.
fn start(
    stop: &Stop<'_>,
    request: &Served,
    places: &Places,
    output: &Output,
) -> Result<Started, CliError> {
    descriptors::raise_limit();
    let session = stop.session;
    let drives = gather(stop, request, output)?;
    if find(session, &drives)?.is_some() {
        return zoned::start(stop, request, places, &drives, output).map(Started::Zones);
    }
    if let Some(place) = &places.store {
        return store::start(stop, (request, place), &drives, output).map(Started::Store);
    }
    if places.are_none() {
        return Err(CliError::NotZoned);
    }
    let mut orders = orders(session, request, &drives, output).map_err(few_descriptors)?;
    assert!(!orders.is_empty(), "a volume has an array");
    let first = orders.remove(0);
    let own = first.output(output);
    let mut others = Others::prepare(orders, output)?;
    let prepared = Prepared::new(session, &first, &own)
        .map_err(|error| first.failed(few_descriptors(error)))?;
    let config = prepared.config();
    let configs = others.prepared(stop).map_err(few_descriptors)?;
    let least = configs.iter().chain([config]).map(|config| config.log().volume_blocks).min();
    let blocks = volume_blocks(least.unwrap_or(0), configs.len() + 1);
    assert!(blocks > 0, "a volume has blocks");
    let fronts = places.open(stop, config, blocks).map_err(few_descriptors)?;
    descriptors::check()?;
    stop.check()?;
    others.go();
    let engine = prepared.assemble(session, stop.wait(), &own);
    let engine = engine.map_err(|error| first.failed(error))?;
    others.connect(session, stop)?;
    let device = others.volume(Rc::new(engine.volume().clone()));
    let (servers, exports) = start_fronts(session, &engine.config, device, fronts, output)?;
    Ok(Started::Blocks(Box::new(Running { engine, others, servers, exports, own })))
}

/// Where descriptors have run out, that is the error to report.
fn few_descriptors(error: CliError) -> CliError {
    if matches!(error, CliError::Stopped { .. }) {
        return error;
    }
    descriptors::check().err().unwrap_or(error)
}

/// The lowest rebuild rate, in bytes per second: 1 TB takes eleven days at it.
const LEAST_RATE: u64 = 1 << 20;

fn parse_rate(text: &str) -> Result<NonZeroU64, String> {
    let bytes = parse_bytes(text)?;
    let slow = || format!("{bytes} bytes per second is too slow for a rebuild: use 1M or more");
    NonZeroU64::new(bytes).filter(|bytes| bytes.get() >= LEAST_RATE).ok_or_else(slow)
}

/// The lowest index memory, in bytes: with less, every request would read its page again.
const LEAST_INDEX_MEMORY: u64 = 64 << 10;

fn parse_index_memory(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text)?;
    let little = || format!("{bytes} bytes of index memory is too little: use 64K or more");
    (bytes >= LEAST_INDEX_MEMORY).then_some(bytes).ok_or_else(little)
}

/// Starts the front ends of a volume.
fn start_fronts(
    session: &Session,
    config: &ArrayConfig,
    device: Rc<dyn BlockDevice>,
    fronts: Fronts<'_>,
    output: &Output,
) -> Result<(Servers, Vec<String>), CliError> {
    let (mut servers, mut exports) = (Servers::default(), Vec::new());
    let all = (&mut servers, &mut exports);
    if let Err(error) = start_servers(session, config, device, fronts, all, output) {
        // Leaves no socket and no disk behind.
        session.executor.run(stop_servers(servers, output));
        return Err(error);
    }
    Ok((servers, exports))
}

fn announce(status: &VolumeStatus, hints: &[String], output: &Output) {
    let server = status.arrays().first().and_then(|first| first.server.as_ref());
    let uris = server.map(|server| server.exports.clone()).unwrap_or_default();
    output.result("serving", &Serving { uris: &uris, status }, |output| {
        render_volume(status, output);
        output.line("");
        for hint in hints {
            output.line(hint);
        }
        for uri in &uris {
            output.line(look(uri));
        }
        output.line("ready; stop with Ctrl-C");
    });
}
