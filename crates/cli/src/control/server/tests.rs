//! Answers of a server while its array is assembled.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;

use zoneweave_linux::nbd::Endpoint;

use super::*;
use crate::control::{Client, Responding, ZoneCommand};
use crate::session::Session;
use crate::status::Health;
use crate::status::examples::healthy;

fn status() -> ArrayStatus {
    let status = ArrayStatus { size_bytes: 4096, server: None, members: Vec::new(), ..healthy() };
    status.starting()
}

/// An array whose drives hang: it never answers commands to zones, and no job ends.
struct Hanging;

impl ServedArray for Hanging {
    fn drives(&self) -> Vec<ServedDrive> {
        Vec::new()
    }

    fn progress(&self, _: bool) -> Option<Job> {
        None
    }

    fn respond(self: Rc<Self>, request: Request, _: Bytes) -> Responding {
        Box::pin(async move {
            if matches!(request, Request::Zones { .. } | Request::Scrub) {
                std::future::pending::<()>().await;
            }
            Ok(remote_result(&status())?.into())
        })
    }
}

/// Serves an array, or one that is being assembled, until the process of the test ends.
fn serve(path: &Path, array: Option<Hanging>) {
    let (telling, listens) = channel();
    let socket = path.to_owned();
    std::thread::spawn(move || {
        let session = Session::new().unwrap();
        let listener = Listener::start(&Endpoint::Unix(socket)).unwrap();
        let starting = Starting { drives: Vec::new(), status: status() };
        let server = ControlSocket { listener }.serve(&session.ring, &session.handle, starting);
        if let Some(array) = array {
            server.started(Rc::new(array));
        }
        telling.send(()).unwrap();
        session.executor.run(std::future::pending::<()>());
    });
    listens.recv().unwrap();
}

/// Clients that went away left their commands with the server, as many as they liked.
#[test]
fn commands_of_clients_that_have_gone_are_limited() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control");
    serve(&path, Some(Hanging));
    let flush = Request::Zones { command: ZoneCommand::Flush };
    assert_limited(&path, &flush, ZONE_COMMANDS);
}

/// 64 replacements, each for hours and its client gone or waiting, had shut out the request to fail
/// a drive.
#[test]
fn jobs_leave_room_for_other_requests() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control");
    serve(&path, Some(Hanging));
    assert_limited(&path, &Request::Scrub, JOBS);
}

/// Sends as many requests that never end as there may be. One more is refused, and others are
/// answered, while clients wait for the first ones and when they are gone.
fn assert_limited(path: &Path, request: &Request, most: u64) {
    let hang = |_| {
        let stream = UnixStream::connect(path).unwrap();
        let mut line = serde_json::to_vec(request).unwrap();
        line.push(b'\n');
        (&stream).write_all(&line).unwrap();
        let mut answers = BufReader::new(stream);
        // The greeting, and then progress: the command runs.
        let told = (0..2).map(|_| answers.read_line(&mut String::new()).unwrap());
        assert!(told.min() > Some(0), "the server answers");
        answers
    };
    let mut waiting: Vec<_> = (0..most).map(hang).collect();
    let connect = || Client::connect(path).unwrap().unwrap();
    for _ in 0..2 {
        let refused = connect().ask(request, |_| {}).unwrap_err();
        assert!(refused.to_string().contains("too many requests"), "{refused}");
        connect().ask(&Request::Status, |_| {}).unwrap();
        waiting.clear();
    }
}

/// A server of a large array was silent for so long that its status was UNKNOWN.
#[test]
fn a_server_that_assembles_an_array_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("control");
    serve(&path, None);
    let connect = || Client::connect(&path).unwrap().unwrap();
    let answer = connect().ask(&Request::Status, |_| {}).unwrap();
    let answer: ArrayStatus = serde_json::from_value(answer).unwrap();
    assert_eq!(answer.health, Health::Starting);
    let refused = connect().ask(&Request::Scrub, |_| {}).unwrap_err();
    assert_eq!(refused.exit(), Exit::Unreachable);
    assert!(refused.to_string().contains("the array is starting"), "{refused}");
}
