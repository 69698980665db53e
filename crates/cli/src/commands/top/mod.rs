//! `zoneweave top`: served volumes, live on a terminal.
//!
//! * [`state`]: what is known, and what answers and keys change about it.
//! * [`view`]: a frame of it. Neither has a clock, a thread or a terminal, so tests draw frames.
//! * [`sampler`]: asks servers and drives, in threads that nothing here waits for.
//! * [`keys`]: keys from bytes. [`screen`]: the terminal, restored whatever ends this command.
//!
//! The thread that draws waits for keys alone, for [`TICK`] at most. A server or a drive that hangs
//! keeps its own thread, and the next question waits for that one: a server has one thread at most.

mod keys;
mod sampler;
mod screen;
mod state;
mod view;

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use clap::Args;
use zoneweave_linux::Signals;

use crate::error::CliError;
use crate::exit::Exit;
use crate::format::parse_time;
use crate::output::Output;
use keys::Input;
use sampler::Sampler;
use screen::Screen;
use state::{Flow, State};
use view::Look;

/// The longest wait for a key: answers and signals are seen as often. People notice no less.
const TICK: Duration = Duration::from_millis(100);

/// The shortest time between two questions to a server.
const SHORTEST: Duration = Duration::from_millis(100);

#[derive(Args)]
#[command(
    after_help = "Keys: arrows select a volume, z shows zones by state or by wear, ? explains, \
                        q ends.\nA server that does not answer is UNKNOWN, with the reason and what \
                        it told last."
)]
pub(crate) struct Top {
    /// Only the served volume of this name or UUID
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Time between questions to a server
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "1s")]
    interval: Duration,
}

pub(crate) fn run(request: &Top, output: &Output) -> Result<Exit, CliError> {
    if output.json() || !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(CliError::NoTerminal);
    }
    let failed = |action| move |error| CliError::System { action, error };
    // A container that refuses io_uring has sockets to its servers all the same.
    let signals = Signals::without_ring().map_err(failed("receive signals"))?;
    // All of them are for this thread: the other one would end the process without the terminal.
    signals.serving();
    let interval = request.interval.max(SHORTEST);
    let look = Look { color: output.color(), unicode: is_unicode(), interval };
    let mut state = State::new(request.name.clone());
    let watched = Screen::open(look.color).and_then(|mut screen| {
        let mut sampler = Sampler::new(interval);
        watch(&mut state, &mut sampler, &mut screen, &look, &signals)
    });
    // The terminal is as before: from here on a signal may end the process.
    if let Some(signal) = signals.take() {
        signal.end_process();
    }
    watched.map_err(failed("use the terminal"))?;
    Ok(Exit::Done)
}

/// Draws until a key or a signal ends it.
fn watch(
    state: &mut State,
    sampler: &mut Sampler,
    screen: &mut Screen,
    look: &Look,
    signals: &Signals,
) -> io::Result<()> {
    let mut input = Input::default();
    loop {
        let now = Instant::now();
        for event in sampler.look(now, state.selected()) {
            state.hear(event);
        }
        screen.draw(|frame| view::draw(state, look, now, frame.buffer_mut()))?;
        for key in input.wait(TICK)? {
            if state.press(key) == Flow::End {
                return Ok(());
            }
        }
        if signals.is_pending() {
            return Ok(());
        }
    }
}

/// Whether the terminal shows more than ASCII, by the first variable that is set, as in the C
/// library.
fn is_unicode() -> bool {
    let variables = ["LC_ALL", "LC_CTYPE", "LANG"];
    let set = variables.iter().filter_map(std::env::var_os).find(|value| !value.is_empty());
    let locale = set.map(|value| value.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    locale.contains("utf-8") || locale.contains("utf8")
}
