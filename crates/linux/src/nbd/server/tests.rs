//! The server against clients in other threads: a minimal one that can misbehave, and real ones.

mod client;
mod real_clients;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::thread;

use zoneweave_runtime::{Executor, Nanos};

use super::*;
use crate::memory_device::MemoryDevice;
use crate::odd_device::OddDevice;
use client::{Client, FLUSH, READ, WRITE};

const QUICK: NbdLimits = NbdLimits {
    connections: 4,
    handshakes: 2,
    handshake_time: Nanos::from_millis(300),
    in_flight_bytes: 1 << 20,
    shutdown_time: Nanos::from_millis(300),
};

/// Serves `device` while `clients` run in another thread, then shuts down.
fn serve<T: Send + 'static>(
    device: impl FnOnce(&Handle) -> Rc<dyn BlockDevice>,
    limits: NbdLimits,
    clients: impl FnOnce(&Path) -> T + Send + 'static,
) -> (T, NbdStatus) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("private/socket");
    let ring = Ring::new().unwrap();
    let executor = Executor::new(Rc::new(ring.clone()));
    let handle = executor.handle();
    let export =
        NbdExport { name: "test".to_owned(), description: String::new(), device: device(&handle) };
    let listeners = vec![Listener::start(&Endpoint::Unix(path.clone())).unwrap()];
    let server = NbdServer::start(&ring, &handle, vec![export], listeners, limits).unwrap();
    let socket: PathBuf = path.clone();
    let thread = thread::spawn(move || clients(&socket));
    let status = executor.run(async {
        while !thread.is_finished() {
            handle.sleep(Nanos::from_millis(2)).await;
        }
        let status = server.status();
        server.shutdown().await;
        status
    });
    assert!(!path.exists());
    (thread.join().unwrap(), status)
}

fn memory(_: &Handle) -> Rc<dyn BlockDevice> {
    MemoryDevice::new(1024)
}

#[test]
fn written_data_is_seen_by_another_client() {
    let (_, status) = serve(memory, NbdLimits::default(), |path| {
        let mut writer = Client::connect(path);
        let data: Vec<_> = (0..300_000_u32).map(|i| i.to_le_bytes()[0] ^ 0x5a).collect();
        writer.send(WRITE, 1, 12_345, 300_000, &data);
        assert_eq!(writer.reply(0), (1, 0, vec![]));
        writer.send(FLUSH, 2, 0, 0, &[]);
        assert_eq!(writer.reply(0), (2, 0, vec![]));
        let mut reader = Client::connect(path);
        reader.send(READ, 3, 12_000, 301_000, &[]);
        let (cookie, error, read) = reader.reply(301_000);
        assert_eq!((cookie, error), (3, 0));
        assert!(read[345..300_345] == data);
        assert_eq!(read[344], 0);
    });
    assert_eq!((status.requests, status.misbehaved), (3, 0));
}

#[test]
fn requests_complete_out_of_order_and_errors_are_told() {
    serve(
        |handle| OddDevice::read_only(handle),
        QUICK,
        |path| {
            let mut client = Client::connect(path);
            client.send(READ, 11, 4096, 4096, &[]);
            client.send(READ, 22, 8192, 100, &[]);
            client.send(WRITE, 33, 0, 4096, &[0; 4096]);
            client.send(FLUSH, 44, 0, 0, &[]);
            client.send(READ, 55, 0, 10, &[]);
            let order: Vec<_> = (0..4)
                .map(|_| client.reply_of(|cookie| if cookie == 55 { 10 } else { 0 }))
                .collect();
            let errors: BTreeSet<_> = order.iter().map(|reply| (reply.0, reply.1)).collect();
            assert_eq!(errors, [(22, 5), (33, 1), (44, 5), (55, 0)].into());
            assert_eq!(client.reply(4096), (11, 0, vec![0; 4096]));
        },
    );
}

#[test]
fn misbehaving_clients_do_not_disturb_others() {
    let (_, status) = serve(memory, QUICK, |path| {
        let mut honest = Client::connect(path);
        Client::raw(path).write_and_expect_end(&[0xff; 100]);
        let mut framing = Client::connect(path);
        framing.write_and_expect_end(&[0x11; 28]);
        let mut vanishing = Client::connect(path);
        vanishing.send(WRITE, 1, 0, 1 << 20, &[7; 1000]);
        drop(vanishing);
        let mut beyond = Client::connect(path);
        beyond.send(WRITE, 9, u64::MAX, 5000, &[7; 5000]);
        assert_eq!(beyond.reply(0), (9, 28, vec![]));
        beyond.send(READ, 10, 0, 33 << 20, &[]);
        assert_eq!(beyond.reply(0), (10, 22, vec![]));
        honest.send(READ, 2, 0, 4096, &[]);
        assert_eq!(honest.reply(4096), (2, 0, vec![0; 4096]));
    });
    assert_eq!(status.misbehaved, 2);
}

#[test]
fn a_silent_client_is_hung_up_on_and_its_place_reused() {
    let (_, status) = serve(memory, QUICK, |path| {
        // Both handshake places are taken by clients that say nothing.
        let silent = [Client::raw(path), Client::raw(path)];
        drop(Client::connect(path));
        for mut client in silent {
            client.write_and_expect_end(&[]);
        }
    });
    assert_eq!(status.misbehaved, 2);
}

/// They kept everybody out for as long as a handshake may take, and began again.
#[test]
fn silent_clients_make_room_for_others() {
    let patient = NbdLimits { handshake_time: Nanos::from_secs(3600), ..QUICK };
    let (_, status) = serve(memory, patient, |path| {
        let mut first = Client::raw(path);
        let _second = Client::raw(path);
        drop(Client::connect(path));
        first.write_and_expect_end(&[]);
    });
    assert_eq!(status.misbehaved, 1);
}

#[test]
fn a_client_without_budget_is_not_read_from_but_served_on() {
    serve(memory, QUICK, |path| {
        // Requests replies of 64 times 512 KiB, under a budget of 1 MiB, before it reads one.
        let mut client = Client::connect(path);
        for cookie in 0..64 {
            client.send(READ, cookie, 0, 512 << 10, &[]);
        }
        let mut other = Client::connect(path);
        other.send(READ, 1, 0, 4096, &[]);
        assert_eq!(other.reply(4096).0, 1);
        let cookies: BTreeSet<_> = (0..64).map(|_| client.reply(512 << 10).0).collect();
        assert_eq!(cookies.len(), 64);
    });
}

#[test]
fn shutdown_answers_what_was_read_and_gives_up_on_clients_that_do_not_listen() {
    let (clients, _) = serve(
        |handle| OddDevice::read_only(handle),
        QUICK,
        |path| {
            let mut slow = Client::connect(path);
            slow.send(READ, 1, 4096, 4096, &[]);
            let mut deaf = Client::connect(path);
            for cookie in 0..16 {
                deaf.send(READ, cookie, 16 * 4096, 128 << 10, &[]);
            }
            let idle = Client::connect(path);
            // The requests are read before the server is told to stop.
            thread::sleep(std::time::Duration::from_millis(20));
            (slow, deaf, idle)
        },
    );
    let (mut slow, _deaf, mut idle) = clients;
    assert_eq!(slow.reply(4096), (1, 0, vec![0; 4096]));
    idle.write_and_expect_end(&[]);
}

#[test]
fn a_device_that_never_answers_does_not_hold_up_shutdown() {
    serve(
        |handle| OddDevice::read_only(handle),
        QUICK,
        |path| {
            let mut client = Client::connect(path);
            client.send(READ, 1, 3 * 4096, 4096, &[]);
            client.send(READ, 2, 0, 1, &[]);
            assert_eq!(client.reply(1).0, 2);
            client
        },
    );
}
