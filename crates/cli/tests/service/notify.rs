//! What a server tells the service manager that started it.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};

use crate::common::{MEMBERS, Place, Server};

/// The messages that a service manager receives. A thread takes them out of the queue of the
/// socket, which may be short.
struct Manager(Receiver<String>);

impl Manager {
    /// Starts a server with a watchdog of 300 ms.
    fn start(place: &Place, words: &str) -> (Self, Server) {
        let path = place.path("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        let mut command = place.command(words);
        command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "300000");
        let (telling, told) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(length) = socket.recv(&mut bytes) {
                let message = String::from_utf8(bytes[..length].to_vec()).unwrap();
                if telling.send(message).is_err() {
                    return;
                }
            }
        });
        (Self(told), place.starting(command).until("ready"))
    }

    fn next(&self) -> String {
        self.0.recv().unwrap()
    }

    /// The messages up to one that is like this.
    fn until(&self, is_it: impl Fn(&str) -> bool) -> Vec<String> {
        let mut messages = Vec::new();
        while !messages.last().is_some_and(|last: &String| is_it(last)) {
            messages.push(self.next());
        }
        messages
    }

    /// Checks the life of a server, which is described as `status` while it serves.
    fn sees(&self, server: Server, status: &str) {
        let start = self.until(|message| message == "READY=1");
        assert_eq!(start[0], "STATUS=starting");
        assert!(start.iter().any(|message| message == "EXTEND_TIMEOUT_USEC=60000000"));
        assert!(start.iter().all(|message| message != "WATCHDOG=1"), "{start:?}");
        assert!(start.iter().any(|message| message.starts_with(status)), "{start:?}");
        for _ in 0..3 {
            self.until(|message| message == "WATCHDOG=1");
        }
        server.stop();
        self.until(|message| message == "STOPPING=1");
        assert!(self.next().starts_with("STATUS=stopping"));
    }
}

#[test]
fn a_server_is_ready_alive_and_stopping() {
    let place = Place::with_array();
    let serve = format!("serve nbd {MEMBERS} --socket unix:s.sock");
    let (manager, server) = Manager::start(&place, &serve);
    // Ready means that clients can connect.
    server.client().flush();
    manager.sees(server, "STATUS=vol0 HEALTHY");
}

#[test]
fn the_status_follows_the_health_of_the_array() {
    let place = Place::with_array();
    let serve = format!("serve nbd {MEMBERS} --socket unix:s.sock");
    let (manager, server) = Manager::start(&place, &serve);
    manager.until(|message| message == "READY=1");
    place.run("array fail d/drive0 --slot 2").exits(0);
    manager.until(|message| message.starts_with("STATUS=vol0 DEGRADED: "));
    server.stop();
}

#[test]
fn volumes_of_shards_zoned_volumes_and_stores_are_ready_too() {
    let place = Place::with_drives();
    let drives = "d/drive0 d/drive1 d/drive2 d/drive3";
    place.run(&format!("array create wide --shards 2 --level raid1 {drives} --size max")).exits(0);
    let serve = format!("serve nbd {drives} --socket unix:s.sock");
    let (manager, server) = Manager::start(&place, &serve);
    manager.sees(server, "STATUS=wide HEALTHY");
    forget(&place.path("notify"));
    place.run("fs mkfs d/drive4").exits(0);
    let (manager, server) = Manager::start(&place, "fs serve d/drive4");
    manager.sees(server, "STATUS=file store");
    forget(&place.path("notify"));
    let place = Place::new();
    place.run("emu create d --drives 4 --zones 16 --zone-capacity 4MiB").exits(0);
    place.run(&format!("array create z {drives} --kind zoned")).exits(0);
    let (manager, server) = Manager::start(&place, &format!("serve zoned {drives}"));
    manager.sees(server, "STATUS=z HEALTHY");
}

fn forget(socket: &Path) {
    std::fs::remove_file(socket).unwrap();
}
