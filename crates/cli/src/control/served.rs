//! The drives of a server, which it names to every client first.
//!
//! A client finds a server by the UUID in the superblock of a drive. A copy of the drive has the
//! same, so the client compares the drives themselves before it asks for anything.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::drives::identity::DriveIdentity;

/// A drive that a server has open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServedDrive {
    /// UUID as a member.
    pub member: String,
    /// Whether it is in a slot and takes writes.
    pub in_service: bool,
    /// Absolute path at its start.
    pub path: PathBuf,
    pub identity: DriveIdentity,
}

/// A drive given to a client.
pub(crate) struct GivenDrive {
    pub label: String,
    /// UUID as a member, if its records are those of the array now.
    pub member: Option<String>,
    pub identity: DriveIdentity,
}

/// How given drives relate to those of a server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// At least one is a drive of the server, and none is a copy.
    Own,
    /// None is a drive of the server: they were members before.
    Former,
    /// One holds what a drive of the server holds, and is another file.
    Copy { label: String, original: PathBuf },
}

/// Compares given drives with those of a server.
pub(crate) fn claim(given: &[GivenDrive], served: &[ServedDrive]) -> Claim {
    let is_own =
        |given: &GivenDrive| served.iter().any(|own| own.identity.is_same(&given.identity));
    let original = |given: &GivenDrive| {
        let has_its_slot = |own: &&ServedDrive| {
            own.in_service && given.member.as_ref().is_some_and(|member| *member == own.member)
        };
        served.iter().find(has_its_slot)
    };
    let copy = given.iter().filter(|given| !is_own(given)).find_map(|given| {
        let original = original(given)?;
        Some(Claim::Copy { label: given.label.clone(), original: original.path.clone() })
    });
    copy.unwrap_or(if given.iter().any(is_own) { Claim::Own } else { Claim::Former })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_and_former_members_are_told_from_the_drives_of_a_server() {
        let folder = tempfile::tempdir().unwrap();
        let identity = |name: &str| {
            std::fs::write(folder.path().join(name), "x").unwrap();
            DriveIdentity::at(&folder.path().join(name))
        };
        let served = |name: &str, member: &str, in_service| ServedDrive {
            member: member.to_owned(),
            in_service,
            path: folder.path().join(name),
            identity: identity(name),
        };
        let server = [served("d0", "A", true), served("d1", "B", true), served("d2", "C", false)];
        let given = |name: &str, member: Option<&str>| GivenDrive {
            label: name.to_owned(),
            member: member.map(str::to_owned),
            identity: identity(name),
        };
        assert_eq!(claim(&[given("d0", Some("A")), given("new", None)], &server), Claim::Own);
        assert_eq!(claim(&[given("old", Some("Z"))], &server), Claim::Former);
        // The drive of a slot that has failed may well have a better copy.
        assert_eq!(claim(&[given("c2", Some("C"))], &server), Claim::Former);
        let copy = |label: &str, of: &str| Claim::Copy {
            label: label.to_owned(),
            original: folder.path().join(of),
        };
        assert_eq!(claim(&[given("c0", Some("A"))], &server), copy("c0", "d0"));
        let mixed = [given("d0", Some("A")), given("c1", Some("B"))];
        assert_eq!(claim(&mixed, &server), copy("c1", "d1"));
    }
}
