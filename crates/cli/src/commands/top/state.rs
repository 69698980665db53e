//! What is known of the served volumes, and what answers and keys change about it.
//!
//! Invariants:
//! * A volume is there as long as its control socket is.
//! * The selected volume stays selected while others come and go.
//! * A server that does not answer changes nothing that it told before, but for its rates.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::keys::Key;
use crate::commands::zones::StateWord;
use crate::metrics::rates::{ArrayRates, array_rates};
use crate::status::{ArrayStatus, Health};

/// News for the state.
#[derive(Debug)]
pub(super) enum Event {
    /// The UUIDs of the arrays that have a control socket.
    Served(BTreeSet<String>),
    /// The status of an array, or why there is none.
    Status { uuid: String, at: Instant, answer: Result<Box<ArrayStatus>, String> },
    /// The zones of its drives, or why there are none.
    Zones { uuid: String, answer: Result<Vec<DriveZones>, String> },
}

/// The zones of a drive, or why they cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DriveZones {
    pub(super) slot: u8,
    pub(super) zones: Result<Vec<MapZone>, String>,
}

/// A zone on the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MapZone {
    pub(super) state: StateWord,
    pub(super) resets: u64,
}

/// What the zone map shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MapBy {
    State,
    Wear,
}

/// Whether to go on after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Go,
    End,
}

/// A served array.
#[derive(Debug, Default)]
pub(super) struct Volume {
    /// Its newest status, and when it came.
    pub(super) told: Option<(Instant, Box<ArrayStatus>)>,
    /// Between its last two statuses.
    pub(super) rates: Option<ArrayRates>,
    /// Why its server does not answer.
    pub(super) silence: Option<String>,
    /// The zones of its drives.
    pub(super) zones: Option<Vec<DriveZones>>,
    /// Why its drives do not answer.
    pub(super) zones_silence: Option<String>,
}

/// All that a frame shows.
#[derive(Debug)]
pub(super) struct State {
    volumes: BTreeMap<String, Volume>,
    /// The name or UUID of the only volume to show.
    only: Option<String>,
    selected: Option<String>,
    by: MapBy,
    helps: bool,
}

impl Volume {
    /// Its name, or its UUID as long as that is all that is known.
    pub(super) fn name(&self, uuid: &str) -> String {
        self.status().map_or_else(|| uuid.to_owned(), ArrayStatus::full_name)
    }

    /// Its newest status.
    pub(super) fn status(&self) -> Option<&ArrayStatus> {
        self.told.as_ref().map(|(_, status)| &**status)
    }

    /// Its health: unknown unless its server answers; `None` before the first answer is due.
    pub(super) fn health(&self) -> Option<Health> {
        match (&self.silence, self.status()) {
            (Some(_), _) => Some(Health::Unknown),
            (None, status) => status.map(|status| status.health),
        }
    }

    fn hear(&mut self, uuid: &str, at: Instant, answer: Result<Box<ArrayStatus>, String>) {
        let status = match answer {
            Ok(status) => status,
            Err(reason) => {
                (self.rates, self.silence) = (None, Some(reason));
                return;
            }
        };
        let before = self.told.as_ref().filter(|_| self.silence.is_none());
        self.rates = before.and_then(|(then, before)| {
            array_rates(uuid, before, &status, at.saturating_duration_since(*then))
        });
        self.silence = None;
        self.told = Some((at, status));
        assert_ne!(self.health(), None, "a server that answers tells the health");
    }
}

impl State {
    /// Nothing is known yet.
    pub(super) const fn new(only: Option<String>) -> Self {
        Self { volumes: BTreeMap::new(), only, selected: None, by: MapBy::State, helps: false }
    }

    /// Takes news.
    pub(super) fn hear(&mut self, event: Event) {
        match event {
            Event::Served(uuids) => {
                self.volumes.retain(|uuid, _| uuids.contains(uuid));
                for uuid in uuids {
                    self.volumes.entry(uuid).or_default();
                }
            }
            Event::Status { uuid, at, answer } => {
                if let Some(volume) = self.volumes.get_mut(&uuid) {
                    volume.hear(&uuid, at, answer);
                }
            }
            Event::Zones { uuid, answer } => {
                let Some(volume) = self.volumes.get_mut(&uuid) else { return };
                match answer {
                    Ok(zones) => (volume.zones, volume.zones_silence) = (Some(zones), None),
                    Err(reason) => volume.zones_silence = Some(reason),
                }
            }
        }
        let shown = self.shown();
        let is_shown = |uuid: &str| shown.iter().any(|(shown, _)| *shown == uuid);
        if !self.selected.as_deref().is_some_and(is_shown) {
            self.selected = shown.first().map(|(uuid, _)| (*uuid).to_owned());
        }
        assert!(self.selected.is_some() || self.shown().is_empty(), "a shown volume is selected");
    }

    /// Does what a key asks for.
    pub(super) fn press(&mut self, key: Key) -> Flow {
        match key {
            Key::Quit => return Flow::End,
            Key::Help => self.helps = !self.helps,
            Key::Map => {
                self.by = match self.by {
                    MapBy::State => MapBy::Wear,
                    MapBy::Wear => MapBy::State,
                }
            }
            Key::Previous => self.select(|at, _| at.saturating_sub(1)),
            Key::Next => self.select(|at, last| (at + 1).min(last)),
        }
        Flow::Go
    }

    fn select(&mut self, to: fn(usize, usize) -> usize) {
        let shown = self.shown();
        let Some(last) = shown.len().checked_sub(1) else { return };
        let at = shown.iter().position(|(uuid, _)| Some(*uuid) == self.selected());
        let uuid = shown[to(at.unwrap_or(0), last)].0.to_owned();
        self.selected = Some(uuid);
    }

    /// The volumes to show, by name.
    pub(super) fn shown(&self) -> Vec<(&str, &Volume)> {
        let is_meant = |uuid: &str, volume: &Volume| match &self.only {
            None => true,
            // One that has not told its name may be meant, if it does not answer.
            Some(only) => {
                let is_named = |status: &ArrayStatus| status.name == *only;
                only.eq_ignore_ascii_case(uuid)
                    || volume.status().map_or(volume.silence.is_some(), is_named)
            }
        };
        let all = self.volumes.iter().map(|(uuid, volume)| (uuid.as_str(), volume));
        let mut shown: Vec<_> = all.filter(|(uuid, volume)| is_meant(uuid, volume)).collect();
        shown.sort_by_cached_key(|(uuid, volume)| (volume.name(uuid), *uuid));
        shown
    }

    /// The UUID of the selected volume.
    pub(super) fn selected(&self) -> Option<&str> {
        self.selected.as_deref()
    }

    /// The name of the only volume to show.
    pub(super) fn only(&self) -> Option<&str> {
        self.only.as_deref()
    }

    /// What the zone map shows.
    pub(super) const fn by(&self) -> MapBy {
        self.by
    }

    /// Whether the keys are explained instead.
    pub(super) const fn helps(&self) -> bool {
        self.helps
    }
}
