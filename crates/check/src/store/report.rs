//! The report of a check of a file store.

use serde::Serialize;

use crate::report::{Severity, Tally};

/// A problem of a file store. Its text is for people, its kind and fields are for programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum StoreProblem {
    /// The drive does not report its zones.
    #[error("the drive does not report its zones: {status}")]
    DriveUnusable {
        /// The status that the drive returned.
        status: String,
    },
    /// No closed snapshot of the metadata.
    #[error("no file store: no complete snapshot of its metadata is left")]
    NoStore,
    /// Records of another version of the format.
    #[error("a record has version {version} of the format, and this checker knows version 1")]
    OtherVersion {
        /// The version.
        version: u16,
    },
    /// Records of two stores.
    #[error("records of two file stores: {first} and {other}")]
    TwoStores {
        /// UUID of the first.
        first: String,
        /// UUID of the other.
        other: String,
    },
    /// A record is missing in front of an intact one.
    #[error("record {sequence} is missing in front of an intact one")]
    RecordMissing {
        /// Its sequence.
        sequence: u64,
    },
    /// A block behind the last record that does not decode: torn, and never acknowledged.
    #[error("a block behind the last record does not decode: it was never acknowledged")]
    RecordTorn,
    /// An intact record contradicts those before it.
    #[error("record {sequence}, entry {entry}: {rule}")]
    Contradiction {
        /// The sequence of the record.
        sequence: u64,
        /// The entry, from 0.
        entry: usize,
        /// The rule that it breaks.
        rule: &'static str,
    },
    /// An extent of a file is not in a zone that is in use, or not within what is written.
    #[error("{path}, byte {offset}: its extent is outside of what the zone holds")]
    ExtentOutside {
        /// A path of the file.
        path: String,
        /// The first byte of the extent.
        offset: u64,
    },
    /// Two extents share a block.
    #[error("{path}, byte {offset}: its extent shares a block with another one")]
    ExtentsOverlap {
        /// A path of the file.
        path: String,
        /// The first byte of the extent.
        offset: u64,
    },
    /// A block of a file cannot be read, or does not verify.
    #[error("{path}, byte {offset}: the block is damaged")]
    BlockDamaged {
        /// A path of the file.
        path: String,
        /// The first byte of the file in the block, or in its extent.
        offset: u64,
    },
    /// A block that verifies is of another file or place.
    #[error("{path}, byte {offset}: the block is intact, and belongs to file {file}, byte {found}")]
    BlockElsewhere {
        /// A path of the file.
        path: String,
        /// The first byte that the block should have.
        offset: u64,
        /// The file that it names.
        file: u64,
        /// The byte that it names.
        found: u64,
    },
    /// A block of an open zone that no record knows does not verify.
    #[error("a block that no record knows is damaged: it may be the last of a file")]
    TailDamaged,
    /// A zone that no record knows is written.
    #[error("the zone is written and not on record: the next start resets it")]
    ZoneUnknown,
}

impl StoreProblem {
    /// How bad it is.
    #[must_use]
    pub const fn severity(&self) -> Severity {
        match self {
            Self::RecordTorn | Self::ZoneUnknown => Severity::Note,
            Self::TailDamaged => Severity::Damage,
            Self::DriveUnusable { .. }
            | Self::NoStore
            | Self::OtherVersion { .. }
            | Self::RecordMissing { .. }
            | Self::BlockDamaged { .. } => Severity::Loss,
            Self::TwoStores { .. }
            | Self::Contradiction { .. }
            | Self::ExtentOutside { .. }
            | Self::ExtentsOverlap { .. }
            | Self::BlockElsewhere { .. } => Severity::Violation,
        }
    }
}

/// A problem and its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StoreFinding {
    /// How bad it is.
    pub severity: Severity,
    /// The zone, if it has one.
    pub zone: Option<u32>,
    /// The block in the zone.
    pub offset: Option<u32>,
    /// The problem.
    pub problem: StoreProblem,
    /// The problem in words.
    pub text: String,
}

/// What a check of a file store saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StoreCounts {
    /// Records of the metadata that count.
    pub records: u64,
    /// Files, each once.
    pub files: u64,
    /// Directories, the root included.
    pub directories: u64,
    /// Bytes of files on record.
    pub bytes: u64,
    /// Extents on record.
    pub extents: u64,
    /// Blocks of files that verify.
    pub verified_blocks: u64,
    /// Intact blocks of open zones that no record knows.
    pub unrecorded_blocks: u64,
}

/// The result of a check of a file store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StoreReport {
    /// Whether there is neither damage, loss nor violation.
    pub clean: bool,
    /// The UUID of the store; `None` if there is no store.
    pub uuid: Option<String>,
    /// Its label.
    pub label: String,
    /// What was seen.
    pub counts: StoreCounts,
    /// Findings by severity.
    pub tally: Tally,
    /// The first findings.
    pub findings: Vec<StoreFinding>,
    /// Findings that are only counted.
    pub findings_omitted: u64,
}

/// A report in the making.
pub(super) struct Findings {
    pub(super) report: StoreReport,
    limit: usize,
}

impl Findings {
    pub(super) fn new(limit: usize) -> Self {
        Self { report: StoreReport::default(), limit }
    }

    pub(super) fn add(&mut self, at: Option<(u32, u32)>, problem: StoreProblem) {
        let severity = problem.severity();
        self.report.tally.add(severity);
        if self.report.findings.len() >= self.limit {
            self.report.findings_omitted += 1;
            return;
        }
        let (zone, offset) = (at.map(|(zone, _)| zone), at.map(|(_, offset)| offset));
        let text = problem.to_string();
        self.report.findings.push(StoreFinding { severity, zone, offset, problem, text });
        assert!(self.report.findings.len() <= self.limit, "the rest is only counted");
    }

    pub(super) fn finish(mut self) -> StoreReport {
        let listed = self.report.findings.len() as u64;
        self.report.clean = self.report.tally.is_clean(listed + self.report.findings_omitted);
        self.report
    }
}
