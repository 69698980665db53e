//! The server against clients on the same ring, and against strangers with sockets of their own.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use zoneweave_filestore::{FormatOptions, Hints, OpenOptions};
use zoneweave_linux::FileDrive;
use zoneweave_linux::nbd::Endpoint;
use zoneweave_runtime::Executor;
use zoneweave_zoned::{BlockCount, Geometry};

use super::*;
use crate::wire::{Greeting, Reply, Request, VERSION, frame};
use crate::{Client, Code, Store, Writer};

struct Served {
    executor: Executor,
    ring: Ring,
    handle: Handle,
    own: FileStore,
    server: Option<StoreServer>,
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

impl Served {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ring = Ring::new().unwrap();
        let executor = Executor::new(Rc::new(ring.clone()));
        let handle = executor.handle();
        let path = folder.path().join("drive");
        FileDrive::create(&path, Geometry::new(24, BlockCount(512)), [7; 16]).unwrap();
        let drive = Rc::new(FileDrive::open(&ring, &handle, &path).unwrap());
        let options = FormatOptions::new([5; 16]);
        executor.run(FileStore::format(&*drive, &options)).unwrap();
        let opening = FileStore::open(handle.clone(), drive, OpenOptions::default());
        let (own, _) = executor.run(opening).unwrap();
        let socket = folder.path().join("socket");
        let listener = Listener::start(&Endpoint::Unix(socket.clone())).unwrap();
        let drives = vec!["/the/drive".to_owned()];
        let warning = "a warning".to_owned();
        let server =
            StoreServer::start(&ring, &handle, own.clone(), drives, warning, vec![listener]);
        Self { executor, ring, handle, own, server: Some(server), socket, _folder: folder }
    }

    async fn client(&self) -> Store {
        let connecting = Client::connect(&self.ring, &self.handle, &self.socket, None);
        Store::Served(connecting.await.unwrap())
    }

    fn status(&self) -> StoreServerStatus {
        self.server.as_ref().unwrap().status()
    }

    /// Lets the server run until a condition holds.
    fn until(&self, holds: impl Fn(&Self) -> bool) {
        self.executor.run(async {
            while !holds(self) {
                self.handle.sleep(Nanos::from_millis(1)).await;
            }
        });
    }
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| u8::try_from((at * 31 + at / 4096) % 251).unwrap()).collect()
}

async fn write(store: &Store, path: &str, data: &[u8]) -> Writer {
    let writer = store.create(path, Hints::default(), false).await.unwrap();
    writer.append(data).await.unwrap();
    writer
}

async fn contents(store: &Store, path: &str) -> Vec<u8> {
    let reader = store.open_file(path).await.unwrap();
    let length = usize::try_from(reader.length().await.unwrap()).unwrap();
    let mut bytes = vec![0; length + 1];
    assert_eq!(reader.read_at(0, &mut bytes).await.unwrap(), length);
    bytes.truncate(length);
    bytes
}

#[test]
fn a_client_does_what_a_process_with_the_store_does() {
    let served = Served::new();
    served.executor.run(async {
        let store = served.client().await;
        assert_eq!(store.label(), served.own.label());
        let data = pattern(3_000_000);
        let writer = write(&store, "/file", &data).await;
        assert_eq!(contents(&store, "/file").await, data);
        writer.flush().await.unwrap();
        writer.sync().await.unwrap();
        writer.write_at(5_000, &data[5_000..2_500_000]).await.unwrap();
        assert_eq!(writer.length().await.unwrap(), 2_500_000);
        writer.truncate(100).await.unwrap();
        writer.set_hints(Hints { level: Some(3), ..Hints::default() }).await.unwrap();
        writer.close().await.unwrap();
        store.create_directory("/folder").await.unwrap();
        store.link("/file", "/folder/link").await.unwrap();
        store.rename("/folder/link", "/folder/moved").await.unwrap();
        assert_eq!(store.metadata("/folder/moved").await.unwrap().links, 2);
        assert_eq!(store.metadata("/file").await.unwrap(), served.own.metadata("/file").unwrap());
        assert_eq!(contents(&store, "/folder/moved").await, data[..100]);
        assert_eq!(store.list("/").await.unwrap(), served.own.list("/").unwrap());
        assert_eq!(store.space().await.unwrap(), served.own.space());
        store.remove_file("/folder/moved").await.unwrap();
        store.remove_directory("/folder").await.unwrap();
        let again = store.append_to("/file").await.unwrap();
        again.append(&data[100..200]).await.unwrap();
        assert_eq!(contents(&store, "/file").await, data[..200]);
    });
}

#[test]
fn errors_keep_their_codes() {
    let served = Served::new();
    served.executor.run(async {
        let store = served.client().await;
        let other = served.client().await;
        let writer = write(&store, "/file", b"bytes").await;
        let code = |failed: Result<Writer, crate::Failure>| failed.err().unwrap().code;
        assert_eq!(code(other.append_to("/file").await), Code::Busy);
        assert_eq!(code(other.append_to("/none").await), Code::NotFound);
        assert_eq!(code(other.create("/file", Hints::default(), true).await), Code::Exists);
        assert_eq!(writer.write_at(9, b"x").await.unwrap_err().code, Code::Invalid);
        assert_eq!(store.list("/file").await.unwrap_err().code, Code::NotADirectory);
        // A handle that ends makes way at once.
        drop(writer);
        store.append_to("/file").await.unwrap();
    });
}

#[test]
fn long_directories_are_listed_in_parts() {
    let served = Served::new();
    served.executor.run(async {
        let store = served.client().await;
        for number in 0..600 {
            served.own.create_directory(&format!("/d{number:05}")).await.unwrap();
        }
        assert_eq!(store.list("/").await.unwrap(), served.own.list("/").unwrap());
    });
}

#[test]
fn files_of_a_client_that_vanishes_are_closed() {
    let served = Served::new();
    let writer = served.executor.run(async {
        let store = served.client().await;
        write(&store, "/file", b"buffered").await
    });
    assert_eq!(served.status().connections, 1);
    // As when its process is killed: the socket closes.
    drop(writer);
    served.until(|served| served.status().connections == 0);
    served.executor.run(async {
        let store = served.client().await;
        let writer = store.append_to("/file").await.unwrap();
        assert_eq!(writer.length().await.unwrap(), 0, "neither flushed nor synced");
    });
}

#[test]
fn files_of_a_client_that_has_left_are_free_at_once() {
    let served = Served::new();
    let other = served.executor.run(async {
        drop(served.own.create("/file", Hints::default()).await.unwrap());
        served.client().await
    });
    let before = served.status().requests;
    let mut stranger = UnixStream::connect(&served.socket).unwrap();
    let open = Request::AppendTo { path: "/file".to_owned() };
    let greet = framed(0, &Request::Greet { version: VERSION }, b"");
    stranger.write_all(&[greet, framed(1, &open, b"")].concat()).unwrap();
    served.until(|served| served.status().requests > before);
    // Its requests are in flight when it goes; the socket takes them all.
    let file = crate::wire::FileNumber(0);
    for tag in (2..18).step_by(2) {
        let append = framed(tag, &Request::Append { file }, &[7; 4096]);
        let sync = framed(tag + 1, &Request::Sync { file }, b"");
        stranger.write_all(&[append, sync].concat()).unwrap();
    }
    drop(stranger);
    served.executor.run(async { other.append_to("/file").await.unwrap() });
}

#[test]
fn a_shutdown_ends_calls_and_later_ones_fail() {
    let mut served = Served::new();
    let server = served.server.take().unwrap();
    served.executor.run(async {
        let store = served.client().await;
        let writer = write(&store, "/file", b"bytes").await;
        writer.sync().await.unwrap();
        server.shutdown().await;
        let failed = writer.append(b"more").await.unwrap_err();
        assert_eq!(failed.code, Code::Unreachable, "{failed}");
    });
    let length = served.own.metadata("/file").unwrap().length;
    assert_eq!(length, 5);
    let connecting = Client::connect(&served.ring, &served.handle, &served.socket, None);
    assert_eq!(served.executor.run(connecting).err().unwrap().code, Code::NotFound);
}

#[test]
fn a_server_that_hangs_is_told_from_one_that_is_slow() {
    let folder = tempfile::tempdir().unwrap();
    let ring = Ring::new().unwrap();
    let executor = Executor::new(Rc::new(ring.clone()));
    let socket = folder.path().join("socket");
    // It accepts in the kernel, and never answers.
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let handle = executor.handle();
    let patience = Some(Nanos::from_secs(1));
    let connecting = Client::connect(&ring, &handle, &socket, patience);
    let failed = executor.run(connecting).err().unwrap();
    assert_eq!(failed.code, Code::Unreachable);
    assert!(failed.message.contains("3 s"), "{failed}");
}

/// The bytes that a server sends until it ends the connection of a stranger, who has sent `bytes`.
fn answers_to(served: &Served, bytes: Vec<u8>) -> Vec<u8> {
    let socket = served.socket.clone();
    let stranger = thread::Builder::new().spawn(move || talk(&socket, &bytes)).unwrap();
    served.until(|_| stranger.is_finished());
    stranger.join().unwrap()
}

fn talk(socket: &Path, bytes: &[u8]) -> Vec<u8> {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    // The server may have ended the connection before it has taken all.
    let _ = stream.write_all(bytes);
    let mut received = Vec::new();
    let _ = stream.read_to_end(&mut received);
    received
}

fn framed(tag: u64, request: &Request, data: &'static [u8]) -> Vec<u8> {
    frame(tag, request, Bytes::from_static(data)).concat()
}

#[test]
fn messages_of_any_length_are_answered() {
    let served = Served::new();
    served.executor.run(async {
        let store = served.client().await;
        // Its error would be longer than a message may be.
        let path = format!("{}a", "/".repeat(crate::wire::MESSAGE_BYTES_MAX - 100));
        let failed = store.metadata(&path).await.unwrap_err();
        assert_eq!(failed.code, Code::NotFound);
        assert!(failed.message.len() < 5_000);
        let path = "/\u{e000}".repeat(40_000);
        assert_eq!(store.metadata(&path).await.unwrap_err().code, Code::Invalid);
        let path = "/".repeat(crate::wire::MESSAGE_BYTES_MAX);
        assert_eq!(store.metadata(&path).await.unwrap_err().code, Code::Invalid);
        assert_eq!(store.list("/").await.unwrap(), []);
    });
}

#[test]
fn strangers_that_break_the_rules_are_cut_off() {
    let served = Served::new();
    let greet = framed(0, &Request::Greet { version: VERSION }, b"");
    let after = |rest: &[u8]| [&greet[..], rest].concat();
    let hostile = [
        vec![0xff; 16],
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        framed(0, &Request::Greet { version: VERSION + 1 }, b""),
        framed(0, &Request::Space, b""),
        after(&[0xff; 64]),
        after(&[1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, b'{']),
    ];
    for (number, bytes) in hostile.into_iter().enumerate() {
        let answers = answers_to(&served, bytes);
        let greeting = Greeting { version: VERSION, volume: served.volume() };
        let greeting = frame(0, &greeting, Bytes::new()).concat();
        assert_eq!(answers[..greeting.len()], greeting);
        served.until(|served| served.status().connections == 0);
        assert_eq!(served.status().misbehaved, number as u64 + 1);
    }
    // Others are served as before.
    served.executor.run(async { drop(write(&served.client().await, "/file", b"x").await) });
}

impl Served {
    fn volume(&self) -> Volume {
        self.server.as_ref().unwrap().shared.volume.clone()
    }
}

#[test]
fn wrong_requests_are_answered_and_change_nothing() {
    let served = Served::new();
    let file = crate::wire::FileNumber(77);
    let wrong = [
        (Request::Sync { file }, b"".as_slice()),
        (Request::Append { file }, b"data"),
        (Request::Space, b"data"),
        (Request::Greet { version: VERSION }, b""),
        (Request::ReadAt { file, offset: 0, length: u32::MAX }, b""),
        (Request::CreateDirectory { path: "/..".to_owned() }, b""),
    ];
    let mut bytes = framed(0, &Request::Greet { version: VERSION }, b"");
    for (tag, (request, data)) in (1..).zip(&wrong) {
        bytes.extend(framed(tag, request, data));
    }
    let socket = served.socket.clone();
    let stranger = thread::Builder::new().spawn(move || {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(&bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        received
    });
    let stranger = stranger.unwrap();
    served.until(|_| stranger.is_finished());
    let answers = String::from_utf8_lossy(&stranger.join().unwrap()).into_owned();
    assert_eq!(answers.matches("\"failed\"").count(), wrong.len(), "{answers}");
    assert_eq!(served.own.list("/").unwrap(), []);
    let reply: Reply = serde_json::from_str("\"done\"").unwrap();
    assert_eq!(reply, Reply::Done);
}
