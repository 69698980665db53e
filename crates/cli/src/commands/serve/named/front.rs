//! A front end of the configuration file, as the words of a command line.

use std::collections::BTreeMap;

use clap::error::{ContextKind, ContextValue};
use clap::{Command, CommandFactory, Parser, Subcommand};

use super::Problem;
use crate::commands::serve::fronts::Places;
use crate::commands::serve::options::Served;
use crate::commands::serve::verbs::{FrontVerb, StoreServer};
use crate::format::word;

/// A front end with its options.
#[derive(Parser)]
#[command(no_binary_name = true, disable_help_flag = true, disable_help_subcommand = true)]
struct FrontLine {
    #[command(subcommand)]
    front: FrontEnd,
}

/// The front ends: the verbs of `zoneweave serve`, and `zoneweave fs serve`.
#[derive(Subcommand)]
enum FrontEnd {
    #[command(flatten)]
    Volume(FrontVerb),
    /// Serve the file store of a drive or zoned volume
    Store(StoreServer),
}

/// The name of [`FrontEnd::Store`].
const STORE: &str = "store";

/// The command of each front end.
pub(super) fn front_ends() -> Command {
    FrontLine::command()
}

/// A front end of a volume.
#[derive(Debug)]
pub(super) struct Front {
    line: usize,
    /// The name of the front end, options and drives.
    words: Vec<String>,
    /// Lines of the options.
    lines: BTreeMap<String, usize>,
}

impl Front {
    pub(super) fn new(name: &str, line: usize) -> Self {
        Self { line, words: vec![name.to_owned()], lines: BTreeMap::new() }
    }

    pub(super) const fn line(&self) -> usize {
        self.line
    }

    pub(super) fn name(&self) -> &str {
        self.words.first().expect("a front end has its name")
    }

    /// Adds an option, which the file has at a line.
    pub(super) fn add(&mut self, key: &str, words: Vec<String>, line: usize) {
        self.words.extend(words);
        self.lines.insert(key.to_owned(), line);
    }

    /// Adds the drives, after the options.
    pub(super) fn end_with(&mut self, drives: &[String]) {
        assert!(!drives.is_empty(), "an array has drives, or a name");
        self.words.push("--".to_owned());
        match self.name() {
            // One argument, like the URI of a store.
            STORE => self.words.push(drives.join(",")),
            _ => self.words.extend_from_slice(drives),
        }
    }

    /// The command that serves the volume through this front end alone.
    pub(super) fn command(&self) -> String {
        let verb = match self.name() {
            STORE => vec!["zoneweave", "fs", "serve"],
            name => vec!["zoneweave", "serve", name],
        };
        let verb = verb.into_iter().map(str::to_owned);
        let options = self.words.iter().skip(1).map(|option| quoted(option));
        verb.chain(options).collect::<Vec<_>>().join(" ")
    }

    /// The array and this front end.
    pub(super) fn parse(&self) -> Result<(Served, Places), Problem> {
        let parsed =
            FrontLine::try_parse_from(&self.words).map_err(|error| self.problem(&error))?;
        let request = match parsed.front {
            FrontEnd::Volume(verb) => verb.request(),
            FrontEnd::Store(store) => store.request(),
        };
        request.map_err(|error| Problem { line: self.line, text: error.to_string() })
    }

    /// A problem that the parser of command lines has found.
    fn problem(&self, error: &clap::Error) -> Problem {
        let option = match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::String(option)) => option.trim_start_matches('-'),
            _ => "",
        };
        let end = option.find([' ', '=', '[']).unwrap_or(option.len());
        let line = self.lines.get(&option[..end]).copied().unwrap_or(self.line);
        let text = error.to_string();
        // After the message come hints for a terminal.
        let message = text.split("\n\n").next().unwrap_or_default();
        let message = message.trim_start_matches("error: ").split_whitespace();
        Problem { line, text: message.collect::<Vec<_>>().join(" ") }
    }
}

/// An argument quoted for a shell, an option by its value.
fn quoted(argument: &str) -> String {
    match argument.split_once('=').filter(|(name, _)| name.starts_with("--")) {
        Some((name, value)) => format!("{name}={}", word(value)),
        None => word(argument),
    }
}
