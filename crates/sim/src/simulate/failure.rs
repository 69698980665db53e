//! A history that broke a promise: the message, its place in the code, and the life.

use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::Once;

use serde::Serialize;

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// Message of the failed check.
    pub message: String,
    /// Place of the check in the code as `file:line`, if [`record_panics`] was called.
    pub place: String,
    /// Number of the life, from 1 on; 0 while the array was created.
    pub life: usize,
}

impl Failure {
    pub(crate) fn leak(blocks: usize) -> Self {
        let message = format!("{blocks} blocks of memory are still held after the end");
        Self { message, place: String::new(), life: 0 }
    }

    /// Whether it looks like the same bug. Numbers may differ, since a smaller history has others.
    #[must_use]
    pub fn resembles(&self, other: &Self) -> bool {
        let words = |text: &str| {
            let letters = text.chars().filter(|letter| !letter.is_ascii_digit());
            letters.take(24).collect::<String>()
        };
        match self.place.is_empty() || other.place.is_empty() {
            true => words(&self.message) == words(&other.message),
            false => self.place == other.place && words(&self.message) == words(&other.message),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "in life {}: {}", self.life, self.message)?;
        match self.place.is_empty() {
            true => Ok(()),
            false => write!(f, " ({})", self.place),
        }
    }
}

thread_local! {
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
    static CATCHING: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Records the places of panics in histories instead of printing them. Other panics print as ever.
pub fn record_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
            if !CATCHING.get() {
                return others(info);
            }
            let place = info.location().map(|at| format!("{}:{}", at.file(), at.line()));
            PLACE.set(place.unwrap_or_default());
        }));
    });
}

/// Runs a history to its end or to a panic.
pub(crate) fn catch<T>(history: impl FnOnce() -> T) -> Result<T, Failure> {
    PLACE.set(String::new());
    CATCHING.set(true);
    // A panic leaves only state of its own history behind, which is dropped.
    let result = catch_unwind(AssertUnwindSafe(history));
    CATCHING.set(false);
    result.map_err(|payload| {
        let text = payload.downcast_ref::<String>().cloned();
        let text = text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let message = text.unwrap_or_else(|| "a panic without a message".to_owned());
        Failure { message, place: PLACE.take(), life: 0 }
    })
}
