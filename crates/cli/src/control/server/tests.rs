//! Answers of a server while its array is assembled.

use std::path::PathBuf;
use std::sync::mpsc::channel;

use super::*;
use crate::control::Client;
use crate::session::Session;
use crate::status::Health;

fn status() -> ArrayStatus {
    let status = ArrayStatus {
        name: "vol0".to_owned(),
        array: String::new(),
        scheme: String::new(),
        shard: None,
        health: Health::Healthy,
        why: None,
        action: None,
        losses_left: Some(1),
        epoch: 1,
        size_bytes: 4096,
        chunk_bytes: 4096,
        group_rows: 1,
        mode: String::new(),
        zones: None,
        server: None,
        is_silent: false,
        members: Vec::new(),
        others: Vec::new(),
    };
    status.starting()
}

/// A server of a large array was silent for so long that its status was UNKNOWN.
#[test]
fn a_server_that_assembles_an_array_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("control");
    let (telling, listens) = channel();
    let socket = path.clone();
    // It serves until the process of the test ends.
    std::thread::spawn(move || {
        let session = Session::new().unwrap();
        let listener = Listener::start(&Endpoint::Unix(socket)).unwrap();
        telling.send(()).unwrap();
        let starting = Starting { drives: Vec::new(), status: status() };
        let _server = ControlSocket { listener }.serve(&session.ring, &session.handle, starting);
        session.executor.run(std::future::pending::<()>());
    });
    listens.recv().unwrap();
    let connect = || Client::connect(&path).unwrap().unwrap();
    let answer = connect().ask(&Request::Status, |_| {}).unwrap();
    let answer: ArrayStatus = serde_json::from_value(answer).unwrap();
    assert_eq!(answer.health, Health::Starting);
    let refused = connect().ask(&Request::Scrub, |_| {}).unwrap_err();
    assert_eq!(refused.exit(), Exit::Unreachable);
    assert!(refused.to_string().contains("the array is starting"), "{refused}");
}
