//! `zoneweave serve`: an array for clients, until SIGTERM or SIGINT.

mod engine;
mod fronts;
mod orders;
mod shards;

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::rc::Rc;

use clap::{Args, Subcommand};
use serde::Serialize;
use zoneweave_linux::Signals;
use zoneweave_raid::log::format::ArrayConfig;
use zoneweave_zoned::BlockDevice;

use crate::control::Servers;
use crate::error::CliError;
use crate::exit::Exit;
use crate::format::parse_bytes;
use crate::output::Output;
use crate::session::Session;
use crate::status::{VolumeStatus, render_volume};
use crate::wait::until;
use crate::writing::Writing;
use engine::Engine;
use fronts::{Places, endpoint, look, start_servers, stop_servers, unix_path};
pub(crate) use fronts::{identity, start_ublk, stop_ublk, uri};
use orders::orders;
use shards::Others;

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Serve an array over NBD
    Nbd(Nbd),
    /// Serve an array as a disk of this machine's kernel, /dev/ublkbN (as root; Linux 6.5 or newer with ublk_drv)
    Ublk(Ublk),
    /// Serve an array to a virtual machine as its virtio disk (vhost-user-blk of QEMU and others)
    VhostUser(VhostUser),
    /// Serve an array as a file, through FUSE: for `losetup`, where the kernel has neither nbd nor ublk
    Fuse(Fuse),
}

/// What to serve over NBD, and where.
#[derive(Args, Clone, Debug)]
pub(crate) struct Nbd {
    #[command(flatten)]
    pub array: Served,
    /// Where clients connect: unix:PATH, or tcp:HOST:PORT of this machine; may be repeated
    #[arg(long, value_name = "ADDRESS", required = true)]
    pub socket: Vec<String>,
    /// The name clients ask for; the array's name otherwise
    #[arg(long, value_name = "NAME")]
    pub export: Option<String>,
    /// Serve it as a disk of this machine's kernel, too: /dev/ublkbN, with a number that is free or with this one
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true)]
    pub ublk: Option<Option<u32>>,
}

/// What to serve as a disk.
#[derive(Args, Clone, Debug)]
pub(crate) struct Ublk {
    #[command(flatten)]
    array: Served,
    /// The N of /dev/ublkbN; without it that of the server before, if it was killed, or one that is free
    #[arg(long, value_name = "N")]
    number: Option<u32>,
}

/// What to serve to a virtual machine.
#[derive(Args, Clone, Debug)]
pub(crate) struct VhostUser {
    #[command(flatten)]
    array: Served,
    /// Where the virtual machine connects: unix:PATH
    #[arg(long, value_name = "ADDRESS")]
    socket: String,
}

/// What to serve as a file, and where.
#[derive(Args, Clone, Debug)]
pub(crate) struct Fuse {
    #[command(flatten)]
    array: Served,
    /// The file, an empty one; it is made if it is not there. Unmounting it ends the server
    #[arg(long, value_name = "FILE")]
    mountpoint: PathBuf,
}

/// An array to be served.
#[derive(Args, Clone, Debug)]
pub(crate) struct Served {
    /// The array's drives, in any order; those of all its shards, if the volume has several
    #[arg(value_name = "DRIVE", required = true)]
    pub drives: Vec<PathBuf>,
    /// Start with half of the drives or fewer, the others become strangers; or where parts are lost, and nothing tells which: older
    /// contents may be read in their place
    #[arg(long)]
    pub force: bool,
    /// Wait for slow drives, too, instead of rebuilding from the others what they are late with
    #[arg(long)]
    pub no_hedging: bool,
    /// Keep this drive ready: it takes the place of one that fails; may be repeated. Once it has, it is one of
    /// the array's drives, here too. Shards of a volume get them by turns
    #[arg(long, value_name = "DRIVE")]
    pub spare: Vec<PathBuf>,
    /// The most that a rebuild writes in a second, such as 200M; as much as the drive takes otherwise
    #[arg(long, value_name = "SIZE", value_parser = parse_rate)]
    pub rebuild_limit: Option<NonZeroU64>,
    /// Memory for the index of the volume, such as 256M; as much as it needs otherwise, 1 GiB for each TiB. What of it
    /// nobody asks for is on the drives then
    #[arg(long, value_name = "SIZE", value_parser = parse_index_memory)]
    pub index_memory: Option<u64>,
    /// Read all of the index before serving, 2 s and a quarter more memory for each TiB, not while serving
    #[arg(long)]
    pub whole_index: bool,
    #[command(flatten)]
    pub writing: Writing,
}

/// Printed when clients can connect.
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

fn serve(
    request: &Served,
    places: &Places,
    hints: &[String],
    output: &Output,
) -> Result<Exit, CliError> {
    let session = Session::new()?;
    // Before anything can start a thread, which would take signals the old way.
    let signals = Signals::new(&session.ring)
        .map_err(|error| CliError::System { action: "receive signals", error })?;
    let mut orders = orders(&session, request, output)?;
    places.check(&session)?;
    let first = orders.remove(0);
    let mut others = Others::start(orders, output)?;
    let own = first.output(output);
    let mut engine = Engine::start(&session, &first, &own).map_err(|error| first.failed(error))?;
    others.connect(&session)?;
    let device = others.volume(Rc::new(engine.volume().clone()));
    let (servers, exports) = start_fronts(&session, &engine.config, device, places, output)?;
    // Whatever ends it, nothing is left behind without a server.
    let served = engine.serve(&session, servers, exports).and_then(|status| {
        announce(&others.with_first(status), hints, output);
        // A file that nobody can reach any more is served no longer.
        let watching = async {
            until(engine.watch(&session, &own), engine.service.unmounted()).await;
            output.note("the file was unmounted");
        };
        let signal = session.executor.run(until(watching, signals.next())).transpose();
        signal.map_err(|error| CliError::System { action: "wait for a signal", error })
    });
    engine.tell_news(&own);
    output.note("stopping: finishing the requests under way");
    let closed = engine.close(&session, output);
    others.end()?;
    closed?;
    served?;
    output.note("stopped; everything acknowledged is on the drives");
    Ok(Exit::Done)
}

/// The least that a rebuild may be held to: a drive of a terabyte takes eleven days then.
const LEAST_RATE: u64 = 1 << 20;

fn parse_rate(text: &str) -> Result<NonZeroU64, String> {
    let bytes = parse_bytes(text)?;
    let slow =
        || format!("{bytes} bytes in a second would rebuild nothing for days: ask for 1M or more");
    NonZeroU64::new(bytes).filter(|bytes| bytes.get() >= LEAST_RATE).ok_or_else(slow)
}

/// Less than this is hardly meant: what a request needs of the index is read for it, and let go again.
const LEAST_INDEX_MEMORY: u64 = 64 << 10;

fn parse_index_memory(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text)?;
    let little =
        || format!("{bytes} bytes of the index are too little to work with: ask for 64K or more");
    (bytes >= LEAST_INDEX_MEMORY).then_some(bytes).ok_or_else(little)
}

/// Starts the front ends of a volume.
fn start_fronts(
    session: &Session,
    config: &ArrayConfig,
    device: Rc<dyn BlockDevice>,
    places: &Places,
    output: &Output,
) -> Result<(Servers, Vec<String>), CliError> {
    let (mut servers, mut exports) = (Servers::default(), Vec::new());
    let all = (&mut servers, &mut exports);
    if let Err(error) = start_servers(session, config, device, places, all, output) {
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
