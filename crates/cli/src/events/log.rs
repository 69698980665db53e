//! The last events of an array in service.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use zoneweave_runtime::Nanos;

use super::changes::Changes;
use super::{Event, Level, What};
use crate::status::ArrayStatus;

/// Events that a server remembers: about 400 KiB.
const REMEMBERED: usize = 1024;

/// The events of an array, oldest first.
pub(crate) struct EventLog {
    /// Name of the array.
    array: String,
    /// Distinguishes this server from an earlier one, whose numbers were others.
    began_ns: u64,
    events: RefCell<Events>,
    /// What the last look saw.
    changes: RefCell<Changes>,
}

#[derive(Default)]
struct Events {
    last: VecDeque<Event>,
    /// Number of the newest event.
    number: u64,
    /// Number of the last event that [`EventLog::news`] returned.
    told: u64,
    /// Whether the server ends.
    stops: bool,
}

/// The answer of a server to a request for events.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct EventPage {
    /// When this server began, in nanoseconds since 1970: another value means other numbers.
    pub server_ns: u64,
    /// Events that the request missed, because the server remembers only the last ones.
    pub missed: u64,
    /// Oldest first.
    pub events: Vec<Event>,
}

impl EventLog {
    pub(crate) fn new(array: impl Into<String>) -> Self {
        Self {
            array: array.into(),
            began_ns: unix_time_ns(),
            events: RefCell::default(),
            changes: RefCell::default(),
        }
    }

    /// Adds an event.
    pub(crate) fn note(&self, what: What) {
        let mut events = self.events.borrow_mut();
        events.number += 1;
        // The next server goes on with jobs that the end of this one interrupts.
        let level = if events.stops { what.level().min(Level::Notice) } else { what.level() };
        events.stops |= what == What::Stopping;
        let event = Event {
            number: events.number,
            time_ns: unix_time_ns(),
            array: self.array.clone(),
            level,
            text: what.to_string(),
            what,
        };
        if events.last.len() >= REMEMBERED {
            events.last.pop_front();
        }
        events.last.push_back(event);
        assert!(events.told < events.number, "no event is told before it is noted");
    }

    /// Adds what has changed since the last look. Once the server ends in order nothing has: states
    /// of the array are those of an end, not of a fault.
    pub(crate) fn look(&self, now: Nanos, status: impl FnOnce() -> ArrayStatus) {
        if self.events.borrow().stops {
            return;
        }
        let status = status();
        let changes = self.changes.borrow_mut().look(now, &status);
        changes.into_iter().for_each(|what| self.note(what));
    }

    /// The events since the last call.
    pub(crate) fn news(&self) -> Vec<Event> {
        let mut events = self.events.borrow_mut();
        let newest = events.number;
        let told = std::mem::replace(&mut events.told, newest);
        events.after(told).cloned().collect()
    }

    /// The events after that of a number.
    pub(crate) fn page(&self, after: u64) -> EventPage {
        let events = self.events.borrow();
        let first = events.last.front().map_or(events.number + 1, |event| event.number);
        EventPage {
            server_ns: self.began_ns,
            missed: first.saturating_sub(after.saturating_add(1)),
            events: events.after(after).cloned().collect(),
        }
    }
}

impl Events {
    fn after(&self, number: u64) -> impl Iterator<Item = &Event> {
        self.last.iter().filter(move |event| event.number > number)
    }
}

/// Nanoseconds since 1970.
fn unix_time_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Place;
    use crate::job::JobKind;

    fn numbers(events: &[Event]) -> Vec<u64> {
        events.iter().map(|event| event.number).collect()
    }

    #[test]
    fn events_are_told_once_and_asked_for_again() {
        let log = EventLog::new("vol0");
        log.note(What::Stopping);
        log.note(What::ReclaimEased);
        assert_eq!(numbers(&log.news()), [1, 2]);
        assert_eq!(numbers(&log.news()), [0; 0]);
        assert_eq!(numbers(&log.page(1).events), [2]);
        assert_eq!(numbers(&log.page(u64::MAX).events), [0; 0]);
    }

    /// A restart in a rebuild was told as an error.
    #[test]
    fn jobs_that_the_end_of_a_server_interrupts_are_no_errors() {
        let log = EventLog::new("vol0");
        let ended = What::ended(JobKind::Rebuild, Place::new(1, ""), &Err("it stops"), ("", ""));
        log.note(ended.clone());
        log.note(What::Stopping);
        log.note(ended);
        let levels: Vec<_> = log.news().iter().map(|event| event.level).collect();
        assert_eq!(levels, [Level::Error, Level::Info, Level::Notice]);
    }

    /// A server for years has many events.
    #[test]
    fn the_oldest_events_are_dropped_and_counted() {
        let log = EventLog::new("vol0");
        for _ in 0..REMEMBERED + 10 {
            log.note(What::Stopping);
        }
        let page = log.page(3);
        assert_eq!((page.missed, page.events.len()), (7, REMEMBERED));
        assert_eq!(log.page(10).missed, 0);
        assert_eq!(log.news().len(), REMEMBERED);
    }

    #[test]
    fn an_event_survives_its_document() {
        let log = EventLog::new("vol0");
        log.note(What::Filled { percent: 90 });
        let text = serde_json::to_string(&log.page(0)).unwrap();
        assert!(text.contains(r#""event":"filled","percent":90"#), "{text}");
        assert_eq!(serde_json::from_str::<EventPage>(&text).unwrap(), log.page(0));
    }
}
