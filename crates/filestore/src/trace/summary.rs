//! Figures of a trace: events, and files by what they are for.
//!
//! Memory is that of the files that live at once.

use std::collections::BTreeMap;

use zoneweave_runtime::Nanos;

use super::class::Class;
use super::event::Event;
use super::reader::TimedEvent;
use crate::hint::{Hints, Lifetime};
use crate::ids::FileId;

/// What files are grouped by: their class, and the hints that they have at last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupKey {
    /// The class.
    pub class: Class,
    /// The lifetime.
    pub lifetime: Lifetime,
    /// The level.
    pub level: Option<u8>,
}

/// Files of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupSummary {
    /// Files, those that were there before included.
    pub files: u64,
    /// Bytes that were appended to them.
    pub appended_bytes: u64,
    /// Syncs of them.
    pub syncs: u64,
    /// Files that lost their last name.
    pub deleted: u64,
    /// Of these, files that were made since recording began.
    pub lived_files: u64,
    /// The time from the first event to the last name of those, altogether.
    pub lived: Nanos,
}

/// Figures of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Events by their names.
    pub events: BTreeMap<&'static str, u64>,
    /// Files by group.
    pub groups: BTreeMap<GroupKey, GroupSummary>,
    /// Bytes that were appended.
    pub appended_bytes: u64,
    /// Bytes that were read, as far as reads were recorded.
    pub read_bytes: u64,
    /// Bytes of files that were there when recording began.
    pub existing_bytes: u64,
    /// The most files with a name at once.
    pub files_most: usize,
    /// Events that were not recorded.
    pub lost_events: u64,
    /// The time of the last event.
    pub span: Nanos,
    files: BTreeMap<FileId, Live>,
}

/// A file that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Live {
    key: GroupKey,
    links: u32,
    /// `None` for files that were there before.
    begun: Option<Nanos>,
    appended_bytes: u64,
    syncs: u64,
}

impl Live {
    fn new(class: Class, hints: Hints, links: u32, begun: Option<Nanos>) -> Self {
        let key = GroupKey { class, lifetime: hints.lifetime, level: hints.level };
        Self { key, links, begun, appended_bytes: 0, syncs: 0 }
    }
}

impl Summary {
    /// Counts the next event.
    pub fn add(&mut self, timed: &TimedEvent) {
        let TimedEvent { at, event } = *timed;
        self.span = self.span.max(at);
        *self.events.entry(event.name()).or_default() += 1;
        match event {
            Event::Exists { file, class, hints, bytes, links } => {
                self.existing_bytes = self.existing_bytes.saturating_add(bytes);
                self.begin(file, Live::new(class, hints, links, None));
            }
            Event::Create { file, class, hints, replaces } => {
                self.unlink(replaces, at);
                self.begin(file, Live::new(class, hints, 1, Some(at)));
            }
            Event::Append { file, bytes } => {
                self.appended_bytes = self.appended_bytes.saturating_add(bytes);
                self.change(file, |live| {
                    live.appended_bytes = live.appended_bytes.saturating_add(bytes);
                });
            }
            Event::Sync { file } => self.change(file, |live| live.syncs += 1),
            Event::SetHints { file, hints } => self.change(file, |live| {
                live.key = GroupKey { lifetime: hints.lifetime, level: hints.level, ..live.key };
            }),
            Event::Link { file } => {
                self.change(file, |live| live.links = live.links.saturating_add(1));
            }
            Event::Unlink { file } => self.unlink(Some(file), at),
            Event::Rename { file, class, replaces } => {
                self.unlink(replaces, at);
                self.change(file, |live| live.key.class = class);
            }
            Event::Read { bytes, .. } => {
                self.read_bytes = self.read_bytes.saturating_add(bytes);
            }
            Event::Lost { events } => {
                self.lost_events = self.lost_events.saturating_add(events);
            }
            Event::Open { .. }
            | Event::Flush { .. }
            | Event::Truncate { .. }
            | Event::Close { .. }
            | Event::OpenRead { .. }
            | Event::CloseRead { .. }
            | Event::End => {}
        }
    }

    /// Counts the files that live on. Call it once, behind the last event.
    pub fn finish(&mut self) {
        for (_, live) in std::mem::take(&mut self.files) {
            self.count(&live);
        }
    }

    fn begin(&mut self, file: FileId, live: Live) {
        // A file that is there twice, in a trace that was made up, counts as two.
        if let Some(before) = self.files.insert(file, live) {
            self.count(&before);
        }
        self.files_most = self.files_most.max(self.files.len());
    }

    fn change(&mut self, file: FileId, change: impl FnOnce(&mut Live)) {
        // Bytes may go to a file without names.
        if let Some(live) = self.files.get_mut(&file) {
            change(live);
        }
    }

    fn unlink(&mut self, file: Option<FileId>, at: Nanos) {
        let Some(file) = file else { return };
        let Some(live) = self.files.get_mut(&file) else { return };
        live.links = live.links.saturating_sub(1);
        if live.links > 0 {
            return;
        }
        let live = *live;
        self.files.remove(&file);
        let group = self.count(&live);
        group.deleted += 1;
        if let Some(begun) = live.begun {
            group.lived_files += 1;
            group.lived += at.since(begun);
        }
    }

    fn count(&mut self, live: &Live) -> &mut GroupSummary {
        let group = self.groups.entry(live.key).or_default();
        group.files += 1;
        group.appended_bytes = group.appended_bytes.saturating_add(live.appended_bytes);
        group.syncs += live.syncs;
        group
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_counted_by_class_and_last_hints() {
        let table = Hints { lifetime: Lifetime::Long, level: Some(2), expected_bytes: 0 };
        let none = Hints::default();
        let (a, b, c) = (FileId(2), FileId(3), FileId(4));
        let created = |file, class| Event::Create { file, class, hints: none, replaces: None };
        let events = [
            Event::Exists { file: c, class: Class::Other, hints: none, bytes: 9, links: 1 },
            created(a, Class::Table),
            Event::SetHints { file: a, hints: table },
            Event::Append { file: a, bytes: 100 },
            Event::Sync { file: a },
            Event::Link { file: a },
            Event::Unlink { file: a },
            created(b, Class::Other),
            Event::Append { file: b, bytes: 7 },
            Event::Rename { file: b, class: Class::Manifest, replaces: Some(c) },
            Event::Unlink { file: a },
            Event::Lost { events: 4 },
        ];
        let mut summary = Summary::default();
        for (number, event) in (0..).zip(events) {
            summary.add(&TimedEvent { at: Nanos(10 * number), event });
        }
        summary.finish();
        let group = |class, lifetime, level| summary.groups[&GroupKey { class, lifetime, level }];
        let tables = group(Class::Table, Lifetime::Long, Some(2));
        let lived = Nanos(90);
        let expected = GroupSummary {
            files: 1,
            appended_bytes: 100,
            syncs: 1,
            deleted: 1,
            lived_files: 1,
            lived,
        };
        assert_eq!(tables, expected);
        let manifests = group(Class::Manifest, Lifetime::NotSet, None);
        assert_eq!((manifests.files, manifests.appended_bytes, manifests.deleted), (1, 7, 0));
        let others = group(Class::Other, Lifetime::NotSet, None);
        assert_eq!((others.deleted, others.lived_files), (1, 0));
        assert_eq!((summary.appended_bytes, summary.existing_bytes), (107, 9));
        assert_eq!((summary.lost_events, summary.files_most), (4, 3));
        assert_eq!((summary.events["append"], summary.span), (2, Nanos(110)));
    }
}
