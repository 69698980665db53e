//! The hot spares of a server.

use std::path::{Path, PathBuf};

use zoneweave_raid::log::VolumeStatus;
use zoneweave_raid::log::format::MemberUuid;

use super::Service;
use crate::drives::paths::absolute;
use crate::error::CliError;
use crate::session::{NamedDrive, random_uuid};
use crate::status::{SpareState, SpareStatus};

/// A current or former spare.
pub(super) struct KeptSpare {
    /// UUID as a member.
    uuid: String,
    label: String,
    /// Absolute path.
    path: PathBuf,
    /// The drive, until it is a member or given up.
    pub(super) waiting: Option<NamedDrive>,
    /// Why it was refused at the start.
    refused: Option<String>,
}

impl KeptSpare {
    /// The drive that waits, with its future UUID.
    pub(super) fn waiting(&self) -> Option<(String, NamedDrive)> {
        Some((self.uuid.clone(), self.waiting.clone()?))
    }
}

impl Service {
    /// Adds a hot spare.
    pub(crate) fn keep_spare(&self, named: NamedDrive) -> Result<(), CliError> {
        let uuid = MemberUuid(random_uuid()?);
        let path = named.path.clone();
        self.volume.add_spare(named.member.clone(), uuid)?;
        let (uuid, label) = (uuid.to_string(), named.label.clone());
        let waiting = Some(named);
        self.spares.borrow_mut().push(KeptSpare { uuid, label, path, waiting, refused: None });
        Ok(())
    }

    /// Records a spare that was given at the start, and is none.
    pub(crate) fn refuse_spare(&self, path: &Path, reason: &str) {
        let (label, path) = (path.display().to_string(), absolute(path));
        let path = path.unwrap_or_else(|_| PathBuf::from(&label));
        let (uuid, refused) = (String::new(), Some(reason.to_owned()));
        self.news.borrow_mut().push(format!("the spare {label} is unusable: {reason}"));
        self.spares.borrow_mut().push(KeptSpare { uuid, label, path, waiting: None, refused });
    }

    /// Records spares that have become members, and drops spares that were given up.
    pub(super) fn look_at_spares(&self) {
        let VolumeStatus { members, spares, .. } = self.volume.status();
        for spare in self.spares.borrow_mut().iter_mut().filter(|spare| spare.waiting.is_some()) {
            let drive = &spare.label;
            let slot = members.iter().position(|member| member.uuid == spare.uuid);
            let taken = spares.taken.iter().find(|taken| taken.uuid == spare.uuid);
            let reason = taken.and_then(|taken| taken.reason.as_ref());
            let text = match (slot, reason) {
                (Some(slot), _) => {
                    if let Some(named) = spare.waiting.take() {
                        self.slots.put(spare.uuid.clone(), named);
                    }
                    format!("slot {slot}: replaced by the spare {drive}")
                }
                (None, Some(reason)) => {
                    spare.waiting = None;
                    format!("the spare {drive} is unusable: {reason}")
                }
                (None, None) => continue,
            };
            self.news.borrow_mut().push(text);
        }
    }

    /// The status of each spare.
    pub(super) fn spares(&self) -> Vec<SpareStatus> {
        let taken = self.volume.status().spares.taken;
        let tell = |spare: &KeptSpare| {
            let taken = taken.iter().find(|taken| taken.uuid == spare.uuid);
            SpareStatus {
                drive: spare.label.clone(),
                path: Some(spare.path.clone()),
                state: match (taken, &spare.refused) {
                    (Some(taken), _) => taken.state.into(),
                    (None, Some(_)) => SpareState::GivenUp,
                    (None, None) => SpareState::Waiting,
                },
                slot: taken.map(|taken| taken.slot),
                reason: taken.and_then(|taken| taken.reason.clone()).or(spare.refused.clone()),
            }
        };
        self.spares.borrow().iter().map(tell).collect()
    }
}
