//! The front ends of a volume: their addresses, their start and their shutdown.

use std::net::ToSocketAddrs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use zoneweave_linux::fuse::{FuseMount, FuseServer};
use zoneweave_linux::nbd::{Endpoint, Listener, NAME_BYTES_MAX, NbdExport, NbdLimits, NbdServer};
use zoneweave_linux::nvme_tcp::NvmeTcpDevice;
use zoneweave_linux::ublk::{UblkDisk, UblkOptions, UblkServer};
use zoneweave_linux::vhost_user::{VhostUserOptions, VhostUserServer};
use zoneweave_raid::log::format::ArrayConfig;
use zoneweave_zoned::{BLOCK_BYTES, BlockDevice, ByteDevice};

use super::nvme_tcp;
use super::place::StorePlace;
use super::stop::Stop;
use crate::control::Servers;
use crate::error::{CliError, usage};
use crate::format::word;
use crate::output::Output;
use crate::session::Session;

/// Addresses of the front ends.
#[derive(Default)]
pub(super) struct Places {
    /// NBD sockets; none without NBD.
    pub(super) endpoints: Vec<Endpoint>,
    /// Name of the NBD export.
    pub(super) export: Option<String>,
    /// Kernel disk, with its number if one was given.
    pub(super) ublk: Option<Option<u32>>,
    /// Socket of virtual machines.
    pub(super) vhost_user: Option<PathBuf>,
    /// FUSE mount point.
    pub(super) fuse: Option<PathBuf>,
    /// NVMe/TCP subsystem.
    pub(super) nvme_tcp: Option<nvme_tcp::Subsystem>,
    /// Sockets of the file store that the drives hold.
    pub(super) store: Option<StorePlace>,
}

/// Front ends whose clients can connect, and wait.
pub(super) struct Fronts<'a> {
    places: &'a Places,
    nbd: Vec<Listener>,
    vhost_user: Option<Listener>,
    fuse: Option<FuseMount>,
    nvme_tcp: Option<Listener>,
}

impl Places {
    /// The front ends of both.
    ///
    /// # Errors
    /// If both have one that a volume can have once.
    pub(super) fn and(self, other: Self) -> Result<Self, CliError> {
        fn one<T>(
            name: &'static str,
            own: Option<T>,
            other: Option<T>,
        ) -> Result<Option<T>, CliError> {
            match (own, other) {
                (Some(_), Some(_)) => Err(usage(name)("is given twice".to_owned())),
                (own, other) => Ok(own.or(other)),
            }
        }
        let Self { endpoints, export, ublk, vhost_user, fuse, nvme_tcp, store } = other;
        Ok(Self {
            endpoints: self.endpoints.into_iter().chain(endpoints).collect(),
            export: one("export", self.export, export)?,
            ublk: one("ublk", self.ublk, ublk)?,
            vhost_user: one("vhost-user", self.vhost_user, vhost_user)?,
            fuse: one("fuse", self.fuse, fuse)?,
            nvme_tcp: one("nvme-tcp", self.nvme_tcp, nvme_tcp)?,
            store: one("store", self.store, store)?,
        })
    }

    /// Whether a file store is served, which shares its zones with no other front end.
    pub(super) const fn has_store(&self) -> bool {
        self.store.is_some()
    }

    /// Whether there is no front end, which only zoned volumes can be served without.
    pub(super) fn are_none(&self) -> bool {
        let Self { endpoints, export: _, ublk, vhost_user, fuse, nvme_tcp, store: _ } = self;
        let is_local = ublk.is_some() || vhost_user.is_some() || fuse.is_some();
        endpoints.is_empty() && !is_local && nvme_tcp.is_none()
    }

    /// Opens the front ends of a volume before its array starts: starting an array may take drives
    /// that were not named out of service, in vain if no client can then be served.
    pub(super) fn open(
        &self,
        stop: &Stop<'_>,
        config: &ArrayConfig,
        blocks: u64,
    ) -> Result<Fronts<'_>, CliError> {
        if let Some(name) = &self.export
            && (name.len() > NAME_BYTES_MAX || name.contains('\0'))
        {
            let problem =
                format!("the export name may have at most {NAME_BYTES_MAX} bytes, and no NUL");
            return Err(usage("export")(problem));
        }
        let nbd = self.endpoints.iter().map(listen).collect::<Result<_, _>>()?;
        let vhost_user = self.vhost_user.clone().map(Endpoint::Unix);
        let vhost_user = vhost_user.map(|endpoint| listen(&endpoint)).transpose()?;
        let nvme_tcp = self.nvme_tcp.as_ref().map(nvme_tcp::Subsystem::listen).transpose()?;
        let Session { ring, handle, .. } = stop.session;
        if let Some(number) = self.ublk {
            let identity = identity(config.array.0);
            let options = UblkOptions { number, identity, optimal_bytes: 0 };
            stop.run(UblkServer::check(ring, handle, &options))??;
        }
        let bytes = blocks * BLOCK_BYTES as u64;
        let mount = |path: &PathBuf| FuseMount::new(path, &config.name, bytes, false);
        let fuse = self.fuse.as_ref().map(mount).transpose()?;
        Ok(Fronts { places: self, nbd, vhost_user, fuse, nvme_tcp })
    }
}

/// Starts the servers and adds the address of each to `exports`. If one fails, the others stay in
/// `servers`.
pub(super) fn start_servers(
    session: &Session,
    config: &ArrayConfig,
    device: Rc<dyn BlockDevice>,
    fronts: Fronts<'_>,
    (servers, exports): (&mut Servers, &mut Vec<String>),
    output: &Output,
) -> Result<(), CliError> {
    let (ring, handle) = (&session.ring, &session.handle);
    let Fronts { places, nbd, vhost_user, fuse, nvme_tcp } = fronts;
    let device = shared(device);
    let chunk_bytes = u64::from(config.log().chunk_blocks) * BLOCK_BYTES as u64;
    let optimal_bytes = chunk_bytes * config.scheme.data() as u64;
    if !nbd.is_empty() {
        let name = places.export.clone().unwrap_or_else(|| config.name.clone());
        let export = NbdExport {
            name: name.clone(),
            description: match config.shard.of() {
                1 => format!("{} {}", config.name, config.scheme),
                shards => format!("{} {shards} x {}", config.name, config.scheme),
            },
            device: device.clone(),
        };
        let limits = NbdLimits::default();
        let server = NbdServer::start(ring, handle, vec![export], nbd, limits)?;
        exports.extend(server.endpoints().iter().map(|endpoint| uri(endpoint, &name)));
        servers.nbd = Some(server);
    }
    if let Some(listener) = vhost_user {
        let options = VhostUserOptions { serial: config.name.clone(), optimal_bytes };
        let server = VhostUserServer::start(ring, handle, device.clone(), listener, options);
        let path = absolute(server.path());
        exports.push(format!("{VHOST_USER}{}", path.display()));
        servers.vhost_user = Some(server);
    }
    if let (Some(listener), Some(subsystem)) = (nvme_tcp, &places.nvme_tcp) {
        let device = NvmeTcpDevice::Blocks(device.clone());
        let server =
            subsystem.start(session, config.array, device, optimal_bytes, listener, output);
        exports.push(subsystem.export(&server, config.array));
        servers.nvme_tcp = Some(server);
    }
    if let Some(mount) = fuse {
        let server = FuseServer::start(ring, handle, device.clone(), mount);
        let path = server.path().display();
        if server.has_cleared() {
            output
                .note(format_args!("{path} was still mounted by a server that died: unmounted it"));
        }
        exports.push(format!("{FUSE}{path}"));
        servers.fuse = Some(server);
    }
    if let Some(number) = places.ublk {
        let identity = identity(config.array.0);
        let options = UblkOptions { number, identity, optimal_bytes };
        let server = start_ublk(session, UblkDisk::Block(device), options, output)?;
        exports.push(server.path().display().to_string());
        servers.ublk = Some(server);
    }
    Ok(())
}

/// The device that all servers share. Servers of bytes find the same [`ByteDevice`] in it, so that
/// a partial-block write of one server cannot undo a concurrent write of another.
fn shared(device: Rc<dyn BlockDevice>) -> Rc<dyn BlockDevice> {
    Rc::new(ByteDevice::new(device))
}

/// Stops the servers, the local ones with the most pending data first.
pub(super) async fn stop_servers(servers: Servers, output: &Output) {
    let Servers { nbd, ublk, vhost_user, fuse, nvme_tcp } = servers;
    if let Some(server) = fuse {
        let path = server.path().to_owned();
        if !server.shutdown().await {
            let path = path.display();
            output.warning(format_args!(
                "{path} is still in use and now returns I/O errors: unmount its file systems, then run `losetup -d`"
            ));
        }
    }
    if let Some(server) = ublk {
        stop_ublk(server, output).await;
    }
    if let Some(server) = vhost_user {
        server.shutdown().await;
    }
    if let Some(server) = nvme_tcp {
        server.shutdown().await;
    }
    if let Some(server) = nbd {
        server.shutdown().await;
    }
}

/// Creates a kernel disk.
pub(crate) fn start_ublk(
    session: &Session,
    disk: UblkDisk,
    options: UblkOptions,
    output: &Output,
) -> Result<UblkServer, CliError> {
    let starting = UblkServer::start(&session.ring, &session.handle, disk, options);
    let server = session.executor.run(starting)?;
    if server.was_taken_over() {
        let path = server.path();
        output.note(format_args!("{} was taken over from the last server", path.display()));
    }
    Ok(server)
}

/// Removes a kernel disk, or warns why it stays.
pub(crate) async fn stop_ublk(server: UblkServer, output: &Output) {
    let path = server.path();
    if !server.shutdown().await {
        let path = path.display();
        output
            .warning(format_args!("{path} is still in use and now returns I/O errors: unmount it"));
    }
}

/// The identity that the kernel stores with a disk: only the same array or drive may take it over.
pub(crate) fn identity(uuid: [u8; 16]) -> u64 {
    let half = |at: usize| {
        uuid[at..at + 8].iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
    };
    half(0) ^ half(8)
}

/// NBD URI of an export.
pub(crate) fn uri(endpoint: &Endpoint, name: &str) -> String {
    let name = escaped(name.as_bytes(), b"-._~");
    match endpoint {
        Endpoint::Unix(path) => {
            let path = absolute(path);
            let path = escaped(path.as_os_str().as_bytes(), b"-._~/");
            format!("nbd+unix:///{name}?socket={path}")
        }
        Endpoint::Tcp(address) => format!("nbd://{address}/{name}"),
    }
}

/// Percent-encodes all bytes but letters, digits and `plain`.
fn escaped(text: &[u8], plain: &[u8]) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || plain.contains(&byte);
    let escape = |byte: &u8| match plain(*byte) {
        true => char::from(*byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.iter().map(escape).collect()
}

/// Parses `unix:/run/vol0.sock` or `tcp:127.0.0.1:10809`.
pub(super) fn endpoint(address: &str) -> Result<Endpoint, CliError> {
    let wrong = |problem: String| usage("socket")(problem);
    if let Some(path) = address.strip_prefix("unix:").filter(|path| !path.is_empty()) {
        return Ok(Endpoint::Unix(path.into()));
    }
    let Some(place) = address.strip_prefix("tcp:") else {
        let problem = format!("{address:?} must be unix:PATH or tcp:HOST:PORT");
        return Err(wrong(problem));
    };
    let mut found = place
        .to_socket_addrs()
        .map_err(|error| wrong(format!("{place:?} is not a valid HOST:PORT: {error}")))?;
    found
        .next()
        .map(Endpoint::Tcp)
        .ok_or_else(|| wrong(format!("{place:?} resolves to no address")))
}

/// Listens at an address. A mistyped path must not leave directories behind.
fn listen(endpoint: &Endpoint) -> Result<Listener, CliError> {
    if let Endpoint::Unix(path) = endpoint
        && let Some(directory) = path.parent()
        && !directory.as_os_str().is_empty()
        && !directory.is_dir()
    {
        let directory = directory.display();
        let problem = format!("directory {directory} does not exist: create it, or check the path");
        return Err(usage("socket")(problem));
    }
    Ok(Listener::start(endpoint)?)
}

/// Prefixes of exports to virtual machines, and of exports as files.
const VHOST_USER: &str = "vhost-user:";
const FUSE: &str = "fuse:";

/// Before the place of a file store.
pub(super) const STORE: &str = "zoneweave://";

/// A shell command that uses or shows an export.
pub(super) fn look(export: &str) -> String {
    if let Some(command) = nvme_tcp::connect(export) {
        return command;
    }
    if let Some(path) = export.strip_prefix(VHOST_USER) {
        // QEMU has commas within a value doubled.
        let chardev = format!("socket,id=vol,path={},reconnect=1", path.replace(',', ",,"));
        return format!(
            "qemu-system-x86_64 ... -m 2G -object memory-backend-memfd,id=mem,size=2G,share=on -machine memory-backend=mem \\\n  \
             -chardev {} -device vhost-user-blk-pci,chardev=vol",
            word(chardev)
        );
    }
    if let Some(path) = export.strip_prefix(FUSE) {
        return format!("losetup -f --show --direct-io=on {}", word(path));
    }
    if let Some(place) = export.strip_prefix(STORE) {
        let path = place.replace("%2C", ",").replace("%3F", "?").replace("%25", "%");
        return format!("zoneweave fs ls {}", word(path));
    }
    let program = if export.starts_with('/') { "lsblk" } else { "nbdinfo" };
    format!("{program} {}", word(export))
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Parses `unix:/run/vol0.sock`; other addresses are refused.
pub(super) fn unix_path(address: &str) -> Result<PathBuf, CliError> {
    match endpoint(address)? {
        Endpoint::Unix(path) => Ok(path),
        Endpoint::Tcp(_) => Err(usage("socket")(
            "virtual machines and file stores are served at unix sockets only: give unix:PATH"
                .to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use zoneweave_linux::MemoryDevice;

    use super::*;
    use crate::exit::Exit;

    #[test]
    fn addresses_say_what_they_are() {
        assert_eq!(endpoint("unix:/a b").unwrap(), Endpoint::Unix("/a b".into()));
        assert!(matches!(endpoint("tcp:127.0.0.1:0"), Ok(Endpoint::Tcp(_))));
        for wrong in ["/a/b", "unix:", "tcp:nowhere", "tcp:", "udp:1:2"] {
            assert_eq!(endpoint(wrong).unwrap_err().exit(), Exit::Usage, "{wrong}");
        }
    }

    #[test]
    fn what_the_kernel_keeps_of_a_uuid_tells_them_apart() {
        let uuid = *b"0123456789abcdef";
        let other = *b"0123456789abcdeg";
        assert_eq!(identity(uuid), identity(uuid));
        assert_ne!(identity(uuid), identity(other));
        assert_eq!(identity([0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 1, 0]), 0x105);
    }

    #[test]
    fn all_servers_change_parts_of_blocks_through_the_same_device() {
        let device = shared(MemoryDevice::new(8));
        assert!(device.in_bytes().is_some(), "servers of bytes take this one, and make none");
        assert_eq!(device.info().blocks, 8);
    }

    #[test]
    fn names_are_escaped() {
        let at = Endpoint::Tcp("127.0.0.1:10809".parse().unwrap());
        assert_eq!(uri(&at, "a b/ö"), "nbd://127.0.0.1:10809/a%20b%2F%C3%B6");
        let at = Endpoint::Unix("/a b/s&t".into());
        assert_eq!(uri(&at, "vol0"), "nbd+unix:///vol0?socket=/a%20b/s%26t");
    }

    #[test]
    fn what_to_type_is_one_word_for_a_shell() {
        assert_eq!(look("fuse:/run/vol0"), "losetup -f --show --direct-io=on /run/vol0");
        assert_eq!(look("fuse:/a b"), "losetup -f --show --direct-io=on '/a b'");
        let machine = look("vhost-user:/a b,c");
        assert!(machine.contains("'socket,id=vol,path=/a b,,c,reconnect=1'"), "{machine}");
    }
}
