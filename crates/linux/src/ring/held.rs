//! Memory that an operation lends to the kernel, and its result.
#![allow(unsafe_code, reason = "the kernel returns accepted sockets as numbers")]

use std::io;
use std::ops::Range;
use std::os::fd::{FromRawFd, OwnedFd};

use bytes::{Buf, Bytes};
use zoneweave_zoned::AlignedBuffer;

/// The kernel takes no more pieces in one call (`UIO_MAXIOV`).
pub(super) const PIECES_MAX: usize = 1024;

/// One call moves at most this much; longer reads are resumed (the kernel's own limit is 2 GiB).
const TRANSFER_BYTES_MAX: usize = 1 << 30;

/// Memory and promises that belong to an operation until it completes.
pub(super) enum Held {
    Nothing,
    /// Memory the kernel writes.
    Buffer(AlignedBuffer),
    /// Memory the kernel reads.
    Gather(Gather),
    /// The buffers of a device command.
    Command(CommandMemory),
    /// A success is a new socket, which must be closed even if the future was dropped.
    Accept,
}

impl Held {
    /// The memory that the kernel may write: a range of the buffer, limited to one call.
    pub(super) fn writable(&mut self, range: Range<usize>) -> (*mut u8, u32) {
        let Self::Buffer(buffer) = self else { unreachable!("started with a buffer") };
        let slice = &mut buffer.as_mut()[range];
        let length = slice.len().min(TRANSFER_BYTES_MAX);
        (slice.as_mut_ptr(), u32::try_from(length).expect("cut to fit"))
    }

    pub(super) fn command(&mut self) -> &mut CommandMemory {
        let Self::Command(memory) = self else { unreachable!("started with a command") };
        memory
    }

    pub(super) fn gather(&mut self) -> &mut Gather {
        let Self::Gather(gather) = self else { unreachable!("started with a list") };
        gather
    }
}

/// The memory of a device command.
pub(super) struct CommandMemory {
    pub(super) data: Side,
    pub(super) metadata: Side,
}

/// One of a command's two buffers.
pub(super) enum Side {
    Nothing,
    /// Memory the kernel reads.
    Out(Gather),
    /// Memory the kernel writes, from its start on so many bytes.
    In(AlignedBuffer, usize),
}

/// A list of slices in the form the kernel reads it.
pub(super) struct Gather {
    pieces: Vec<Bytes>,
    vectors: Box<[libc::iovec]>,
    message: Box<libc::msghdr>,
}

impl Gather {
    /// The first pieces of a list; at most as many as one call takes.
    pub(super) fn new(pieces: Vec<Bytes>) -> Self {
        let vectors: Box<[libc::iovec]> = pieces
            .iter()
            .take(PIECES_MAX)
            .map(|piece| libc::iovec { iov_base: piece.as_ptr() as *mut _, iov_len: piece.len() })
            .collect();
        // SAFETY: all zeros is a valid `msghdr`: null pointers and zero lengths.
        let message = Box::new(unsafe { std::mem::zeroed::<libc::msghdr>() });
        Self { pieces, vectors, message }
    }

    /// The vectors and their number.
    pub(super) fn vectors(&self) -> (*const libc::iovec, u32) {
        let count = u32::try_from(self.vectors.len()).expect("at most 1,024");
        (self.vectors.as_ptr(), count)
    }

    /// The slice, if there is only one.
    pub(super) fn only(&self) -> Option<&Bytes> {
        match self.pieces.as_slice() {
            [piece] => Some(piece),
            _ => None,
        }
    }

    /// The vectors as a message without address.
    pub(super) fn message(&mut self) -> *const libc::msghdr {
        self.message.msg_iov = self.vectors.as_mut_ptr();
        self.message.msg_iovlen = self.vectors.len();
        &raw const *self.message
    }

    /// The rest of the list after `done` bytes.
    pub(super) fn after(self, mut done: usize) -> Vec<Bytes> {
        let mut pieces = self.pieces;
        let finished = pieces.iter().take_while(|piece| {
            let whole = piece.len() <= done;
            done -= if whole { piece.len() } else { 0 };
            whole
        });
        let finished = finished.count();
        pieces.drain(..finished);
        if let Some(first) = pieces.first_mut() {
            first.advance(done);
        }
        pieces
    }
}

/// A completed operation.
pub(super) struct Finished {
    pub(super) result: io::Result<usize>,
    /// The second result of an NVMe command.
    pub(super) extra: u64,
    pub(super) held: Held,
    pub(super) accepted: Option<OwnedFd>,
}

impl Finished {
    pub(super) fn new(result: i32, extra: u64, held: Held) -> Self {
        let accepted = (matches!(held, Held::Accept) && result >= 0).then(|| {
            // SAFETY: a successful accept returns a new descriptor without another owner.
            unsafe { OwnedFd::from_raw_fd(result) }
        });
        let result = usize::try_from(result)
            .map_err(|_| io::Error::from_raw_os_error(result.wrapping_neg()));
        Self { result, extra, held, accepted }
    }

    /// The buffer of an operation that had one, whatever its result.
    pub(super) fn into_buffer(self) -> (AlignedBuffer, io::Result<usize>) {
        match self.held {
            Held::Buffer(buffer) => (buffer, self.result),
            _ => unreachable!("the operation was started with a buffer"),
        }
    }

    /// The bytes left to write.
    pub(super) fn into_rest(self) -> (Vec<Bytes>, io::Result<usize>) {
        let done = *self.result.as_ref().unwrap_or(&0);
        match self.held {
            Held::Gather(gather) => (gather.after(done), self.result),
            _ => unreachable!("the operation was started with a list"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_write_leaves_the_rest() {
        let pieces = || vec![Bytes::from_static(b"abc"), Bytes::new(), Bytes::from_static(b"de")];
        let rest = |done| Gather::new(pieces()).after(done).concat();
        assert_eq!(rest(0), b"abcde");
        assert_eq!(rest(2), b"cde");
        assert_eq!(rest(3), b"de");
        assert_eq!(rest(4), b"e");
        assert!(Gather::new(pieces()).after(5).is_empty());
    }
}
