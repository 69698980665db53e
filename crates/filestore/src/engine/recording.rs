//! Events of files for the recorder of the store, if it has one.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::core::{Core, State};
use crate::format::{Entry, Kind};
use crate::ids::FileId;
use crate::name::Name;
use crate::state::Node;
use crate::trace::{Class, Event, Recorder, Tape};

impl Core {
    /// Records events from now on, beginning with the files that there are.
    pub(crate) fn start_recording(&self, recorder: Rc<dyn Recorder>) {
        let mut state = self.state_mut();
        assert!(state.writers.is_empty(), "a file is open before users are served");
        let tape = Tape::new(recorder, self.handle.clone());
        state.each_existing(|event| tape.record_existing(&event));
        state.tape = Some(tape);
    }
}

impl State {
    /// Records an event.
    pub(crate) fn note(&self, event: impl FnOnce() -> Event) {
        if let Some(tape) = &self.tape {
            tape.record(&event());
        }
    }

    /// Records a change of names that is about to be applied.
    pub(crate) fn note_change(&self, entry: &Entry) {
        if let Some(tape) = &self.tape
            && let Some(event) = self.event_of(entry)
        {
            tape.record(&event);
        }
    }

    /// The event of a change that is about to be applied; `None` if no file is changed.
    fn event_of(&self, entry: &Entry) -> Option<Event> {
        match entry {
            Entry::Create { parent, name, id, kind: Kind::File, hints, .. } => {
                let (class, replaces) = (Class::of(name.as_str()), self.file_named(*parent, name));
                Some(Event::Create { file: *id, class, hints: *hints, replaces })
            }
            Entry::Link { id, .. } => Some(Event::Link { file: *id }),
            Entry::Unlink { parent, name } => {
                Some(Event::Unlink { file: self.file_named(*parent, name)? })
            }
            Entry::Rename { from, from_name, to, to_name } => {
                let file = self.file_named(*from, from_name)?;
                let replaces = self.file_named(*to, to_name);
                let class = Class::of(to_name.as_str());
                // Between two names of one file it does nothing.
                (replaces != Some(file)).then_some(Event::Rename { file, class, replaces })
            }
            _ => None,
        }
    }

    fn file_named(&self, parent: FileId, name: &Name) -> Option<FileId> {
        let id = self.namespace.lookup(parent, name)?;
        self.namespace.file(id).map(|_| id)
    }

    /// Every file, by number.
    fn each_existing(&self, mut tell: impl FnMut(Event)) {
        let mut classes: BTreeMap<FileId, Class> = BTreeMap::new();
        let mut directories = vec![FileId::ROOT];
        while let Some(directory) = directories.pop() {
            let names = self.namespace.directory(directory).map(|node| &node.names);
            for (name, id) in names.into_iter().flatten() {
                match self.namespace.node(*id) {
                    Some(Node::Directory(_)) => directories.push(*id),
                    Some(Node::File(_)) => {
                        classes.entry(*id).or_insert(Class::of(name.as_str()));
                    }
                    None => unreachable!("a name has a file or directory"),
                }
            }
        }
        for (file, node) in self.namespace.files() {
            let class = classes.get(&file).copied().unwrap_or_default();
            let (hints, bytes, links) = (node.hints, self.length(file), node.links);
            tell(Event::Exists { file, class, hints, bytes, links });
        }
    }
}
