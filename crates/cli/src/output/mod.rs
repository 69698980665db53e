//! What is printed: text for people, or one JSON document for programs.
//!
//! Results go to stdout, everything else to stderr. With `--json` stdout has exactly one document,
//! `{"version": 1, "kind": ..., ...}`, also when the command fails; sizes are bytes, times are
//! nanoseconds, and states are words.

pub(crate) mod globals;
pub(crate) mod progress;

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use serde::Serialize;

use crate::error::CliError;
use crate::exit::Exit;
use globals::{Color, Globals};

/// The version of every JSON document.
const DOCUMENT_VERSION: u32 = 1;

/// Where and how results are printed.
#[derive(Clone)]
pub(crate) struct Output {
    json: bool,
    quiet: bool,
    verbose: bool,
    color: bool,
    /// What messages begin with.
    prefix: String,
    failed: Arc<AtomicBool>,
}

/// How a word is set off.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tone {
    Good,
    Warning,
    Bad,
    Strong,
    Faint,
}

#[derive(Serialize)]
struct Document<'a, T> {
    version: u32,
    kind: &'a str,
    #[serde(flatten)]
    body: &'a T,
}

#[derive(Serialize)]
struct Failure {
    exit_code: u8,
    error: String,
}

impl Output {
    pub(crate) fn new(globals: &Globals) -> Self {
        let color = match globals.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                // https://no-color.org: set and not empty.
                let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
                !refused && io::stdout().is_terminal()
            }
        };
        Self {
            json: globals.json,
            quiet: globals.quiet,
            verbose: globals.verbose,
            color: color && !globals.json,
            prefix: String::new(),
            failed: Arc::default(),
        }
    }

    /// The same, where every message begins with whom it is about.
    pub(crate) fn about(&self, whom: impl Display) -> Self {
        Self { prefix: format!("{whom}: "), ..self.clone() }
    }

    /// Documents only, where arguments could not be understood.
    pub(crate) fn for_programs() -> Self {
        Self::new(&Globals { json: true, quiet: true, verbose: false, color: Color::Never })
    }

    /// Whether the result is a JSON document.
    pub(crate) const fn json(&self) -> bool {
        self.json
    }

    /// Whether only results and errors are wanted.
    pub(crate) const fn quiet(&self) -> bool {
        self.quiet
    }

    /// Whether output was lost, other than by a reader that stopped reading.
    pub(crate) fn failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// A line of the result for people.
    pub(crate) fn line(&self, text: impl Display) {
        if !self.json {
            self.write(&format!("{text}\n"));
        }
    }

    /// The result: a document for programs, or what `text` prints for people.
    pub(crate) fn result<T: Serialize>(&self, kind: &str, body: &T, text: impl FnOnce(&Self)) {
        if !self.json {
            text(self);
            return;
        }
        let document = Document { version: DOCUMENT_VERSION, kind, body };
        match serde_json::to_string_pretty(&document) {
            Ok(text) => self.write(&format!("{text}\n")),
            Err(_) => self.failed.store(true, Ordering::Relaxed),
        }
    }

    /// Bytes of a result that is neither text nor a document, such as a man page.
    pub(crate) fn raw(&self, bytes: &[u8]) {
        self.note_outcome(io::stdout().lock().write_all(bytes));
    }

    /// Something that people may want to know while they wait.
    pub(crate) fn note(&self, text: impl Display) {
        if !self.quiet {
            self.complain(text);
        }
    }

    /// Details for who asked for them.
    pub(crate) fn detail(&self, text: impl Display) {
        if self.verbose {
            self.complain(text);
        }
    }

    /// Something that happened while a server runs, and when: logs are read later.
    pub(crate) fn event(&self, text: impl Display) {
        let time = humantime::format_rfc3339_seconds(SystemTime::now());
        to_stderr(format_args!("{time} {}{text}", self.prefix));
    }

    /// Something that people must hear of while a long job goes on.
    pub(crate) fn news(&self, text: impl Display) {
        self.complain(text);
    }

    /// Something that people must know.
    pub(crate) fn warning(&self, text: impl Display) {
        self.complain(format_args!("warning: {text}"));
    }

    /// Why the command failed.
    pub(crate) fn error(&self, error: &CliError) {
        self.complain(format_args!("zoneweave: {error}"));
        if self.json {
            self.failure(error.exit(), error);
        }
    }

    /// The document that there is instead of a result.
    pub(crate) fn failure(&self, exit: Exit, error: impl Display) {
        let failure = Failure { exit_code: exit.code(), error: error.to_string() };
        self.result("error", &failure, |_| {});
    }

    /// A word set off by colour, where there is colour.
    pub(crate) fn paint(&self, tone: Tone, text: &str) -> String {
        if !self.color {
            return text.to_owned();
        }
        let code = match tone {
            Tone::Good => "32",
            Tone::Warning => "33",
            Tone::Bad => "31;1",
            Tone::Strong => "1",
            Tone::Faint => "2",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    fn complain(&self, text: impl Display) {
        to_stderr(format_args!("{}{text}", self.prefix));
    }

    fn write(&self, text: &str) {
        let mut stdout = io::stdout().lock();
        self.note_outcome(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()));
    }

    fn note_outcome(&self, outcome: io::Result<()>) {
        if outcome.is_err_and(|error| error.kind() != io::ErrorKind::BrokenPipe) {
            self.failed.store(true, Ordering::Relaxed);
        }
    }
}

fn to_stderr(line: impl Display) {
    // Nowhere is left to say that saying it failed.
    let _ = writeln!(io::stderr().lock(), "{line}");
}
