//! Output: text, or one JSON document with `--json`.
//!
//! Results go to stdout, everything else to stderr. With `--json` stdout has exactly one document,
//! `{"version": 1, "kind": ..., ...}`, even if the command fails. Sizes are in bytes, times in
//! nanoseconds, and states are words.

mod background;
pub(crate) mod globals;
pub(crate) mod progress;
pub(crate) mod queue;

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use serde::Serialize;

use crate::error::CliError;
use crate::exit::Exit;
use crate::output::queue::Queue;
use globals::{Color, Globals};

/// The version of every JSON document.
const DOCUMENT_VERSION: u32 = 1;

/// The format of the output.
#[derive(Clone)]
pub(crate) struct Output {
    json: bool,
    quiet: bool,
    verbose: bool,
    color: bool,
    /// Prefix of messages.
    prefix: String,
    failed: Arc<AtomicBool>,
    /// Whether the reader of standard output is gone.
    unread: Arc<AtomicBool>,
    /// Writes messages, once the process serves.
    background: Arc<OnceLock<Queue<String>>>,
}

/// Emphasis of a word.
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
            unread: Arc::default(),
            background: Arc::default(),
        }
    }

    /// From now on a thread writes messages: no reader of standard error holds up this process.
    ///
    /// # Errors
    /// If there is no thread for it.
    pub(crate) fn go_to_background(&self) -> Result<(), CliError> {
        let started = background::start(io::stderr());
        let background = started
            .map_err(|error| CliError::System { action: "start a thread for messages", error })?;
        // Set once: a process serves once.
        let _ = self.background.set(background);
        Ok(())
    }

    /// Waits until the thread has written the messages so far, for a limited time; those that
    /// follow are lost. Call it at the end of the process, also of one that panics: its other
    /// threads may keep the output for ever.
    pub(crate) fn end(&self) {
        let limit = if std::thread::panicking() {
            background::LAST_TIME_OF_PANIC
        } else {
            background::LAST_TIME
        };
        if let Some(background) = self.background.get() {
            let _written_or_not = background.end(limit);
        }
    }

    /// The same with a prefix for messages.
    pub(crate) fn about(&self, subject: impl Display) -> Self {
        Self { prefix: format!("{subject}: "), ..self.clone() }
    }

    /// Documents only, for arguments that did not parse.
    pub(crate) fn for_programs() -> Self {
        Self::new(&Globals { json: true, quiet: true, verbose: false, color: Color::Never })
    }

    /// Whether the result is a JSON document.
    pub(crate) const fn json(&self) -> bool {
        self.json
    }

    /// Whether the output has colours.
    pub(crate) const fn color(&self) -> bool {
        self.color
    }

    /// Whether `--quiet` was given.
    pub(crate) const fn quiet(&self) -> bool {
        self.quiet
    }

    /// Whether `--verbose` was given.
    pub(crate) const fn verbose(&self) -> bool {
        self.verbose
    }

    /// Whether writing failed, other than with a broken pipe.
    pub(crate) fn failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Whether output goes nowhere: its reader is gone, or writing failed.
    pub(crate) fn is_in_vain(&self) -> bool {
        self.failed() || self.unread.load(Ordering::Relaxed)
    }

    /// Prints a line of the result, unless it is a document.
    pub(crate) fn line(&self, text: impl Display) {
        if !self.json {
            self.write(&format!("{text}\n"));
        }
    }

    /// Prints the result: a document, or the lines that `text` prints.
    pub(crate) fn result<T: Serialize>(&self, kind: &str, body: &T, text: impl FnOnce(&Self)) {
        self.document(kind, body, text, |document| serde_json::to_string_pretty(document));
    }

    /// Prints one of many results: a document on a line of its own, or the lines that `text`
    /// prints.
    pub(crate) fn result_line<T: Serialize>(&self, kind: &str, body: &T, text: impl FnOnce(&Self)) {
        self.document(kind, body, text, |document| serde_json::to_string(document));
    }

    fn document<T: Serialize>(
        &self,
        kind: &str,
        body: &T,
        text: impl FnOnce(&Self),
        encode: impl FnOnce(&Document<'_, T>) -> serde_json::Result<String>,
    ) {
        if !self.json {
            text(self);
            return;
        }
        match encode(&Document { version: DOCUMENT_VERSION, kind, body }) {
            Ok(text) => self.write(&format!("{text}\n")),
            Err(_) => self.failed.store(true, Ordering::Relaxed),
        }
    }

    /// Prints raw bytes, such as a man page.
    pub(crate) fn raw(&self, bytes: &[u8]) {
        self.record_outcome(io::stdout().lock().write_all(bytes));
    }

    /// Prints a note, unless `--quiet`.
    pub(crate) fn note(&self, text: impl Display) {
        if !self.quiet {
            self.complain(text);
        }
    }

    /// Prints details, with `--verbose`.
    pub(crate) fn detail(&self, text: impl Display) {
        if self.verbose {
            self.complain(text);
        }
    }

    /// Prints a line of a server's log.
    pub(crate) fn log_line(&self, line: impl Display) {
        self.to_stderr(line);
    }

    /// Prints news of a long job, even with `--quiet`.
    pub(crate) fn news(&self, text: impl Display) {
        self.complain(text);
    }

    /// Prints a warning.
    pub(crate) fn warning(&self, text: impl Display) {
        self.complain(format_args!("warning: {text}"));
    }

    /// Prints the error that ends the command.
    pub(crate) fn error(&self, error: &CliError) {
        self.complain(format_args!("zoneweave: {error}"));
        if self.json {
            self.failure(error.exit(), error);
        }
    }

    /// Prints the document of an error.
    pub(crate) fn failure(&self, exit: Exit, error: impl Display) {
        let failure = Failure { exit_code: exit.code(), error: error.to_string() };
        self.result("error", &failure, |_| {});
    }

    /// A word in colour, if colours are on.
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
        self.to_stderr(format_args!("{}{text}", self.prefix));
    }

    fn to_stderr(&self, line: impl Display) {
        match self.background.get() {
            Some(background) => background.put(line.to_string()),
            // There is no other place to report a failure.
            None => drop(writeln!(io::stderr().lock(), "{line}")),
        }
    }

    fn write(&self, text: &str) {
        let mut stdout = io::stdout().lock();
        self.record_outcome(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()));
    }

    fn record_outcome(&self, outcome: io::Result<()>) {
        let Err(error) = outcome else { return };
        let is_unread = error.kind() == io::ErrorKind::BrokenPipe;
        let flag = if is_unread { &self.unread } else { &self.failed };
        flag.store(true, Ordering::Relaxed);
    }
}
