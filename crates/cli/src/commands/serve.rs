//! `zoneweave serve`: an array for clients, until SIGTERM or SIGINT.

use std::net::ToSocketAddrs;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::rc::Rc;

use clap::{Args, Subcommand};
use serde::Serialize;
use zoneweave_linux::nbd_server::{Endpoint, NbdExport, NbdLimits, NbdServer};
use zoneweave_linux::ublk::{UblkDisk, UblkOptions, UblkServer};
use zoneweave_linux::{Drive, Signals};
use zoneweave_raid::log::{Hedging, OpenOptions};
use zoneweave_runtime::Nanos;
use zoneweave_zoned::{BLOCK_BYTES, ZonedDevice};

use crate::commands::array::create::holdings;
use crate::control::{ControlServer, Service};
use crate::error::{CliError, Exit};
use crate::format::{parse_bytes, usage};
use crate::output::Output;
use crate::session::{NamedDrive, Session};
use crate::start::{Started, start};
use crate::status::{ArrayStatus, render};
use crate::wait::until;
use crate::writing::{Writing, with_spares};

/// How often a server looks after itself.
const WATCH_PERIOD: Nanos = Nanos::from_secs(1);

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Serve an array over NBD
    Nbd(Nbd),
    /// Serve an array as a disk of this machine's kernel, /dev/ublkbN (as root; Linux 6.5 or newer with ublk_drv)
    Ublk(Ublk),
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
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
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

/// Where it is served.
struct Places {
    /// For NBD, which needs one at least.
    endpoints: Vec<Endpoint>,
    /// The name of the NBD export.
    export: Option<String>,
    /// As a disk, perhaps with a number.
    ublk: Option<Option<u32>>,
}

pub(crate) fn run(verb: Verb, output: &Output) -> Result<Exit, CliError> {
    match verb {
        Verb::Nbd(request) => serve_nbd(&request, &[], output),
        Verb::Ublk(Ublk { array, number }) => {
            let places = Places { endpoints: Vec::new(), export: None, ublk: Some(number) };
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
    let places = Places { endpoints, export: request.export.clone(), ublk: request.ublk };
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
        writes: with_spares(choice, spares.iter().map(|spare| spare.drive.geometry())),
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
            let watching = watch(&session, &service, output);
            let signal = session.executor.run(until(watching, signals.next())).transpose();
            signal.map_err(|error| CliError::System { action: "wait for a signal", error })
        });
    tell_news(&service, output);
    output.note("stopping: finishing the requests under way");
    control.close();
    session.executor.run(async {
        let (nbd, ublk) = service.release();
        if let Some(server) = ublk {
            stop_ublk(server, output).await;
        }
        if let Some(server) = nbd {
            server.shutdown().await;
        }
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
        let label = path.display().to_string();
        let named = NamedDrive { label, drive: Rc::new(drive) };
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
    let array = config.array;
    let name = places.export.clone().unwrap_or_else(|| config.name.clone());
    let export = NbdExport {
        name: name.clone(),
        description: format!("{} {}", config.name, config.scheme),
        device: Rc::new(volume.clone()),
    };
    let chunk_bytes = u64::from(config.chunk_blocks) * BLOCK_BYTES as u64;
    let options = UblkOptions {
        number: None,
        identity: identity(array.0),
        optimal_bytes: chunk_bytes * config.scheme.data() as u64,
    };
    let (ring, handle) = (&session.ring, &session.handle);
    let service = Service::new(ring, handle, config, volume.clone(), slots, others);
    let service = Rc::new(service);
    // First, because it tells whether another server has this array.
    let control = ControlServer::start(ring, handle, array, service.clone())?;
    let mut uris = Vec::new();
    let mut nbd = None;
    if !places.endpoints.is_empty() {
        let limits = NbdLimits::default();
        let server = NbdServer::start(ring, handle, vec![export], &places.endpoints, limits)?;
        uris.extend(server.endpoints().iter().map(|endpoint| uri(endpoint, &name)));
        nbd = Some(server);
    }
    let mut ublk = None;
    if let Some(number) = places.ublk {
        let disk = UblkDisk::Block(Rc::new(volume));
        match start_ublk(session, disk, UblkOptions { number, ..options }, output) {
            Ok(server) => {
                uris.push(server.path().display().to_string());
                ublk = Some(server);
            }
            Err(error) => {
                // Leaves no socket behind.
                if let Some(server) = nbd {
                    session.executor.run(server.shutdown());
                }
                return Err(error);
            }
        }
    }
    service.adopt(nbd, ublk, uris);
    Ok((service, control))
}

/// Makes a disk of the kernel.
pub(crate) fn start_ublk(
    session: &Session,
    disk: UblkDisk,
    options: UblkOptions,
    output: &Output,
) -> Result<UblkServer, CliError> {
    let starting = UblkServer::start(&session.ring, &session.handle, disk, options);
    let server = session.executor.run(starting)?;
    if server.was_taken_over() {
        let path = server.path();
        output.note(format_args!("{} goes on where the last server left it", path.display()));
    }
    Ok(server)
}

/// Takes a disk of the kernel away, or tells why it stays.
pub(crate) async fn stop_ublk(server: UblkServer, output: &Output) {
    let path = server.path();
    if !server.shutdown().await {
        let path = path.display();
        output
            .warning(format_args!("{path} is still in use, and only gives errors now: unmount it"));
    }
}

/// What the kernel keeps of a UUID, so that only the same array or drive takes a disk over.
pub(crate) fn identity(uuid: [u8; 16]) -> u64 {
    let half = |at: usize| {
        uuid[at..at + 8].iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
    };
    half(0) ^ half(8)
}

/// Where a client finds the export.
fn uri(endpoint: &Endpoint, name: &str) -> String {
    match endpoint {
        Endpoint::Unix(path) => {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            format!("nbd+unix:///{}?socket={}", escaped(name), path.display())
        }
        Endpoint::Tcp(address) => format!("nbd://{address}/{}", escaped(name)),
    }
}

/// Percent-encodes what has a meaning in a URI.
fn escaped(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let escape = |byte: u8| {
        if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    name.bytes().map(escape).collect()
}

/// The address in words such as `unix:/run/vol0.sock` or `tcp:127.0.0.1:10809`.
fn endpoint(address: &str) -> Result<Endpoint, CliError> {
    let wrong = |problem: String| usage("socket")(problem);
    if let Some(path) = address.strip_prefix("unix:").filter(|path| !path.is_empty()) {
        let path = PathBuf::from(path);
        // A mistyped path must not leave directories behind.
        return match path.parent() {
            Some(directory) if !directory.as_os_str().is_empty() && !directory.is_dir() => {
                let directory = directory.display();
                Err(wrong(format!("there is no directory {directory}: make it, or check the path")))
            }
            _ => Ok(Endpoint::Unix(path)),
        };
    }
    let Some(place) = address.strip_prefix("tcp:") else {
        let problem = format!("{address:?} must be unix:PATH or tcp:HOST:PORT");
        return Err(wrong(problem));
    };
    let mut found = place
        .to_socket_addrs()
        .map_err(|error| wrong(format!("{place:?} is no HOST:PORT: {error}")))?;
    found.next().map(Endpoint::Tcp).ok_or_else(|| wrong(format!("{place:?} has no address")))
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
            let look = if uri.starts_with('/') { "lsblk" } else { "nbdinfo" };
            output.line(format_args!("{look} '{uri}'"));
        }
        output.line("ready; stop with Ctrl-C");
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_say_what_they_are() {
        assert_eq!(endpoint("unix:/a b").unwrap(), Endpoint::Unix("/a b".into()));
        assert!(matches!(endpoint("tcp:127.0.0.1:0"), Ok(Endpoint::Tcp(_))));
        for wrong in
            ["/a/b", "unix:", "unix:/no-such/directory/x", "tcp:nowhere", "tcp:", "udp:1:2"]
        {
            assert_eq!(endpoint(wrong).unwrap_err().exit(), Exit::Usage, "{wrong}");
        }
    }

    #[test]
    fn what_the_kernel_keeps_of_a_uuid_tells_them_apart() {
        let uuid = *b"0123456789abcdef";
        let other = *b"0123456789abcdeg";
        assert_eq!(identity(uuid), identity(uuid));
        assert_ne!(identity(uuid), identity(other));
        assert_eq!(identity([0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 1, 0]), 0x105);
    }

    #[test]
    fn names_are_escaped() {
        let at = Endpoint::Tcp("127.0.0.1:10809".parse().unwrap());
        assert_eq!(uri(&at, "a b/ö"), "nbd://127.0.0.1:10809/a%20b%2F%C3%B6");
    }
}
