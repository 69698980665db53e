//! Requirements for the records of a log.

/// A decoded record.
pub trait Record {
    /// Its number. Each record that is written has a higher number than all before it, on any zone
    /// of the drive.
    fn sequence(&self) -> u64;

    /// For the record that closes a snapshot: the number of records of the snapshot before it,
    /// directly before it in its zone.
    fn snapshot_records(&self) -> Option<u32>;
}

/// Decodes the blocks of a log. Blocks are hostile: a decoder checks everything.
pub trait Codec {
    /// A record.
    type Record: Record;
    /// Why a block is no record.
    type Error;

    /// Decodes a block, with the metadata that the drive stores beside it (zeros if it was never
    /// written; empty if the block is unreadable).
    ///
    /// # Errors
    /// If the block is no intact record.
    fn decode(&self, data: &[u8], metadata: &[u8]) -> Result<Self::Record, Self::Error>;

    /// Whether a written zone with this first block, and without any record, is known to be no zone
    /// of a log. Other zones without records count as unreadable.
    fn is_of_other_zone(&self, first: &[u8]) -> bool {
        let _ = first;
        false
    }
}
