//! `zoneweave serve`: an array for clients, until SIGTERM or SIGINT.

mod fronts;

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::rc::Rc;

use clap::{Args, Subcommand};
use serde::Serialize;
use zoneweave_linux::{Drive, Signals};
use zoneweave_raid::log::{Hedging, OpenOptions};
use zoneweave_runtime::Nanos;

use crate::commands::array::create::holdings;
use crate::control::{ControlServer, Servers, Service};
use crate::error::{CliError, Exit};
use crate::format::parse_bytes;
use crate::output::Output;
use crate::session::{NamedDrive, Session};
use crate::start::{Started, start};
use crate::status::{ArrayStatus, render};
use crate::wait::until;
use crate::writing::{Writing, with_spares};
use fronts::{Places, endpoint, look, start_servers, stop_servers, unix_path};
pub(crate) use fronts::{identity, start_ublk, stop_ublk};

/// How often a server looks after itself.
const WATCH_PERIOD: Nanos = Nanos::from_secs(1);

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
    /// The file; it is made if it is not there. Unmounting it ends the server
    #[arg(long, value_name = "FILE")]
    mountpoint: PathBuf,
}

/// An array to be served.
#[derive(Args, Clone, Debug)]
pub(crate) struct Served {
    /// The array's drives, in any order
    #[arg(value_name = "DRIVE", required = true)]
    pub drives: Vec<PathBuf>,
    /// Start with half of the drives or fewer; the others become strangers
    #[arg(long)]
    pub force: bool,
    /// Wait for slow drives, too, instead of rebuilding from the others what they are late with
    #[arg(long)]
    pub no_hedging: bool,
    /// Keep this drive ready: it takes the place of one that fails; may be repeated. Once it has, it is one of
    /// the array's drives, here too
    #[arg(long, value_name = "DRIVE")]
    pub spare: Vec<PathBuf>,
    /// The most that a rebuild writes in a second, such as 200M; as much as the drive takes otherwise
    #[arg(long, value_name = "SIZE", value_parser = parse_rate)]
    pub rebuild_limit: Option<NonZeroU64>,
    /// Memory for the index of the volume, such as 256M; as much as it needs otherwise, 1 GiB for each TiB. What of it
    /// nobody asks for is on the drives then
    #[arg(long, value_name = "SIZE", value_parser = parse_index_memory)]
    pub index_memory: Option<u64>,
    #[command(flatten)]
    pub writing: Writing,
}

/// Printed when clients can connect.
#[derive(Serialize)]
struct Serving<'a> {
    uris: &'a [String],
    status: &'a ArrayStatus,
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
    let choice = request.writing.choice()?;
    let (members, spares) = sort_spares(&session, &request.spare)?;
    let options = OpenOptions {
        force: request.force,
        writes: with_spares(choice, spares.iter().map(|spare| spare.member.geometry())),
        index_memory: request.index_memory,
        hedging: if request.no_hedging { Hedging::OFF } else { Hedging::default() },
        ..OpenOptions::default()
    };
    let drives: Vec<_> = request.drives.iter().chain(&members).cloned().collect();
    let started = start(&session, &drives, options, output)?;
    started.volume.limit_rebuild(request.rebuild_limit);
    let (service, control) = put_in_service(&session, started, places, output)?;
    // Before the status is told, which then tells of it.
    session.handle.spawn("resume rebuild", service.clone().resume());
    // Whatever ends it, nothing is left behind without a server.
    let served =
        spares.into_iter().try_for_each(|spare| service.keep_spare(spare)).and_then(|()| {
            let status = session.executor.run(service.status());
            announce(&status, hints, output);
            // A file that nobody can reach any more is served no longer.
            let watching = async {
                until(watch(&session, &service, output), service.unmounted()).await;
                output.note("the file was unmounted");
            };
            let signal = session.executor.run(until(watching, signals.next())).transpose();
            signal.map_err(|error| CliError::System { action: "wait for a signal", error })
        });
    tell_news(&service, output);
    output.note("stopping: finishing the requests under way");
    control.close();
    session.executor.run(async {
        stop_servers(service.release(), output).await;
        service.volume().close().await
    })?;
    served?;
    output.note("stopped; everything acknowledged is on the drives");
    Ok(Exit::Done)
}

/// Tells spares that are blank from those that became members while an earlier server ran.
fn sort_spares(
    session: &Session,
    paths: &[PathBuf],
) -> Result<(Vec<PathBuf>, Vec<NamedDrive>), CliError> {
    let (mut members, mut spares) = (Vec::new(), Vec::new());
    for path in paths {
        let drive = Drive::open(&session.ring, &session.handle, path)?;
        let named = NamedDrive::new(path.display().to_string(), drive, &session.handle);
        match session.executor.run(holdings(&named))? {
            Some(_) => members.push(path.clone()),
            None => spares.push(named),
        }
    }
    Ok((members, spares))
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

/// Looks after the array, and tells what happens to it.
async fn watch(session: &Session, service: &Rc<Service>, output: &Output) {
    loop {
        tell_news(service, output);
        session.handle.sleep(WATCH_PERIOD).await;
    }
}

fn tell_news(service: &Rc<Service>, output: &Output) {
    for news in service.look_around() {
        output.news(news);
    }
}

/// Starts the front ends and the control socket.
fn put_in_service(
    session: &Session,
    started: Started,
    places: &Places,
    output: &Output,
) -> Result<(Rc<Service>, ControlServer), CliError> {
    let Started { volume, config, slots, others, .. } = started;
    let (ring, handle) = (&session.ring, &session.handle);
    let service = Service::new(ring, handle, config.clone(), volume.clone(), slots, others);
    let service = Rc::new(service);
    // First, because it tells whether another server has this array.
    let control = ControlServer::start(ring, handle, config.array, service.clone())?;
    let (mut servers, mut exports) = (Servers::default(), Vec::new());
    let all = (&mut servers, &mut exports);
    if let Err(error) = start_servers(session, &config, &volume, places, all, output) {
        // Leaves no socket and no disk behind.
        session.executor.run(stop_servers(servers, output));
        return Err(error);
    }
    service.adopt(servers, exports);
    Ok((service, control))
}

fn announce(status: &ArrayStatus, hints: &[String], output: &Output) {
    let uris = status.server.as_ref().map(|server| server.exports.clone()).unwrap_or_default();
    output.result("serving", &Serving { uris: &uris, status }, |output| {
        render(status, output);
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
