//! Asking many servers at once.
//!
//! One that is stopped, or waits for its drives, keeps nobody from hearing the others: each is asked by a thread of its own, and what
//! has not answered when the time is over is called silent. A thread that still waits then ends with the process.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Client, Request};

/// How long servers may take, all together.
const PATIENCE: Duration = Duration::from_secs(3);

/// What became of a server that was asked.
#[derive(Debug, PartialEq)]
pub(crate) enum Answer {
    /// None is there, or none that is believed.
    Nobody,
    /// Something is there, and says nothing.
    Silent,
    /// It is there, with its status if that was asked for and came in time.
    Serves(Option<Value>),
}

/// Asks the servers at these sockets whether they are there, and for their status if that is `wanted`.
pub(crate) fn ask_all(sockets: BTreeSet<PathBuf>, wanted: bool) -> BTreeMap<PathBuf, Answer> {
    let (telling, told) = channel();
    for socket in &sockets {
        let (socket, telling) = (socket.clone(), telling.clone());
        // Of one that cannot be asked it is not known that nobody is there.
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

/// Tells what a server answers: that it is there as soon as that is known. Nobody may listen any more.
fn ask(socket: &Path, wanted: bool, telling: &Sender<(PathBuf, Answer)>) {
    let tell = |answer| drop(telling.send((socket.to_owned(), answer)));
    match Client::connect(socket) {
        Ok(Some(client)) => {
            tell(Answer::Serves(None));
            if wanted {
                tell(Answer::Serves(client.ask(&Request::Status, |_| {}).ok()));
            }
        }
        Ok(None) | Err(_) => tell(Answer::Nobody),
    }
}
