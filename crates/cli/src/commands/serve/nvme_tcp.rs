//! NVMe over TCP: where to listen, who may connect, and under which name.

use std::collections::BTreeSet;
use std::net::{SocketAddr, ToSocketAddrs};

use clap::Args;
use zoneweave_linux::nbd::{Endpoint, Listener};
use zoneweave_linux::nvme_tcp::{
    Hosts, NvmeTcpDevice, NvmeTcpLimits, NvmeTcpServer, NvmeTcpVolume, check_nqn,
};
use zoneweave_raid::log::format::ArrayUuid;
use zoneweave_zoned::BLOCK_BYTES;

use super::options::Served;
use crate::error::{CliError, usage};
use crate::format::word;
use crate::output::Output;
use crate::session::Session;

/// A volume to serve over NVMe/TCP.
#[derive(Args, Clone, Debug)]
pub(crate) struct NvmeTcp {
    #[command(flatten)]
    pub(super) array: Served,
    /// Address to listen on; 4420 is the usual port. Other machines may reach it only with
    /// --allow-host
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: String,
    /// Host that may connect, by its NVMe qualified name (may be repeated) [default: all of this
    /// machine]. A name is no proof of identity, and nothing is encrypted
    #[arg(long, value_name = "NQN", value_parser = parse_nqn)]
    allow_host: Vec<String>,
    /// NVMe qualified name of the volume [default: made of the UUID of the array]
    #[arg(long, value_name = "NQN", value_parser = parse_nqn)]
    nqn: Option<String>,
}

/// Where a volume is served over NVMe/TCP, and to which hosts.
#[derive(Clone, Debug)]
pub(super) struct Subsystem {
    address: SocketAddr,
    hosts: Hosts,
    nqn: Option<String>,
}

impl NvmeTcp {
    pub(super) fn subsystem(&self) -> Result<Subsystem, CliError> {
        let address = resolve(&self.listen)?;
        let hosts: BTreeSet<_> = self.allow_host.iter().cloned().collect();
        if hosts.is_empty() && !address.ip().is_loopback() {
            return Err(usage("listen")(format!(
                "{address} can be reached from other machines, and NVMe/TCP is served without \
                 encryption and authentication: name the hosts that may connect with --allow-host, \
                 or listen at 127.0.0.1 or [::1]"
            )));
        }
        let hosts = if hosts.is_empty() { Hosts::Any } else { Hosts::Listed(hosts) };
        Ok(Subsystem { address, hosts, nqn: self.nqn.clone() })
    }
}

impl Subsystem {
    pub(super) fn listen(&self) -> Result<Listener, CliError> {
        Ok(match self.hosts {
            Hosts::Any => Listener::start(&Endpoint::Tcp(self.address))?,
            Hosts::Listed(_) => Listener::start_public(self.address)?,
        })
    }

    /// Starts the server, and warns if other machines can reach it.
    pub(super) fn start(
        &self,
        session: &Session,
        array: ArrayUuid,
        device: NvmeTcpDevice,
        optimal_bytes: u64,
        listener: Listener,
        output: &Output,
    ) -> NvmeTcpServer {
        let volume = NvmeTcpVolume {
            nqn: self.name(array),
            uuid: array.0,
            // No stripe is as large; zero would say nothing.
            optimal_blocks: u16::try_from(optimal_bytes / BLOCK_BYTES as u64).unwrap_or(0),
            device,
            hosts: self.hosts.clone(),
        };
        if let Some(warning) = self.warning() {
            output.warning(warning);
        }
        let (ring, handle) = (&session.ring, &session.handle);
        NvmeTcpServer::start(ring, handle, volume, listener, NvmeTcpLimits::default())
    }

    /// The address of the volume, for the status.
    pub(super) fn export(&self, server: &NvmeTcpServer, array: ArrayUuid) -> String {
        export(server.address(), &self.name(array))
    }

    /// The name of the subsystem.
    fn name(&self, array: ArrayUuid) -> String {
        let default = || format!("nqn.2014-08.org.nvmexpress:uuid:{array}");
        self.nqn.clone().unwrap_or_else(default)
    }

    /// A warning, if other machines can reach the volume.
    fn warning(&self) -> Option<String> {
        (!self.address.ip().is_loopback()).then(|| {
            "NVMe/TCP is served without encryption and authentication: everyone who can reach this \
             address can read the traffic, and claim the name of an allowed host"
                .to_owned()
        })
    }
}

fn resolve(place: &str) -> Result<SocketAddr, CliError> {
    let wrong = |problem: String| usage("listen")(problem);
    let mut found = place
        .to_socket_addrs()
        .map_err(|error| wrong(format!("{place:?} is not a valid ADDRESS:PORT: {error}")))?;
    found.next().ok_or_else(|| wrong(format!("{place:?} resolves to no address")))
}

fn parse_nqn(name: &str) -> Result<String, String> {
    check_nqn(name).map_err(|error| error.to_string())?;
    Ok(name.to_owned())
}

/// Prefix of exports to NVMe hosts.
const NVME_TCP: &str = "nvme+tcp://";

fn export(address: SocketAddr, nqn: &str) -> String {
    format!("{NVME_TCP}{address}/{nqn}")
}

/// A shell command that connects to an export of this kind.
pub(super) fn connect(export: &str) -> Option<String> {
    let (address, nqn) = export.strip_prefix(NVME_TCP)?.split_once('/')?;
    let address: SocketAddr = address.parse().ok()?;
    let (ip, port) = (address.ip(), address.port());
    Some(format!("nvme connect -t tcp -a {ip} -s {port} -n {}", word(nqn)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    fn request(listen: &str, hosts: &[&str]) -> NvmeTcp {
        NvmeTcp {
            array: Served::default(),
            listen: listen.to_owned(),
            allow_host: hosts.iter().map(ToString::to_string).collect(),
            nqn: None,
        }
    }

    #[test]
    fn other_machines_reach_only_what_names_its_hosts() {
        for listen in ["0.0.0.0:4420", "192.0.2.1:4420", "[::]:4420", "nonsense", "127.0.0.1"] {
            let refused = request(listen, &[]).subsystem().unwrap_err();
            assert_eq!(refused.exit(), Exit::Usage, "{listen}");
        }
        let local = request("[::1]:4420", &[]).subsystem().unwrap();
        assert_eq!((local.hosts.clone(), local.warning()), (Hosts::Any, None));
        let public = request("0.0.0.0:4420", &["nqn.a:b"]).subsystem().unwrap();
        assert!(public.warning().is_some_and(|warning| warning.contains("without encryption")));
        assert_eq!(public.hosts, Hosts::Listed(BTreeSet::from(["nqn.a:b".to_owned()])));
        // A list holds on this machine, too.
        let local = request("127.0.0.1:0", &["nqn.a:b"]).subsystem().unwrap();
        assert!(local.warning().is_none() && local.hosts != Hosts::Any);
        assert!(parse_nqn("host").is_err() && parse_nqn("nqn.a:b").is_ok());
    }

    #[test]
    fn exports_say_how_to_connect() {
        let subsystem = request("[::1]:4420", &[]).subsystem().unwrap();
        let nqn = subsystem.name(ArrayUuid([0x1F; 16]));
        assert_eq!(nqn, "nqn.2014-08.org.nvmexpress:uuid:1f1f1f1f-1f1f-1f1f-1f1f-1f1f1f1f1f1f");
        let export = export("[::1]:4420".parse().unwrap(), "nqn.a:b c");
        assert_eq!(connect(&export).unwrap(), "nvme connect -t tcp -a ::1 -s 4420 -n 'nqn.a:b c'");
        assert_eq!(connect("/dev/ublkb0"), None);
    }
}
