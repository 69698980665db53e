//! From bytes to PDUs.

use bytes::{Buf, Bytes, BytesMut};

use super::{
    CAPSULE_DATA_BYTES_MAX, Capsule, Intact, Received, Sink, Stage, TRANSFER_BYTES_MAX, Terms,
    Transport,
};
use crate::command::Command;
use crate::fields::u32_at;
use crate::pdu::{
    COMMON_BYTES, Common, DATA_OFFSET_MAX, DIGEST_BYTES, HostData, IcRequest, Layout, Violation,
    kind,
};

impl Transport {
    /// Takes bytes of the host until a command, the end of a transfer, or the end of the bytes.
    ///
    /// # Errors
    /// A violation; the termination request is in the output, and the connection must end.
    pub(crate) fn receive(&mut self, input: &mut impl Buf) -> Result<Option<Received>, Violation> {
        self.parse(input).inspect_err(|violation| {
            let header = std::mem::take(&mut self.held);
            self.violate(*violation, &header);
        })
    }

    /// Ends the connection because of this header.
    pub(crate) fn violate(&mut self, violation: Violation, header: &[u8]) {
        self.send_termination(violation, header);
        self.end();
    }

    fn parse(&mut self, input: &mut impl Buf) -> Result<Option<Received>, Violation> {
        loop {
            match &mut self.stage {
                Stage::Common => {
                    if !self.hold(input, COMMON_BYTES) {
                        return Ok(None);
                    }
                    self.take_common()?;
                }
                Stage::Head { common, layout } => {
                    let (common, layout) = (*common, *layout);
                    if !self.hold(input, layout.head_bytes) {
                        return Ok(None);
                    }
                    if let Some(received) = self.take_head(common, layout)? {
                        return Ok(Some(received));
                    }
                }
                Stage::Data { .. } => {
                    if !self.take_data(input) {
                        return Ok(None);
                    }
                    if !self.digests().data
                        && let Some(received) = self.finish_data(Intact(true))
                    {
                        return Ok(Some(received));
                    }
                }
                Stage::Digest { digest, .. } => {
                    let digest = *digest;
                    if !self.hold(input, DIGEST_BYTES) {
                        return Ok(None);
                    }
                    let intact = Intact(u32_at(&self.held, 0) == digest);
                    if let Some(received) = self.finish_data(intact) {
                        return Ok(Some(received));
                    }
                }
                Stage::Over => {
                    input.advance(input.remaining());
                    return Ok(None);
                }
            }
        }
    }

    /// Moves input into `held` until it has `wanted` bytes; says whether it has.
    fn hold(&mut self, input: &mut impl Buf, wanted: usize) -> bool {
        assert!(wanted <= DATA_OFFSET_MAX, "a length was used before it was bounded");
        while self.held.len() < wanted && input.has_remaining() {
            let piece = input.chunk();
            let taken = piece.len().min(wanted - self.held.len());
            self.held.extend_from_slice(&piece[..taken]);
            input.advance(taken);
        }
        self.held.len() == wanted
    }

    fn take_common(&mut self) -> Result<(), Violation> {
        let common = Common::parse(&self.held);
        let is_opening = common.kind == kind::IC_REQUEST;
        if is_opening != self.terms.is_none() {
            return Err(Violation::Sequence);
        }
        let data_max = match common.kind {
            kind::HOST_DATA => TRANSFER_BYTES_MAX,
            _ => CAPSULE_DATA_BYTES_MAX,
        };
        let layout = common.layout(self.digests(), data_max)?;
        self.stage = Stage::Head { common, layout };
        Ok(())
    }

    /// Takes a whole head; leaves `held` empty unless it is at fault.
    fn take_head(&mut self, common: Common, layout: Layout) -> Result<Option<Received>, Violation> {
        if matches!(common.kind, kind::COMMAND | kind::HOST_DATA) && self.digests().header {
            let header = usize::from(common.header_bytes);
            let received = u32_at(&self.held, header);
            if received != crc32c::crc32c(&self.held[..header]) {
                return Err(Violation::HeaderDigest { received });
            }
        }
        self.stage = Stage::Common;
        let received = match common.kind {
            kind::IC_REQUEST => {
                self.open()?;
                None
            }
            kind::COMMAND => self.take_command(layout),
            kind::HOST_DATA => {
                self.take_data_head(layout)?;
                None
            }
            // The rest of it says where we went wrong; the connection is over either way.
            kind::HOST_TERMINATION => Some(Received::Termination),
            other => unreachable!("PDU type {other} was refused"),
        };
        self.held.clear();
        Ok(received)
    }

    fn open(&mut self) -> Result<(), Violation> {
        let IcRequest { data_alignment, digests } = IcRequest::parse(&self.held)?;
        self.send_opened(digests);
        self.terms = Some(Terms { digests, data_alignment });
        Ok(())
    }

    fn take_command(&mut self, layout: Layout) -> Option<Received> {
        let command = Command::new(&self.held);
        if layout.data_bytes == 0 {
            let capsule = Capsule { command, data: Bytes::new(), intact: Intact(true) };
            return Some(Received::Capsule(capsule));
        }
        let sink = Sink::Capsule(command, BytesMut::with_capacity(layout.data_bytes));
        self.stage = Stage::Data { sink, left_bytes: layout.data_bytes, digest: 0 };
        None
    }

    fn take_data_head(&mut self, layout: Layout) -> Result<(), Violation> {
        let head = HostData::parse(&self.held);
        let Some(transfer) = self.transfers.get(&head.transfer) else {
            return Err(Violation::InvalidHeader { offset: 10 });
        };
        if head.command != head.transfer {
            return Err(Violation::InvalidHeader { offset: 8 });
        }
        let length = head.length_bytes as usize;
        if length != layout.data_bytes {
            return Err(Violation::InvalidHeader { offset: 16 });
        }
        let offset = head.offset_bytes as usize;
        let left = transfer.total_bytes - transfer.data.len();
        if offset != transfer.data.len() || length > left {
            return Err(Violation::OutOfRange);
        }
        if head.is_last != (length == left) {
            return Err(Violation::InvalidHeader { offset: 1 });
        }
        let sink = Sink::Transfer(head.transfer);
        self.stage = Stage::Data { sink, left_bytes: length, digest: 0 };
        Ok(())
    }

    /// Moves data to its place; says whether all of this PDU's data is there.
    fn take_data(&mut self, input: &mut impl Buf) -> bool {
        let has_digest = self.digests().data;
        let Stage::Data { sink, left_bytes, digest } = &mut self.stage else {
            unreachable!("data is being received");
        };
        let memory = match sink {
            Sink::Capsule(_, memory) => memory,
            Sink::Transfer(id) => {
                &mut self.transfers.get_mut(id).expect("transfers end with their data").data
            }
        };
        while *left_bytes > 0 && input.has_remaining() {
            let piece = input.chunk();
            let piece = &piece[..piece.len().min(*left_bytes)];
            memory.extend_from_slice(piece);
            if has_digest {
                *digest = crc32c::crc32c_append(*digest, piece);
            }
            *left_bytes -= piece.len();
            let taken = piece.len();
            input.advance(taken);
        }
        if *left_bytes > 0 {
            return false;
        }
        if has_digest {
            let digest = *digest;
            if let Stage::Data { sink, .. } = std::mem::replace(&mut self.stage, Stage::Common) {
                self.stage = Stage::Digest { sink, digest };
            }
        }
        true
    }

    /// The data of a PDU is complete; returns it if nothing is left of its command's.
    fn finish_data(&mut self, intact: Intact) -> Option<Received> {
        assert!(self.terms.is_some(), "data comes on open connections");
        self.held.clear();
        let (Stage::Data { sink, .. } | Stage::Digest { sink, .. }) =
            std::mem::replace(&mut self.stage, Stage::Common)
        else {
            unreachable!("data was being received");
        };
        match sink {
            Sink::Capsule(command, data) => {
                Some(Received::Capsule(Capsule { command, data: data.freeze(), intact }))
            }
            Sink::Transfer(id) => {
                let transfer = self.transfers.get_mut(&id).expect("it is open");
                transfer.intact.0 &= intact.0;
                if transfer.data.len() < transfer.total_bytes {
                    return None;
                }
                let done = self.transfers.remove(&id).expect("it is open");
                Some(Received::Transfer(id, done.data.freeze(), done.intact))
            }
        }
    }
}
