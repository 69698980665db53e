//! The programme, one file for each group of tables.
//!
//! In the order of a run: `single` (one request in flight), `scaling` (more in flight), `opening`,
//! `occupancy` (resets and finishes), `interference`, `reading`, `saturation` (reads during
//! writes).

mod interference;
mod occupancy;
mod opening;
mod reading;
mod saturation;
mod scaling;
mod single;

use zoneweave_zoned::BlockCount;

use super::bench::Bench;
use super::{Action, CharacterizeError, Table};
use crate::workload::Operation;

/// Measures one table.
pub(super) async fn measure(bench: &mut Bench<'_>, table: Table) -> Result<(), CharacterizeError> {
    match table {
        Table::RequestSize => single::request_sizes(bench).await,
        Table::Format => single::formats(bench).await,
        Table::Stack => single::stacks(bench).await,
        Table::IntraZone => scaling::intra_zone(bench).await,
        Table::InterZone => scaling::inter_zone(bench).await,
        Table::AppendGrid => scaling::append_grid(bench).await,
        Table::Bandwidth => scaling::bandwidth(bench).await,
        Table::OpenClose => opening::open_close(bench).await,
        Table::Reset => occupancy::resets(bench).await,
        Table::Finish => occupancy::finishes(bench).await,
        Table::Interference => interference::interference(bench).await,
        Table::ReadUnderWrite => reading::read_under_write(bench).await,
        Table::Saturation => saturation::saturation(bench).await,
    }
}

const fn action_of(operation: Operation) -> Action {
    match operation {
        Operation::RandomRead => Action::RandomRead,
        Operation::SequentialRead => Action::SequentialRead,
        Operation::Write => Action::Write,
        Operation::Append => Action::Append,
    }
}

/// Blocks of a request.
const fn blocks_of_kib(kib: u32) -> BlockCount {
    BlockCount(kib / 4)
}

/// Whether the drive takes requests of that size.
fn takes(bench: &Bench<'_>, operation: Operation, request: BlockCount) -> bool {
    let geometry = bench.drive.device.geometry();
    match operation {
        Operation::Append => request <= geometry.append_limit.min(geometry.max_transfer),
        _ => request <= geometry.max_transfer && request <= bench.drive.readable_blocks,
    }
}
