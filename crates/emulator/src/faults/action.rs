//! Effects of a fault on the command that it hits.

use zoneweave_runtime::Nanos;
use zoneweave_zoned::{BlockCount, Status, ZoneAddress, ZoneId};

use super::damage::Damage;
use crate::CommandKind;

/// The effect of a fault on the command that it hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultAction {
    /// The command fails with this status and changes nothing.
    Fail(Status),
    /// The command is carried out, then answered with this status.
    FailApplied(Status),
    /// The command takes that much longer.
    Slow(Nanos),
    /// The drive takes that many times as long from the next command on; 1 is as usual again.
    SlowDrive(u32),
    /// The drive answers [`Status::DeviceGone`] from this command on.
    Gone,
    /// The power fails while that many blocks are written, and the drive answers
    /// [`Status::DeviceGone`] from this command on. The losses of its cache are decided when the
    /// [power comes back](crate::RamDrive::power_loss).
    Torn(BlockCount),
    /// The command finds its zone read-only.
    ReadOnly,
    /// The command finds its zone offline.
    Offline,
    /// The read finds its blocks unreadable; they stay so until the zone is reset.
    Unreadable,
    /// The first block of the read has gone bad where it is stored, and stays so.
    Rot(Damage),
    /// The write stores, or the read returns, something else.
    Garble(Damage),
    /// The write moves the write pointer and reports success, its blocks stay zeros. The zone
    /// management command reports success and does nothing.
    Lost,
    /// As `Lost`, and the blocks overwrite written ones at this address instead.
    Misdirect(ZoneAddress),
    /// Only that many blocks are written, then [`Status::WriteFault`].
    Partial(BlockCount),
    /// The append is stored a second time behind the first copy, room and limits permitting; the
    /// answer names the first.
    AppendTwice,
    /// The append is answered with the address of the append before it in its zone.
    RepeatOffset,
    /// The flush is answered, nothing is made durable.
    Ineffective,
    /// The report names this write pointer for this zone.
    Misreport(ZoneAddress),
    /// The report calls this zone empty.
    MisreportEmpty(ZoneId),
}

impl FaultAction {
    /// Whether commands of this kind can suffer from the fault.
    pub(super) const fn affects(self, kind: CommandKind) -> bool {
        use CommandKind::{Append, Flush, Manage, ManageAll, Read, Report, Write};
        match self {
            Self::Fail(_) | Self::FailApplied(_) | Self::Gone => true,
            Self::Slow(_) | Self::SlowDrive(_) => true,
            Self::ReadOnly | Self::Offline => {
                !matches!(kind, ManageAll(_) | Report | CommandKind::ChangedZones | Flush)
            }
            Self::Unreadable | Self::Rot(_) => matches!(kind, Read),
            Self::Garble(_) => matches!(kind, Read | Write | Append),
            Self::Lost => matches!(kind, Write | Append | Manage(_)),
            Self::Misdirect(_) | Self::Partial(_) | Self::Torn(_) => {
                matches!(kind, Write | Append)
            }
            Self::AppendTwice | Self::RepeatOffset => matches!(kind, Append),
            Self::Ineffective => matches!(kind, Flush),
            Self::Misreport(_) | Self::MisreportEmpty(_) => matches!(kind, Report),
        }
    }
}
