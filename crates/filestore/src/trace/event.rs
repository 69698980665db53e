//! Events of files, and their bytes in a trace.

use super::class::Class;
use super::varint::{Fields, put};
use crate::hint::Hints;
use crate::ids::FileId;

/// The most bytes of an event with its time.
pub(super) const EVENT_BYTES_MAX: usize = 64;

/// The most bytes of a file, and of its offsets: far above any drive, and sums do not overflow.
pub const BYTES_MAX: u64 = 1 << 48;

/// The most names of a file that is there when recording begins.
const LINKS_MAX: u32 = 1 << 20;

/// Something that happened to a file. Appends, flushes and syncs are recorded when they begin, all
/// else once it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A file that was there when recording began.
    Exists {
        /// The file.
        file: FileId,
        /// Its class.
        class: Class,
        /// Its hints.
        hints: Hints,
        /// Its length.
        bytes: u64,
        /// Names that it has.
        links: u32,
    },
    /// A file was made and opened for writing.
    Create {
        /// The file.
        file: FileId,
        /// Its class.
        class: Class,
        /// Its hints.
        hints: Hints,
        /// The file that lost the name.
        replaces: Option<FileId>,
    },
    /// A file was opened for writing.
    Open {
        /// The file.
        file: FileId,
    },
    /// Bytes are appended.
    Append {
        /// The file.
        file: FileId,
        /// The bytes.
        bytes: u64,
    },
    /// Buffered bytes are written.
    Flush {
        /// The file.
        file: FileId,
    },
    /// All bytes are made durable.
    Sync {
        /// The file.
        file: FileId,
    },
    /// The file was cut.
    Truncate {
        /// The file.
        file: FileId,
        /// Its length since then.
        bytes: u64,
    },
    /// The file got other hints.
    SetHints {
        /// The file.
        file: FileId,
        /// The hints.
        hints: Hints,
    },
    /// The handle for writing ended.
    Close {
        /// The file.
        file: FileId,
        /// Its length since then: bytes that were neither written nor synced are lost.
        bytes: u64,
    },
    /// A file was opened for reading.
    OpenRead {
        /// The file.
        file: FileId,
    },
    /// Bytes are read. Recorded only if asked for.
    Read {
        /// The file.
        file: FileId,
        /// The first byte.
        offset: u64,
        /// The bytes asked for.
        bytes: u64,
    },
    /// A handle for reading ended.
    CloseRead {
        /// The file.
        file: FileId,
    },
    /// The file got another name.
    Link {
        /// The file.
        file: FileId,
    },
    /// The file lost a name. Without names and handles it is gone.
    Unlink {
        /// The file.
        file: FileId,
    },
    /// A name of the file changed.
    Rename {
        /// The file.
        file: FileId,
        /// Its class since then.
        class: Class,
        /// The file that lost the name.
        replaces: Option<FileId>,
    },
    /// Events are missing here, as they could not be written in time. It is a field of the frame
    /// that follows, not an event on media.
    Lost {
        /// Their number.
        events: u64,
    },
    /// The store was closed: nothing follows.
    End,
}

/// The numbers of the kinds of events.
mod kind {
    pub(super) const EXISTS: u8 = 1;
    pub(super) const CREATE: u8 = 2;
    pub(super) const OPEN: u8 = 3;
    pub(super) const APPEND: u8 = 4;
    pub(super) const FLUSH: u8 = 5;
    pub(super) const SYNC: u8 = 6;
    pub(super) const TRUNCATE: u8 = 7;
    pub(super) const SET_HINTS: u8 = 8;
    pub(super) const CLOSE: u8 = 9;
    pub(super) const OPEN_READ: u8 = 10;
    pub(super) const READ: u8 = 11;
    pub(super) const CLOSE_READ: u8 = 12;
    pub(super) const LINK: u8 = 13;
    pub(super) const UNLINK: u8 = 14;
    pub(super) const RENAME: u8 = 15;
    pub(super) const END: u8 = 16;
}

impl Event {
    /// The file that it is about.
    #[must_use]
    pub const fn file(&self) -> Option<FileId> {
        match self {
            Self::Exists { file, .. }
            | Self::Create { file, .. }
            | Self::Open { file }
            | Self::Append { file, .. }
            | Self::Flush { file }
            | Self::Sync { file }
            | Self::Truncate { file, .. }
            | Self::SetHints { file, .. }
            | Self::Close { file, .. }
            | Self::OpenRead { file }
            | Self::Read { file, .. }
            | Self::CloseRead { file }
            | Self::Link { file }
            | Self::Unlink { file }
            | Self::Rename { file, .. } => Some(*file),
            Self::Lost { .. } | Self::End => None,
        }
    }

    /// The name of its kind in listings.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Exists { .. } => "exists",
            Self::Create { .. } => "create",
            Self::Open { .. } => "open",
            Self::Append { .. } => "append",
            Self::Flush { .. } => "flush",
            Self::Sync { .. } => "sync",
            Self::Truncate { .. } => "truncate",
            Self::SetHints { .. } => "set-hints",
            Self::Close { .. } => "close",
            Self::OpenRead { .. } => "open-read",
            Self::Read { .. } => "read",
            Self::CloseRead { .. } => "close-read",
            Self::Link { .. } => "link",
            Self::Unlink { .. } => "unlink",
            Self::Rename { .. } => "rename",
            Self::Lost { .. } => "lost",
            Self::End => "end",
        }
    }

    /// Adds its bytes, unless it is none on media. Numbers of bytes above [`BYTES_MAX`] are cut: no
    /// drive has as many.
    pub(super) fn encode(&self, into: &mut Vec<u8>) {
        let file = self.file();
        into.extend(self.kind());
        if let Some(file) = file {
            put(into, file.0);
        }
        let count = |into: &mut Vec<u8>, bytes: u64| put(into, bytes.min(BYTES_MAX));
        match *self {
            Self::Exists { class, hints, bytes, links, .. } => {
                into.push(class as u8);
                put_hints(into, hints);
                count(into, bytes);
                put(into, links.clamp(1, LINKS_MAX).into());
            }
            Self::Create { class, hints, replaces, .. } => {
                into.push(class as u8);
                put_hints(into, hints);
                put(into, replaces.unwrap_or_default().0);
            }
            Self::Append { bytes, .. }
            | Self::Truncate { bytes, .. }
            | Self::Close { bytes, .. } => count(into, bytes),
            Self::SetHints { hints, .. } => put_hints(into, hints),
            Self::Read { offset, bytes, .. } => {
                count(into, offset);
                count(into, bytes);
            }
            Self::Rename { class, replaces, .. } => {
                into.push(class as u8);
                put(into, replaces.unwrap_or_default().0);
            }
            Self::Open { .. }
            | Self::Flush { .. }
            | Self::Sync { .. }
            | Self::OpenRead { .. }
            | Self::CloseRead { .. }
            | Self::Link { .. }
            | Self::Unlink { .. }
            | Self::Lost { .. }
            | Self::End => {}
        }
    }

    /// The next event; `None` if the bytes are none.
    pub(super) fn decode(fields: &mut Fields<'_>) -> Option<Self> {
        let kind = fields.byte()?;
        if kind == kind::END {
            return Some(Self::End);
        }
        let file = FileId(fields.number()?);
        if file == FileId::default() {
            return None;
        }
        Some(match kind {
            kind::EXISTS => {
                let (class, hints) = (class(fields)?, hints(fields)?);
                let bytes = bytes(fields)?;
                let links = u32::try_from(fields.number()?).ok();
                let links = links.filter(|links| (1..=LINKS_MAX).contains(links))?;
                Self::Exists { file, class, hints, bytes, links }
            }
            kind::CREATE => {
                let (class, hints, replaces) = (class(fields)?, hints(fields)?, replaced(fields)?);
                Self::Create { file, class, hints, replaces }
            }
            kind::OPEN => Self::Open { file },
            kind::APPEND => Self::Append { file, bytes: bytes(fields)? },
            kind::FLUSH => Self::Flush { file },
            kind::SYNC => Self::Sync { file },
            kind::TRUNCATE => Self::Truncate { file, bytes: bytes(fields)? },
            kind::SET_HINTS => Self::SetHints { file, hints: hints(fields)? },
            kind::CLOSE => Self::Close { file, bytes: bytes(fields)? },
            kind::OPEN_READ => Self::OpenRead { file },
            kind::READ => {
                let (offset, bytes) = (bytes(fields)?, bytes(fields)?);
                Self::Read { file, offset, bytes }
            }
            kind::CLOSE_READ => Self::CloseRead { file },
            kind::LINK => Self::Link { file },
            kind::UNLINK => Self::Unlink { file },
            kind::RENAME => {
                let (class, replaces) = (class(fields)?, replaced(fields)?);
                Self::Rename { file, class, replaces }
            }
            _ => return None,
        })
    }

    const fn kind(&self) -> Option<u8> {
        Some(match self {
            Self::Exists { .. } => kind::EXISTS,
            Self::Create { .. } => kind::CREATE,
            Self::Open { .. } => kind::OPEN,
            Self::Append { .. } => kind::APPEND,
            Self::Flush { .. } => kind::FLUSH,
            Self::Sync { .. } => kind::SYNC,
            Self::Truncate { .. } => kind::TRUNCATE,
            Self::SetHints { .. } => kind::SET_HINTS,
            Self::Close { .. } => kind::CLOSE,
            Self::OpenRead { .. } => kind::OPEN_READ,
            Self::Read { .. } => kind::READ,
            Self::CloseRead { .. } => kind::CLOSE_READ,
            Self::Link { .. } => kind::LINK,
            Self::Unlink { .. } => kind::UNLINK,
            Self::Rename { .. } => kind::RENAME,
            Self::Lost { .. } => return None,
            Self::End => kind::END,
        })
    }
}

fn put_hints(into: &mut Vec<u8>, hints: Hints) {
    into.extend(hints.to_bytes());
    put(into, hints.expected_bytes.min(BYTES_MAX));
}

fn hints(fields: &mut Fields<'_>) -> Option<Hints> {
    let stored = Hints::from_bytes([fields.byte()?, fields.byte()?])?;
    Some(Hints { expected_bytes: bytes(fields)?, ..stored })
}

fn class(fields: &mut Fields<'_>) -> Option<Class> {
    Class::from_number(fields.byte()?)
}

fn bytes(fields: &mut Fields<'_>) -> Option<u64> {
    fields.number().filter(|bytes| *bytes <= BYTES_MAX)
}

fn replaced(fields: &mut Fields<'_>) -> Option<Option<FileId>> {
    let file = FileId(fields.number()?);
    Some((file != FileId::default()).then_some(file))
}

/// An event of each kind on media.
#[must_use]
pub fn samples() -> Vec<Event> {
    let (file, other) = (FileId(7), FileId(300));
    let hints =
        Hints { lifetime: crate::hint::Lifetime::Long, level: Some(2), expected_bytes: 1 << 20 };
    let none = Hints::default();
    vec![
        Event::Exists { file, class: Class::Manifest, hints: none, bytes: 12_345, links: 2 },
        Event::Create { file: other, class: Class::Table, hints, replaces: None },
        Event::Create { file, class: Class::Log, hints: none, replaces: Some(other) },
        Event::Open { file },
        Event::Append { file, bytes: 8_321 },
        Event::Flush { file },
        Event::Sync { file },
        Event::Truncate { file, bytes: BYTES_MAX },
        Event::SetHints { file, hints },
        Event::Close { file, bytes: 8_000 },
        Event::OpenRead { file },
        Event::Read { file, offset: 4096, bytes: 100 },
        Event::CloseRead { file },
        Event::Link { file },
        Event::Rename { file, class: Class::Other, replaces: Some(other) },
        Event::Rename { file, class: Class::Other, replaces: None },
        Event::Unlink { file: FileId(u64::MAX) },
        Event::End,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_lead_back_and_parts_of_them_to_nothing() {
        for event in samples() {
            let mut bytes = Vec::new();
            event.encode(&mut bytes);
            assert!(bytes.len() + 10 <= EVENT_BYTES_MAX, "{event:?} has {} bytes", bytes.len());
            let mut fields = Fields::new(&bytes);
            assert_eq!(Event::decode(&mut fields), Some(event));
            assert!(fields.is_empty());
            for end in 0..bytes.len() {
                assert_eq!(Event::decode(&mut Fields::new(&bytes[..end])), None, "{event:?} {end}");
            }
        }
    }

    #[test]
    fn values_that_no_event_has_are_refused() {
        let decode = |bytes: &[u8]| Event::decode(&mut Fields::new(bytes));
        assert_eq!(decode(&[kind::OPEN, 0]), None, "there is no file 0");
        assert_eq!(decode(&[0, 7]), None);
        assert_eq!(decode(&[kind::END + 1, 7]), None);
        assert_eq!(decode(&[kind::RENAME, 7, 4, 0]), None, "there is no class 4");
        assert_eq!(decode(&[kind::SET_HINTS, 7, 6, 255, 0]), None, "there is no lifetime 6");
        assert_eq!(decode(&[kind::EXISTS, 7, 0, 0, 255, 0, 9, 0]), None, "a file has a name");
        let mut append = vec![kind::APPEND, 7];
        put(&mut append, BYTES_MAX + 1);
        assert_eq!(decode(&append), None);
    }
}
