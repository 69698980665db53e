//! The `zoneweave` command.
//!
//! One file per verb in [`commands`]. What verbs share: [`arguments`] (what may be typed),
//! [`output`] (text for people, or one JSON document), [`error`] (what went wrong, and the exit
//! code that scripts see), [`session`] (the ring and the drives on it),
//! [`start`] (finding an array's server, or starting the array), [`status`] (what an array
//! is, whether it is served or not), [`writing`] (how a server writes) and [`control`] (the socket by which a running server is
//! asked).
//!
//! Exit codes: 0 done; 1 failed; 2 wrong usage; 3 not found; 4 refused for safety; 5 a server
//! cannot be reached; 6 data is lost. `array status --check`: 0 healthy, 10 degraded and
//! rebuilding, 11 degraded, 12 failed, or too few drives were named to tell.

mod arguments;
mod commands;
mod control;
mod error;
mod foreign;
mod format;
mod memory;
mod output;
mod progress;
mod ranges;
mod session;
mod shards;
mod start;
mod status;
mod wait;
mod writing;

use std::process::ExitCode;

use clap::Parser;

use arguments::Arguments;
use error::Exit;
use output::Output;

/// A write makes many small allocations, which take much less time than those of the C library.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are no errors, and go to stdout.
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Done };
            let _ = error.print();
            if exit == Exit::Usage && std::env::args_os().any(|argument| argument == "--json") {
                Output::for_programs().failure(exit, &error);
            }
            return exit.into();
        }
    };
    let output = Output::new(&arguments.globals);
    let exit = match commands::run(arguments.verb, &output) {
        Ok(exit) => exit,
        Err(error) => {
            output.error(&error);
            error.exit()
        }
    };
    if output.failed() && exit == Exit::Done { Exit::Failed.into() } else { exit.into() }
}
