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
use zoneweave_raid::shards::Shard;

use super::{Client, PATIENCE, Request, ServedDrive, array_of, socket_of};
use crate::error::{CliError, NewMemberError};

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

/// Refuses a drive that another shard of the same volume has; `socket` is that of the shard to be
/// asked. Its server does not know the drives of the others: they would just be in use.
///
/// # Errors
/// If a shard has the drive.
pub(crate) fn refuse_of_siblings(
    socket: &Path,
    shard: Shard,
    drive: &Path,
) -> Result<(), CliError> {
    let Some(array) = array_of(socket) else { return Ok(()) };
    let others = (0..shard.of()).filter(|number| *number != usize::from(shard.number()));
    let others = others.filter_map(|number| Shard::new(number, shard.of()));
    let sockets: BTreeMap<_, _> =
        others.map(|other| (socket_of(other.array(array)), other.number())).collect();
    for (socket, answer) in ask_all(sockets.keys().cloned().collect(), false) {
        // A server that does not answer leaves the matter to the one that is asked.
        let Answer::Serves(drives, _) = answer else { continue };
        if let Some(served) = drives.iter().find(|served| served.identity.is_at(drive)) {
            let (label, in_service) = (drive.display().to_string(), served.in_service);
            let shard = sockets[&socket];
            return Err(NewMemberError::OfSibling { label, shard, in_service }.into());
        }
    }
    Ok(())
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
