//! Operations on sockets and other descriptors that make one wait.

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;

use bytes::Bytes;
use io_uring::opcode;
use zoneweave_zoned::AlignedBuffer;

use super::held::{Gather, Held};
use super::reactor::{Descriptor, OnDrop, Ring};

impl Ring {
    /// Waits for a connection to a listening socket.
    ///
    /// # Errors
    /// The kernel's: the connection may be gone already, or descriptors have run out.
    pub async fn accept(&self, listener: &Descriptor) -> io::Result<OwnedFd> {
        let accepting = self.start(listener, Held::Accept, OnDrop::Cancel, |descriptor, _| {
            opcode::Accept::new(descriptor, std::ptr::null_mut(), std::ptr::null_mut())
                .flags(libc::SOCK_CLOEXEC)
                .build()
        });
        let finished = accepting.await;
        finished.result?;
        Ok(finished.accepted.expect("a successful accept has a socket"))
    }

    /// Receives into `range` of `buffer`, without hurry: requests received before are processed
    /// first. A count of zero means that the peer sends no more.
    ///
    /// # Errors
    /// The kernel's.
    ///
    /// # Panics
    /// If the range is empty or outside of the buffer.
    pub async fn receive(
        &self,
        socket: &Descriptor,
        mut buffer: AlignedBuffer,
        range: Range<usize>,
    ) -> io::Result<(AlignedBuffer, usize)> {
        assert!(!range.is_empty(), "receiving nothing looks like the end of the stream");
        loop {
            let held = Held::Buffer(buffer);
            let receiving =
                self.start_without_hurry(socket, held, OnDrop::Cancel, |descriptor, held| {
                    let (pointer, length) = held.writable(range.clone());
                    opcode::Recv::new(descriptor, pointer, length).build()
                });
            let (returned, count) = receiving.await.into_buffer();
            buffer = returned;
            match count {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return Ok((buffer, other?)),
            }
        }
    }

    /// Sends a list of slices, all of it. Dropping the future may cut the stream anywhere.
    ///
    /// # Errors
    /// The kernel's; part of the data may have been sent.
    pub async fn send_all(&self, socket: &Descriptor, data: Vec<Bytes>) -> io::Result<()> {
        let mut rest = data;
        rest.retain(|piece| !piece.is_empty());
        while !rest.is_empty() {
            let held = Held::Gather(Gather::new(rest));
            let sending = self.start(socket, held, OnDrop::Cancel, |descriptor, held| {
                let flags = libc::MSG_NOSIGNAL.cast_unsigned();
                opcode::SendMsg::new(descriptor, held.gather().message()).flags(flags).build()
            });
            let (left, count) = sending.await.into_rest();
            rest = left;
            match count {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => drop(other?),
            }
        }
        Ok(())
    }

    /// Waits until a descriptor is readable.
    ///
    /// # Errors
    /// The kernel's.
    pub async fn readable(&self, descriptor: &Descriptor) -> io::Result<()> {
        let events = libc::POLLIN.cast_unsigned();
        let polling = self.start(descriptor, Held::Nothing, OnDrop::Cancel, |descriptor, _| {
            opcode::PollAdd::new(descriptor, u32::from(events)).build()
        });
        polling.await.result.map(drop)
    }
}
