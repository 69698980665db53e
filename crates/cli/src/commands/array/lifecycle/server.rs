//! The server of an array.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use zoneweave_raid::log::format::ArrayUuid;
use zoneweave_raid::shards::Shard;

use super::target::Target;
use crate::commands::array::status::parse_status;
use crate::control::{
    Answer, Client, PATIENCE, Request, array_of, ask_all, refuse_locked, refuse_of_siblings,
    socket_of, sockets,
};
use crate::error::CliError;
use crate::session::Session;
use crate::shards::by_shard;
use crate::start::locate_one;
use crate::status::ArrayStatus;
use crate::zoned;

/// A server by one of its sockets.
pub(super) struct Server {
    socket: PathBuf,
}

/// The server of the array; `None` if it is not served.
///
/// # Errors
/// If there is no such array, or its server does not answer.
pub(super) fn find(target: &Target) -> Result<Option<Server>, CliError> {
    // A server is asked before drives are: it may have hung ones.
    let called = target.name().map(called).transpose()?.unwrap_or_default();
    if called.server.is_some() {
        return Ok(called.server);
    }
    let session = Session::new()?;
    let mut drives = match (target.drives(&session), called.silent) {
        // Drives of the array may be its files.
        (Err(CliError::NoSuchArray { .. }), Some(socket)) => {
            return Err(CliError::ServerSilent { socket, seconds: PATIENCE.as_secs() });
        }
        (drives, _) => drives?,
    };
    let (client, socket) = match zoned::find(&session, &drives)? {
        Some(found) => (found.client()?, socket_of(found.membership.config.array)),
        None => {
            if let Some(sharded) = by_shard(&session, &drives)? {
                let named = sharded.of_shards.into_iter().find(|drives| !drives.is_empty());
                drives = named.unwrap_or(drives);
            }
            let located = locate_one(&session, &drives)?;
            (located.client, located.socket.ok_or(CliError::NoArray)?)
        }
    };
    if client.is_none() {
        refuse_locked(&drives, &socket)?;
    }
    Ok(client.map(|_| Server { socket }))
}

/// What all servers answer to a name.
#[derive(Default)]
struct Called {
    /// The server of an array with this name or UUID.
    server: Option<Server>,
    /// A server that did not answer: its array may have the name.
    silent: Option<PathBuf>,
}

/// Asks all servers for an array with this name or UUID.
fn called(name: &str) -> Result<Called, CliError> {
    let answers = ask_all(sockets().into_iter().collect(), true);
    let mut found: Option<(ArrayUuid, PathBuf)> = None;
    let mut silent = None;
    for (socket, answer) in answers {
        let status = match answer {
            Answer::Serves(_, Some(status)) => status,
            Answer::Nobody => continue,
            Answer::Silent | Answer::Serves(_, None) => {
                silent = silent.or(Some(socket));
                continue;
            }
        };
        // The server of another array may be of another release.
        let (Ok(status), Some(array)) = (parse_status(status), array_of(&socket)) else { continue };
        let volume = shard_of(&status).volume(array);
        let uuids = [array, volume].map(|uuid| uuid.to_string());
        if status.name != name && !uuids.iter().any(|uuid| uuid.eq_ignore_ascii_case(name)) {
            continue;
        }
        let (first, _) = found.get_or_insert((volume, socket));
        if *first != volume {
            let arrays = [*first, volume].map(|array| array.to_string());
            return Err(CliError::SameName { name: name.to_owned(), arrays });
        }
    }
    Ok(Called { server: found.map(|(_, socket)| Server { socket }), silent })
}

fn shard_of(status: &ArrayStatus) -> Shard {
    let shard = status.shard.and_then(|shard| Shard::new(shard.number.into(), shard.of));
    shard.unwrap_or(Shard::WHOLE)
}

impl Server {
    /// A connection to it.
    ///
    /// # Errors
    /// If it does not answer, or has ended.
    pub(super) fn client(&self) -> Result<Client, CliError> {
        let gone = || CliError::ServerBroken {
            socket: self.socket.clone(),
            problem: "it has ended meanwhile".to_owned(),
        };
        Client::connect(&self.socket)?.ok_or_else(gone)
    }

    /// Refuses a drive that another shard of the volume has.
    ///
    /// # Errors
    /// Also if the server does not answer.
    pub(super) fn refuse_of_siblings(&self, drive: &Path) -> Result<(), CliError> {
        match self.status()? {
            Some(status) => refuse_of_siblings(&self.socket, shard_of(&status), drive),
            None => Ok(()),
        }
    }

    /// The status of the array; `None` if the server gives none, while its drives hang.
    pub(super) fn status(&self) -> Result<Option<ArrayStatus>, CliError> {
        match self.client()?.ask(&Request::Status, |_| {}) {
            Ok(status) => parse_status(status).map(Some),
            Err(error) if error.is_silence() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The status of all shards; `None` if one of them gives none.
    ///
    /// # Errors
    /// If a server does not answer.
    pub(super) fn statuses(
        &self,
        own: Option<&ArrayStatus>,
    ) -> Result<Option<Vec<ArrayStatus>>, CliError> {
        if own.is_none() {
            return Ok(None);
        }
        let shards = self.sockets(own).into_iter().map(|socket| Self { socket }.status());
        shards.collect()
    }

    /// The slots whose drives no start would have, of each shard in the order of
    /// [`Self::statuses`]. The server looks at what is on media.
    ///
    /// # Errors
    /// If a server does not answer.
    pub(super) fn lost_on_media(
        &self,
        own: Option<&ArrayStatus>,
    ) -> Result<Vec<Vec<u8>>, CliError> {
        let ask = |socket: PathBuf| {
            let answer = Self { socket }.client()?.ask(&Request::LostOnMedia, |_| {})?;
            serde_json::from_value(answer).map_err(|error| CliError::System {
                action: "read the server's answer",
                error: error.into(),
            })
        };
        self.sockets(own).into_iter().map(ask).collect()
    }

    /// The sockets of all shards.
    fn sockets(&self, status: Option<&ArrayStatus>) -> BTreeSet<PathBuf> {
        let mut sockets = BTreeSet::from([self.socket.clone()]);
        let shard = status.map_or(Shard::WHOLE, shard_of);
        if let Some(array) = array_of(&self.socket) {
            let shards = (0..shard.of()).filter_map(|number| Shard::new(number, shard.of()));
            sockets.extend(shards.map(|other| socket_of(other.array(array))));
        }
        sockets
    }

    /// All drives that the process has, of all shards.
    pub(super) fn drives(&self, status: Option<&ArrayStatus>) -> Result<Vec<PathBuf>, CliError> {
        let mut drives = Vec::new();
        for socket in self.sockets(status) {
            if let Some(client) = Client::connect(&socket)? {
                drives.extend(client.drives().iter().map(|drive| drive.path.clone()));
            }
        }
        Ok(drives)
    }
}
