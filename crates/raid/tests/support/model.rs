//! A volume's blocks by their versions, to be read, written and trimmed anywhere.

use zoneweave_raid::log::Volume;
use zoneweave_runtime::Random;
use zoneweave_zoned::{BlockDevice, Lba};

use super::contents;

/// Expected contents of the volume, by version.
pub struct Model {
    pub versions: Vec<u64>,
    random: Random,
}

impl Model {
    pub fn new(blocks: u64) -> Self {
        Self { versions: vec![0; usize::try_from(blocks).unwrap()], random: Random::new(17) }
    }

    pub fn part(&mut self, lba: u64, length: u64) -> &mut [u64] {
        let start = usize::try_from(lba).unwrap();
        &mut self.versions[start..start + usize::try_from(length).unwrap()]
    }

    /// Reads some blocks and checks their contents.
    pub async fn check(&mut self, volume: &Volume, lba: u64, length: u64) {
        let read = volume.read(Lba(lba), u32::try_from(length).unwrap()).await.unwrap();
        for (at, (found, version)) in (lba..).zip(read.iter().zip(self.part(lba, length))) {
            assert_eq!(*found, contents(at, *version), "block {at}");
        }
    }

    /// Writes every block.
    pub async fn fill(&mut self, volume: &Volume, version: u64) {
        let blocks = self.versions.len() as u64;
        for lba in (0..blocks).step_by(100) {
            let length = 100.min(blocks - lba);
            self.write(volume, lba, length, version).await;
        }
    }

    async fn write(&mut self, volume: &Volume, lba: u64, length: u64, version: u64) {
        let data = (lba..lba + length).map(|lba| contents(lba, version)).collect();
        volume.write(Lba(lba), data, false).await.unwrap();
        self.part(lba, length).fill(version);
    }

    /// Reads, writes or trims something, anywhere.
    pub async fn step(&mut self, volume: &Volume, version: u64) {
        let blocks = self.versions.len() as u64;
        let lba = self.random.below(blocks);
        let length = (1 + self.random.below(12)).min(blocks - lba);
        match self.random.below(10) {
            0 => {
                volume.trim(Lba(lba), length, false).await.unwrap();
                self.part(lba, length).fill(0);
            }
            1..4 => self.check(volume, lba, length).await,
            _ => self.write(volume, lba, length, version).await,
        }
    }
}
