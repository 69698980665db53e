//! An NBD client that does as it is told, right or wrong.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

pub(super) const READ: u16 = 0;
pub(super) const WRITE: u16 = 1;
pub(super) const FLUSH: u16 = 3;

pub(super) struct Client(UnixStream);

impl Client {
    /// A connection that has read the greeting and sent nothing.
    pub(super) fn raw(path: &Path) -> Self {
        let mut stream = UnixStream::connect(path).unwrap();
        let mut greeting = [0; 18];
        // A server that is full greets later; the tests that count on it wait for it here.
        stream.read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        Self(stream)
    }

    /// A connection to the default export, without structured replies.
    pub(super) fn connect(path: &Path) -> Self {
        let mut client = Self::raw(path);
        let mut options = 3_u32.to_be_bytes().to_vec();
        options.extend(b"IHAVEOPT");
        options.extend(1_u32.to_be_bytes());
        options.extend(0_u32.to_be_bytes());
        client.0.write_all(&options).unwrap();
        client.0.read_exact(&mut [0; 10]).unwrap();
        client
    }

    pub(super) fn send(
        &mut self,
        command: u16,
        cookie: u64,
        offset: u64,
        length: u32,
        payload: &[u8],
    ) {
        let mut request = 0x2560_9513_u32.to_be_bytes().to_vec();
        request.extend(0_u16.to_be_bytes());
        request.extend(command.to_be_bytes());
        request.extend(cookie.to_be_bytes());
        request.extend(offset.to_be_bytes());
        request.extend(length.to_be_bytes());
        request.extend(payload);
        self.0.write_all(&request).unwrap();
    }

    /// The next reply: cookie, error and, if it is a success, so many bytes of data.
    pub(super) fn reply(&mut self, data_bytes: usize) -> (u64, u32, Vec<u8>) {
        self.reply_of(|_| data_bytes)
    }

    /// The next reply, whose data length depends on its cookie.
    pub(super) fn reply_of(
        &mut self,
        data_bytes: impl FnOnce(u64) -> usize,
    ) -> (u64, u32, Vec<u8>) {
        let mut header = [0; 16];
        self.0.read_exact(&mut header).unwrap();
        assert_eq!(header[..4], 0x6744_6698_u32.to_be_bytes());
        let error = u32::from_be_bytes(header[4..8].try_into().unwrap());
        let cookie = u64::from_be_bytes(header[8..].try_into().unwrap());
        let mut data = vec![0; if error == 0 { data_bytes(cookie) } else { 0 }];
        self.0.read_exact(&mut data).unwrap();
        (cookie, error, data)
    }

    /// Sends something after which the server hangs up.
    pub(super) fn write_and_expect_end(&mut self, bytes: &[u8]) {
        // The server may hang up before it has read all of it.
        let _ = self.0.write_all(bytes);
        let mut rest = Vec::new();
        let _ = self.0.read_to_end(&mut rest);
        assert!(rest.is_empty(), "the server answered {rest:?}");
    }
}
