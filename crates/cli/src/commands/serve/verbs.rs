//! The verbs of `zoneweave serve`, a front end each, and that of `zoneweave fs serve`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use zoneweave_store::Target;

use super::fronts::{Places, endpoint, unix_path};
use super::nvme_tcp;
use super::options::Served;
use super::place::StorePlace;
use super::zoned::{self, ZonedStart};
use crate::error::CliError;

/// A front end.
#[derive(Subcommand)]
pub(crate) enum FrontVerb {
    /// Serve a volume over NBD
    Nbd(Nbd),
    /// Serve a volume as the kernel disk /dev/ublkbN (needs root, Linux 6.5+ and ublk_drv); a zoned
    /// volume as a zoned disk (Linux 6.6+)
    Ublk(Ublk),
    /// Serve a volume to a virtual machine as a virtio disk (vhost-user-blk, e.g. of QEMU)
    VhostUser(VhostUser),
    /// Serve a volume over NVMe/TCP, to hosts that connect with `nvme connect`
    NvmeTcp(nvme_tcp::NvmeTcp),
    /// Serve a volume as a file through FUSE, e.g. for `losetup` on kernels without nbd and ublk
    Fuse(Fuse),
    /// Serve a zoned volume to `zoneweave zoned`, and as a zoned kernel disk (--ublk)
    Zoned(zoned::Zoned),
}

/// A volume to serve over NBD.
#[derive(Args, Clone, Debug)]
pub(crate) struct Nbd {
    #[command(flatten)]
    pub array: Served,
    /// Address to listen on: unix:PATH, or tcp:HOST:PORT of this machine (may be repeated)
    #[arg(long, value_name = "ADDRESS", required = true)]
    pub socket: Vec<String>,
    /// Export name [default: the name of the array]
    #[arg(long, value_name = "NAME")]
    pub export: Option<String>,
    /// Also serve the volume as the kernel disk /dev/ublkbN [default N: the first free number]
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true)]
    pub ublk: Option<Option<u32>>,
}

/// A volume to serve as a kernel disk.
#[derive(Args, Clone, Debug)]
pub(crate) struct Ublk {
    #[command(flatten)]
    array: Served,
    /// N of /dev/ublkbN [default: the disk of a killed server of this array, or the first free
    /// number]
    #[arg(long, value_name = "N")]
    number: Option<u32>,
}

/// A volume to serve to a virtual machine.
#[derive(Args, Clone, Debug)]
pub(crate) struct VhostUser {
    #[command(flatten)]
    array: Served,
    /// Address to listen on: unix:PATH
    #[arg(long, value_name = "ADDRESS")]
    socket: String,
}

/// A volume to serve as a file.
#[derive(Args, Clone, Debug)]
pub(crate) struct Fuse {
    #[command(flatten)]
    array: Served,
    /// Empty file to mount the volume on (created if missing); unmounting it stops the server
    #[arg(long, value_name = "FILE")]
    mountpoint: PathBuf,
}

/// A file store to serve.
#[derive(Args, Clone, Debug)]
pub(crate) struct StoreServer {
    /// Drive with a file store, or all drives of a zoned volume with one: DRIVE,DRIVE...
    #[arg(id = "drives", value_name = "STORE", required_unless_present = "array")]
    store: Option<OsString>,
    #[command(flatten)]
    place: StorePlace,
    #[command(flatten, next_help_heading = "Zoned volumes")]
    start: ZonedStart,
}

impl StoreServer {
    /// The drives and their front end.
    ///
    /// # Errors
    /// If a server is named instead of drives.
    pub(super) fn request(self) -> Result<(Served, Places), CliError> {
        let Self { store, place, start } = self;
        let drives = match store.as_ref().map(|store| Target::of(store)) {
            None => Vec::new(),
            Some(Target::Drives(drives)) => drives,
            Some(Target::Socket(_)) => {
                let problem = "name the drives: this needs a store that is not served".to_owned();
                return Err(CliError::Usage { option: "<STORE>", problem });
            }
        };
        Ok((start.of(drives), Places { store: Some(place), ..Places::default() }))
    }
}

impl FrontVerb {
    /// The array and its front ends.
    ///
    /// # Errors
    /// If an address is not valid.
    pub(super) fn request(self) -> Result<(Served, Places), CliError> {
        Ok(match self {
            Self::Nbd(request) => {
                let places = request.places()?;
                (request.array, places)
            }
            Self::Ublk(Ublk { array, number }) => {
                (array, Places { ublk: Some(number), ..Places::default() })
            }
            Self::VhostUser(VhostUser { array, socket }) => {
                let vhost_user = Some(unix_path(&socket)?);
                (array, Places { vhost_user, ..Places::default() })
            }
            Self::NvmeTcp(request) => {
                let nvme_tcp = Some(request.subsystem()?);
                (request.array, Places { nvme_tcp, ..Places::default() })
            }
            Self::Zoned(request) => {
                let places = Places { ublk: request.ublk, ..Places::default() };
                (request.array(), places)
            }
            Self::Fuse(Fuse { array, mountpoint }) => {
                (array, Places { fuse: Some(mountpoint), ..Places::default() })
            }
        })
    }
}

impl Nbd {
    pub(super) fn places(&self) -> Result<Places, CliError> {
        let endpoints = self.socket.iter().map(|address| endpoint(address));
        let endpoints = endpoints.collect::<Result<Vec<_>, _>>()?;
        let export = self.export.clone();
        Ok(Places { endpoints, export, ublk: self.ublk, ..Places::default() })
    }
}
