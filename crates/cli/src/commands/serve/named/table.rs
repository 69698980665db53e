//! A table of the configuration file, as command lines: one for each front end.
//!
//! All command lines have the same options of the array, so that the front ends agree about it.

use clap::{Arg, Args, Command};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Problem;
use super::front::{Front, front_ends};
use super::option::{drives, unknown, words};
use crate::commands::serve::fronts::Places;
use crate::commands::serve::options::Served;

/// The keys of a volume that are no options.
const DRIVES: &str = "drives";
const ARRAY: &str = "array";

/// Where the lines of a text begin.
pub(super) struct Lines(Vec<usize>);

impl Lines {
    pub(super) fn of(text: &str) -> Self {
        let starts = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self(starts.map(|(at, _)| at + 1).collect())
    }

    /// The line of a byte, counted from 1.
    pub(super) fn at(&self, byte: usize) -> usize {
        self.0.partition_point(|start| *start <= byte) + 1
    }
}

/// A volume of the file.
#[derive(Debug)]
pub(crate) struct VolumeTable {
    name: String,
    line: usize,
    fronts: Vec<Front>,
    problems: Vec<Problem>,
}

/// A key with its value and line.
struct Entry<'a> {
    key: &'a str,
    value: &'a DeValue<'a>,
    line: usize,
}

fn entries<'a>(table: &'a DeTable<'a>, lines: &'a Lines) -> impl Iterator<Item = Entry<'a>> {
    let entry = |(key, value): (&'a Spanned<_>, &'a Spanned<_>)| {
        let text: &std::borrow::Cow<'a, str> = key.get_ref();
        Entry { key: text, value: value.get_ref(), line: lines.at(key.span().start) }
    };
    table.iter().map(entry)
}

fn option<'a>(command: &'a Command, key: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|option| option.get_long() == Some(key))
}

fn options(command: &Command) -> impl Iterator<Item = &str> {
    command.get_arguments().filter_map(|option| option.get_long())
}

impl VolumeTable {
    /// Reads a table. What is wrong with it is kept for [`VolumeTable::request`].
    pub(super) fn read(name: &str, line: usize, value: &DeValue<'_>, lines: &Lines) -> Self {
        let mut volume =
            Self { name: name.to_owned(), line, fronts: Vec::new(), problems: Vec::new() };
        if !is_name(name) {
            volume
                .problem(line, "has a name that no unit can have: use letters, digits, -, _ and .");
        }
        match value {
            DeValue::Table(table) => volume.read_table(table, lines),
            _ => volume.problem(line, "is no table: write [volume.NAME]"),
        }
        volume
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn problem(&mut self, line: usize, text: impl AsRef<str>) {
        let text = format!("volume {}: {}", self.name, text.as_ref());
        self.problems.push(Problem { line, text });
    }

    fn read_table(&mut self, table: &DeTable<'_>, lines: &Lines) {
        let all = front_ends();
        let shared = Served::augment_args(Command::new("array"));
        let is_front = |key: &str| all.find_subcommand(key).is_some();
        for Entry { key, value, line } in entries(table, lines).filter(|entry| is_front(entry.key))
        {
            let verb = all.find_subcommand(key).expect("a front end");
            let mut front = Front::new(key, line);
            match value {
                DeValue::Boolean(false) => continue,
                DeValue::Boolean(true) => {}
                DeValue::Table(own) => self.read_front(&mut front, own, verb, &shared, lines),
                _ => self.problem(line, format!("{key} is a table of its options, or true")),
            }
            self.fronts.push(front);
        }
        let (mut paths, mut is_named) = (Vec::new(), false);
        for Entry { key, value, line } in entries(table, lines).filter(|entry| !is_front(entry.key))
        {
            if key == DRIVES {
                match drives(value) {
                    Ok(found) => paths = found,
                    Err(text) => self.problem(line, text),
                }
                continue;
            }
            is_named |= key == ARRAY;
            match option(&shared, key) {
                Some(option) => self.share(option, value, line, &all),
                None => self.problem(line, misplaced(key, &all, &shared)),
            }
        }
        if self.fronts.is_empty() {
            let fronts: Vec<_> = all.get_subcommands().map(Command::get_name).collect();
            let text = format!("has no front end: add one of {}", fronts.join(", "));
            self.problem(self.line, text);
        }
        for front in &mut self.fronts {
            match (paths.is_empty(), is_named) {
                (false, _) => front.end_with(&paths),
                (true, false) => {
                    front.add(ARRAY, vec![format!("--{ARRAY}={}", self.name)], self.line)
                }
                (true, true) => {}
            }
        }
    }

    /// Reads the table of a front end.
    fn read_front(
        &mut self,
        front: &mut Front,
        table: &DeTable<'_>,
        verb: &Command,
        shared: &Command,
        lines: &Lines,
    ) {
        for Entry { key, value, line } in entries(table, lines) {
            match option(verb, key).filter(|_| option(shared, key).is_none()) {
                Some(option) => match words(option, value) {
                    Ok(words) => front.add(key, words, line),
                    Err(text) => self.problem(line, text),
                },
                None => {
                    let own = options(verb).filter(|key| option(shared, key).is_none());
                    let text = match option(shared, key) {
                        Some(_) => format!("{key} is a key of [volume.{}] itself", self.name),
                        None => unknown(key, &own.collect::<Vec<_>>()),
                    };
                    self.problem(line, text);
                }
            }
        }
    }

    /// Adds an option of the array to all front ends.
    fn share(&mut self, option: &Arg, value: &DeValue<'_>, line: usize, all: &Command) {
        let key = option.get_long().expect("options of the array have names");
        assert!(key != DRIVES, "drives are no option");
        let words = match words(option, value) {
            Ok(words) => words,
            Err(text) => return self.problem(line, text),
        };
        let mut without = None;
        for front in &mut self.fronts {
            let verb = all.find_subcommand(front.name()).expect("a front end");
            match self::option(verb, key) {
                Some(_) => front.add(key, words.clone(), line),
                None => without = Some(front.name().to_owned()),
            }
        }
        if let Some(front) = without {
            self.problem(line, format!("{key} is for block volumes, and {front} serves zones"));
        }
    }

    /// The array and all front ends.
    ///
    /// # Errors
    /// What is wrong with the table.
    pub(in crate::commands::serve) fn request(&self) -> Result<(Served, Places), Vec<Problem>> {
        let mut problems = self.problems.clone();
        let mut all: Option<(Served, Places)> = None;
        for front in self.fronts.iter().filter(|_| self.problems.is_empty()) {
            let mut add = |Problem { line, text }: Problem| {
                problems.push(Problem { line, text: format!("volume {}: {text}", self.name) });
            };
            let (served, places) = match front.parse() {
                Ok(request) => request,
                Err(problem) => {
                    add(problem);
                    continue;
                }
            };
            let Some((_, others)) = all.take() else {
                all = Some((served, places));
                continue;
            };
            let has_store = others.has_store() || places.has_store();
            match others.and(places) {
                Ok(_) if has_store => {
                    let text = "a file store shares its zones with no other front end".to_owned();
                    add(Problem { line: front.line(), text });
                }
                Ok(places) => all = Some((served, places)),
                Err(error) => add(Problem { line: front.line(), text: error.to_string() }),
            }
        }
        assert!(all.is_some() || !problems.is_empty(), "a table without front ends is a problem");
        match all.filter(|_| problems.is_empty()) {
            Some(request) => Ok(request),
            None => Err(problems),
        }
    }

    /// The array.
    ///
    /// # Errors
    /// What is wrong with the table.
    pub(crate) fn array(&self) -> Result<Served, Vec<Problem>> {
        self.request().map(|(served, _)| served)
    }

    /// The commands that serve the volume through one front end each.
    pub(crate) fn commands(&self) -> Vec<String> {
        self.fronts.iter().map(Front::command).collect()
    }
}

/// The message for a key that no option of the array has.
fn misplaced(key: &str, all: &Command, shared: &Command) -> String {
    match all.get_subcommands().find(|front| option(front, key).is_some()) {
        Some(front) => format!("{key} is a key of a front end, e.g. {}", front.get_name()),
        None => {
            let fronts = all.get_subcommands().map(Command::get_name);
            unknown(key, &fronts.chain(options(shared)).chain([DRIVES]).collect::<Vec<_>>())
        }
    }
}

/// Whether a volume may be the instance of a unit by this name, without escapes.
fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    name.bytes().all(is_plain)
        && name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
}
