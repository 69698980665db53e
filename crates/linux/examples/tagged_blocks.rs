//! Writes recognisable blocks to a block device, and verifies them, also after a crash.
//!
//! ```text
//! tagged_blocks write DEVICE JOURNAL BLOCKS SECONDS   random blocks, repeatedly
//! tagged_blocks verify DEVICE JOURNAL BLOCKS          each block has an allowed version
//! ```
//!
//! The journal is another device, which survives the crash. It has a block for each block, with the
//! version started last and the version acknowledged last. A block read back must have one of these
//! versions, or one between them.

#![allow(clippy::print_stdout, reason = "what it prints is what it is for")]

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use std::{env, error, thread};

use zoneweave_zoned::{AlignedBuffer, BLOCK_BYTES, BlockCount};

/// Writers, each with its own blocks and one request at a time.
const WRITERS: u64 = 8;

type Result<T> = std::result::Result<T, Box<dyn error::Error + Send + Sync>>;

struct Devices {
    data: File,
    journal: File,
}

/// The versions of a block; they count from 1.
#[derive(Clone, Copy, Default)]
struct Known {
    started: u64,
    acknowledged: u64,
}

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["write", data, journal, blocks, seconds] => write(data, journal, blocks, seconds),
        ["verify", data, journal, blocks] => verify(data, journal, blocks),
        _ => Err("usage: tagged_blocks write|verify DEVICE JOURNAL BLOCKS [SECONDS]".into()),
    };
    match result {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("tagged_blocks: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Direct I/O, so that an acknowledgement is the device's.
fn open(data: &str, journal: &str) -> Result<Devices> {
    let open = |path: &str| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_DIRECT).open(path)
    };
    Ok(Devices { data: open(data)?, journal: open(journal)? })
}

impl Devices {
    fn known(&self, block: u64) -> Result<Known> {
        let page = read(&self.journal, block)?;
        let number = |at: usize| -> Result<u64> {
            Ok(u64::from_le_bytes(page.as_ref()[at..at + 8].try_into()?))
        };
        Ok(Known { started: number(0)?, acknowledged: number(8)? })
    }

    fn note(&self, block: u64, known: Known) -> Result<()> {
        let mut page = AlignedBuffer::zeroed(BlockCount(1));
        page.as_mut()[..8].copy_from_slice(&known.started.to_le_bytes());
        page.as_mut()[8..16].copy_from_slice(&known.acknowledged.to_le_bytes());
        Ok(self.journal.write_all_at(page.as_ref(), offset(block))?)
    }

    fn overwrite(&self, block: u64) -> Result<()> {
        let before = self.known(block)?;
        let version = before.started + 1;
        self.note(block, Known { started: version, ..before })?;
        self.data.write_all_at(content(block, version).as_ref(), offset(block))?;
        self.note(block, Known { started: version, acknowledged: version })
    }

    fn check(&self, block: u64) -> Result<()> {
        let known = self.known(block)?;
        let found = read(&self.data, block)?;
        let version = u64::from_le_bytes(found.as_ref()[8..16].try_into()?);
        let expected = match version {
            0 => AlignedBuffer::zeroed(BlockCount(1)),
            version => content(block, version),
        };
        if found.as_ref() != expected.as_ref() {
            return Err(format!("block {block} is not what was written at any time").into());
        }
        if version < known.acknowledged || version > known.started {
            let Known { started, acknowledged } = known;
            return Err(format!(
                "block {block} has version {version}; {acknowledged} was acknowledged, {started} started"
            )
            .into());
        }
        Ok(())
    }
}

fn offset(block: u64) -> u64 {
    block * BLOCK_BYTES as u64
}

fn read(file: &File, block: u64) -> Result<AlignedBuffer> {
    let mut page = AlignedBuffer::zeroed(BlockCount(1));
    file.read_exact_at(page.as_mut(), offset(block))?;
    Ok(page)
}

/// A block that no other version of any block is like.
fn content(block: u64, version: u64) -> AlignedBuffer {
    let mut page = AlignedBuffer::zeroed(BlockCount(1));
    let mut state = block.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ version.rotate_left(32) ^ 1;
    for (index, word) in page.as_mut().chunks_exact_mut(8).enumerate() {
        let value = match index {
            0 => block,
            1 => version,
            _ => random(&mut state),
        };
        word.copy_from_slice(&value.to_le_bytes());
    }
    page
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Blocks that a writer owns, by turns.
fn blocks_of(writer: u64, blocks: u64) -> u64 {
    (blocks + WRITERS - 1 - writer) / WRITERS
}

fn write(data: &str, journal: &str, blocks: &str, seconds: &str) -> Result<String> {
    let devices = open(data, journal)?;
    let (blocks, seconds) = (blocks.parse::<u64>()?, seconds.parse()?);
    let end = Instant::now() + Duration::from_secs(seconds);
    let devices = &devices;
    let work = |writer: u64| -> Result<u64> {
        let (mut written, mut state) = (0, writer + 1);
        while Instant::now() < end {
            let turn = random(&mut state) % blocks_of(writer, blocks).max(1);
            devices.overwrite(turn * WRITERS + writer)?;
            written += 1;
        }
        Ok(written)
    };
    let written: Result<Vec<u64>> = thread::scope(|scope| {
        let writers: Vec<_> =
            (0..WRITERS).map(|writer| scope.spawn(move || work(writer))).collect();
        writers.into_iter().map(|writer| writer.join().expect("a writer panicked")).collect()
    });
    Ok(format!("{} blocks written", written?.iter().sum::<u64>()))
}

fn verify(data: &str, journal: &str, blocks: &str) -> Result<String> {
    let devices = open(data, journal)?;
    let (blocks, mut written) = (blocks.parse::<u64>()?, 0);
    for block in 0..blocks {
        devices.check(block)?;
        written += u64::from(devices.known(block)?.acknowledged > 0);
    }
    Ok(format!("{blocks} blocks verified, of which {written} were written"))
}
