//! One I/O command: its data, its run on the device, its completion.

use std::rc::Rc;

use bytes::Bytes;
use zoneweave_nvmf::{BLOCK_BYTES, HostData, Operation, Request, Status, Tag, deallocate_ranges};
use zoneweave_zoned::{BlockDevice, BlockError, Lba};

use super::link::Link;
use super::shared::Shared;

/// The least that a request takes from the budget.
const REQUEST_BYTES_MIN: u64 = 4 << 10;

/// Data of a request, on the device's side or on the host's.
pub(super) fn share(request: &Request) -> u64 {
    let bytes = match (&request.operation, &request.data) {
        (Operation::Read { blocks, .. }, _) => u64::from(*blocks) * BLOCK_BYTES as u64,
        (_, HostData::Remote(bytes)) => *bytes as u64,
        _ => 0,
    };
    bytes.max(REQUEST_BYTES_MIN)
}

/// Runs a request and queues its reply.
pub(super) async fn run(shared: Rc<Shared>, link: Rc<Link>, request: Request) {
    let budget = link.budget.acquire_many(share(&request)).await;
    let Request { tag, namespace, operation, data } = request;
    let data = match data {
        HostData::None => Bytes::new(),
        HostData::Here(data) => data,
        HostData::Remote(_) => match fetch(&link, tag).await {
            Some(data) => data,
            None => return,
        },
    };
    // From here to the device there is no wait: the connection cannot end in between.
    if link.is_over() || link.connection.borrow().is_stale(&shared.target.borrow()) {
        return;
    }
    shared.count_request();
    let result = answer(&*shared.devices[namespace], operation, data).await;
    let mut connection = link.connection.borrow_mut();
    connection.complete(&mut shared.target.borrow_mut(), tag, result);
    link.output.push(connection.take_output(), budget);
}

/// Asks the host for the data of a write; `None` if it does not come, or was damaged.
async fn fetch(link: &Link, tag: Tag) -> Option<Bytes> {
    if link.is_over() {
        return None;
    }
    let arriving = link.expect(tag);
    link.connection.borrow_mut().fetch(tag);
    link.send_answers().await;
    arriving.await.flatten()
}

async fn answer(
    device: &dyn BlockDevice,
    operation: Operation,
    data: Bytes,
) -> Result<Vec<Bytes>, Status> {
    match operation {
        Operation::Read { lba, blocks } => {
            return device.read(Lba(lba), blocks).await.map_err(|error| status_of(&error));
        }
        Operation::Write { lba, fua, .. } => device.write(Lba(lba), vec![data], fua).await,
        Operation::Flush => device.flush().await,
        Operation::WriteZeroes { lba, blocks, fua } => {
            device.write_zeroes(Lba(lba), blocks.into(), fua).await
        }
        Operation::Deallocate { fua, .. } => {
            for (lba, blocks) in deallocate_ranges(&data, device.info().blocks)? {
                let trimmed = device.trim(Lba(lba), blocks.into(), fua).await;
                trimmed.map_err(|error| status_of(&error))?;
            }
            Ok(())
        }
    }
    .map_err(|error| status_of(&error))?;
    Ok(Vec::new())
}

fn status_of(error: &BlockError) -> Status {
    match error {
        BlockError::OutOfRange { .. } => Status::LBA_OUT_OF_RANGE,
        BlockError::Unrecoverable { .. } => Status::UNRECOVERED_READ,
        BlockError::ReadOnly { .. } => Status::WRITE_PROTECTED,
        BlockError::Device(status) => Status::new(status.value()),
        BlockError::ShuttingDown => Status::INTERNAL_PATH,
    }
}
