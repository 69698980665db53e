//! The speed of memory: copying, XOR and CRC-32C of random blocks of a region larger than any
//! cache, and the upper limit that these set for writes and reads of the engine.

use std::hint::black_box;
use std::ops::Range;
use std::time::{Duration, Instant};

use serde::Serialize;
use zoneweave_erasure::Code;
use zoneweave_linux::NoOperations;
use zoneweave_raid::log::format::{ArrayUuid, Seed, Sequence, data_checksum};
use zoneweave_runtime::Random;
use zoneweave_zoned::{AlignedBuffer, BLOCK_BYTES, BlockCount, Lba, copy_nontemporal};

use super::processor_time;
use crate::error::CliError;
use crate::memory::available_bytes;

/// Buffers that are used in turn, few enough to stay in the cache.
const BUFFERS: usize = 64;

/// Duration of each measurement.
const SPAN: Duration = Duration::from_millis(300);

/// Blocks between two readings of the clock.
const BATCH: u32 = 256;

/// io_uring operations per system call.
const NO_OPS: u32 = 64;

/// Region of the cold-copy measurement, in blocks: 4 GiB.
const REGION_BLOCKS: u64 = (4 << 30) / BLOCK_BYTES as u64;

/// Smaller region if there is not enough memory: 1 GiB.
const SMALL_REGION_BLOCKS: u64 = REGION_BLOCKS / 4;

/// Bytes of source data per CPU second.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct MemoryRates {
    pub region_bytes: u64,
    /// Half of the copies go to the region, half come from it.
    pub cold_memcpy_bytes_per_second: f64,
    /// Three data blocks and the parity of them.
    pub xor_bytes_per_second: f64,
    /// With the engine's own implementation.
    pub crc32c_bytes_per_second: f64,
    /// Limit for writes to 3+1: the checksums of three blocks and their parity, the parity, and
    /// four copies to cold memory. No engine that does these in sequence can exceed it.
    pub write_floor_bytes_per_second: f64,
    /// Limit for reads: a copy from cold memory, and its checksum.
    pub read_floor_bytes_per_second: f64,
}

struct Region {
    memory: AlignedBuffer,
    blocks: u64,
    random: Random,
    buffers: Vec<AlignedBuffer>,
    code: Code,
    seed: Seed,
}

/// Blocks of the region; `false` if the machine only has memory for the smaller one.
pub(super) fn region_blocks() -> (u64, bool) {
    // A quarter more, for other programs.
    let enough = available_bytes().is_some_and(|bytes| bytes / 4096 >= REGION_BLOCKS * 5 / 4);
    (if enough { REGION_BLOCKS } else { SMALL_REGION_BLOCKS }, enough)
}

/// Measures each rate `runs` times and takes the medians.
pub(super) fn measure_memory(region_blocks: u64, runs: u32) -> MemoryRates {
    let blocks = region_blocks.clamp(1024, u64::from(u32::MAX));
    let count = u32::try_from(blocks).expect("clamped");
    let mut memory = AlignedBuffer::zeroed(BlockCount(count));
    // Zeroed memory may be mapped to one page of zeros until it is written.
    memory.as_mut().chunks_mut(BLOCK_BYTES).for_each(|block| block[0] = 1);
    let mut region = Region {
        memory,
        blocks,
        random: Random::new(1),
        buffers: (0..BUFFERS).map(|_| AlignedBuffer::zeroed(BlockCount(1))).collect(),
        code: Code::new(3, 1).expect("3+1 is a code"),
        seed: Seed::of(ArrayUuid([1; 16])),
    };
    MemoryRates {
        region_bytes: blocks * BLOCK_BYTES as u64,
        cold_memcpy_bytes_per_second: region.rate(runs, 1, Region::copy),
        xor_bytes_per_second: region.rate(runs, 3, Region::xor),
        crc32c_bytes_per_second: region.rate(runs, 1, Region::checksum),
        write_floor_bytes_per_second: region.rate(runs, 3, Region::write),
        read_floor_bytes_per_second: region.rate(runs, 1, Region::read),
    }
}

/// No-op operations of io_uring per CPU second, 64 per system call.
pub(super) fn no_ops_per_second(runs: u32) -> Result<f64, CliError> {
    let mut operations = NoOperations::new(NO_OPS)?;
    let mut rates: Vec<_> = (0..runs)
        .map(|_| {
            let (started, processor) = (Instant::now(), processor_time());
            let mut batches = 0_u32;
            while started.elapsed() < SPAN {
                operations.run();
                batches += 1;
            }
            let seconds = processor_time().saturating_sub(processor).as_secs_f64();
            f64::from(batches) * f64::from(NO_OPS) / seconds
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    Ok(rates[rates.len() / 2])
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

    fn place(&mut self) -> Range<usize> {
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
        black_box(data_checksum(self.seed, Lba(0), Sequence::NONE, &self.memory.as_ref()[place]));
    }

    /// Writes three user blocks from buffers.
    fn write(&mut self, at: usize) {
        let first = at * 4 % BUFFERS;
        let (data, parity) = self.buffers[first..first + 4].split_at_mut(3);
        let sources = [data[0].as_ref(), data[1].as_ref(), data[2].as_ref()];
        self.code.encode(&sources, &mut [parity[0].as_mut()]);
        for number in first..first + 4 {
            let place = self.place();
            let block = self.buffers[number].as_ref();
            black_box(data_checksum(self.seed, Lba(number as u64), Sequence::NONE, block));
            // As in-memory drives do.
            copy_nontemporal(&mut self.memory.as_mut()[place], &[block]);
        }
    }

    /// Reads a user block into a buffer.
    fn read(&mut self, at: usize) {
        let place = self.place();
        let buffer = self.buffers[at % BUFFERS].as_mut();
        buffer.copy_from_slice(&self.memory.as_ref()[place]);
        black_box(data_checksum(self.seed, Lba(at as u64), Sequence::NONE, buffer));
    }
}
