//! One request: run on the device, turned into a reply.

use std::rc::Rc;

use bytes::Bytes;
use zoneweave_nbd::{
    Command, ContextId, Errno, ReadExtent, ReplyEncoder, Request, STATUS_EXTENTS_MAX, Session,
    StatusExtent, StatusFlags, simple_reply,
};
use zoneweave_runtime::Permit;
use zoneweave_zoned::{BLOCK_BYTES, BlockError, ByteDevice, ExtentState, Status};

use crate::stream::Output;

/// Where the reply to a request goes.
pub(super) struct Outlet {
    encoder: ReplyEncoder,
    context: Option<ContextId>,
    output: Rc<Output>,
    budget: Permit,
}

impl Outlet {
    pub(super) fn new(session: &Session, output: &Rc<Output>, budget: Permit) -> Self {
        let (encoder, context) = (session.replies(), session.base_allocation());
        Self { encoder, context, output: output.clone(), budget }
    }
}

/// Runs a request and queues its reply.
pub(super) async fn run(device: Rc<ByteDevice>, request: Request, payload: Bytes, to: Outlet) {
    let reply = match answer(&device, &request, payload, &to).await {
        Ok(Some(reply)) => reply,
        Ok(None) => {
            return to.output.push_acknowledgement(simple_reply(request.cookie, None), to.budget);
        }
        Err(error) => vec![failure(to.encoder, &request, &error)],
    };
    to.output.push(reply, to.budget);
}

/// The pieces of a reply; `None` for a header without payload.
async fn answer(
    device: &ByteDevice,
    request: &Request,
    payload: Bytes,
    to: &Outlet,
) -> Result<Option<Vec<Bytes>>, BlockError> {
    let &Request { offset_bytes: offset, length_bytes, force_unit_access: fua, .. } = request;
    let length = u64::from(length_bytes);
    match request.command {
        Command::Read { .. } => {
            let pieces = device.read(offset, length_bytes).await?;
            return Ok(Some(encode_read(to.encoder, request, pieces)));
        }
        Command::BlockStatus { request_one } => {
            let limit = if request_one { 1 } else { STATUS_EXTENTS_MAX };
            let extents = device.extents(offset, length, limit).await?;
            let extents = extents.into_iter().map(|extent| StatusExtent {
                length_bytes: extent.length_bytes,
                flags: match extent.state {
                    ExtentState::Data => StatusFlags::Data,
                    ExtentState::Hole => StatusFlags::HoleZero,
                },
            });
            let context = to.context.expect("the parser lets no status pass without a context");
            return Ok(Some(vec![to.encoder.block_status(request, context, extents)]));
        }
        Command::Write => device.write(offset, vec![payload], fua).await?,
        Command::Flush => device.flush().await?,
        Command::Trim => device.trim(offset, length, fua).await?,
        Command::WriteZeroes { fast_zero: true, .. } if !is_whole_blocks(offset, length) => {
            let text = "part of a block is zeroed by rewriting it, which is not fast";
            return Ok(Some(vec![to.encoder.fail(request.cookie, Errno::NotSupported, text)]));
        }
        Command::WriteZeroes { .. } => device.write_zeroes(offset, length, fua).await?,
        Command::Cache | Command::Disconnect => {}
    }
    Ok(None)
}

fn is_whole_blocks(offset: u64, length: u64) -> bool {
    let block = BLOCK_BYTES as u64;
    offset.is_multiple_of(block) && length.is_multiple_of(block)
}

/// One content chunk, however many pieces of memory the data is in.
fn encode_read(encoder: ReplyEncoder, request: &Request, pieces: Vec<Bytes>) -> Vec<Bytes> {
    let whole = Request { command: Command::Read { dont_fragment: true }, ..*request };
    let extents: Vec<_> = pieces.into_iter().map(ReadExtent::Data).collect();
    let mut reply = Vec::with_capacity(extents.len() + 1);
    encoder.read(&whole, &extents, &mut reply);
    reply
}

fn failure(encoder: ReplyEncoder, request: &Request, error: &BlockError) -> Bytes {
    let text = error.to_string();
    let errno = match error {
        BlockError::OutOfRange { .. } => Errno::Invalid,
        BlockError::Unrecoverable { lba } => {
            // An unaligned read may fail at a block that starts before the request.
            let at = (lba.0 * BLOCK_BYTES as u64).max(request.offset_bytes);
            if at - request.offset_bytes < u64::from(request.length_bytes) {
                return encoder.fail_at(request, Errno::InputOutput, at, &text);
            }
            Errno::InputOutput
        }
        BlockError::Device(Status::CapacityExceeded) => Errno::NoSpace,
        // Not "not permitted": clients take that for a device that never was writable.
        BlockError::Device(_) | BlockError::ReadOnly { .. } => Errno::InputOutput,
        BlockError::ShuttingDown => Errno::ShuttingDown,
    };
    encoder.fail(request.cookie, errno, &text)
}
