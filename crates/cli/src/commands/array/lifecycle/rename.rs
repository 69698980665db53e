//! `zoneweave array rename`.
//!
//! The name is in the superblocks of all members, so the array is started for the change, as for
//! any other. An interrupted change leaves members with either name; the newest record counts, and
//! the next start gives all of them its name. The shards of a volume are renamed one after the
//! other.

use clap::Args;
use serde::Serialize;

use super::configured::tell_configured;
use super::target::Target;
use super::whole::{Histories, OneArray, Whole};
use crate::commands::array::create::check_name;
use crate::drives::search::{Search, of_array};
use crate::error::{CliError, LifecycleError};
use crate::exit::Exit;
use crate::output::Output;
use crate::session::{Access, Session};
use crate::start::{locate_one, start_whole};
use crate::zoned;

#[derive(Args)]
pub(crate) struct Rename {
    #[command(flatten)]
    target: Target,
    /// The new name: letters, digits and . _ -
    #[arg(value_name = "NEWNAME")]
    to: String,
}

#[derive(Serialize)]
struct Renamed<'a> {
    from: &'a str,
    name: &'a str,
    uuid: String,
}

pub(crate) fn rename(request: &Rename, output: &Output) -> Result<Exit, CliError> {
    let to = &request.to;
    check_name(to)?;
    let session = Session::new()?;
    let paths = request.target.drives(&session)?;
    let whole = Whole::open(&session, &paths, Access::Look, Histories::OneThatCounts)?;
    whole.refuse_served()?;
    refuse_taken(&session, request, &whole)?;
    refuse_absent(&whole)?;
    let Whole { name, uuid, .. } = &whole;
    // Also those that have the name: an interrupted change may have left members without it.
    for array in whole.shards.iter().rev() {
        one(&session, array, to, output)?;
    }
    let renamed = Renamed { from: name, name: to, uuid: uuid.to_string() };
    output.result("array-rename", &renamed, |output| {
        output.line(format_args!("{name} is called {to} now"));
    });
    tell_configured(name, output);
    Ok(Exit::Done)
}

/// Refuses the name of another array of this machine.
fn refuse_taken(session: &Session, request: &Rename, whole: &Whole) -> Result<(), CliError> {
    let to = &request.to;
    let is_other = |uuid: &String| *uuid != whole.uuid.to_string();
    let found = Search::of(request.target.folders()).next(session)?;
    let uuid = match of_array(&found, to) {
        Ok(members) => members.first().map(|member| member.volume().to_string()),
        Err(CliError::SameName { arrays, .. }) => arrays.into_iter().find(is_other),
        Err(error) => return Err(error),
    };
    match uuid.filter(is_other) {
        Some(uuid) => Err(LifecycleError::NameTaken { name: to.clone(), uuid }.into()),
        None => Ok(()),
    }
}

/// Checks that every member is here: a start without one would take it out of service. A shard that
/// is not here would keep its name.
fn refuse_absent(whole: &Whole) -> Result<(), CliError> {
    for array in &whole.shards {
        let missing = array.missing();
        if !missing.is_empty() {
            return Err(CliError::missing(whole.name.clone(), missing, false));
        }
    }
    let numbers = whole.shards.iter().map(|array| array.membership.config.shard.number());
    let here: Vec<_> = numbers.map(usize::from).collect();
    match (0..whole.of).find(|number| !here.contains(number)) {
        None => Ok(()),
        Some(number) => {
            Err(CliError::MissingShard { name: whole.name.clone(), number, of: whole.of })
        }
    }
}

/// Renames one array.
fn one(session: &Session, array: &OneArray, to: &str, output: &Output) -> Result<(), CliError> {
    let paths = array.paths();
    if array.is_zoned() {
        let found = zoned::find(session, &paths)?.ok_or(CliError::NoArray)?;
        let volume = zoned::start_whole(session, &paths, &found, None, output)?;
        return session.executor.run(async {
            let renamed = volume.rename(to.to_owned()).await;
            volume.close().await;
            Ok(renamed?)
        });
    }
    let located = locate_one(session, &paths)?;
    let volume = start_whole(session, &paths, &located, None, &[], output)?.volume;
    session.executor.run(async {
        volume.rename(to.to_owned()).await?;
        volume.close().await?;
        Ok(())
    })
}
