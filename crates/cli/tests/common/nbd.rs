//! A minimal NBD client.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, poll};

/// An NBD client that knows fixed newstyle negotiation and simple replies.
pub(crate) struct Nbd {
    stream: UnixStream,
    pub(crate) size_bytes: u64,
}

impl Nbd {
    pub(crate) fn connect(socket: &Path, name: &str) -> Self {
        let mut stream = UnixStream::connect(socket).unwrap();
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        stream.write_all(&3_u32.to_be_bytes()).unwrap();
        let length = u32::try_from(name.len()).unwrap();
        let option = [&b"IHAVEOPT"[..], &1_u32.to_be_bytes(), &length.to_be_bytes()].concat();
        stream.write_all(&[&option, name.as_bytes()].concat()).unwrap();
        let mut export = [0; 10];
        stream.read_exact(&mut export).unwrap();
        let size_bytes = u64::from_be_bytes(*export.first_chunk().unwrap());
        Self { stream, size_bytes }
    }

    fn request(&mut self, command: u16, offset: u64, length: usize, data: &[u8]) {
        assert_eq!(self.try_request(command, offset, length, data), 0, "the request failed");
    }

    /// Returns the error of the reply; zero for none.
    fn try_request(&mut self, command: u16, offset: u64, length: usize, data: &[u8]) -> u32 {
        let length = u32::try_from(length).unwrap();
        let head = [
            &0x2560_9513_u32.to_be_bytes()[..],
            &0_u16.to_be_bytes(),
            &command.to_be_bytes(),
            &7_u64.to_be_bytes(),
            &offset.to_be_bytes(),
            &length.to_be_bytes(),
        ];
        self.stream.write_all(&[&head.concat(), data].concat()).unwrap();
        let mut reply = [0; 16];
        self.stream.read_exact(&mut reply).unwrap();
        assert_eq!(reply[..4], 0x6744_6698_u32.to_be_bytes());
        u32::from_be_bytes(*reply[4..].first_chunk().unwrap())
    }

    /// Writes; returns the error of the reply.
    pub(crate) fn try_write(&mut self, offset: u64, data: &[u8]) -> u32 {
        self.try_request(1, offset, data.len(), data)
    }

    /// Reads; returns the error of the reply.
    pub(crate) fn try_read(&mut self, offset: u64, length: usize) -> u32 {
        let error = self.try_request(0, offset, length, &[]);
        if error == 0 {
            self.stream.read_exact(&mut vec![0; length]).unwrap();
        }
        error
    }

    /// Asks for the first 4 MiB, more than a socket holds, and takes nothing of the reply; returns
    /// when the server sends it.
    pub(crate) fn ask_in_vain(&mut self) {
        let length = 4_u32 << 20;
        let head = [
            &0x2560_9513_u32.to_be_bytes()[..],
            &[0; 4],
            &7_u64.to_be_bytes(),
            &0_u64.to_be_bytes(),
            &length.to_be_bytes(),
        ];
        self.stream.write_all(&head.concat()).unwrap();
        poll(&mut [PollFd::new(&self.stream, PollFlags::IN)], None).unwrap();
    }

    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        self.request(1, offset, data.len(), data);
    }

    pub(crate) fn flush(&mut self) {
        self.request(3, 0, 0, &[]);
    }

    pub(crate) fn trim(&mut self, offset: u64, length: usize) {
        self.request(4, offset, length, &[]);
    }

    pub(crate) fn write_zeroes(&mut self, offset: u64, length: usize) {
        self.request(6, offset, length, &[]);
    }

    pub(crate) fn read(&mut self, offset: u64, length: usize) -> Vec<u8> {
        self.request(0, offset, length, &[]);
        let mut data = vec![0; length];
        self.stream.read_exact(&mut data).unwrap();
        data
    }
}
