//! Recognises foreign data on drives, by magic numbers: file systems, partition tables and volumes.

use zoneweave_zoned::{BLOCK_BYTES, BlockCount, ZoneAddress, ZoneId, ZonedDevice, ZonedDeviceExt};

/// Blocks that hold all magic numbers; the last is that of btrfs, behind 64 KiB.
const BLOCKS: u32 = 17;

/// A magic number: its offset in bytes, and its format.
struct Magic {
    at: usize,
    bytes: &'static [u8],
    of: &'static str,
}

const MAGICS: &[Magic] = &[
    Magic { at: 0, bytes: b"XFSB", of: "an XFS file system" },
    Magic { at: 0, bytes: b"SFOZ", of: "a zonefs file system" },
    Magic { at: 0x438, bytes: &[0x53, 0xEF], of: "an ext2, ext3 or ext4 file system" },
    Magic { at: 0x400, bytes: &[0x10, 0x20, 0xF5, 0xF2], of: "an F2FS file system" },
    Magic { at: 0x1_0040, bytes: b"_BHRfS_M", of: "a btrfs file system" },
    // On zoned drives the superblocks are a log at the beginning of a zone.
    Magic { at: 0x40, bytes: b"_BHRfS_M", of: "a btrfs file system" },
    Magic { at: 512, bytes: b"EFI PART", of: "a GPT partition table" },
    Magic { at: 4096, bytes: b"EFI PART", of: "a GPT partition table" },
    Magic { at: 0, bytes: b"LABELONE", of: "an LVM volume" },
    Magic { at: 512, bytes: b"LABELONE", of: "an LVM volume" },
    Magic { at: 0, bytes: b"LUKS\xba\xbe", of: "an encrypted volume (LUKS)" },
    Magic { at: 0x1000, bytes: &[0xFC, 0x4E, 0x2B, 0xA9], of: "a member of a Linux RAID array" },
    Magic { at: 0, bytes: &[0xFC, 0x4E, 0x2B, 0xA9], of: "a member of a Linux RAID array" },
    Magic { at: 0xFF6, bytes: b"SWAPSPACE2", of: "swap space" },
    // Last, since other formats have it too.
    Magic { at: 510, bytes: &[0x55, 0xAA], of: "a partition table (MBR) or a boot sector" },
];

/// Recognises the format of the first bytes of a drive.
pub(crate) fn recognise(first: &[u8]) -> Option<&'static str> {
    let is_there =
        |magic: &&Magic| first.get(magic.at..).is_some_and(|rest| rest.starts_with(magic.bytes));
    MAGICS.iter().find(is_there).map(|magic| magic.of)
}

/// Recognises foreign data on a drive.
pub(crate) async fn foreign(drive: &dyn ZonedDevice) -> Option<&'static str> {
    let geometry = drive.geometry();
    let (most, capacity) = (geometry.max_transfer.0, geometry.zone_capacity.0);
    let mut first = Vec::new();
    while first.len() < BLOCKS as usize * BLOCK_BYTES {
        let at = u32::try_from(first.len() / BLOCK_BYTES).ok()?;
        let blocks = (BLOCKS - at).min(most).min(capacity.saturating_sub(at));
        // An unreadable zone is not recognised, but still counts as written.
        if blocks == 0 {
            break;
        }
        let Ok(payload) = drive.read(ZoneAddress::new(ZoneId(0), at), BlockCount(blocks)).await
        else {
            break;
        };
        payload.data.iter().for_each(|piece| first.extend_from_slice(piece));
    }
    recognise(&first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_are_told_apart() {
        let with = |at: usize, bytes: &[u8]| {
            let mut first = vec![0; BLOCKS as usize * BLOCK_BYTES];
            first[at..at + bytes.len()].copy_from_slice(bytes);
            recognise(&first)
        };
        for magic in MAGICS {
            assert_eq!(with(magic.at, magic.bytes), Some(magic.of));
        }
        assert_eq!(with(0, b"XFSA"), None);
        assert_eq!(recognise(&[]), None);
    }
}
