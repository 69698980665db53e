//! Conventional drives for the array.

use std::rc::Rc;

use zoneweave_emulator::{ConventionalConfig, ConventionalDrive};
use zoneweave_runtime::{Executor, Handle, VirtualTime};
use zoneweave_zoned::{BlockDevice, Lba};

use super::Md;
use crate::experiments::ExperimentError;
use crate::experiments::raizn::array::DRIVES;

/// Conventional drives of equal size, on which an array is made.
#[derive(Clone, Copy, Debug)]
pub(in crate::experiments::raizn) struct ConventionalArray {
    /// Blocks of a stripe unit.
    pub(in crate::experiments::raizn) unit: u32,
    /// Blocks of each drive that the array needs at least.
    pub(in crate::experiments::raizn) blocks: u64,
    /// Blocks of each drive that are written at the beginning.
    pub(in crate::experiments::raizn) written: u64,
    /// The drive that is blank all the same.
    pub(in crate::experiments::raizn) blank: Option<usize>,
    pub(in crate::experiments::raizn) seed: u64,
}

impl ConventionalArray {
    /// Runs work on the array.
    pub(in crate::experiments::raizn) fn run<T>(
        &self,
        work: impl AsyncFnOnce(Md, Handle, &[ConventionalDrive]) -> Result<T, ExperimentError>,
    ) -> Result<T, ExperimentError> {
        let numbers = 0..DRIVES as usize;
        let drives = numbers.map(|number| self.drive(number)).collect::<Result<Vec<_>, _>>()?;
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let handle = executor.handle();
        let attached =
            drives.iter().map(|drive| -> Rc<dyn BlockDevice> { Rc::new(drive.attach(&handle)) });
        let array = Md::new(&handle, attached.collect(), self.unit);
        executor.run(work(array, handle.clone(), &drives[..]))
    }

    fn drive(&self, number: usize) -> Result<ConventionalDrive, ExperimentError> {
        let mut config = config(self.blocks);
        config.seed = self.seed.wrapping_mul(100) + number as u64;
        let drive = ConventionalDrive::new(config)?;
        assert!(self.written <= drive.blocks(), "the drive is larger than its contents");
        if self.blank != Some(number) {
            drive.write_untimed(Lba(0), self.written, 0);
        }
        Ok(drive)
    }
}

/// The conventional twin with at least so many blocks. It has as many superblocks as a drive of
/// 960 GB, each of fewer rows.
fn config(blocks: u64) -> ConventionalConfig {
    let with = |rows| ConventionalConfig::sn640_960gb().with_superblock_rows(rows);
    let enough = (1..).find(|rows| with(*rows).logical_blocks() >= blocks);
    with(enough.expect("some number of rows is enough"))
}
