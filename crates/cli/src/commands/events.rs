//! `zoneweave events`: what happened to a served array.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::control::{Client, Request, refuse_locked, socket_of};
use crate::error::CliError;
use crate::events::log::EventPage;
use crate::events::{Event, Level};
use crate::exit::Exit;
use crate::format;
use crate::output::{Output, Tone};
use crate::session::Session;
use crate::shards::by_shard;
use crate::start::locate;
use crate::zoned;

/// How often a server is asked for new events.
const PERIOD: Duration = Duration::from_secs(1);

#[derive(Args)]
pub(crate) struct Events {
    /// Drives of the served array, or of the shards of a volume (any one of each)
    #[arg(value_name = "DRIVE", required = true)]
    drives: Vec<PathBuf>,
    /// Go on with new events, also of the next server of the array. With --json: one document per
    /// line
    #[arg(long, short)]
    follow: bool,
    /// Only events from this level upwards
    #[arg(
        long,
        value_name = "LEVEL",
        value_enum,
        default_value = "info",
        hide_default_value = true
    )]
    level: Level,
}

/// The document of `--json`.
#[derive(Serialize)]
struct EventList {
    events: Vec<Event>,
}

/// A server, with the last event heard from it.
struct Heard {
    socket: PathBuf,
    server_ns: u64,
    number: u64,
}

pub(crate) fn run(request: &Events, output: &Output) -> Result<Exit, CliError> {
    let mut servers = servers(request)?;
    let mut events = Vec::new();
    for server in &mut servers {
        let Some(page) = server.ask()? else {
            refuse_locked(&request.drives, &server.socket)?;
            return Err(CliError::NotServed { what: "its events" });
        };
        tell_missed(&page, output);
        events.extend(page.events);
    }
    let mut wanted = sorted(events, request.level);
    if !request.follow {
        let list = EventList { events: wanted };
        output.result("events", &list, |output| {
            list.events.iter().for_each(|event| print(event, output));
        });
        return Ok(Exit::Done);
    }
    loop {
        for event in &wanted {
            output.result_line("event", event, |output| print(event, output));
        }
        if output.is_in_vain() {
            return Ok(Exit::Done);
        }
        thread::sleep(PERIOD);
        let mut events = Vec::new();
        for server in &mut servers {
            // A server that is gone may be started again.
            if let Ok(Some(page)) = server.ask() {
                tell_missed(&page, output);
                events.extend(page.events);
            }
        }
        wanted = sorted(events, request.level);
    }
}

/// The servers of the arrays of these drives.
fn servers(request: &Events) -> Result<Vec<Heard>, CliError> {
    let session = Session::new()?;
    let heard = |array| Heard { socket: socket_of(array), server_ns: 0, number: 0 };
    if let Some(found) = zoned::find(&session, &request.drives)? {
        // Says why the server of other drives is not meant.
        found.client()?;
        return Ok(vec![heard(found.membership.config.array)]);
    }
    if let Some(sharded) = by_shard(&session, &request.drives)? {
        sharded.tell_strangers(&Output::for_programs());
        for drives in sharded.of_shards.iter().filter(|drives| !drives.is_empty()) {
            // Says why the server of other drives, such as the originals of copies, is not meant.
            locate(&session, drives)?;
        }
        let shards = 0..sharded.of_shards.len();
        return Ok(shards.map(|number| heard(sharded.array(number))).collect());
    }
    let located = locate(&session, &request.drives)?;
    let membership = located.survey.membership.as_ref().ok_or(CliError::NoArray)?;
    Ok(vec![heard(membership.config.array)])
}

impl Heard {
    /// Events that were not heard yet; `None` without a server.
    fn ask(&mut self) -> Result<Option<EventPage>, CliError> {
        let Some(page) = self.page(self.number)? else { return Ok(None) };
        // Another server counts from 1 again.
        let is_same = self.server_ns == 0 || page.server_ns == self.server_ns;
        let page = if is_same { Some(page) } else { self.page(0)? };
        if let Some(page) = &page {
            self.server_ns = page.server_ns;
            self.number = page
                .events
                .last()
                .map_or(if is_same { self.number } else { 0 }, |event| event.number);
        }
        Ok(page)
    }

    fn page(&self, after: u64) -> Result<Option<EventPage>, CliError> {
        let Some(client) = Client::connect(&self.socket)? else { return Ok(None) };
        let answer = client.ask(&Request::Events { after }, |_| {})?;
        let page = serde_json::from_value(answer).map_err(|error| CliError::System {
            action: "read the server's events",
            error: error.into(),
        })?;
        Ok(Some(page))
    }
}

/// Tells that there were more events than the server remembers.
fn tell_missed(page: &EventPage, output: &Output) {
    if page.missed > 0 {
        let missed = page.missed;
        output.warning(format_args!("{missed} older events are no longer known to the server"));
    }
}

/// Events of several servers by time, from a level upwards.
fn sorted(mut events: Vec<Event>, level: Level) -> Vec<Event> {
    events.retain(|event| event.level >= level);
    events.sort_by_key(|event| event.time_ns);
    events
}

fn print(event: &Event, output: &Output) {
    let Event { time_ns, array, level, text, .. } = event;
    let tone = match level {
        Level::Info | Level::Notice => Tone::Faint,
        Level::Warning => Tone::Warning,
        Level::Error | Level::Critical => Tone::Bad,
    };
    let head = format!("{} {:<8}", format::time(*time_ns), level.word());
    output.line(format_args!("{} {array}: {text}", output.paint(tone, &head)));
}
