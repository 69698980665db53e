//! The report of a check: findings, counts, and the array.

use serde::Serialize;
use zoneweave_zoned::Status;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// No fault: a crash, a missing drive or unfinished work leaves such traces.
    Note,
    /// Damage or loss that the redundancy of the array covers.
    Damage,
    /// Contents of the volume are lost.
    Loss,
    /// Verified bytes contradict each other. No drive failure does that: software is at fault.
    Violation,
}

/// A problem. Its text is for people, its kind and fields are for programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Problem {
    /// A drive does not report its zones.
    #[error("the drive does not report its zones: {status}")]
    DriveUnusable {
        /// The status that the drive returned.
        status: String,
    },
    /// No drive carries a superblock record.
    #[error("no drive carries a superblock record: there is no array, or every record is damaged")]
    NoArray,
    /// A drive without a superblock record.
    #[error("the drive carries no superblock record: it is no member, or lost its records")]
    NoRecords,
    /// A drive of another array.
    #[error("the drive belongs to array {array}")]
    ForeignDrive {
        /// Its array.
        array: String,
    },
    /// Records of one drive name several slots or members.
    #[error("records of one drive name different slots or members")]
    IdentityChanged,
    /// Two drives claim one slot with one identity.
    #[error("another drive is the same member: one of them is a copy; remove it")]
    DuplicateMember,
    /// No membership has a majority, or several histories have come as far.
    #[error(
        "no epoch is carried by a majority of the members, or two histories have come as far: \
         the newest is taken"
    )]
    NoMajority,
    /// The array is being destroyed.
    #[error("the array is being destroyed: `zoneweave array destroy` finishes that")]
    Destroyed,
    /// The drive is not a member any more, or not yet.
    #[error("the drive counts for nothing: the array calls it failed or does not list it")]
    NotAMember,
    /// A slot without a drive.
    #[error("the member in slot {slot} is missing")]
    MemberMissing {
        /// The slot.
        slot: u32,
    },
    /// Two records have different array configurations.
    #[error("records disagree about the array's shape")]
    ConfigDiffers,
    /// A record that does not verify.
    #[error("the superblock record is damaged")]
    RecordDamaged,
    /// Two seals of one segment differ.
    #[error("two seals of segment {sealed} differ")]
    SealsDiffer {
        /// The segment.
        sealed: u64,
    },
    /// A seal that does not fit its segment.
    #[error("the seal of segment {sealed} does not fit its generation or shape")]
    SealMisfit {
        /// The segment.
        sealed: u64,
    },
    /// A block could not be read.
    #[error("the block cannot be read: {status}")]
    Unreadable {
        /// The status that the drive returned.
        status: String,
    },
    /// A zone of no segment.
    #[error("the zone is written but belongs to no segment")]
    OrphanZone,
    /// An empty zone that is open or closed.
    #[error("the zone is empty but holds an active resource")]
    EmptyActiveZone,
    /// A header that does not verify.
    #[error("the segment header is damaged")]
    HeaderDamaged,
    /// Headers of one segment differ, or one does not fit the array or its place.
    #[error("the segment header contradicts its place, its replicas or the array")]
    HeaderDiffers,
    /// Two segments list a zone.
    #[error("the zone is claimed by more than one segment")]
    ZoneClaimedTwice,
    /// Two zones hold one column.
    #[error("another zone holds the same column of the segment")]
    ColumnTwice,
    /// A segment number at or above the ceiling.
    #[error("the segment's number is at or above the ceiling {ceiling}")]
    SegmentAboveCeiling {
        /// The ceiling.
        ceiling: u64,
    },
    /// A column that is being rebuilt.
    #[error("the column is not completely rebuilt and counts for nothing yet")]
    RebuildUnfinished,
    /// A column that should be there.
    #[error("column {column} is missing although its member is online")]
    ColumnMissing {
        /// The column.
        column: u32,
    },
    /// A chunk block that does not verify, or not at this place.
    #[error("the chunk block is damaged or out of place")]
    ChunkDamaged,
    /// A block of a column that a rebuild could not reconstruct.
    #[error("the block could not be rebuilt earlier")]
    Hole,
    /// Two chunks of one column name one stripe.
    #[error("another chunk of the column belongs to stripe {stripe} too")]
    StripeTwice {
        /// The stripe.
        stripe: u32,
    },
    /// Data and parity do not match.
    #[error("stripe {stripe}: data and parity that verify do not match")]
    ParityDiffers {
        /// The stripe.
        stripe: u32,
    },
    /// A live narrow segment without any zone.
    #[error("nothing is left of a narrow segment that the narrow list has")]
    SegmentLost,
    /// A stripe with too few chunks.
    #[error("stripe {stripe}, block {block}: fewer chunks than needed are left")]
    StripeLost {
        /// The stripe.
        stripe: u32,
        /// The block of its chunks.
        block: u32,
    },
    /// A chunk of a stripe that must be complete was never written.
    #[error("stripe {stripe}: the chunk of column {column} was never written")]
    ChunkMissing {
        /// The stripe.
        stripe: u32,
        /// The column.
        column: u32,
    },
    /// Padding that is not zero, or an address beyond the volume.
    #[error("the block's identity is malformed")]
    IdentityMalformed,
    /// A tombstone block that verifies but cannot be parsed.
    #[error("the tombstone block is malformed")]
    TombstonesMalformed,
    /// A sequence at or above the ceiling.
    #[error("sequence {sequence} is at or above the ceiling {ceiling}")]
    SequenceAboveCeiling {
        /// The sequence.
        sequence: u64,
        /// The ceiling.
        ceiling: u64,
    },
    /// Two blocks with one LBA and sequence differ.
    #[error("LBA {lba}: two versions with sequence {sequence} differ")]
    VersionsDiffer {
        /// The block of the volume.
        lba: u64,
        /// The sequence.
        sequence: u64,
    },
    /// A block recorded as lost is the newest of its LBA.
    #[error("LBA {lba} was recorded as lost and not written since")]
    RecordedAsLost {
        /// The block of the volume.
        lba: u64,
    },
    /// Zones too small for the volume, or too few.
    #[error("no zoned volume has this shape")]
    ImpossibleVolume,
    /// A block of a column that does not verify.
    #[error("the block of the zone's column is damaged or out of place")]
    ColumnBlockDamaged,
    /// Data and parity of a zone with checksums do not match.
    #[error("zone {zone}: data and parity that verify do not match at block {block}")]
    ZoneParityDiffers {
        /// The logical zone.
        zone: u32,
        /// The block of the first data unit.
        block: u32,
    },
    /// Data and parity of a zone without checksums do not match.
    #[error(
        "zone {zone}: data and parity do not match at block {block}, and no checksums show which \
         is wrong"
    )]
    ZoneParityUnclear {
        /// The logical zone.
        zone: u32,
        /// The block of the first data unit.
        block: u32,
    },
    /// A block of a zone that cannot be reconstructed, with blocks of the zone behind it.
    #[error("zone {zone}: block {block} is lost")]
    ZoneBlockLost {
        /// The logical zone.
        zone: u32,
        /// The block.
        block: u32,
    },
    /// A zone whose next block is damaged beyond redundancy, or that is shorter than its record.
    #[error("zone {zone}: block {block} and those behind it are lost")]
    ZoneCutShort {
        /// The logical zone.
        zone: u32,
        /// The first lost block.
        block: u32,
    },
    /// A range that the volume has listed as lost. What is lost now is found apart from that.
    #[error(
        "zone {zone}: {}{blocks} blocks from block {block} on are on record as lost",
        if *joined { "some of " } else { "" }
    )]
    LostOnRecord {
        /// The logical zone.
        zone: u32,
        /// The first block.
        block: u32,
        /// Their number, with those of following zones.
        blocks: u64,
        /// Whether ranges were joined: not all of these blocks are lost.
        joined: bool,
    },
    /// An index block that does not verify.
    #[error("the index block is damaged or out of place")]
    IndexDamaged,
    /// A filler block that does not verify.
    #[error("the filler block behind the segment is damaged; it means nothing")]
    FillerDamaged,
    /// An index entry that contradicts its block.
    #[error("entry {entry} of the index block contradicts column {column}")]
    IndexDiffers {
        /// The entry, counted in the block.
        entry: u32,
        /// The column it describes.
        column: u32,
    },
}

impl Problem {
    /// The severity of findings of this kind.
    #[must_use]
    pub const fn severity(&self) -> Severity {
        match self {
            Self::NoRecords
            | Self::ForeignDrive { .. }
            | Self::NotAMember
            | Self::Destroyed
            | Self::MemberMissing { .. }
            | Self::EmptyActiveZone
            | Self::RebuildUnfinished
            | Self::LostOnRecord { .. }
            | Self::Hole => Severity::Note,
            Self::DriveUnusable { .. }
            | Self::DuplicateMember
            | Self::NoMajority
            | Self::RecordDamaged
            | Self::Unreadable { .. }
            | Self::OrphanZone
            | Self::HeaderDamaged
            | Self::ColumnMissing { .. }
            | Self::ChunkDamaged
            | Self::ColumnBlockDamaged
            | Self::ZoneParityUnclear { .. }
            | Self::FillerDamaged
            | Self::IndexDamaged => Severity::Damage,
            Self::NoArray
            | Self::SegmentLost
            | Self::StripeLost { .. }
            | Self::ZoneBlockLost { .. }
            | Self::ZoneCutShort { .. }
            | Self::RecordedAsLost { .. } => Severity::Loss,
            Self::IdentityChanged
            | Self::ConfigDiffers
            | Self::SealsDiffer { .. }
            | Self::SealMisfit { .. }
            | Self::HeaderDiffers
            | Self::ZoneClaimedTwice
            | Self::ColumnTwice
            | Self::SegmentAboveCeiling { .. }
            | Self::StripeTwice { .. }
            | Self::ParityDiffers { .. }
            | Self::ImpossibleVolume
            | Self::ZoneParityDiffers { .. }
            | Self::ChunkMissing { .. }
            | Self::IdentityMalformed
            | Self::TombstonesMalformed
            | Self::SequenceAboveCeiling { .. }
            | Self::VersionsDiffer { .. }
            | Self::IndexDiffers { .. } => Severity::Violation,
        }
    }

    pub(crate) fn unreadable(status: Status) -> Self {
        Self::Unreadable { status: status.to_string() }
    }
}

/// The place of a finding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Location {
    /// The drive, by its position among those given.
    pub drive: Option<usize>,
    /// The zone.
    pub zone: Option<u32>,
    /// The block in the zone.
    pub offset: Option<u32>,
    /// The segment.
    pub segment: Option<u64>,
}

impl Location {
    pub(crate) fn drive(drive: usize) -> Self {
        Self { drive: Some(drive), ..Self::default() }
    }

    pub(crate) fn zone(self, zone: u32) -> Self {
        Self { zone: Some(zone), ..self }
    }

    pub(crate) fn offset(self, offset: u32) -> Self {
        Self { offset: Some(offset), ..self }
    }

    pub(crate) fn segment(self, segment: u64) -> Self {
        Self { segment: Some(segment), ..self }
    }
}

/// A problem with its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The problem's severity.
    pub severity: Severity,
    /// Its place.
    pub location: Location,
    /// The problem.
    pub problem: Problem,
    /// The problem in words.
    pub text: String,
}

/// The number of findings of each severity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// [`Severity::Note`].
    pub notes: u64,
    /// [`Severity::Damage`].
    pub damage: u64,
    /// [`Severity::Loss`].
    pub losses: u64,
    /// [`Severity::Violation`].
    pub violations: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, severity: Severity) {
        match severity {
            Severity::Note => self.notes += 1,
            Severity::Damage => self.damage += 1,
            Severity::Loss => self.losses += 1,
            Severity::Violation => self.violations += 1,
        }
    }

    /// Whether nothing of so many findings is worse than a note.
    ///
    /// # Panics
    /// If it has another number of findings.
    pub(crate) fn is_clean(&self, findings: u64) -> bool {
        let worse = self.damage + self.losses + self.violations;
        assert_eq!(self.notes + worse, findings, "every finding is counted once");
        worse == 0
    }
}

/// Totals over the drives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Live segments.
    pub segments: u64,
    /// Live segments that are sealed.
    pub sealed_segments: u64,
    /// Dead segments whose zones are not reset yet.
    pub dead_segments: u64,
    /// Stripes that count.
    pub stripes: u64,
    /// Stripes with a chunk on media that do not count.
    pub discarded_stripes: u64,
    /// Stripes that do not count because too few of their chunks verify, though every column has
    /// one. Either a crash tore them, or they were acknowledged and are lost.
    pub doubtful_stripes: u64,
    /// Chunk blocks read and verified.
    pub verified_blocks: u64,
    /// Chunk blocks that were reconstructed, of stripes that count.
    pub reconstructed_blocks: u64,
    /// Blocks of the volume that hold data.
    pub mapped_blocks: u64,
    /// Blocks of the volume whose contents are recorded as lost; those of a zoned volume that can
    /// be neither read nor reconstructed.
    pub lost_blocks: u64,
    /// Trimmed blocks of the volume.
    pub trimmed_blocks: u64,
    /// Damaged blocks on record that were restored, since they were last cleared.
    pub recorded_repaired: u64,
    /// Damaged blocks on record that were not.
    pub recorded_unrepairable: u64,
    /// Ranges of the volume on record in which blocks were lost.
    pub recorded_lost_ranges: u64,
    /// Scrubs on record.
    pub recorded_scrubs: u64,
}

/// The array that was checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ArrayReport {
    /// Its UUID.
    pub uuid: String,
    /// Its name.
    pub name: String,
    /// Data chunks per stripe.
    pub data_chunks: u32,
    /// Parity chunks per stripe.
    pub parity_chunks: u32,
    /// Whether parity is always on the last columns.
    pub fixed: bool,
    /// Whether parity chunks are copies of the data chunks.
    pub mirrored: bool,
    /// Number of the epoch.
    pub epoch: u64,
    /// Blocks of the volume.
    pub volume_blocks: u64,
    /// Every sequence assigned so far is below this one.
    pub sequence_ceiling: u64,
    /// Every segment number assigned so far is below this one.
    pub segment_ceiling: u64,
}

/// The outcome of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// No finding is worse than a note.
    pub clean: bool,
    /// A member is missing, failed or being rebuilt.
    pub degraded: bool,
    /// The array, if there is one.
    pub array: Option<ArrayReport>,
    /// Totals.
    pub counts: Counts,
    /// Findings by severity, listed or not.
    pub tally: Tally,
    /// The first findings.
    pub findings: Vec<Finding>,
    /// Findings that the limit left out.
    pub findings_omitted: u64,
}

impl Report {
    /// Whether all verified bytes agree, regardless of losses.
    #[must_use]
    pub const fn is_consistent(&self) -> bool {
        self.tally.violations == 0
    }
}

/// Collects findings up to a limit.
pub(crate) struct Findings {
    pub(crate) report: Report,
    limit: usize,
}

impl Findings {
    pub(crate) fn new(limit: usize) -> Self {
        Self { report: Report::default(), limit }
    }

    pub(crate) fn add(&mut self, location: Location, problem: Problem) {
        let severity = problem.severity();
        self.report.tally.add(severity);
        if self.report.findings.len() >= self.limit {
            self.report.findings_omitted += 1;
            return;
        }
        let text = problem.to_string();
        self.report.findings.push(Finding { severity, location, problem, text });
        assert!(self.report.findings.len() <= self.limit, "the rest is only counted");
    }

    pub(crate) fn finish(mut self) -> Report {
        let listed = self.report.findings.len() as u64;
        self.report.clean = self.report.tally.is_clean(listed + self.report.findings_omitted);
        self.report
    }
}
