//! Putting a lost member's place in order.
//!
//! 1. `spares` are drives that replace lost members without an operator.
//! 2. `fit` prepares a drive for its membership: its usable zones, and erasing it.
//! 3. `destroy` ends memberships for good.
//! 4. `scrub` drives a scrub, unit by unit (`ScrubUnits`): pauses, progress, and giving way.
//! 5. `rebuild` drives the rebuild of a member, unit by unit (`RebuildUnits`): resume, progress,
//!    throttle, and the end of the rebuild in a record. `source` is a drive that it reads and that
//!    fails; `ask_again` waits for one that gives no answer.
//! 6. `faults` keeps the errors of members, the lost ranges and the newest scrubs on record.

pub(crate) mod ask_again;
pub mod destroy;
pub(crate) mod faults;
pub mod fit;
pub(crate) mod rebuild;
pub(crate) mod scrub;
pub(crate) mod source;
pub(crate) mod spares;
