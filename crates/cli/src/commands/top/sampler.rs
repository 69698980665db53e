//! Asks servers for their status, and drives for their zones, without waiting for any of them.
//!
//! Each question has a thread, as in [`crate::control::ask_all`]: the client blocks, with a limit
//! for each of its steps. A server is asked again only when the thread before has ended, so there
//! is one at most for each, whatever the server does. The drives of the selected volume are asked
//! the same way; a system call on a drive that hangs may take for ever, and its thread ends with
//! the process.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use zoneweave_linux::Drive;

use super::state::{DriveZones, Event, MapZone};
use crate::control::{Client, PATIENCE, Request, array_of, sockets};
use crate::error::CliError;
use crate::status::ArrayStatus;

/// Zones change slowly, and a drive answers with all of them.
const ZONES_INTERVAL: Duration = Duration::from_secs(2);

/// A thread that works for this one.
struct Errand<T> {
    result: Receiver<T>,
    begun: Instant,
    /// Whether it was told that this takes too long.
    late: bool,
}

/// What became of an errand since the last look.
enum News<T> {
    Nothing,
    /// It takes longer than [`PATIENCE`]; told once.
    Late,
    Done(T),
    /// Its thread could not be started, or panicked.
    Lost,
}

impl<T: Send + 'static> Errand<T> {
    fn start(now: Instant, work: impl FnOnce() -> T + Send + 'static) -> Self {
        let (telling, result) = channel();
        // Without a thread the other end is dropped at once.
        let _ = thread::Builder::new().name("top".to_owned()).spawn(move || {
            // The receiver may be gone.
            let _ = telling.send(work());
        });
        Self { result, begun: now, late: false }
    }

    fn look(&mut self, now: Instant) -> News<T> {
        match self.result.try_recv() {
            Ok(result) => News::Done(result),
            Err(TryRecvError::Disconnected) => News::Lost,
            Err(TryRecvError::Empty) if !self.late && now >= self.begun + PATIENCE => {
                self.late = true;
                News::Late
            }
            Err(TryRecvError::Empty) => News::Nothing,
        }
    }
}

type Answer<T> = Result<T, String>;

/// Questions of one kind to one server or its drives.
struct Asked<T> {
    errand: Option<Errand<Answer<T>>>,
    next: Instant,
}

impl<T: Send + 'static> Asked<T> {
    const fn new(now: Instant) -> Self {
        Self { errand: None, next: now }
    }

    /// An answer that is there, after which the next question waits for its time.
    fn answer(
        &mut self,
        now: Instant,
        interval: Duration,
        late: &dyn Display,
    ) -> Option<Answer<T>> {
        let errand = self.errand.as_mut()?;
        let begun = errand.begun;
        let answer = match errand.look(now) {
            News::Nothing => return None,
            News::Late => return Some(Err(late.to_string())),
            News::Done(answer) => answer,
            News::Lost => Err("there is no thread to ask it".to_owned()),
        };
        assert!(begun <= now, "an answer follows its question");
        (self.errand, self.next) = (None, now.max(begun + interval));
        Some(answer)
    }

    fn ask(&mut self, now: Instant, work: impl FnOnce() -> Answer<T> + Send + 'static) {
        assert!(self.is_due(now), "the thread before has ended");
        self.errand = Some(Errand::start(now, work));
    }

    fn is_due(&self, now: Instant) -> bool {
        self.errand.is_none() && now >= self.next
    }
}

/// An array that has a control socket.
struct Server {
    socket: PathBuf,
    status: Asked<Box<ArrayStatus>>,
    zones: Asked<Vec<DriveZones>>,
    /// The drives of its last status, by slot.
    drives: Vec<(u8, PathBuf)>,
}

/// Asks all servers of the runtime directory.
pub(super) struct Sampler {
    interval: Duration,
    servers: BTreeMap<String, Server>,
    next_search: Option<Instant>,
}

impl Sampler {
    pub(super) const fn new(interval: Duration) -> Self {
        Self { interval, servers: BTreeMap::new(), next_search: None }
    }

    /// What is new. The zones of the drives of one array are asked for.
    pub(super) fn look(&mut self, now: Instant, selected: Option<&str>) -> Vec<Event> {
        let mut events = Vec::new();
        if self.next_search.is_none_or(|next| now >= next) {
            self.next_search = Some(now + self.interval);
            events.push(self.search(now));
        }
        for (uuid, server) in &mut self.servers {
            let silent = CliError::ServerSilent {
                socket: server.socket.clone(),
                seconds: PATIENCE.as_secs(),
            };
            if let Some(answer) = server.status.answer(now, self.interval, &silent) {
                if let Ok(status) = &answer {
                    server.drives = drives(status);
                }
                events.push(Event::Status { uuid: uuid.clone(), at: now, answer });
            }
            if server.status.is_due(now) {
                let socket = server.socket.clone();
                server.status.ask(now, move || status_of(&socket));
            }
            let interval = self.interval.max(ZONES_INTERVAL);
            if let Some(answer) = server.zones.answer(now, interval, &"a drive does not answer") {
                events.push(Event::Zones { uuid: uuid.clone(), answer });
            }
            let is_selected = selected == Some(uuid) && !server.drives.is_empty();
            if is_selected && server.zones.is_due(now) {
                let drives = server.drives.clone();
                server.zones.ask(now, move || Ok(zones_of(drives)));
            }
        }
        events
    }

    /// Finds servers that came or went.
    fn search(&mut self, now: Instant) -> Event {
        let found = sockets().into_iter();
        let found = found.filter_map(|socket| Some((array_of(&socket)?.to_string(), socket)));
        let found: BTreeMap<_, _> = found.collect();
        self.servers.retain(|uuid, _| found.contains_key(uuid));
        let uuids = found.keys().cloned().collect();
        for (uuid, socket) in found {
            self.servers.entry(uuid).or_insert_with(|| Server {
                socket,
                status: Asked::new(now),
                zones: Asked::new(now),
                drives: Vec::new(),
            });
        }
        Event::Served(uuids)
    }
}

/// Asks a server, in a thread.
fn status_of(socket: &Path) -> Answer<Box<ArrayStatus>> {
    let told = |error: CliError| error.to_string();
    let Some(client) = Client::connect(socket).map_err(told)? else {
        return Err("its server has died: nobody listens at its socket; start it again".to_owned());
    };
    let status = client.ask(&Request::Status, |_| {}).map_err(told)?;
    serde_json::from_value(status).map_err(|error| {
        format!("its server is of another release, and its status differs: {error}")
    })
}

fn drives(status: &ArrayStatus) -> Vec<(u8, PathBuf)> {
    let members = status.members.iter();
    members.filter_map(|member| Some((member.slot, member.path.clone()?))).collect()
}

/// Asks drives, in a thread.
fn zones_of(drives: Vec<(u8, PathBuf)>) -> Vec<DriveZones> {
    let zones = |path: &Path| {
        let info = Drive::inspect(path).map_err(|error| error.to_string())?;
        let zone = |zone: &zoneweave_zoned::ZoneInfo| MapZone {
            state: zone.state.into(),
            resets: zone.resets,
        };
        Ok(info.zones.iter().map(zone).collect())
    };
    drives.into_iter().map(|(slot, path)| DriveZones { slot, zones: zones(&path) }).collect()
}
