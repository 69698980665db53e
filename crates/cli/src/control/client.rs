//! The asking side.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::{RESPONSE_BYTES, Request, Response};
use crate::error::{CliError, Exit};
use crate::progress::Job;

/// How long a server may say nothing; while it works it tells how far it is several times a
/// second.
const SILENCE_LIMIT: Duration = Duration::from_secs(30);

/// A connection to a server.
pub(crate) struct Client {
    socket: PathBuf,
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects; `None` if no server is there.
    ///
    /// # Errors
    /// If there is one and it cannot be reached.
    pub(crate) fn connect(socket: &Path) -> Result<Option<Self>, CliError> {
        use io::ErrorKind::{ConnectionRefused, NotFound};
        let stream = match UnixStream::connect(socket) {
            Ok(stream) => stream,
            // No socket, or one that a dead server left.
            Err(error) if matches!(error.kind(), NotFound | ConnectionRefused) => return Ok(None),
            Err(error) => return Err(broken(socket, error.to_string())),
        };
        let limit = Some(SILENCE_LIMIT);
        let limited = stream.set_read_timeout(limit).and_then(|()| stream.set_write_timeout(limit));
        limited.map_err(|error| broken(socket, error.to_string()))?;
        Ok(Some(Self { socket: socket.to_owned(), stream: BufReader::new(stream) }))
    }

    /// The socket.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Asks and waits for the end of it.
    ///
    /// # Errors
    /// What the server says, or that it says nothing.
    pub(crate) fn ask(
        mut self,
        request: &Request,
        mut progress: impl FnMut(Job),
    ) -> Result<Value, CliError> {
        let mut line = serde_json::to_vec(request).map_err(|error| self.broken(&error))?;
        line.push(b'\n');
        self.stream.get_mut().write_all(&line).map_err(|error| self.broken(&error))?;
        loop {
            let mut line = String::new();
            let count = (&mut self.stream).take(RESPONSE_BYTES).read_line(&mut line);
            if count.map_err(|error| self.broken(&error))? == 0 {
                return Err(self.broken(&"it closed the connection; see its messages"));
            }
            match serde_json::from_str(&line).map_err(|error| self.broken(&error))? {
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

fn broken(socket: &Path, problem: String) -> CliError {
    CliError::ServerBroken { socket: socket.to_owned(), problem }
}
