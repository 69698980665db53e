//! Replays the trace of a file store on an emulated drive, in virtual time.
//!
//! The store is the product's own, so its policies, relocation and metadata are. Events follow one
//! another as in the trace, each once the call before it has returned. Recorded times are not kept.
//! Files that were there when recording began are written first, in front of the first pass, and
//! count only in later ones.
//!
//! - `player` makes the calls of a trace.
//! - `figures` says how zones were worn.
//!
//! Invariant: the same trace, settings and seed give the same figures.

mod figures;
mod player;
#[cfg(test)]
mod tests;

use std::io::Read;
use std::rc::Rc;

use serde::Serialize;
use thiserror::Error;
use zoneweave_emulator::{Preset, RamDrive, WearError, WearSettings};
use zoneweave_filestore::trace::{Ending, Event, TraceError, TraceReader};
use zoneweave_filestore::{
    Counters, FileId, FileStore, FormatError, FormatOptions, OpenError, OpenOptions, StoreError,
    policy,
};
use zoneweave_runtime::{Executor, Nanos, VirtualTime};
use zoneweave_zoned::{BlockCount, GeometryError};

pub use figures::Erases;
use player::Player;

/// A drive and a store on it, for a trace.
#[derive(Clone, Debug)]
pub struct FileReplay {
    /// Geometry and timing of the drive.
    pub preset: Preset,
    /// What its resets erase.
    pub wear: WearSettings,
    /// Name of the allocation policy.
    pub policy: String,
    /// Passes over the trace. Files that a pass leaves are deleted by the next one.
    pub passes: u32,
    /// Blocks that a file collects before it writes them.
    pub buffer: BlockCount,
    /// Data zones that are written at once; `None` for all that the drive allows.
    pub active_zones: Option<u32>,
    /// Free space in a zone, in percent of its capacity, below which it is finished.
    pub finish_percent: u8,
    /// Seed of the drive's latencies.
    pub seed: u64,
}

/// The figures of a replay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FileReplayed {
    /// Events of all passes.
    pub events: u64,
    /// Virtual time.
    pub seconds: f64,
    /// Bytes that files were appended.
    pub host_bytes: u64,
    /// Bytes that the drive was written, metadata included.
    pub drive_bytes: u64,
    /// Of these, bytes that relocation copied.
    pub relocated_bytes: u64,
    /// Of these, bytes of metadata.
    pub metadata_bytes: u64,
    /// Bytes of the drive by bytes of files. Metadata counts, and so do the rests of blocks that
    /// are written in part; bytes that are cut off in a buffer are never written.
    pub write_amplification: f64,
    /// Blocks that were written for files or relocated, by those that were written for files.
    pub relocation_amplification: f64,
    /// Zones that were finished before they were full.
    pub finished_zones: u64,
    /// Resets of the zones for data.
    pub zones: Erases,
    /// Erases of the erase blocks of these zones.
    pub erase_blocks: Erases,
    /// Resets of the zones for metadata.
    pub metadata_zones: Erases,
    /// Resets of each zone for data, by number.
    pub resets: Vec<u64>,
    /// Whether the trace ends with its store.
    pub is_whole: bool,
}

/// Why a trace cannot be replayed.
#[derive(Debug, Error)]
pub enum FileReplayError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// There is no such drive.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// Its zones cannot have such erase blocks.
    #[error(transparent)]
    Wear(#[from] WearError),
    /// The drive can hold no store.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The store cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A name is that of no policy.
    #[error("{name} is no allocation policy")]
    Policy {
        /// The name.
        name: String,
    },
    /// The recorder could not write events in time.
    #[error("{events} events in front of event {at} are missing: record the trace again")]
    Lost {
        /// How many.
        events: u64,
        /// The number of the next one.
        at: u64,
    },
    /// No store could have recorded this.
    #[error("event {at} is impossible: {file} {state}")]
    Impossible {
        /// The number of the event, from 1.
        at: u64,
        /// Its file.
        file: FileId,
        /// What is wrong.
        state: FileState,
    },
    /// The store failed.
    #[error("event {at} of pass {pass}: {error}")]
    Store {
        /// The pass, from 1.
        pass: u32,
        /// The number of the event, from 1; 0 while files of the pass before are deleted.
        at: u64,
        /// The error.
        error: StoreError,
    },
}

/// The state of a file that contradicts an event.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum FileState {
    /// No event made it, or it is gone.
    #[error("does not exist")]
    Missing,
    /// An event made it before.
    #[error("exists already")]
    There,
    /// It has no such handle.
    #[error("is not open")]
    Closed,
    /// It has one writer.
    #[error("is open for writing already")]
    Open,
    /// It has no name left.
    #[error("has no name")]
    Nameless,
}

impl FileReplay {
    /// Replays a trace, which `open` opens for each pass.
    ///
    /// # Errors
    /// If the trace is damaged or has gaps, or the drive cannot hold its files.
    pub fn run<R: Read>(
        &self,
        mut open: impl FnMut() -> Result<TraceReader<R>, TraceError>,
    ) -> Result<FileReplayed, FileReplayError> {
        assert!(self.passes > 0, "a replay of nothing");
        let timing = self.preset.timing(self.seed);
        let drive = RamDrive::new(self.preset.geometry().clone(), timing)?;
        drive.set_wear(self.wear)?;
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let handle = executor.handle();
        let device = drive.attach(&handle);
        executor.run(async {
            let mut format = FormatOptions::new([0x5A; 16]);
            format.finish_percent = self.finish_percent;
            FileStore::format(&*device, &format).await?;
            let (store, _) = FileStore::open(handle.clone(), device, self.options()?).await?;
            let mut player = Player::new(&store);
            let now = |player: &Player<'_>| Totals {
                time: handle.now(),
                events: player.events(),
                host_bytes: player.bytes(),
                drive_blocks: drive.counters().written_blocks,
                counters: store.counters(),
            };
            let (mut begun, mut is_whole) = (None, true);
            for pass in 1..=self.passes {
                player.begin(pass).await?;
                let mut trace = open()?;
                while let Some(timed) = trace.read_event()? {
                    if begun.is_none() && !matches!(timed.event, Event::Exists { .. }) {
                        begun = Some(now(&player));
                    }
                    player.play(&timed.event).await?;
                }
                is_whole &= trace.ending() == Some(Ending::Closed);
            }
            let ended = now(&player);
            let begun = begun.unwrap_or(ended);
            assert!(begun.time <= ended.time, "virtual time ran backwards");
            Ok::<_, FileReplayError>(figures::of(&store, &drive, begun, ended, is_whole))
        })
    }

    fn options(&self) -> Result<OpenOptions, FileReplayError> {
        let unknown = || FileReplayError::Policy { name: self.policy.clone() };
        Ok(OpenOptions {
            policy: policy::by_name(&self.policy).ok_or_else(unknown)?,
            buffer: self.buffer,
            active_zones: self.active_zones,
            // The store that was recorded had a limit of its own.
            max_writers: usize::MAX,
            ..OpenOptions::default()
        })
    }
}

/// What was done up to a moment.
#[derive(Clone, Copy)]
struct Totals {
    time: Nanos,
    events: u64,
    host_bytes: u64,
    drive_blocks: u64,
    counters: Counters,
}
