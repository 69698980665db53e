//! `zoneweave man`: manual pages, generated from the help texts.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Command};

use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;

#[derive(Args)]
pub(crate) struct Man {
    /// Write one page per command to this directory instead of printing the main page
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

pub(crate) fn run(man: &Man, mut command: Command, output: &Output) -> Result<Exit, CliError> {
    command.build();
    match &man.directory {
        None => output.raw(&page(&command, "zoneweave")?),
        Some(directory) => {
            fs::create_dir_all(directory).map_err(failed(directory, "create the directory"))?;
            write_pages(&command, "zoneweave", directory)?;
        }
    }
    Ok(Exit::Done)
}

fn write_pages(command: &Command, name: &str, directory: &Path) -> Result<(), CliError> {
    let path = directory.join(format!("{name}.1"));
    fs::write(&path, page(command, name)?).map_err(failed(&path, "write the page"))?;
    for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
        write_pages(verb, &format!("{name}-{}", verb.get_name()), directory)?;
    }
    Ok(())
}

fn page(command: &Command, name: &str) -> Result<Vec<u8>, CliError> {
    // clap needs names for the whole run; there are about thirty.
    let name: &'static str = name.to_owned().leak();
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone().name(name))
        .render(&mut text)
        .map_err(|error| CliError::System { action: "render the manual page", error })?;
    Ok(text)
}

fn failed(path: &Path, action: &'static str) -> impl FnOnce(std::io::Error) -> CliError {
    let path = path.to_owned();
    move |error| CliError::File { path, action, error }
}
