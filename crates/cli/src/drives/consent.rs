//! The contents of a drive, and the consent to overwrite them.

use std::fmt;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;

use clap::Args;
use serde::{Deserialize, Serialize};
use zoneweave_raid::array::repair::fit::holds_something;
use zoneweave_raid::array::start::membership::MembershipRecord;
use zoneweave_raid::log::MemberHealth;
use zoneweave_raid::log::recover::records::read_records;
use zoneweave_zoned::ZonedDeviceExt;

use super::foreign::foreign;
use super::membership::membership_of;
use super::paths::same_file;
use crate::error::{CliError, LifecycleError};
use crate::format;
use crate::output::Output;
use crate::session::NamedDrive;

/// The contents of a drive.
pub(crate) struct Holdings {
    /// Description.
    pub text: String,
    /// Whether `--destroy DRIVE` is needed: for foreign data, and for real drives.
    pub by_name: bool,
    /// The membership that it carries.
    pub record: Option<MembershipRecord>,
}

/// A drive whose contents a command destroys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Destroyed {
    pub drive: String,
    pub holds: String,
}

impl fmt::Display for Destroyed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", format::word(&self.drive), self.holds)
    }
}

impl Destroyed {
    pub(crate) fn new(named: &NamedDrive, holds: &Holdings) -> Self {
        Self { drive: named.label.clone(), holds: holds.text.clone() }
    }

    /// Prints what a dry run would destroy.
    pub(crate) fn tell(all: &[Self], output: &Output) {
        for Self { drive, holds } in all {
            output.line(format_args!("  {drive} would be overwritten: it holds {holds}"));
        }
        output.line("nothing was changed");
    }
}

/// What a replacement would do, as nothing refuses it but for want of consent to overwrite.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Prospect {
    /// Name of the array.
    pub name: String,
    /// State of the slot.
    pub health: MemberHealth,
    /// What the new drive holds.
    pub destroys: Vec<Destroyed>,
}

/// Consent of the operator.
pub(crate) struct Consent<'a> {
    /// To overwrite zoneweave data on emulated drives (`--yes-destroy`).
    pub all: bool,
    /// To overwrite these drives (`--destroy`).
    pub named: &'a [PathBuf],
}

impl Consent<'_> {
    /// Whether this drive may be overwritten.
    pub(crate) fn covers(&self, named: &NamedDrive, holds: &Holdings) -> bool {
        let path = named.drive.path();
        (self.all && !holds.by_name) || self.named.iter().any(|other| same_file(path, other))
    }
}

/// The error for a drive that may not be overwritten.
pub(crate) fn not_empty(named: &NamedDrive, holds: &Holdings) -> CliError {
    let option = match holds.by_name {
        true => format!("--destroy {}", format::word(&named.label)),
        false => "--yes-destroy".to_owned(),
    };
    CliError::NotEmpty { label: named.label.clone(), holds: holds.text.clone(), option }
}

/// The contents of a drive; `None` if it is blank.
pub(crate) async fn holdings(named: &NamedDrive) -> Result<Option<Holdings>, CliError> {
    let failed = |status| CliError::DriveFailed { label: named.label.clone(), status };
    let by_name = named.drive.is_real();
    let ours = |text| Some(Holdings { text, by_name, record: None });
    let records = read_records(&*named.member).await.map_err(failed)?;
    if let Some(record) = membership_of(named).await.map_err(failed)? {
        let text = format!("a member of array {} ({})", record.config.name, record.config.array);
        return Ok(Some(Holdings { text, by_name, record: Some(record) }));
    }
    if let Some(version) = records.other_version {
        return Ok(ours(format!("a member of an array in format version {version}")));
    }
    if let Some(text) = foreign(&*named.drive).await {
        return Ok(Some(Holdings { text: text.to_owned(), by_name: true, record: None }));
    }
    let zones = named.drive.report().await.map_err(failed)?;
    let written = zones.iter().filter(|info| holds_something(info)).count();
    Ok(if written > 0 { ours(format!("{written} written zones")) } else { None })
}

/// The options of a verb that erases drives.
#[derive(Args)]
pub(crate) struct Erasure {
    /// Print what would be erased, and erase nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Erase it without asking
    #[arg(long)]
    yes: bool,
}

impl Erasure {
    /// Has the operator agree, by typing `name`, unless `--yes` was given. `what` would be
    /// destroyed, and `warnings` say so at length.
    ///
    /// # Errors
    /// If something else is typed, or nobody is there to type.
    pub(crate) fn agree(
        &self,
        name: &str,
        what: String,
        warnings: impl IntoIterator<Item = String>,
        output: &Output,
    ) -> Result<(), CliError> {
        assert!(!self.dry_run, "a dry run erases nothing");
        if self.yes {
            return Ok(());
        }
        if !io::stdin().is_terminal() || output.json() {
            return Err(LifecycleError::NotAgreed { what }.into());
        }
        warnings.into_iter().for_each(|warning| output.warning(warning));
        confirm(name)
    }
}

/// Asks the operator to retype the name.
///
/// # Errors
/// If something else is typed.
pub(crate) fn confirm(name: &str) -> Result<(), CliError> {
    let failed = |error| CliError::System { action: "read the confirmation", error };
    let mut stderr = io::stderr().lock();
    write!(stderr, "type {name} to continue: ").and_then(|()| stderr.flush()).map_err(failed)?;
    let mut typed = String::new();
    io::stdin().lock().read_line(&mut typed).map_err(failed)?;
    if typed.trim() == name {
        Ok(())
    } else {
        Err(CliError::NotConfirmed { name: name.to_owned() })
    }
}
