//! Serves a device in memory over NBD until SIGINT or SIGTERM, to try clients with.
//!
//! ```text
//! cargo run --release --example nbd_memory -- /tmp/memory/socket 1024
//! nbdinfo 'nbd+unix:///?socket=/tmp/memory/socket'
//! ```

use std::rc::Rc;

use zoneweave_linux::nbd::{Endpoint, Listener, NbdExport, NbdLimits, NbdServer};
use zoneweave_linux::{MemoryDevice, Ring, Signals};
use zoneweave_runtime::Executor;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: nbd_memory (SOCKET | LOOPBACK-ADDRESS:PORT) [MIB]";
    let address = arguments.next().ok_or(usage)?;
    let mib: u64 = arguments.next().map_or(Ok(1024), |text| text.parse())?;
    let endpoint = match address.parse() {
        Ok(address) => Endpoint::Tcp(address),
        Err(_) => Endpoint::Unix(address.into()),
    };
    let ring = Ring::new()?;
    let signals = Signals::new(&ring)?;
    let executor = Executor::new(Rc::new(ring.clone()));
    let export = NbdExport {
        name: "memory".to_owned(),
        description: "a device in memory".to_owned(),
        device: MemoryDevice::new(mib << 8),
    };
    let limits = NbdLimits::default();
    let listeners = vec![Listener::start(&endpoint)?];
    let server = NbdServer::start(&ring, &executor.handle(), vec![export], listeners, limits)?;
    signals.serving();
    for endpoint in server.endpoints() {
        eprintln!("serving {mib} MiB at {endpoint}");
    }
    executor.run(async {
        let signal = signals.next().await?;
        eprintln!("{signal:?}: {:?}", server.status());
        server.shutdown().await;
        Ok(())
    })
}
