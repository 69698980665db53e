//! The `zoneweave` command.
//!
//! [`commands`] has a file or folder per verb. The verbs share:
//!
//! * [`arguments`]: the command line.
//! * [`help`]: its help, in lines that fit a terminal.
//! * [`output`]: text, or one JSON document. [`error`] and [`exit`]: errors and exit codes.
//! * [`session`]: the ring, the executor and drives on it. [`drives`]: their paths and contents,
//!   and the consent to overwrite them.
//! * [`conditions`]: checks before anything is written.
//! * [`start`]: finds an array's server, or starts the array. [`shards`]: sorts drives by shard.
//!   [`writing`]: `--write-mode`.
//! * [`status`]: the status of an array, served or not.
//! * [`events`]: the events of a server, and their receivers.
//! * [`metrics`]: the metrics of served arrays, for Prometheus, and their rates.
//! * [`control`]: the control socket of a server, both ends.
//!
//! Files import downwards: `arguments`, `commands`, `metrics`, `start`, `control`, `events`,
//! `conditions`, `status`, `session`, `drives`, `output`, `error`, `format`, `exit`, `job`.
//!
//! Exit codes: 0 done; 1 failed; 2 wrong usage; 3 not found; 4 refused for safety; 5 a server
//! cannot be reached; 6 data is lost; 7 a scrub is incomplete. `array status --check`: 0 healthy,
//! 10 rebuilding, 11 degraded, 12 failed, 13 damaged, 14 unknown, 15 starting.

mod arguments;
mod commands;
mod conditions;
mod control;
mod drives;
mod error;
mod events;
mod exit;
mod findings;
mod format;
mod help;
mod job;
mod memory;
mod metrics;
mod output;
mod ranges;
mod session;
mod shards;
mod start;
mod status;
mod wait;
mod writing;
mod zoned;

use std::process::ExitCode;

use clap::Parser;

use arguments::Arguments;
use exit::Exit;
use output::Output;

/// A write makes many small allocations, which take much less time than those of the C library.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    zoneweave_linux::survive_file_size_limit();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are no errors, and go to stdout.
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Done };
            match exit {
                Exit::Done => help::print(&error.render()),
                _ => drop(error.print()),
            }
            if exit == Exit::Usage && std::env::args_os().any(|argument| argument == "--json") {
                Output::for_programs().failure(exit, &error);
            }
            return exit.into();
        }
    };
    let output = Output::new(&arguments.globals);
    let _last = LastMessages(&output);
    let exit = match commands::run(arguments.verb, &output) {
        Ok(exit) => exit,
        Err(error) => {
            output.error(&error);
            error.exit()
        }
    };
    if output.failed() && exit == Exit::Done { Exit::Failed.into() } else { exit.into() }
}

/// Writes the last messages at the end of the process, also when it panics.
struct LastMessages<'a>(&'a Output);

impl Drop for LastMessages<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
