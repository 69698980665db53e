//! The zoned volume: an array of zoned drives as one large zoned drive (RAIZN).
//!
//! A [`Volume`] is a [`ZonedDevice`](zoneweave_zoned::ZonedDevice). In the order in which data
//! meets the files:
//!
//! 1. `volume` decides about a command as a zoned drive does, and admits it. `zone` is a logical
//!    zone in the running volume, `core` what all tasks share.
//! 2. `layout` is the arithmetic mapping of logical zones to columns; `stripe` holds stripes that
//!    are not complete on media, and computes parity.
//! 3. `write/` writes columns and parity; `parity_log` is the log of parity that has no place yet.
//! 4. `read/` verifies blocks and reconstructs lost ones.
//! 5. `manage` resets and finishes zones; `replace` puts a drive into a slot, and `rebuild` gives
//!    it its columns, with a `hole` for each block that is lost.
//! 6. `scrub/` reads everything and compares parity; its `relocate` moves damaged blocks to the
//!    log, `lost` lists blocks that cannot be rebuilt, `findings` is the report.
//! 7. `recover/` starts a volume after a crash; `create` makes one, and `stop` ends one.
//! 8. `status` is the volume as users see it; `format/` has the bytes on media.
//!
//! What the members are, which of them count and what happens when one fails is `array`'s part.
//!
//! Invariants: an acknowledged write survives the loss of as many members as there are parity
//! units, at any moment, with everything before it in its zone. A reset or finish that was
//! acknowledged is never undone. Every block that is read verifies, if the volume has checksums.

pub(crate) mod core;
pub(crate) mod create;
pub(crate) mod doubtful;
pub(crate) mod format;
pub(crate) mod hole;
pub(crate) mod layout;
pub(crate) mod manage;
pub(crate) mod parity_log;
pub(crate) mod read;
pub(crate) mod rebuild;
pub(crate) mod recover;
pub(crate) mod replace;
pub(crate) mod scrub;
pub(crate) mod status;
pub(crate) mod stop;
pub(crate) mod stripe;
pub(crate) mod volume;
pub(crate) mod write;
pub(crate) mod zone;

pub use create::{CreateError, CreateOptions, create, plan};
pub use format::fuzzing;
pub use recover::error::OpenError;
pub use recover::open::{OpenOptions, OpenReport, geometry, open};
pub use recover::survey::{
    Survey, check_markable, erase_alone, erase_destroyed, mark_destroyed, membership_of, survey,
};
pub use recover::unread::{GivenUp, Unread, UnreadPart};
pub use replace::{ReplaceError, check_fit};
pub use scrub::findings::{Mismatch, ScrubReport};
pub use status::{MemberStatus, VolumeStatus, ZoneCounts};
pub use volume::Volume;
