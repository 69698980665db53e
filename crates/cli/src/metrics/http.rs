//! A small HTTP/1.1 server for scrapes: `GET /metrics`, one request for each connection.
//!
//! Fault model: clients are any process of this machine, or for a unix socket of this user. A
//! request is bounded in size and time, and so is the number of connections; nothing that a client
//! sends changes anything.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::{ask, text};
use crate::error::CliError;

/// Connections answered at once; more wait in the kernel.
const WORKERS: usize = 4;

/// The longest head of a request, in bytes.
const HEAD_BYTES: usize = 8192;

/// Lines of the head.
const HEADERS: usize = 64;

/// Time limit for a client to send its request, and to take the answer.
const TIME: Duration = Duration::from_secs(5);

/// Pause after the kernel refused to accept a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The type of OpenMetrics 1.0.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Where the server listens.
pub(crate) enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A client.
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp(listener) => Ok(Stream::Tcp(listener.accept()?.0)),
            Self::Unix(listener) => Ok(Stream::Unix(listener.accept()?.0)),
        }
    }
}

impl Stream {
    fn limit(&self, time: Duration) -> io::Result<()> {
        // Zero would be no limit.
        let time = Some(time.max(Duration::from_millis(1)));
        match self {
            Self::Tcp(stream) => {
                stream.set_read_timeout(time)?;
                stream.set_write_timeout(time)
            }
            Self::Unix(stream) => {
                stream.set_read_timeout(time)?;
                stream.set_write_timeout(time)
            }
        }
    }

    fn end(&self) {
        // The client may be gone.
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
        };
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(into),
            Self::Unix(stream) => stream.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Answers scrapes until the process ends, in threads of its own.
///
/// # Errors
/// If there is no thread for it.
pub(crate) fn serve(socket: Socket) -> Result<(), CliError> {
    let failed = |error| CliError::System { action: "start a thread", error };
    let (queue, streams) = sync_channel::<Stream>(0);
    let streams = Arc::new(Mutex::new(streams));
    for _ in 0..WORKERS {
        let streams = streams.clone();
        let started = thread::Builder::new().name("metrics".to_owned()).spawn(move || {
            while let Some(stream) = next(&streams) {
                // A client that breaks off gets no answer.
                let _ = answer(stream);
            }
        });
        started.map_err(failed)?;
    }
    let accepting = thread::Builder::new().name("scrapes".to_owned());
    accepting.spawn(move || accept_all(&socket, &queue)).map_err(failed)?;
    Ok(())
}

fn accept_all(socket: &Socket, queue: &SyncSender<Stream>) {
    loop {
        match socket.accept() {
            Ok(stream) => queue.send(stream).expect("the workers live as long as the process"),
            Err(_) => thread::sleep(ACCEPT_PAUSE),
        }
    }
}

fn next(streams: &Mutex<Receiver<Stream>>) -> Option<Stream> {
    streams.lock().expect("no worker panics with the queue").recv().ok()
}

fn answer(mut stream: Stream) -> io::Result<()> {
    let head = read_head(&mut stream)?;
    let (status, kind, body) = respond(&head);
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\nX-Content-Type-Options: nosniff\r\n\r\n"
    );
    send(&mut stream, &[head.as_bytes(), body.as_bytes()].concat())?;
    stream.end();
    Ok(())
}

/// Sends an answer within [`TIME`], however little the client takes at once.
fn send(stream: &mut Stream, mut answer: &[u8]) -> io::Result<()> {
    let end = Instant::now() + TIME;
    while !answer.is_empty() {
        let rest = end.saturating_duration_since(Instant::now());
        if rest.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.limit(rest)?;
        match stream.write(answer) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(sent) => {
                assert!(sent <= answer.len(), "a socket takes what it is given");
                answer = &answer[sent..];
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads a request up to the empty line.
fn read_head(stream: &mut Stream) -> io::Result<Vec<u8>> {
    let end = Instant::now() + TIME;
    let mut head = Vec::with_capacity(1024);
    let mut part = [0; 1024];
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        if head.len() >= HEAD_BYTES {
            // The answer is that this is no request.
            return Ok(head);
        }
        stream.limit(end.saturating_duration_since(Instant::now()))?;
        match stream.read(&mut part) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => head.extend_from_slice(&part[..read]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        assert!(head.len() < HEAD_BYTES + part.len(), "a head is bounded");
        if Instant::now() >= end {
            return Err(ErrorKind::TimedOut.into());
        }
    }
    Ok(head)
}

/// The status, type and body of the answer to a request.
fn respond(head: &[u8]) -> (&'static str, &'static str, String) {
    const PLAIN: &str = "text/plain; charset=utf-8";
    let refused = |status, text: &str| (status, PLAIN, text.to_owned());
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    if !request.parse(head).is_ok_and(|parsed| parsed.is_complete()) {
        return refused("400 Bad Request", "this is no HTTP request\n");
    }
    let path = request.path.unwrap_or_default();
    match (request.method, path.split('?').next()) {
        (Some("GET"), Some("/metrics")) => match text(&ask()) {
            Ok(text) => ("200 OK", OPEN_METRICS, text),
            Err(error) => ("500 Internal Server Error", PLAIN, format!("{error}\n")),
        },
        (Some("GET"), _) => refused("404 Not Found", "metrics are at /metrics\n"),
        _ => refused("405 Method Not Allowed", "only GET is allowed\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_scrapes_are_answered() {
        let status = |head: &str| respond(head.as_bytes()).0;
        assert_eq!(status("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), "404 Not Found");
        assert_eq!(status("POST /metrics HTTP/1.1\r\n\r\n"), "405 Method Not Allowed");
        assert_eq!(status("GET /metrics HTTP/1.1\r\n"), "400 Bad Request");
        assert_eq!(status("\x16\x03\x01 hello\r\n\r\n"), "400 Bad Request");
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(HEADERS + 1));
        assert_eq!(status(&many), "400 Bad Request");
    }

    #[test]
    fn a_head_without_an_end_is_bounded() {
        let (client, server) = UnixStream::pair().unwrap();
        let sending = thread::spawn(move || {
            let mut client = client;
            let sent = (0..100).try_for_each(|_| client.write_all(&[b'a'; 1024]));
            drop(sent);
        });
        let mut stream = Stream::Unix(server);
        let head = read_head(&mut stream).unwrap();
        assert!((HEAD_BYTES..HEAD_BYTES + 1024).contains(&head.len()));
        drop(stream);
        sending.join().unwrap();
    }
}
