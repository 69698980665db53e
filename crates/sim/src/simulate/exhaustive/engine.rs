//! The volume of a search, its promises and its contents, for each kind of volume.

use std::fmt;

use zoneweave_raid::log::{MemberHealth, OfferedDrive, OpenOptions, Volume, open_array};
use zoneweave_raid::raizn;
use zoneweave_runtime::Handle;
use zoneweave_zoned::{BLOCK_BYTES, BlockDevice, Lba};

use crate::pattern::version_of;
use crate::simulate::oracle::{Oracle, Survives};
use crate::simulate::zoned::oracle::ZonedOracle;
use crate::simulate::zoned::verify::find_all;
use crate::simulate::zoned::zone::FoundZone;

/// A started volume.
#[derive(Clone)]
pub(super) enum Engine {
    Log(Volume),
    Zoned(raizn::Volume),
}

/// The promises of a history.
#[derive(Clone, Debug)]
pub(super) enum Promises {
    Log(Oracle),
    Zoned(ZonedOracle),
}

/// The contents of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The version of each block.
    Log(Vec<u64>),
    Zoned(Vec<FoundZone>),
}

type OfZoned = fn(&raizn::MemberStatus) -> bool;

impl Engine {
    /// Starts the array of drives.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub(super) async fn start(zoned: bool, handle: &Handle, drives: Vec<OfferedDrive>) -> Self {
        if zoned {
            let opened = raizn::open(handle, drives, raizn::OpenOptions::default()).await;
            let opened = opened.unwrap_or_else(|error| panic!("the array does not start: {error}"));
            return Self::Zoned(opened.0);
        }
        let opened = open_array(handle, drives, OpenOptions::default()).await;
        Self::Log(opened.unwrap_or_else(|error| panic!("the array does not start: {error}")).0)
    }

    /// Whether each slot has a working member.
    pub(super) fn online(&self) -> Vec<bool> {
        self.members(|state| state == MemberHealth::Online, |member| member.online)
    }

    /// Whether each slot has a member that takes writes, whole or being rebuilt.
    pub(super) fn in_service(&self) -> Vec<bool> {
        self.members(MemberHealth::is_in_service, |member| member.online)
    }

    /// Whether the member of each slot was evicted. One that is only missing may be back later.
    pub(super) fn evicted(&self) -> Vec<bool> {
        self.members(|state| state == MemberHealth::Failed, |one| !one.online && !one.missing)
    }

    fn members(&self, of_log: fn(MemberHealth) -> bool, of_zoned: OfZoned) -> Vec<bool> {
        match self {
            Self::Log(volume) => {
                volume.status().members.iter().map(|member| of_log(member.state)).collect()
            }
            Self::Zoned(volume) => volume.status().members.iter().map(of_zoned).collect(),
        }
    }

    /// Ends the volume.
    ///
    /// # Panics
    ///
    /// If that fails.
    pub(super) async fn close(self) {
        match self {
            Self::Log(volume) => {
                volume.close().await.unwrap_or_else(|error| panic!("closing failed: {error}"));
            }
            Self::Zoned(volume) => volume.close().await,
        }
    }

    /// Makes everything durable.
    ///
    /// # Panics
    ///
    /// If that fails.
    pub(super) async fn flush(&self) {
        match self {
            Self::Log(volume) => {
                let flushed = volume.flush().await;
                flushed.unwrap_or_else(|error| panic!("a flush failed: {error}"));
            }
            Self::Zoned(volume) => {
                let flushed = zoneweave_zoned::ZonedDeviceExt::flush(volume).await;
                flushed.unwrap_or_else(|error| panic!("a flush failed: {error}"));
            }
        }
    }

    /// Reads everything. A log has so many blocks.
    ///
    /// # Panics
    ///
    /// If it cannot be read, or has contents that were never written.
    pub(super) async fn read_all(&self, blocks: u64) -> Found {
        match self {
            Self::Log(volume) => {
                let found = Found::Log(read_log(volume, blocks).await);
                volume.assert_consistent();
                found
            }
            Self::Zoned(volume) => Found::Zoned(find_all(volume).await),
        }
    }
}

async fn read_log(volume: &Volume, blocks: u64) -> Vec<u64> {
    let length = u32::try_from(blocks).expect("a small volume");
    let pieces = volume.read(Lba(0), length).await;
    let pieces = pieces.unwrap_or_else(|error| panic!("the volume cannot be read: {error}"));
    let blocks = pieces.iter().flat_map(|piece| piece.chunks_exact(BLOCK_BYTES));
    let version = |(lba, block): (u64, &[u8])| {
        version_of(lba, block)
            .unwrap_or_else(|| panic!("block {lba} has contents that were never written to it"))
    };
    (0..).zip(blocks).map(version).collect()
}

impl Promises {
    /// The allowed states after a crash now, of each block or zone.
    pub(super) fn allowed(&self, survives: Survives) -> Vec<(u64, Vec<u64>)> {
        match self {
            Self::Log(oracle) => oracle.promises(survives),
            Self::Zoned(oracle) => {
                let zones = (0..).zip(&oracle.zones);
                zones.map(|(zone, history)| (zone, history.allowed(survives))).collect()
            }
        }
    }

    /// Judges contents that were found after a crash.
    ///
    /// # Panics
    ///
    /// If they are not allowed.
    pub(super) fn settle(&mut self, found: &Found, survives: Survives) {
        match (self, found) {
            (Self::Log(oracle), Found::Log(found)) => {
                for (lba, version) in (0..).zip(found) {
                    let settled = oracle.settle(lba, *version, survives);
                    settled.unwrap_or_else(|why| panic!("{why}"));
                }
            }
            (Self::Zoned(oracle), Found::Zoned(found)) => {
                for (zone, found) in found.iter().enumerate() {
                    let settled = oracle.settle(zone, found, survives);
                    settled.unwrap_or_else(|why| panic!("{why}"));
                }
            }
            _ => unreachable!("a search has one kind of volume"),
        }
    }

    /// The promises of a log.
    pub(super) fn log(&mut self) -> &mut Oracle {
        match self {
            Self::Log(oracle) => oracle,
            Self::Zoned(_) => unreachable!("an operation of a log"),
        }
    }

    /// The promises of a zoned volume.
    pub(super) fn zoned(&mut self) -> &mut ZonedOracle {
        match self {
            Self::Zoned(oracle) => oracle,
            Self::Log(_) => unreachable!("an operation of a zoned volume"),
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log(versions) => write!(f, "versions {versions:?}"),
            Self::Zoned(zones) => write!(f, "zones {zones:?}"),
        }
    }
}
