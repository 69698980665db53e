//! `zoneweave metrics`: the metrics of all arrays that are served on this machine.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread;

use clap::Args;
use rustix::io::Errno;
use zoneweave_linux::{Signals, try_connect};

use crate::error::{CliError, usage};
use crate::exit::Exit;
use crate::metrics::http::{Socket, serve};
use crate::metrics::{ask, text};
use crate::output::Output;
use crate::session::Session;

#[derive(Args)]
pub(crate) struct Metrics {
    /// Answer scrapes at this address, path /metrics, until a signal: unix:PATH, or
    /// tcp:HOST:PORT of this machine. Without it, the metrics are printed once
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    listen: Option<Address>,
}

#[derive(Clone, Debug)]
enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

fn parse_address(text: &str) -> Result<Address, String> {
    if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
        return Ok(Address::Unix(path.into()));
    }
    let place = text.strip_prefix("tcp:").ok_or("it must be unix:PATH or tcp:HOST:PORT")?;
    let place = place.replace("localhost:", "127.0.0.1:");
    let address: SocketAddr =
        place.parse().map_err(|_| format!("{place} is no address such as 127.0.0.1:9750"))?;
    match address.ip().is_loopback() {
        true => Ok(Address::Tcp(address)),
        false => {
            Err("only this machine may connect, as there is no encryption: use 127.0.0.1, and a \
                      proxy with TLS for others"
                .to_owned())
        }
    }
}

pub(crate) fn run(request: &Metrics, output: &Output) -> Result<Exit, CliError> {
    let Some(address) = &request.listen else {
        output.raw(text(&ask())?.as_bytes());
        return Ok(Exit::Done);
    };
    let failed = |error| CliError::System { action: "listen for scrapes", error };
    // Before any thread is started. Without a ring a signal ends the process at once, and leaves
    // its socket behind, which the next one removes.
    let session = Session::new();
    let signals = session.as_ref().ok().map(|session| Signals::new(&session.ring)).transpose();
    let signals = signals.map_err(|error| CliError::System { action: "receive signals", error })?;
    let mut ours = None;
    let socket = match address {
        Address::Tcp(address) => {
            let listener = TcpListener::bind(address).map_err(failed)?;
            let address = listener.local_addr().map_err(failed)?;
            output.line(format_args!("http://{address}/metrics"));
            Socket::Tcp(listener)
        }
        Address::Unix(path) => {
            remove_stale(path)?;
            let listener = UnixListener::bind(path).map_err(failed)?;
            ours = identity(path);
            fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(failed)?;
            output.line(format_args!(
                "curl --unix-socket {} http://localhost/metrics",
                path.display()
            ));
            Socket::Unix(listener)
        }
    };
    // A machine under load may take its time until a signal is waited for.
    if let Some(signals) = &signals {
        signals.serving();
    }
    output.line("ready; stop with Ctrl-C");
    serve(socket)?;
    let (Ok(session), Some(signals)) = (&session, &signals) else {
        loop {
            thread::park();
        }
    };
    let ended = session.executor.run(signals.next());
    if let Address::Unix(path) = address
        && ours.is_some()
        && identity(path) == ours
    {
        // Somebody may remove it at the same time.
        let _ = fs::remove_file(path);
    }
    ended.map_err(|error| CliError::System { action: "receive signals", error })?;
    Ok(Exit::Done)
}

/// The device and the inode of a file. The number of a socket that listens is not used again.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// Removes a socket that nobody listens at.
///
/// # Errors
/// If there is something else.
fn remove_stale(path: &Path) -> Result<(), CliError> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    let problem = if !found.file_type().is_socket() {
        "exists, and is no socket: give another path"
    } else if matches!(try_connect(path), Ok(_) | Err(Errno::AGAIN)) {
        // A queue that is full belongs to a process that does not accept.
        "is in use: another process listens there"
    } else {
        let failed = |error| CliError::System { action: "remove an old socket", error };
        return fs::remove_file(path).map_err(failed);
    };
    Err(usage("listen")(format!("{} {problem}", path.display())))
}
