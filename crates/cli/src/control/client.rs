//! The client side.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use zoneweave_linux::stranger_at;

use super::{PROTOCOL_VERSION, RESPONSE_BYTES, Request, Response};
use crate::error::CliError;
use crate::exit::Exit;
use crate::job::Job;

/// Time limit without a message; a working server reports progress several times a second.
const SILENCE_LIMIT: Duration = Duration::from_secs(30);

/// Until the kernel has ended the last operations of a killed server, its socket accepts
/// connections and drops them. On a slow disk this takes a while, so connecting is retried for five
/// seconds.
const CONNECT_ATTEMPTS: u32 = 50;
const CONNECT_PAUSE: Duration = Duration::from_millis(100);

/// A connection to a server.
pub(crate) struct Client {
    socket: PathBuf,
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects; `None` if no server is there.
    ///
    /// # Errors
    /// If a server exists and does not answer.
    pub(crate) fn connect(socket: &Path) -> Result<Option<Self>, CliError> {
        use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, NotFound};
        for _ in 0..CONNECT_ATTEMPTS {
            let failed = match Self::greet(socket) {
                Ok(client) => return client.map(Some),
                Err(error) => error,
            };
            match failed.kind() {
                // No socket, or the socket of a dead server.
                NotFound | ConnectionRefused => return Ok(None),
                ConnectionReset | BrokenPipe => thread::sleep(CONNECT_PAUSE),
                _ => return Err(broken(socket, in_words(&failed))),
            }
        }
        Err(broken(socket, "it closes every connection".to_owned()))
    }

    /// Connects and waits for the server's greeting. The outer error is that of the system, the
    /// inner one that of the greeting.
    fn greet(socket: &Path) -> io::Result<Result<Self, CliError>> {
        let stream = UnixStream::connect(socket)?;
        // Before trusting the server: another user who owns the directory can put any socket there.
        if let Some(user) = stranger_at(&stream)? {
            return Ok(Err(CliError::ServerOfAnother { socket: socket.to_owned(), user }));
        }
        stream.set_read_timeout(Some(SILENCE_LIMIT))?;
        stream.set_write_timeout(Some(SILENCE_LIMIT))?;
        let mut client = Self { socket: socket.to_owned(), stream: BufReader::new(stream) };
        let Some(line) = client.line()? else {
            return Err(io::ErrorKind::ConnectionReset.into());
        };
        Ok(match serde_json::from_str(&line) {
            Ok(Response::Hello { version: PROTOCOL_VERSION }) => Ok(client),
            Ok(Response::Hello { version }) => Err(client.broken(&format_args!(
                "it speaks protocol version {version}, this program {PROTOCOL_VERSION}; use its release"
            ))),
            Ok(_) => Err(client.broken(&"it sent no greeting")),
            Err(error) => Err(client.broken(&error)),
        })
    }

    /// The next line; `None` at the end of the stream.
    fn line(&mut self) -> io::Result<Option<String>> {
        let mut line = String::new();
        let count = (&mut self.stream).take(RESPONSE_BYTES).read_line(&mut line)?;
        Ok((count > 0).then_some(line))
    }

    /// The socket.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Sends a request and waits for its end.
    ///
    /// # Errors
    /// The error of the server, or no valid response.
    pub(crate) fn ask(
        mut self,
        request: &Request,
        mut progress: impl FnMut(Job),
    ) -> Result<Value, CliError> {
        let mut line = serde_json::to_vec(request).map_err(|error| self.broken(&error))?;
        line.push(b'\n');
        self.stream.get_mut().write_all(&line).map_err(|error| self.broken(&error))?;
        loop {
            let received = self.line().map_err(|error| self.broken(&in_words(&error)))?;
            let Some(line) = received else {
                return Err(self.broken(&"it closed the connection; see its log"));
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

/// The message of an error, with a text of its own for a timeout.
fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock => {
            format!("it has not responded for {} s; it may be stopped", SILENCE_LIMIT.as_secs())
        }
        _ => error.to_string(),
    }
}

fn broken(socket: &Path, problem: String) -> CliError {
    CliError::ServerBroken { socket: socket.to_owned(), problem }
}
