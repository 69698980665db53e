//! A volume over NVMe/TCP: data survives the server, and only hosts that may connect do.

use std::net::TcpStream;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use zoneweave_nvmf::host::{Dialect, HOST_NQN, HostCommand, Initiator};

use crate::common::{MEMBERS, Place, announced, pattern};

/// A server, and where it is.
struct Target {
    child: Child,
    address: String,
    nqn: String,
    document: Value,
}

impl Target {
    fn start(place: &Place, options: &str) -> Self {
        let mut child = place
            .command(&format!("serve nvme-tcp {MEMBERS} --json -q {options}"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary was built");
        let document = announced(&mut child);
        let export = document["uris"][0].as_str().expect("an address");
        let export = export.strip_prefix("nvme+tcp://").expect("an address of NVMe/TCP");
        let (address, nqn) = export.split_once('/').expect("address and name");
        let (address, nqn) = (address.to_owned(), nqn.to_owned());
        Self { child, address, nqn, document }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.address).unwrap()
    }

    fn admin(&self) -> (Initiator<TcpStream>, u16) {
        Initiator::admin(self.connect(), Dialect::default(), &self.nqn)
    }

    fn io(&self, controller: u16) -> Initiator<TcpStream> {
        let dialect = Dialect { header_digest: true, data_digest: true, alignment: 0 };
        Initiator::io(self.connect(), dialect, &self.nqn, controller, 1)
    }

    fn end(&mut self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn flushed_data_survives_a_killed_server() {
    let place = Place::with_array();
    let mut target = Target::start(&place, "--listen 127.0.0.1:0");
    let uuid = target.document["status"]["array"].as_str().expect("the UUID of the array");
    assert_eq!(target.nqn, format!("nqn.2014-08.org.nvmexpress:uuid:{uuid}"));
    let (mut admin, controller) = target.admin();
    let namespace = admin.read(&HostCommand::identify(0, 1));
    let blocks = u64::from_le_bytes(namespace[..8].try_into().unwrap());
    assert_eq!(Some(blocks * 4096), target.document["status"]["size_bytes"].as_u64());
    let mut host = target.io(controller);
    let data = pattern(3, 1 << 20);
    host.done(&HostCommand::blocks(0x01, 7, 256), &data);
    host.done(&HostCommand::blocks(0x01, 300, 2).with(&data[..8192]), &[]);
    host.done(&HostCommand::new(0x08, 1, 0).dword(10, 301), &[]);
    host.done(&HostCommand::new(0x00, 1, 0), &[]);
    let status = place.run("--json array status d/drive0").exits(0).document("array-status");
    assert_eq!(
        (&status["server"]["clients"], &status["server"]["requests"]),
        (&1.into(), &4.into())
    );
    target.end(Signal::KILL);
    let mut target = Target::start(&place, "--listen 127.0.0.1:0");
    let (_admin, controller) = target.admin();
    let mut host = target.io(controller);
    assert!(host.read(&HostCommand::blocks(0x02, 7, 256)) == data);
    let ends = host.read(&HostCommand::blocks(0x02, 300, 2));
    assert!(ends[..4096] == data[..4096] && ends[4096..] == [0; 4096]);
    target.end(Signal::INT);
    place.run(&format!("array check {MEMBERS}")).exits(0).says("clean");
}

#[test]
fn hosts_are_limited_by_name() {
    let place = Place::with_array();
    let open = format!("serve nvme-tcp {MEMBERS} --listen 0.0.0.0:0");
    place.run(&open).exits(2).complains("--allow-host").complains("without encryption");
    let wrong = format!("{open} --allow-host localhost");
    place.run(&wrong).exits(2).complains("NVMe qualified names");
    let options = format!("--listen 0.0.0.0:0 --nqn nqn.a:vol --allow-host {HOST_NQN}");
    let mut target = Target::start(&place, &options);
    target.address = target.address.replace("0.0.0.0", "127.0.0.1");
    assert_eq!(target.nqn, "nqn.a:vol");
    let mut stranger = Initiator::new(target.connect(), Dialect::default());
    stranger.open();
    let connect = HostCommand::connect(0, 0xFFFF, "nqn.a:vol", "nqn.a:stranger");
    assert_eq!(stranger.refused(&connect), 0x184);
    target.admin();
    target.end(Signal::TERM);
}

#[test]
fn zones_are_served_and_kept_for_their_hosts() {
    let place = Place::new();
    place.run("emu create d --drives 4 --zones 16 --zone-capacity 4MiB").exits(0);
    place.run(&format!("array create z {MEMBERS} --kind zoned")).exits(0);
    let mut target = Target::start(&place, "--listen 127.0.0.1:0");
    let (mut admin, controller) = target.admin();
    let zoned = admin.read(&HostCommand::identify(5, 1).dword(11, 2 << 24));
    let zone = u64::from_le_bytes(zoned[2816..2824].try_into().unwrap());
    let report = place.run("--json zoned report d/drive0").exits(0).document("zoned-report");
    assert_eq!(Some(zone * 4096), report["zones"][1]["start_bytes"].as_u64(), "{report}");
    let mut host = target.io(controller);
    let data = pattern(5, 65_536);
    let append = |blocks: u16| HostCommand::blocks(0x7D, zone, blocks).put(4, &[1]);
    assert_eq!(host.done(&append(16), &data), zone);
    assert_eq!(host.done(&append(2).with(&data[..8192]), &[]), zone + 16);
    host.done(&HostCommand::new(0x00, 1, 0), &[]);
    place.run("zoned reset d/drive0 --zone 1").exits(4).complains("nvme disconnect");
    target.end(Signal::KILL);
    let mut target = Target::start(&place, "--listen 127.0.0.1:0");
    let (admin, controller) = target.admin();
    let mut host = target.io(controller);
    assert!(host.read(&HostCommand::blocks(0x02, zone, 16)) == data);
    let report = HostCommand::new(0x7A, 1, 128).put(40, &zone.to_le_bytes()).dword(12, 31);
    let report = host.read(&report);
    assert_eq!(report[64 + 24..64 + 32], (zone + 18).to_le_bytes(), "the write pointer");
    drop((admin, host));
    // The server sees the end of the connections a moment later.
    loop {
        let reset = place.run("zoned reset d/drive0 --zone 1");
        if reset.code == 0 {
            break;
        }
        reset.complains("nvme disconnect");
    }
    target.end(Signal::INT);
}
