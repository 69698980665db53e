//! A frame of the state, for a terminal of any size.
//!
//! Sections take lines in the order of what an operator must see: the volumes, the health of the
//! selected one with its reason and action, its load, its jobs, its drives. The zone map has the
//! lines that are left. Text is cut at the right edge, but for the reason and the action, which are
//! broken into lines.

mod drives;
mod map;
mod plain;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::state::{State, Volume};
use crate::format::{broken_at, bytes, span};
use crate::job::JobStatus;
use crate::output::Tone;
use crate::status::{ArrayStatus, Health, job_text, job_unit, open_jobs, tone};

/// Lines for a reason and an action on a small terminal.
const LEAST_HEAD: usize = 3;

/// A terminal with fewer lines has only the selected volume: its health, jobs and drives.
const SMALL: usize = 16;

/// What a terminal can show, and what the title says of the interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) color: bool,
    pub(super) unicode: bool,
    pub(super) interval: Duration,
}

/// The keys, on a terminal of 40 columns and 10 lines as well.
const HELP: [&str; 9] = [
    "up, down  select a volume",
    "z         zones by state, or by wear",
    "?         this help, or back",
    "q         end",
    "",
    "UNKNOWN: no answer; numbers are old.",
    "ERRORS: of reads/writes/checksums",
    "p50/p99: times of reads, of writes",
    "More: zoneweave array status DRIVE...",
];

/// Draws a frame.
pub(super) fn draw(state: &State, look: &Look, now: Instant, buffer: &mut Buffer) {
    let area = buffer.area;
    for (row, line) in (area.top()..area.bottom()).zip(lines(state, look, now, area)) {
        buffer.set_line(area.x, row, &line, area.width);
    }
    plain::adapt(buffer, look);
}

/// The lines of a frame that fit.
fn lines(state: &State, look: &Look, now: Instant, area: Rect) -> Vec<Line<'static>> {
    let (columns, height) = (usize::from(area.width), usize::from(area.height));
    let shown = state.shown();
    let mut lines = vec![title(shown.len(), look, columns)];
    if state.helps() {
        lines.extend(HELP.iter().map(|text| Line::raw(*text)));
        return lines;
    }
    let selected = shown.iter().find(|(uuid, _)| Some(*uuid) == state.selected());
    let Some((uuid, volume)) = selected else {
        lines.push(Line::raw(match state.only() {
            Some(name) => format!("no served volume is named {name}"),
            None => "no volume is served".to_owned(),
        }));
        return lines;
    };
    let is_small = height < SMALL;
    if shown.len() > 1 && !is_small {
        lines.extend(list(&shown, uuid, height / 5));
    }
    lines.extend(head(uuid, volume, now, columns, (height / 4).max(LEAST_HEAD)));
    let Some(status) = volume.status() else { return lines };
    if !is_small {
        lines.extend(load(volume, columns));
    }
    lines.extend(jobs(status, columns, (height / 6).max(1)));
    let left = height.saturating_sub(lines.len());
    let map = if is_small { 0 } else { map::LEAST };
    let most = left.saturating_sub(map);
    lines.extend(drives::table(status, volume.rates.as_ref(), columns, most));
    let left = height.saturating_sub(lines.len());
    lines.extend(map::map(volume, state.by(), columns, left));
    lines
}

/// A text with emphasis.
fn told(text: impl Into<String>, tone: Tone) -> Span<'static> {
    let style = match tone {
        Tone::Good => Style::new().fg(Color::Green),
        Tone::Warning => Style::new().fg(Color::Yellow),
        Tone::Bad => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
        Tone::Strong => Style::new().add_modifier(Modifier::BOLD),
        Tone::Faint => Style::new().add_modifier(Modifier::DIM),
    };
    Span::styled(text.into(), style)
}

/// The first line, with as much as fits.
fn title(volumes: usize, look: &Look, columns: usize) -> Line<'static> {
    let plural = if volumes == 1 { "" } else { "s" };
    let short = format!("zoneweave top · {volumes} volume{plural}");
    let long = format!("{short} every {}", humantime::format_duration(look.interval));
    let keys = "? help  q end";
    let gap = |text: &str| columns.saturating_sub(text.chars().count() + keys.len());
    let text = if gap(&long) >= 2 { long } else { short };
    let gap = gap(&text);
    Line::from(vec![told(text, Tone::Strong), told(format!("{:gap$}{keys}", ""), Tone::Faint)])
}

/// The volumes, or so many of them around the selected one.
fn list(shown: &[(&str, &Volume)], selected: &str, most: usize) -> Vec<Line<'static>> {
    assert!(most > 0, "the selected volume is on the list");
    let at = shown.iter().position(|(uuid, _)| *uuid == selected).unwrap_or(0);
    let first = at.saturating_sub(most / 2).min(shown.len().saturating_sub(most));
    let part = &shown[first..shown.len().min(first + most)];
    let names: Vec<_> = part.iter().map(|(uuid, volume)| volume.name(uuid)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let line = |((uuid, volume), name): (&(&str, &Volume), &String)| {
        let is_selected = *uuid == selected;
        let mark = if is_selected { '▶' } else { ' ' };
        let name = format!("{mark} {name:<width$}  ");
        let strong = if is_selected { told(name, Tone::Strong) } else { Span::raw(name) };
        let load = volume.rates.as_ref().map(|rates| format!("  {}", rates.load()));
        let (word, tone) = health(volume);
        Line::from(vec![strong, told(word, tone), Span::raw(load.unwrap_or_default())])
    };
    part.iter().zip(&names).map(line).collect()
}

fn health(volume: &Volume) -> (&'static str, Tone) {
    volume.health().map_or(("asked", Tone::Faint), |health| (health.word(), tone(health)))
}

/// The health of a volume, its reason and action, in so many lines at most.
fn head(
    uuid: &str,
    volume: &Volume,
    now: Instant,
    columns: usize,
    most: usize,
) -> Vec<Line<'static>> {
    assert!(most > 0, "the health is on the first line");
    let (word, tone) = health(volume);
    let facts = volume.status().map(|status| format!("  {}", facts(status)));
    let name = told(format!("{}  ", volume.name(uuid)), Tone::Strong);
    let mut lines =
        vec![Line::from(vec![name, told(word, tone), Span::raw(facts.unwrap_or_default())])];
    let field = |name: &str, text: &str| {
        let text = format!("  {name:<7}{text}");
        cut(columns, broken_at(columns, &text, 9))
    };
    let mut texts = Vec::new();
    if let Some(reason) = &volume.silence {
        texts.extend(field("why", reason));
        if let Some((then, _)) = &volume.told {
            let ago = now.saturating_duration_since(*then).as_secs();
            texts.extend(field("told", &format!("what follows is {ago} s old")));
        }
    } else if let Some(status) = volume.status() {
        texts.extend(status.why.iter().flat_map(|why| field("why", why)));
        texts.extend(status.action.iter().flat_map(|action| field("action", action)));
    }
    let room = most - 1;
    let is_cut = texts.len() > room;
    texts.truncate(room);
    if let Some(last) = texts.last_mut().filter(|_| is_cut) {
        let kept: String = last.chars().take(columns.saturating_sub(1)).collect();
        *last = format!("{kept}…");
    }
    lines.extend(texts.into_iter().map(Line::raw));
    lines
}

/// What a volume is.
fn facts(status: &ArrayStatus) -> String {
    let kind = if status.zones.is_some() { "zoned" } else { "block" };
    let up = match &status.server {
        Some(server) => format!("up {}", span(server.uptime_ns)),
        None if status.health == Health::Starting => "being started".to_owned(),
        None => "not served".to_owned(),
    };
    let clients = status.server.as_ref().map(|server| format!(" · {} clients", server.clients));
    let size = bytes(status.size_bytes);
    format!("{} · {kind} {size} · {up}{}", status.scheme, clients.unwrap_or_default())
}

/// Breaks words that are longer than a line.
fn cut(columns: usize, lines: Vec<String>) -> Vec<String> {
    let cut = |line: String| {
        let signs: Vec<char> = line.chars().collect();
        signs.chunks(columns.max(1)).map(|part| part.iter().collect()).collect::<Vec<String>>()
    };
    lines.into_iter().flat_map(cut).collect()
}

/// What users and reclaim do.
fn load(volume: &Volume, columns: usize) -> Vec<Line<'static>> {
    let load = match (&volume.rates, &volume.silence) {
        (Some(rates), _) => rates.load(),
        (None, Some(_)) => return Vec::new(),
        (None, None) => "measured from the next answer on".to_owned(),
    };
    let lines = broken_at(columns, &format!("  load   {load}"), 9);
    lines.into_iter().map(Line::raw).collect()
}

/// Jobs that wait or run.
fn jobs(status: &ArrayStatus, columns: usize, most: usize) -> Vec<Line<'static>> {
    let Some(server) = &status.server else { return Vec::new() };
    let line = |(job, left): (&JobStatus, Option<u64>)| {
        format!("  {:<7}{}", job.kind.word(), job_text(job, job_unit(status), left))
    };
    let mut lines: Vec<_> = open_jobs(server).map(line).collect();
    let hidden = lines.len().saturating_sub(most);
    lines.truncate(most);
    if let Some(last) = lines.last_mut().filter(|_| hidden > 0) {
        let note = format!(" (+{hidden} jobs)");
        let kept = columns.saturating_sub(note.chars().count());
        *last = last.chars().take(kept).collect::<String>() + &note;
    }
    lines.into_iter().map(Line::raw).collect()
}
