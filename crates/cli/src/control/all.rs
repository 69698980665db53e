//! Asks many servers at once.
//!
//! A thread per server, so that a stopped or blocked server does not delay the others. Servers that
//! have not answered in time are reported as silent; their threads end with the process.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Instant;

use serde_json::Value;

use super::{Client, PATIENCE, Request, ServedDrive};

/// The answer of a server.
#[derive(Debug, PartialEq)]
pub(crate) enum Answer {
    /// No server, or one of another user.
    Nobody,
    /// A server that does not respond.
    Silent,
    /// A server with its drives; and its status, if requested and received in time.
    Serves(Vec<ServedDrive>, Option<Value>),
}

/// Asks the servers at these sockets, all of them within [`PATIENCE`], whether they run, and for
/// their status if `wanted`.
pub(crate) fn ask_all(sockets: BTreeSet<PathBuf>, wanted: bool) -> BTreeMap<PathBuf, Answer> {
    let (telling, told) = channel();
    for socket in &sockets {
        let (socket, telling) = (socket.clone(), telling.clone());
        // Without a thread the server stays silent: it may well run.
        let _ = thread::Builder::new().spawn(move || ask(&socket, wanted, &telling));
    }
    drop(telling);
    let mut answers: BTreeMap<_, _> =
        sockets.into_iter().map(|socket| (socket, Answer::Silent)).collect();
    let end = Instant::now() + PATIENCE;
    while let Ok((socket, answer)) =
        told.recv_timeout(end.saturating_duration_since(Instant::now()))
    {
        answers.insert(socket, answer);
    }
    answers
}

/// Sends the answers of a server, the first as soon as it is connected. The receiver may be gone.
fn ask(socket: &Path, wanted: bool, telling: &Sender<(PathBuf, Answer)>) {
    let tell = |answer| drop(telling.send((socket.to_owned(), answer)));
    match Client::connect(socket) {
        Ok(Some(client)) => {
            let drives = client.drives().to_vec();
            tell(Answer::Serves(drives.clone(), None));
            if wanted {
                tell(Answer::Serves(drives, client.ask(&Request::Status, |_| {}).ok()));
            }
        }
        Err(error) if error.is_silence() => tell(Answer::Silent),
        Ok(None) | Err(_) => tell(Answer::Nobody),
    }
}
