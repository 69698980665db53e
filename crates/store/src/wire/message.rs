//! The messages.

use serde::{Deserialize, Serialize};
use zoneweave_filestore::{
    ExtentStatus, FileId, Hints, Lifetime, Metadata, Phase, Space, ZoneStatus,
};
use zoneweave_zoned::{BlockCount, ZoneAddress, ZoneId};

use crate::failure::Failure;

/// The most entries in one reply, so that it fits a frame: a name takes at most 1.5 KiB.
pub(crate) const ENTRIES_MAX: usize = 512;

/// An open file of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileNumber(pub(crate) usize);

/// The first message of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Greeting {
    pub(crate) version: u32,
    pub(crate) volume: Volume,
}

/// The store, as a client is told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Volume {
    pub(crate) label: String,
    /// Absolute paths of its drives.
    pub(crate) drives: Vec<String>,
    /// Damage that the start of the store found; empty if none.
    pub(crate) warning: String,
}

/// Hints for placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Placement {
    lifetime: u8,
    level: Option<u8>,
    expected_bytes: u64,
}

/// A request. `Append` and `WriteAt` have data behind them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Request {
    /// The first message of a client.
    Greet {
        version: u32,
    },
    Create {
        path: String,
        is_exclusive: bool,
        placement: Placement,
    },
    AppendTo {
        path: String,
    },
    Append {
        file: FileNumber,
    },
    WriteAt {
        file: FileNumber,
        offset: u64,
    },
    Flush {
        file: FileNumber,
    },
    Sync {
        file: FileNumber,
    },
    Truncate {
        file: FileNumber,
        length: u64,
    },
    Place {
        file: FileNumber,
        placement: Placement,
    },
    WriterLength {
        file: FileNumber,
    },
    /// Ends a handle; without `flush`, buffered bytes are lost.
    CloseWriter {
        file: FileNumber,
        flush: bool,
    },
    OpenFile {
        path: String,
    },
    ReadAt {
        file: FileNumber,
        offset: u64,
        length: u32,
    },
    ReaderLength {
        file: FileNumber,
    },
    CloseReader {
        file: FileNumber,
    },
    CreateDirectory {
        path: String,
    },
    RemoveDirectory {
        path: String,
    },
    RemoveFile {
        path: String,
    },
    Link {
        file: String,
        name: String,
    },
    Rename {
        from: String,
        to: String,
    },
    Stat {
        path: String,
    },
    /// The entries behind a name.
    List {
        path: String,
        after: Option<String>,
    },
    Space,
    /// The extents of a file behind so many.
    Extents {
        path: String,
        after: usize,
    },
    /// The zones behind so many.
    Zones {
        after: usize,
    },
}

/// A reply. That to `ReadAt` has data behind it, and those to `List`, `Extents` and `Zones` their
/// entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    Done,
    Opened {
        file: FileNumber,
    },
    Length {
        bytes: u64,
    },
    Stat(Stat),
    /// Whether others follow the last of them.
    Entries {
        more: bool,
    },
    Space(#[serde(with = "SpaceFields")] Space),
    Failed(Failure),
}

/// The fields of a [`Space`].
#[derive(Serialize, Deserialize)]
#[serde(remote = "Space")]
struct SpaceFields {
    capacity_bytes: u64,
    live_bytes: u64,
    free_bytes: u64,
    zones: usize,
    metadata_zones: usize,
    empty_zones: usize,
    open_zones: usize,
    unusable_zones: usize,
}

/// A file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stat {
    id: u64,
    is_directory: bool,
    length: u64,
    modified: u64,
    links: u32,
    placement: Placement,
    extents: usize,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) stat: Stat,
}

/// An extent of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExtentEntry {
    offset: u64,
    bytes: u64,
    zone: u32,
    block: u32,
    blocks: u32,
}

/// A zone of a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ZoneEntry {
    zone: u32,
    phase: String,
    written: u32,
    live: u32,
    lifetime: u8,
    resets: u64,
}

impl From<ExtentStatus> for ExtentEntry {
    fn from(extent: ExtentStatus) -> Self {
        let ExtentStatus { offset, bytes, at, blocks } = extent;
        Self { offset, bytes, zone: at.zone.0, block: at.offset.0, blocks: blocks.0 }
    }
}

impl From<ExtentEntry> for ExtentStatus {
    fn from(entry: ExtentEntry) -> Self {
        let ExtentEntry { offset, bytes, zone, block, blocks } = entry;
        let at = ZoneAddress::new(ZoneId(zone), block);
        Self { offset, bytes, at, blocks: BlockCount(blocks) }
    }
}

impl From<ZoneStatus> for ZoneEntry {
    fn from(status: ZoneStatus) -> Self {
        let ZoneStatus { zone, phase, written, live, lifetime, resets } = status;
        let phase = phase.name().to_owned();
        Self { zone: zone.0, phase, written, live, lifetime: lifetime.number(), resets }
    }
}

impl ZoneEntry {
    /// The zone, if its words have a meaning.
    pub(crate) fn status(&self) -> Option<ZoneStatus> {
        Some(ZoneStatus {
            zone: ZoneId(self.zone),
            phase: Phase::ALL.into_iter().find(|phase| phase.name() == self.phase)?,
            written: self.written,
            live: self.live,
            lifetime: Lifetime::from_number(self.lifetime)?,
            resets: self.resets,
        })
    }
}

impl From<Hints> for Placement {
    fn from(hints: Hints) -> Self {
        let Hints { lifetime, level, expected_bytes } = hints;
        Self { lifetime: lifetime.number(), level, expected_bytes }
    }
}

impl Placement {
    /// The hints, if they have a meaning.
    pub(crate) fn hints(self) -> Result<Hints, Failure> {
        let Self { lifetime, level, expected_bytes } = self;
        let lifetime = Lifetime::from_number(lifetime);
        match (lifetime, level) {
            (Some(lifetime), None | Some(..=254)) => Ok(Hints { lifetime, level, expected_bytes }),
            _ => Err(Failure::invalid(format!("no hints for placement: {self:?}"))),
        }
    }
}

impl From<&Metadata> for Stat {
    fn from(metadata: &Metadata) -> Self {
        let Metadata { id, is_directory, length, modified, links, hints, extents } = *metadata;
        let placement = hints.into();
        Self { id: id.0, is_directory, length, modified, links, placement, extents }
    }
}

impl Stat {
    /// The metadata of a reply.
    pub(crate) fn metadata(self) -> Result<Metadata, Failure> {
        let Self { id, is_directory, length, modified, links, placement, extents } = self;
        let hints = placement.hints()?;
        Ok(Metadata { id: FileId(id), is_directory, length, modified, links, hints, extents })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DATA_BYTES_MAX, MESSAGE_BYTES_MAX};
    use super::*;

    #[test]
    fn the_longest_messages_fit() {
        let path = format!("/{}", "\u{1}".repeat(255)).repeat(64);
        let request = Request::Rename { from: path.clone(), to: path };
        assert!(serde_json::to_vec(&request).unwrap().len() <= MESSAGE_BYTES_MAX);
        let hints =
            Hints { lifetime: Lifetime::Extreme, level: Some(254), expected_bytes: u64::MAX };
        let stat = Stat {
            id: u64::MAX,
            is_directory: false,
            length: u64::MAX,
            modified: u64::MAX,
            links: u32::MAX,
            placement: hints.into(),
            extents: usize::MAX,
        };
        let entry = Entry { name: "\u{1}".repeat(255), stat };
        let bytes = serde_json::to_vec(&entry).unwrap().len() + 1;
        assert!(bytes * ENTRIES_MAX < DATA_BYTES_MAX, "{bytes} bytes an entry");
    }

    #[test]
    fn hostile_messages_are_refused() {
        for text in [
            "",
            "null",
            "{\"sync\":{\"file\":-1}}",
            "{\"sync\":{}}",
            "{\"drop\":{\"file\":1}}",
            "{\"sync\":{\"file\":1,\"more\":2}}",
            &"[".repeat(100_000),
        ] {
            assert!(serde_json::from_str::<Request>(text).is_err(), "{text:.40}");
        }
        let nonsense = Placement { lifetime: 9, level: None, expected_bytes: 0 };
        assert!(nonsense.hints().is_err());
    }
}
