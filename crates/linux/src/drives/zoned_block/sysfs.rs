//! The kernel's description of a disk in sysfs, checked.

use std::fs;
use std::path::{Path, PathBuf};

use zoneweave_zoned::{BLOCK_BYTES, BlockCount, Geometry, OobKind};

use super::error::{DiskNonsense, ZonedBlockError};
use crate::sys::blkzoned::{BLOCK_SECTORS, SECTOR_BYTES};

/// The largest transfer: this many pages fit into one request of the kernel. The parts of a split
/// write could change places.
const TRANSFER_BLOCKS: u64 = 256;

/// The number of a device, by which sysfs knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeviceNumber {
    pub(super) major: u32,
    pub(super) minor: u32,
}

/// A disk with zones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Disk {
    pub(super) sectors: u64,
    pub(super) zone_sectors: u64,
    pub(super) max_open: Option<u32>,
    pub(super) max_active: Option<u32>,
    pub(super) max_transfer: BlockCount,
    pub(super) volatile_cache: bool,
    /// The name that no other disk has; zeros if it has none.
    pub(super) id: [u8; 16],
    pub(super) model: String,
}

/// One disk's folder in sysfs.
struct Folder<'a> {
    folder: PathBuf,
    device: &'a Path,
}

impl Disk {
    /// Looks the disk up below `sysfs`, which is `/sys` but in tests.
    ///
    /// # Errors
    /// If it is no disk with zones that are written from front to back, or its blocks do not fit.
    pub(super) fn read(
        sysfs: &Path,
        number: DeviceNumber,
        device: &Path,
    ) -> Result<Self, ZonedBlockError> {
        let DeviceNumber { major, minor } = number;
        let folder = Folder { folder: sysfs.join(format!("dev/block/{major}:{minor}")), device };
        let path = || device.to_owned();
        if folder.folder.join("partition").exists() {
            return Err(ZonedBlockError::Partition { path: path() });
        }
        match folder.line("queue/zoned").as_deref() {
            Some("host-managed") => {}
            Some("host-aware") => return Err(ZonedBlockError::HostAware { path: path() }),
            _ => return Err(ZonedBlockError::NotZoned { path: path() }),
        }
        let block_bytes = folder.number("queue/logical_block_size")?;
        if block_bytes < SECTOR_BYTES || !(BLOCK_BYTES as u64).is_multiple_of(block_bytes) {
            return Err(ZonedBlockError::Blocks { path: path(), block_bytes });
        }
        // Zero means no limit; kernels without the attribute have no limits either.
        let limit = |name| match folder.line(name) {
            None => Ok(None),
            Some(_) => folder.number(name).map(|most| u32::try_from(most).ok().filter(|n| *n > 0)),
        };
        let transfer = folder.number("queue/max_sectors_kb")? / 4;
        let transfer = transfer.min(folder.number("queue/max_segments")?).min(TRANSFER_BLOCKS);
        Ok(Self {
            sectors: folder.number("size")?,
            zone_sectors: folder.number("queue/chunk_sectors")?,
            max_open: limit("queue/max_open_zones")?,
            max_active: limit("queue/max_active_zones")?,
            max_transfer: BlockCount(u32::try_from(transfer).expect("at most 256")),
            // A disk whose cache mode is unknown is flushed.
            volatile_cache: folder.line("queue/write_cache").as_deref() != Some("write through"),
            id: folder.id(),
            model: folder.line("device/model").unwrap_or_default(),
        })
    }

    /// The geometry for a number of zones, as if each held its full size; the report has the true
    /// capacity.
    ///
    /// # Errors
    /// If sizes contradict each other, or zones are not whole blocks.
    pub(super) fn geometry(&self, zones: u32) -> Result<Geometry, DiskNonsense> {
        let nonsense = || DiskNonsense::Zones { sectors: self.sectors, size: self.zone_sectors };
        if self.zone_sectors == 0 || !self.zone_sectors.is_multiple_of(BLOCK_SECTORS) {
            return Err(nonsense());
        }
        let size = u32::try_from(self.zone_sectors / BLOCK_SECTORS).map_err(|_| nonsense())?;
        let max_open = self.max_open.filter(|open| *open < zones);
        let max_active = self.max_active.filter(|active| *active < zones);
        let geometry = Geometry {
            zones,
            zone_size: BlockCount(size),
            zone_capacity: BlockCount(size),
            oob: OobKind::None,
            max_open,
            max_active,
            append_limit: BlockCount(0),
            write_unit: BlockCount(1),
            max_transfer: BlockCount(self.max_transfer.0.min(size)),
            volatile_cache: self.volatile_cache,
            descriptor_extension_bytes: 0,
            reads_across_zones: false,
            unwritten_read_error: false,
            zrwa: None,
        };
        geometry.validate()?;
        Ok(geometry)
    }
}

impl Folder<'_> {
    /// The first line of an attribute, if it exists.
    fn line(&self, name: &str) -> Option<String> {
        let text = fs::read_to_string(self.folder.join(name)).ok()?;
        text.lines().next().map(|line| line.trim().to_owned())
    }

    fn number(&self, name: &'static str) -> Result<u64, ZonedBlockError> {
        let text = self.line(name).unwrap_or_default();
        text.parse().map_err(|_| ZonedBlockError::Nonsense {
            path: self.device.to_owned(),
            error: DiskNonsense::Attribute { name, text },
        })
    }

    /// The same as an NVMe namespace has on its character device: NGUID, or else EUI64 or a World
    /// Wide Name, from the back.
    fn id(&self) -> [u8; 16] {
        let names = ["nguid", "wwid", "device/wwid"].into_iter().filter_map(|name| self.line(name));
        names.filter_map(|text| id_of(&text)).next().unwrap_or([0; 16])
    }
}

/// The number in a name such as `eui.0011223344556677`; `None` if it has none, or zero.
fn id_of(text: &str) -> Option<[u8; 16]> {
    let digits = text.split_once('.').map_or(text, |(kind, digits)| match kind {
        "eui" | "naa" | "uuid" => digits,
        _ => "",
    });
    let digits: String = digits.chars().filter(|c| *c != '-').collect();
    let is_hex = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_hexdigit());
    let number = u128::from_str_radix(&digits, 16).ok().filter(|number| is_hex && *number != 0)?;
    Some(number.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use zoneweave_zoned::GeometryError;

    use super::*;

    /// A made-up sysfs with one disk: a host-managed one of 1,000 zones of 256 MiB.
    struct Made(tempfile::TempDir);

    const NUMBER: DeviceNumber = DeviceNumber { major: 8, minor: 16 };

    impl Made {
        fn new() -> Self {
            let made = Self(tempfile::tempdir().unwrap());
            for (name, text) in [
                ("size", "524288000"),
                ("queue/zoned", "host-managed"),
                ("queue/chunk_sectors", "524288"),
                ("queue/nr_zones", "1000"),
                ("queue/max_open_zones", "128"),
                ("queue/max_active_zones", "0"),
                ("queue/max_sectors_kb", "1280"),
                ("queue/max_segments", "2048"),
                ("queue/logical_block_size", "512"),
                ("queue/write_cache", "write back"),
                ("device/model", "HSH721414ALN6M0 "),
                ("device/wwid", "naa.5000cca0bbccddee"),
            ] {
                made.put(name, text);
            }
            made
        }

        fn put(&self, name: &str, text: &str) {
            let path = self.0.path().join("dev/block/8:16").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }

        fn remove(&self, name: &str) {
            fs::remove_file(self.0.path().join("dev/block/8:16").join(name)).unwrap();
        }

        fn read(&self) -> Result<Disk, ZonedBlockError> {
            Disk::read(self.0.path(), NUMBER, Path::new("/dev/sdb"))
        }

        fn refusal(&self) -> String {
            self.read().unwrap_err().to_string()
        }
    }

    #[test]
    fn a_disk_is_read_as_the_kernel_tells_it() {
        let made = Made::new();
        let disk = made.read().unwrap();
        assert_eq!((disk.max_open, disk.max_active), (Some(128), None));
        assert_eq!((disk.max_transfer, disk.volatile_cache), (BlockCount(256), true));
        assert_eq!(disk.model, "HSH721414ALN6M0");
        assert_eq!(disk.id[8..], [0x50, 0, 0xCC, 0xA0, 0xBB, 0xCC, 0xDD, 0xEE]);
        let geometry = disk.geometry(990).unwrap();
        assert_eq!((geometry.zones, geometry.zone_size), (990, BlockCount(65536)));
        assert_eq!((geometry.oob, geometry.append_limit), (OobKind::None, BlockCount(0)));
        made.put("queue/write_cache", "write through");
        made.put("queue/max_sectors_kb", "128");
        made.remove("queue/max_active_zones");
        made.remove("device/wwid");
        let disk = made.read().unwrap();
        assert_eq!((disk.max_transfer, disk.volatile_cache), (BlockCount(32), false));
        assert_eq!((disk.id, disk.max_active), ([0; 16], None));
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_the_reason() {
        let made = Made::new();
        made.put("queue/zoned", "none");
        assert!(made.refusal().contains("has no zones"));
        made.put("queue/zoned", "host-aware");
        assert!(made.refusal().contains("host-aware"));
        made.put("queue/zoned", "host-managed");
        made.put("queue/logical_block_size", "16384");
        assert!(made.refusal().contains("16384"));
        made.put("queue/logical_block_size", "0");
        assert!(made.refusal().contains("blocks of 0 bytes"));
        made.put("queue/logical_block_size", "4096");
        made.put("queue/chunk_sectors", "many");
        assert!(made.refusal().contains("queue/chunk_sectors is \"many\""));
        made.put("queue/chunk_sectors", "8");
        made.put("partition", "1");
        assert!(made.refusal().contains("partition"));
        let absent = DeviceNumber { major: 8, minor: 32 };
        let read = Disk::read(made.0.path(), absent, Path::new("/dev/sdc"));
        assert!(matches!(read, Err(ZonedBlockError::NotZoned { .. })));
    }

    #[test]
    fn numbers_that_cannot_be_make_no_geometry() {
        let disk = Made::new().read().unwrap();
        for size in [0, 4, 12, 1 << 40, u64::MAX] {
            let disk = Disk { zone_sectors: size, ..disk.clone() };
            assert!(matches!(disk.geometry(9), Err(DiskNonsense::Zones { .. })), "{size}");
        }
        assert!(matches!(disk.geometry(0), Err(DiskNonsense::Geometry(GeometryError::Empty))));
        let still = Disk { max_transfer: BlockCount(0), ..disk.clone() };
        assert!(matches!(still.geometry(9), Err(DiskNonsense::Geometry(_))));
        let odd = Disk { max_open: Some(8), max_active: Some(7), ..disk };
        assert!(matches!(odd.geometry(9), Err(DiskNonsense::Geometry(_))));
        // A limit that cannot be reached is none.
        assert_eq!(odd.geometry(7).unwrap().max_active, None);
    }

    #[test]
    fn names_become_numbers() {
        let number = |text| id_of(text).map(u128::from_be_bytes);
        assert_eq!(number("eui.0011223344556677"), Some(0x0011_2233_4455_6677));
        assert_eq!(number("uuid.00000000-0000-0000-0000-00000000000a"), Some(10));
        assert_eq!(number("00000000-0000-0000-0000-000000000000"), None);
        assert_eq!(number("t10.ATA     disk"), None);
        assert_eq!(number("eui.+1"), None);
        assert_eq!(number(""), None);
        assert_eq!(number(&"f".repeat(33)), None);
    }
}
