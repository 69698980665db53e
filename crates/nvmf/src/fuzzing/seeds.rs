//! Valid inputs from which mutation starts: sessions of a host that connects, looks around, and
//! reads and writes.

use super::target;
use crate::DISCOVERY_NQN;
use crate::host::{Dialect, HostCommand};

const HOST_NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:host";

/// Pieces for one connection, with their heads.
fn lane(seed: &mut Vec<u8>, lane: u8, bytes: &[u8]) {
    seed.push(lane);
    seed.extend(u16::try_from(bytes.len()).expect("seeds are short").to_le_bytes());
    seed.extend(bytes);
}

/// Inputs of the target.
#[must_use]
pub fn session_seeds() -> Vec<Vec<u8>> {
    let digests = [(false, false), (true, false), (false, true), (true, true)];
    let sessions = digests.into_iter().map(|(header_digest, data_digest)| {
        session(Dialect { header_digest, data_digest, alignment: 0 })
    });
    sessions.chain([discovery()]).collect()
}

fn session(dialect: Dialect) -> Vec<u8> {
    let subsystem = target().subsystem().nqn.clone();
    let mut seed = vec![11];
    let mut id = 0;
    let mut send = |to: u8, command: HostCommand| {
        id += 1;
        lane(&mut seed, to, &dialect.capsule(id, &command));
    };
    let admin = [
        HostCommand::connect(0, 0xFFFF, &subsystem, HOST_NQN),
        HostCommand::property_get(0, true),
        HostCommand::enable(),
        HostCommand::identify(1, 0),
        HostCommand::identify(2, 0),
        HostCommand::identify(0, 1),
        HostCommand::identify(3, 1),
        HostCommand::identify(5, 2).dword(11, 2 << 24),
        HostCommand::identify(6, 2).dword(11, 2 << 24),
        HostCommand::log_page(2, 512, 0),
        HostCommand::new(0x09, 0, 0).dword(10, 7).dword(11, 0x0003_0003),
        HostCommand::new(0x0A, 0, 0).dword(10, 0x0F),
        HostCommand::new(0x0C, 0, 0),
        HostCommand::new(0x18, 0, 0),
        HostCommand::new(0x08, 0, 0).dword(10, 0x000D_0000),
    ];
    admin.into_iter().for_each(|command| send(0, command));
    let io = [
        HostCommand::connect(1, 1, &subsystem, HOST_NQN),
        HostCommand::blocks(0x01, 3, 1).with(&[0x33; 4096]),
        HostCommand::blocks(0x02, 3, 1),
        HostCommand::new(0x00, 1, 0),
        HostCommand::blocks(0x08, 5, 9).put(32, &[0; 4]),
        HostCommand::new(0x09, 1, 0).with(&[0; 32]).dword(10, 1).dword(11, 4),
        HostCommand::blocks(0x7D, 100, 1).put(4, &[2]).with(&[0x66; 4096]),
        HostCommand::new(0x79, 2, 0).dword(10, 200).dword(13, 3),
        HostCommand::new(0x79, 2, 0).dword(13, 0x104),
        HostCommand::new(0x7A, 2, 4096).dword(12, 1023).dword(13, 1 << 16),
    ];
    io.into_iter().for_each(|command| send(1, command));
    let write = HostCommand::blocks(0x01, 8, 2);
    let mut bytes = dialect.capsule(77, &write);
    bytes.extend(dialect.data(77, 77, 0, &[0x44; 4096], false));
    bytes.extend(dialect.data(77, 77, 4096, &[0x55; 4096], true));
    lane(&mut seed, 1, &bytes);
    lane(&mut seed, 0, &dialect.capsule(90, &HostCommand::property_set(0x14, 0x0046_4001)));
    lane(&mut seed, 1, &dialect.capsule(91, &HostCommand::new(0x7F, 8, 0)));
    opened(dialect, &seed)
}

fn discovery() -> Vec<u8> {
    let dialect = Dialect::default();
    let mut seed = vec![3];
    let commands = [
        HostCommand::connect(0, 0xFFFF, DISCOVERY_NQN, HOST_NQN),
        HostCommand::enable(),
        HostCommand::identify(1, 0),
        HostCommand::log_page(0x70, 3072, 0),
    ];
    for (id, command) in (1..).zip(commands) {
        lane(&mut seed, 0, &dialect.capsule(id, &command));
    }
    lane(&mut seed, 0, &Dialect::termination());
    opened(dialect, &seed)
}

/// The same, with the first PDU of both connections before it.
fn opened(dialect: Dialect, seed: &[u8]) -> Vec<u8> {
    let mut opened = vec![seed[0]];
    lane(&mut opened, 0, &dialect.open());
    lane(&mut opened, 1, &dialect.open());
    opened.extend(&seed[1..]);
    opened
}
