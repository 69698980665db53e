//! What memory does: copying, XOR and CRC-32C of random blocks of a region larger than any cache.

use std::hint::black_box;
use std::time::{Duration, Instant};

use serde::Serialize;
use zoneweave_erasure::Code;
use zoneweave_runtime::Random;
use zoneweave_zoned::{AlignedBuffer, BLOCK_BYTES, BlockCount};

use super::processor_time;

/// Buffers that blocks are copied to and from in turn, so that they stay in the cache.
const BUFFERS: usize = 64;

/// How long each rate is measured.
const SPAN: Duration = Duration::from_millis(300);

/// Blocks between two looks at the clock.
const BATCH: u32 = 256;

/// Bytes of source data in a second of the processor.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct MemoryRates {
    pub region_bytes: u64,
    /// Half of the copies go to the region, half come from it.
    pub cold_memcpy_bytes_per_second: f64,
    /// Three data blocks and the parity of them.
    pub xor_bytes_per_second: f64,
    pub crc32c_bytes_per_second: f64,
}

struct Region {
    memory: AlignedBuffer,
    blocks: u64,
    random: Random,
    buffers: Vec<AlignedBuffer>,
    code: Code,
}

/// Measures each rate `runs` times and takes the medians.
pub(super) fn measure_memory(region_blocks: u64, runs: u32) -> MemoryRates {
    let blocks = region_blocks.clamp(1024, u64::from(u32::MAX));
    let count = u32::try_from(blocks).expect("clamped");
    let mut memory = AlignedBuffer::zeroed(BlockCount(count));
    // Zeroed memory may all be one page of zeros until it is written to.
    memory.as_mut().chunks_mut(BLOCK_BYTES).for_each(|block| block[0] = 1);
    let mut region = Region {
        memory,
        blocks,
        random: Random::new(1),
        buffers: (0..BUFFERS).map(|_| AlignedBuffer::zeroed(BlockCount(1))).collect(),
        code: Code::new(3, 1).expect("3+1 is a code"),
    };
    MemoryRates {
        region_bytes: blocks * BLOCK_BYTES as u64,
        cold_memcpy_bytes_per_second: region.rate(runs, 1, Region::copy),
        xor_bytes_per_second: region.rate(runs, 3, Region::xor),
        crc32c_bytes_per_second: region.rate(runs, 1, Region::checksum),
    }
}

impl Region {
    /// The median rate of a step that takes `blocks` blocks of data.
    fn rate(&mut self, runs: u32, blocks: u32, step: fn(&mut Self, usize)) -> f64 {
        let mut rates: Vec<_> = (0..runs).map(|_| self.rate_once(blocks, step)).collect();
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    }

    fn rate_once(&mut self, blocks: u32, step: fn(&mut Self, usize)) -> f64 {
        let (started, processor) = (Instant::now(), processor_time());
        let mut steps = 0_u32;
        while started.elapsed() < SPAN {
            for at in 0..BATCH {
                step(self, at as usize);
            }
            steps += BATCH;
        }
        f64::from(steps) * f64::from(blocks) * 4096.0
            / processor_time().saturating_sub(processor).as_secs_f64()
    }

    fn place(&mut self) -> std::ops::Range<usize> {
        let block = usize::try_from(self.random.below(self.blocks)).expect("memory is addressable");
        block * BLOCK_BYTES..(block + 1) * BLOCK_BYTES
    }

    fn copy(&mut self, at: usize) {
        let place = self.place();
        let buffer = self.buffers[at % BUFFERS].as_mut();
        let cold = &mut self.memory.as_mut()[place];
        if at.is_multiple_of(2) {
            buffer.copy_from_slice(cold)
        } else {
            cold.copy_from_slice(buffer)
        }
    }

    fn xor(&mut self, at: usize) {
        let places = [self.place(), self.place(), self.place()];
        let memory = self.memory.as_ref();
        let sources = places.map(|place| &memory[place]);
        self.code.encode(&sources, &mut [self.buffers[at % BUFFERS].as_mut()]);
    }

    fn checksum(&mut self, _at: usize) {
        let place = self.place();
        black_box(crc32c::crc32c(&self.memory.as_ref()[place]));
    }
}
