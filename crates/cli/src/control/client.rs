//! The client side.
//!
//! Nothing here waits without end: each step has [`PATIENCE`], also with a server that is stopped
//! or has a full backlog.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::Value;
use zoneweave_linux::{Drive, stranger_at, try_connect};
use zoneweave_raid::log::format::ArrayUuid;

use super::{
    PATIENCE, PROTOCOL_VERSION, RESPONSE_BYTES, Request, Response, ServedDrive, socket_of,
};
use crate::error::CliError;
use crate::exit::Exit;
use crate::job::Job;

/// Until the kernel has ended the last operations of a killed server, its socket accepts
/// connections and drops them. On a slow disk this takes a while, so connecting is retried; as is
/// connecting to a server with a full backlog.
const CONNECT_PAUSE: Duration = Duration::from_millis(50);

/// Time limit for the whole of a message that has begun to arrive: a large one arrives in parts,
/// each of them within [`PATIENCE`].
const MESSAGE_TIME: Duration = Duration::from_secs(30);

/// A connection to a server.
pub(crate) struct Client {
    socket: PathBuf,
    stream: BufReader<UnixStream>,
    drives: Vec<ServedDrive>,
}

impl Client {
    /// Connects; `None` if no server is there.
    ///
    /// # Errors
    /// If a server exists and does not answer in time.
    pub(crate) fn connect(socket: &Path) -> Result<Option<Self>, CliError> {
        use io::ErrorKind::{
            BrokenPipe, ConnectionRefused, ConnectionReset, InvalidFilename, InvalidInput,
            NotFound, PermissionDenied, WouldBlock,
        };
        let end = Instant::now() + PATIENCE;
        loop {
            let failed = match Self::greet(socket, end) {
                Ok(client) => return client.map(Some),
                Err(error) => error,
            };
            let over = Instant::now() >= end;
            match failed.kind() {
                // No socket, the socket of a dead server, or a path that no server can have.
                NotFound | ConnectionRefused | InvalidFilename | InvalidInput => return Ok(None),
                PermissionDenied => {
                    return Err(CliError::ServerForbidden { socket: socket.to_owned() });
                }
                ConnectionReset | BrokenPipe if over => {
                    return Err(broken(socket, "it closes every connection".to_owned()));
                }
                ConnectionReset | BrokenPipe | WouldBlock if !over => thread::sleep(CONNECT_PAUSE),
                _ => return Err(failure(socket, &failed)),
            }
        }
    }

    /// Connects and waits for the server's greeting. The outer error is that of the system, the
    /// inner one that of the greeting.
    fn greet(socket: &Path, end: Instant) -> io::Result<Result<Self, CliError>> {
        let stream = try_connect(socket)?;
        // Before trusting the server: another user who owns the directory can put any socket there.
        if let Some(user) = stranger_at(&stream)? {
            return Ok(Err(CliError::ServerOfAnother { socket: socket.to_owned(), user }));
        }
        stream.set_write_timeout(Some(PATIENCE))?;
        let (socket, stream) = (socket.to_owned(), BufReader::new(stream));
        let mut client = Self { socket, stream, drives: Vec::new() };
        let Some(line) = client.line(end)? else {
            return Err(io::ErrorKind::ConnectionReset.into());
        };
        Ok(match serde_json::from_str(&line) {
            Ok(Response::Hello { version: PROTOCOL_VERSION, drives }) => {
                Ok(Self { drives, ..client })
            }
            Ok(Response::Hello { version, .. }) => Err(client.broken(&format_args!(
                "it speaks protocol version {version}, this program {PROTOCOL_VERSION}; use its release"
            ))),
            Ok(_) => Err(client.broken(&"it sent no greeting")),
            Err(error) => Err(client.broken(&error)),
        })
    }

    /// The next line, which must begin to arrive until `end`; `None` at the end of the stream.
    fn line(&mut self, end: Instant) -> io::Result<Option<String>> {
        let (mut line, mut end) = (Vec::new(), end);
        let mut last = None;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.stream.get_ref().set_read_timeout(Some(left))?;
            let received = match self.stream.fill_buf() {
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // The kernel's word for the end of the time.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                Err(error) => return Err(error),
            };
            let whole = received.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
            let count = whole.unwrap_or(received.len());
            line.extend_from_slice(&received[..count]);
            self.stream.consume(count);
            if count == 0 && line.is_empty() {
                return Ok(None);
            }
            if whole.is_some() || count == 0 || line.len() as u64 > RESPONSE_BYTES {
                return String::from_utf8(line).map(Some).map_err(io::Error::other);
            }
            let now = Instant::now();
            let last = *last.get_or_insert(now + MESSAGE_TIME);
            end = last.min(now + PATIENCE);
        }
    }

    /// The socket.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// The drives that the server has open.
    pub(crate) fn drives(&self) -> &[ServedDrive] {
        &self.drives
    }

    /// Sends a request and waits for its end.
    ///
    /// # Errors
    /// The error of the server, or no valid response in time.
    pub(crate) fn ask(
        mut self,
        request: &Request,
        progress: impl FnMut(Job),
    ) -> Result<Value, CliError> {
        self.result_of(request, &[], progress)
    }

    /// Sends a request with data, and waits for the answer and the data behind it. `parsed` reads
    /// the answer, and says how many bytes these are.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub(crate) fn exchange<T>(
        mut self,
        request: &Request,
        data: &[Bytes],
        parsed: impl FnOnce(Value) -> Result<(T, usize), CliError>,
    ) -> Result<(T, Vec<u8>), CliError> {
        let (answer, length) = parsed(self.result_of(request, data, |_| {})?)?;
        assert!(length as u64 <= RESPONSE_BYTES, "an answer has {length} bytes of data");
        let mut received = vec![0; length];
        let patient = self.stream.get_ref().set_read_timeout(Some(PATIENCE));
        let filled = patient.and_then(|()| self.stream.read_exact(&mut received));
        filled.map_err(|error| failure(&self.socket, &error))?;
        Ok((answer, received))
    }

    fn result_of(
        &mut self,
        request: &Request,
        data: &[Bytes],
        mut progress: impl FnMut(Job),
    ) -> Result<Value, CliError> {
        let mut line = serde_json::to_vec(request).map_err(|error| self.broken(&error))?;
        assert!(!line.contains(&b'\n'), "a request is a line");
        line.push(b'\n');
        let mut parts = std::iter::once(&line[..]).chain(data.iter().map(|part| &part[..]));
        let sent = parts.try_for_each(|part| self.stream.get_mut().write_all(part));
        sent.map_err(|error| failure(&self.socket, &error))?;
        loop {
            let received = self.line(Instant::now() + PATIENCE);
            let Some(line) = received.map_err(|error| failure(&self.socket, &error))? else {
                return Err(self.broken(&closed(request)));
            };
            match serde_json::from_str(&line).map_err(|error| self.broken(&error))? {
                Response::Hello { .. } => {}
                Response::Progress { job } => progress(job),
                Response::Done { result } => return Ok(result),
                Response::Failed { exit, message } => {
                    return Err(CliError::Remote { exit: Exit::of_code(exit), message });
                }
            }
        }
    }

    fn broken(&self, problem: &dyn std::fmt::Display) -> CliError {
        broken(&self.socket, problem.to_string())
    }
}

/// What the end of a server means for a request.
const fn closed(request: &Request) -> &'static str {
    match request {
        Request::Replace { .. } | Request::Online { .. } => {
            "it closed the connection; a rebuild that has begun goes on at its next start, see its log"
        }
        _ => "it closed the connection; see its log",
    }
}

/// The server of an array, for a request that no other process can answer: only it knows `what`.
///
/// # Errors
/// If there is none, or it is one of another user or another runtime directory.
pub(crate) fn only_served(
    client: Option<Client>,
    array: ArrayUuid,
    drives: &[PathBuf],
    what: &'static str,
) -> Result<Client, CliError> {
    if client.is_none() {
        refuse_locked(drives, &socket_of(array))?;
    }
    client.ok_or(CliError::NotServed { what })
}

/// Refuses an array that is not served by anybody whom this user can ask.
pub(crate) fn refuse_locked(drives: &[PathBuf], socket: &Path) -> Result<(), CliError> {
    match drives.iter().find(|path| Drive::is_locked(path, Duration::ZERO)) {
        None => Ok(()),
        Some(path) => {
            let problem = format!("{} is in use by another process", path.display());
            Err(CliError::NoServer { problem, socket: socket.to_owned() })
        }
    }
}

/// The error of a connection that failed, or timed out.
fn failure(socket: &Path, error: &io::Error) -> CliError {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            CliError::ServerSilent { socket: socket.to_owned(), seconds: PATIENCE.as_secs() }
        }
        _ => broken(socket, error.to_string()),
    }
}

fn broken(socket: &Path, problem: String) -> CliError {
    CliError::ServerBroken { socket: socket.to_owned(), problem }
}
