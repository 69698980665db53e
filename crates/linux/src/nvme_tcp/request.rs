//! One I/O command: its data, its run on the device, its completion.

use std::rc::Rc;

use bytes::Bytes;
use zoneweave_nvmf::{BLOCK_BYTES, HostData, Operation, Request, Tag};

use super::link::Link;
use super::shared::Shared;

/// The least that a request takes from the budget.
const REQUEST_BYTES_MIN: u64 = 4 << 10;

/// Data of a request, on the device's side or on the host's.
pub(super) fn share(request: &Request) -> u64 {
    let bytes = match (&request.operation, &request.data) {
        (Operation::Read { blocks, .. }, _) => u64::from(*blocks) * BLOCK_BYTES as u64,
        (Operation::ReportZones { bytes, .. }, _) | (_, HostData::Remote(bytes)) => *bytes as u64,
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
    shared.settled().await;
    // From here to the device there is no wait: the connection cannot end in between.
    if shared.is_left(&link) {
        return;
    }
    shared.count_request();
    let _change = is_change(&operation).then(|| shared.change(&link));
    let result = shared.devices[namespace].run(operation, data).await;
    let mut connection = link.connection.borrow_mut();
    connection.complete(&mut shared.target.borrow_mut(), tag, result);
    link.output.push(connection.take_output(), budget);
}

fn is_change(operation: &Operation) -> bool {
    match operation {
        Operation::Read { .. } | Operation::ReportZones { .. } | Operation::Flush => false,
        Operation::Write { .. }
        | Operation::WriteZeroes { .. }
        | Operation::Deallocate { .. }
        | Operation::Append { .. }
        | Operation::ManageZone { .. } => true,
    }
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
