//! A journal of checked records in two zones of a drive.
//!
//! A zone cannot be overwritten, so state that changes is a *log*: records appended to one zone.
//! When that zone is full, a *snapshot* of the whole state goes to its *twin*, and the log goes on
//! there. The old zone is reset only after the snapshot is durable wherever its user needs it, so
//! at every moment a complete state is on media. The superblocks of an array are such a log on
//! each member.
//!
//! The journal knows nothing about the contents. A record is one block that its user encodes, with
//! a sequence that increases from record to record. [`Envelope`] makes a block self-checking.
//!
//! | file | content |
//! |---|---|
//! | `envelope`, `checksum` | magic, version, type, owner and seeded CRC-32C of a block |
//! | `record` | requirements for records: [`Record`] and [`Codec`] |
//! | `twin_log` | [`TwinLog`]: append, switch zones, reset the old zone |
//! | `write` | writing one record, with retries |
//! | `scan` | [`Scan`]: the records and the end of a log after a crash |
//! | `event` | rare branches, reported to the user |
//!
//! # Use
//!
//! 1. `TwinLog::begin` with two empty zones, then [`TwinLog::switch`] with the first snapshot.
//! 2. [`TwinLog::append`] for each change. If it returns [`Appended::NoRoom`], `switch` with a
//!    snapshot that includes the change.
//! 3. After a switch, make sure that the snapshot is durable on every drive that needs it, then
//!    [`TwinLog::reset_old`]. If the reset is left out, the next switch does it.
//! 4. After a restart, [`Scan::read`] finds the records. [`Scan::since_snapshot`] returns the
//!    newest closed snapshot and the later records, and [`Scan::resume`] a log that goes on. Begin
//!    with a switch: the end of a zone that a crash cut off may take no more records.
//!
//! A snapshot is any number of records, the last of which says so
//! ([`Record::snapshot_records`]). It is closed when that record is durable. Each zone begins with
//! a snapshot; in a zone whose first snapshot is not closed, no record counts.
//!
//! # Guarantees
//!
//! A record whose write returned success is durable (Force Unit Access) and is found by each later
//! scan, until a newer snapshot is closed *and* its zone is reset. A record whose write failed or
//! was interrupted may be found or not. Unreadable and damaged blocks are reported
//! ([`Scan::damaged`], [`Scan::may_hide_newer`]), never skipped silently.
//!
//! A drive may have a *write unit* of several blocks: each record then takes one unit. A crash or
//! failed write may leave a part of a unit behind, after which its zone takes no more records.
//!
//! # Example
//!
//! ```
//! use std::rc::Rc;
//! use zoneweave_emulator::{Immediate, RamDrive};
//! use zoneweave_journal::{Appended, Codec, Envelope, EnvelopeError, Record, Scan, TwinLog, Uuid};
//! use zoneweave_runtime::{Executor, VirtualTime};
//! use zoneweave_zoned::{AlignedBuffer, BlockCount, Geometry, Payload, ZoneId};
//!
//! const ENVELOPE: Envelope = Envelope::new(*b"EXAMPLE\0", 1);
//! const RECORD: u16 = 1;
//! const OWNER: Uuid = [7; 16];
//!
//! /// The state is one number: each record has the whole state, and is a snapshot by itself.
//! #[derive(Clone, Copy, Debug, PartialEq)]
//! struct Number { sequence: u64, value: u64 }
//!
//! impl Record for Number {
//!     fn sequence(&self) -> u64 { self.sequence }
//!     fn snapshot_records(&self) -> Option<u32> { Some(0) }
//! }
//!
//! struct Numbers;
//!
//! impl Codec for Numbers {
//!     type Record = Number;
//!     type Error = EnvelopeError;
//!     fn decode(&self, data: &[u8], _metadata: &[u8]) -> Result<Number, EnvelopeError> {
//!         let (_, body) = ENVELOPE.open(data, RECORD)?;
//!         let word = |at: usize| body.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
//!         match (word(0), word(8)) {
//!             (Some(sequence), Some(value)) => Ok(Number {
//!                 sequence: u64::from_le_bytes(sequence),
//!                 value: u64::from_le_bytes(value),
//!             }),
//!             _ => Err(EnvelopeError::Length),
//!         }
//!     }
//! }
//!
//! fn encode(sequence: u64, value: u64) -> Payload {
//!     let mut block = AlignedBuffer::zeroed(BlockCount(1));
//!     let body = &mut block.as_mut()[Envelope::BYTES..];
//!     body[..8].copy_from_slice(&sequence.to_le_bytes());
//!     body[8..16].copy_from_slice(&value.to_le_bytes());
//!     ENVELOPE.seal(block.as_mut(), RECORD, OWNER, 16);
//!     Payload { data: vec![block.freeze()], oob: Default::default() }
//! }
//!
//! let executor = Executor::new(Rc::new(VirtualTime::new()));
//! let drive = RamDrive::new(Geometry::new(4, BlockCount(8)), Immediate).unwrap();
//! let device = drive.attach(&executor.handle());
//! executor.run(async {
//!     let mut log = TwinLog::begin([ZoneId(0), ZoneId(1)], zoneweave_journal::ignore);
//!     log.switch(&*device, 1, |_| encode(1, 10)).await.unwrap();
//!     for sequence in 2..20 {
//!         let record = encode(sequence, sequence * 10);
//!         if log.append(&*device, record.clone()).await.unwrap() == Appended::NoRoom {
//!             log.switch(&*device, 1, |_| record.clone()).await.unwrap();
//!             log.reset_old(&*device).await.unwrap();
//!         }
//!     }
//!     let scan = Scan::read(&*device, &Numbers, zoneweave_journal::ignore).await.unwrap();
//!     let found = scan.since_snapshot().unwrap();
//!     assert_eq!(found.last(), Some(&&Number { sequence: 19, value: 190 }));
//!     assert!(!scan.may_hide_newer());
//!     let mut log = scan.resume().unwrap();
//!     log.switch(&*device, 1, |_| encode(20, 200)).await.unwrap();
//! });
//! ```

mod checksum;
mod envelope;
mod event;
mod record;
mod scan;
mod twin_log;
mod write;

pub use checksum::{Seed, Uuid};
pub use envelope::{Envelope, EnvelopeError};
pub use event::{Event, Observer, ignore};
pub use record::{Codec, Record};
pub use scan::{SEARCHED_ZONES, Scan, read_stubbornly};
pub use twin_log::{Appended, TwinLog, ZONE_RECORDS};
