//! Reads data that is lost for good if this read fails: relocated blocks, as the segment that holds
//! them is freed next, and pages of the index, without which the addresses of their blocks are
//! unknown.
//!
//! If a drive gives no answer about a block (its controller is being reset, or its path is down),
//! the read is retried with backoff. Either the drive answers, or it is taken out of service, after
//! which blocks that only it holds are not relocated. A user's read gets the error at once and may
//! be retried by the user.

use std::rc::Rc;

use zoneweave_runtime::Nanos;
use zoneweave_zoned::Status;

use crate::array::io::is_answer;
use crate::instrument::marks::{Mark, mark};
use crate::log::engine::address::BlockPlace;
use crate::log::engine::core::Core;
use crate::log::read::batch::gather;
use crate::log::read::blocks::read_places;
use crate::log::read::reconstruct::spots_of_stripes;
use crate::log::segment::verify::FoundBlock;

/// Total time of retries: as long as a drive may be without a path before it is lost.
const PATIENCE: Nanos = Nanos::from_secs(20);

/// The first wait and the longest; each is twice the one before.
const WAIT_FIRST: Nanos = Nanos::from_millis(50);
const WAIT_MOST: Nanos = Nanos::from_secs(2);

/// Reads data blocks as [`read_places`] does. `None` means that drives have answered, or did not
/// answer within the whole time.
pub(in crate::log) async fn read_for_good(
    core: &Rc<Core>,
    places: &[BlockPlace],
) -> Vec<Option<FoundBlock>> {
    let mut found = read_places(core, places).await;
    assert!(found.len() == places.len(), "{} answers for {} blocks", found.len(), places.len());
    let until = core.handle.now() + PATIENCE;
    let mut wait = WAIT_FIRST;
    loop {
        let missing: Vec<_> = (0..places.len()).filter(|at| found[*at].is_none()).collect();
        let left: Vec<_> = missing.iter().map(|at| places[*at]).collect();
        if left.is_empty() || core.handle.now() >= until || !may_be_found(core, &left).await {
            return found;
        }
        mark(Mark::MovedBlockAwaited);
        core.handle.sleep(wait).await;
        wait = Nanos(wait.0 * 2).min(WAIT_MOST);
        for (at, block) in missing.into_iter().zip(read_places(core, &left).await) {
            found[at] = block;
        }
    }
}

/// Whether a drive in service has not answered for one of the blocks' stripes. There are no retries
/// once the volume closes, as relocation has ended, nor while a start has alternatives or may begin
/// anew.
async fn may_be_found(core: &Rc<Core>, places: &[BlockPlace]) -> bool {
    {
        let state = core.state.borrow();
        if core.closing.get() || state.array.stopped.is_some() || state.recovering.is_some() {
            return false;
        }
    }
    let spots = spots_of_stripes(&core.state.borrow(), places);
    let gathered = gather(core, spots.clone()).await;
    let passes = |status: Status| !is_answer(status) && !status.is_fatal();
    let failed = spots.into_iter().filter_map(|spot| gathered.get(spot)?.err());
    failed.into_iter().any(passes)
}
